"""What the forms of all engines share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from ..api import missing, rank_of
from ..engine import EngineConfig
from ..options import Options
from .commandline import CommandLineError, Given
from .knobs import Knobs

_LEAST_TOKENS = 32768


@dataclass(frozen=True)
class Size:
    """What an engine's arguments say about its size. None: nothing."""

    context: int | None
    max_num_seqs: int
    block_size: int
    prefix_caching: bool = True
    max_loras: int = 1


def options(
    names: tuple[str, ...],
    address: tuple[str, int],
    size: Size,
    knobs: Knobs,
    shutdown_timeout: float,
) -> Options:
    """The simulator's options for an engine.

    Raises:
        CommandLineError: the KV blocks do not hold the longest request, or names are twice.
    """
    context = size.context or knobs.max_model_len
    needed = -(-context // size.block_size)
    blocks = knobs.num_kv_blocks or max(-(-_LEAST_TOKENS // size.block_size), needed)
    if blocks < needed:
        raise CommandLineError(
            f"{blocks} KV blocks of {size.block_size} hold {blocks * size.block_size} tokens: "
            f"too few for a context of {context}; lower the context or raise num-kv-blocks",
            code=1,
        )
    if len(set(names)) < len(names) or not all(names):
        raise CommandLineError(f"model names must be there and differ: {', '.join(names)}")
    return Options(
        served_model_names=names,
        host=address[0],
        port=address[1],
        max_model_len=context,
        engine=EngineConfig(
            max_num_seqs=size.max_num_seqs,
            num_blocks=blocks,
            block_size=size.block_size,
            prefill_rate=knobs.prefill_tokens_per_second,
            decode_rate=knobs.decode_tokens_per_second,
            prefix_caching=size.prefix_caching,
            max_loras=size.max_loras,
        ),
        lora_modules=(),
        load_seconds=knobs.load_seconds,
        seed=knobs.seed,
        shutdown_timeout=shutdown_timeout,
        drain_accept_seconds=knobs.drain_accept_seconds,
    )


def no_positionals(given: Given, *allowed: str) -> None:
    """Refuse arguments that belong to no flag, but for one of `allowed` at the beginning.

    Raises:
        CommandLineError: there are some.
    """
    rest = given.positionals
    if rest[:1] and rest[0] in allowed:
        rest = rest[1:]
    if rest:
        raise CommandLineError(f"unrecognized arguments: {' '.join(rest)}")


def adapters(
    texts: Iterable[str], name_key: str, path_key: str, flag: str
) -> tuple[tuple[str, str], ...]:
    """LoRA adapters as `name=path` or as JSON objects, as (name, path).

    Raises:
        CommandLineError: a text is neither.
    """
    return tuple(_adapter(text, name_key, path_key, flag) for text in texts)


def _adapter(text: str, name_key: str, path_key: str, flag: str) -> tuple[str, str]:
    if text.startswith("{"):
        try:
            found: object = json.loads(text)
        except ValueError as error:
            raise CommandLineError(f"argument {flag}: not JSON: {error}") from None
        fields = cast(dict[str, Any], found)
        name, path = fields.get(name_key), fields.get(path_key)
    else:
        name, _, path = text.partition("=")
    if not isinstance(name, str) or not isinstance(path, str) or not name or not path:
        raise CommandLineError(f"argument {flag}: must be name=path or JSON, found {text!r}")
    return name, path


def check_adapters(served: Iterable[tuple[str, str]], max_rank: int | None) -> None:
    """Load adapters as far as a simulation does: they are there and of an allowed rank.

    Raises:
        CommandLineError: one is not.
    """
    for name, path in served:
        if missing(path):
            raise CommandLineError(f"Loading lora {name} failed: No adapter found for {path}", 1)
        rank = rank_of(path)
        if rank is not None and max_rank is not None and rank > max_rank:
            raise CommandLineError(
                f"Loading lora {name} failed: its rank {rank} is greater than {max_rank}", 1
            )
