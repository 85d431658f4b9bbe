"""What looks like a credential, and how to say so without repeating it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

HIDDEN = "(not shown)"


@dataclass(frozen=True)
class _Facts:
    kinds: tuple[str, ...]
    """What the shapes are called; the group `kind<n>` of `shape` is the n-th."""
    shape: re.Pattern[str]
    name: re.Pattern[str]
    place: re.Pattern[str]
    flags: frozenset[str]


@cache
def _facts() -> _Facts:
    data: dict[str, Any] = json.loads(Path(__file__).with_name("secrets.json").read_text())
    shapes = data["shapes"]
    joined = "|".join(f"(?P<kind{n}>{shape['pattern']})" for n, shape in enumerate(shapes))
    return _Facts(
        tuple(shape["name"] for shape in shapes),
        re.compile(joined),
        re.compile(data["names"]),
        re.compile(data["places"]),
        frozenset(data["flags"]),
    )


def kind_of(text: str) -> str | None:
    """What a credential somewhere in the text is called; None when there is none."""
    return _kind_of_short(text) if len(text) <= _SHORT else _kind_of(text)


_SHORT = 200
"""Characters of texts that are said again and again in one set of objects."""


@lru_cache(maxsize=20_000)
def _kind_of_short(text: str) -> str | None:
    return _kind_of(text)


def _kind_of(text: str) -> str | None:
    match = _facts().shape.search(text)
    if match is None or match.lastgroup is None:
        return None
    return _facts().kinds[int(match.lastgroup.removeprefix("kind"))]


def names_secret(name: str) -> bool:
    """Whether a variable or flag of this name holds a credential, and not where one lies."""
    plain = name.upper().replace("-", "_")
    return bool(_facts().name.search(plain)) and not _facts().place.search(plain)


def secret_flags() -> frozenset[str]:
    """Flags of engines that take a credential, without dashes in front."""
    return _facts().flags


def masked(text: str) -> str:
    """The text without what looks like a credential: for everything that is printed."""
    return _facts().shape.sub(HIDDEN, text)
