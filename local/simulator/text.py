"""Seeded answers: the whole answer follows from the seed and the request.

An answer is planned when its request arrives; the engine then only decides when each
of its tokens appears. The plan does not depend on the pod, the load or the time.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from .tokens import encode, pieces

FinishReason = Literal["stop", "length"]

# Tokens of an answer that ends by itself.
_SHORTEST, _LONGEST = 24, 160
_VOCABULARY = """
a the one this each every no some any that batch block cache cluster engine gateway group layer
model node picker pod prefix prompt queue replica request route shard slot stream tenant token
window worker answers begins carries drains fills finds follows grows holds keeps leads meets moves
needs opens passes reads returns sends serves shares starts waits again alone always ahead early
fast first idle last late long next now once only slowly soon then together twice well when while
"""
_WORDS = _VOCABULARY.split()


@dataclass(frozen=True)
class Limits:
    """What ends an answer."""

    max_tokens: int
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False


@dataclass(frozen=True)
class Answer:
    """A planned answer: what each token adds to the text, its ids, and how it ends."""

    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    finish_reason: FinishReason


def plan(seed: Sequence[object], limits: Limits) -> Answer:
    """The answer for a seed (anything whose `repr` says it all) within the limits."""
    digest = hashlib.sha256(repr(tuple(seed)).encode()).digest()
    chance = random.Random(int.from_bytes(digest[:8], "little"))
    natural = max(limits.min_tokens, _SHORTEST + int(chance.random() * (_LONGEST - _SHORTEST)))
    length = limits.max_tokens if limits.ignore_eos else min(limits.max_tokens, natural)
    tokens = _tokens(chance, length)
    ended = length == natural and not limits.ignore_eos
    ids = tuple(encode(token)[0] for token in tokens)
    stopped = _first_stop(tokens, limits)
    if stopped is not None:
        tokens, ended = _cut(tokens, *stopped), True
    return Answer(tuple(tokens), ids[: len(tokens)], "stop" if ended else "length")


def _tokens(chance: random.Random, length: int) -> list[str]:
    tokens: list[str] = []
    for sentence in _sentences(chance):
        if len(tokens) >= length:
            return tokens[:length]
        tokens += pieces(sentence if not tokens else f" {sentence}")
    return tokens


def _sentences(chance: random.Random) -> Iterator[str]:
    while True:
        count = 4 + int(chance.random() * 9)
        words = [_WORDS[int(chance.random() * len(_WORDS))] for _ in range(count)]
        yield f"{' '.join(words).capitalize()}."


def _first_stop(tokens: Sequence[str], limits: Limits) -> tuple[int, int] | None:
    """Where in the text the first stop string that ends after `min_tokens` begins and ends."""
    text = "".join(tokens)
    early = len("".join(tokens[: limits.min_tokens]))
    found: list[tuple[int, int]] = []
    for stop in limits.stop:
        begin = text.find(stop, max(0, early - len(stop) + 1))
        if begin >= 0:
            found.append((begin, begin + len(stop)))
    return min(found, default=None)


def _cut(tokens: Sequence[str], begin: int, end: int) -> list[str]:
    """The tokens up to the stop string's last one, which give text only up to its `begin`."""
    kept: list[str] = []
    position = 0
    for token in tokens:
        if position >= end:
            break
        kept.append(token[: max(0, begin - position)])
        position += len(token)
    return kept
