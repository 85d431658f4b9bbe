"""Command lines as flags and their values, so that two differ by flag and not by position."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

PLAIN = ""
"""Key of the words that belong to no flag."""
Value = str | None
"""What follows a flag; None where nothing does."""


def flags_of(words: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Flag with its dashes: every value it is given, in order; `PLAIN`: the other words.

    A word after a flag that has no `=` is taken for its value: whether it is one, only the program
    knows, and for a comparison it does not matter.
    """
    found: dict[str, list[Value]] = {}
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not _is_flag(word):
            found.setdefault(PLAIN, []).append(word)
            continue
        name, equals, value = word.partition("=")
        if equals:
            found.setdefault(name, []).append(value)
            continue
        follows = position < len(words) and not _is_flag(words[position])
        found.setdefault(name, []).append(words[position] if follows else None)
        position += follows
    return {name: tuple(values) for name, values in found.items()}


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()


def structured(value: object) -> Any:
    """A value that is a JSON map or list, as data; None where it is not."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return None
    try:
        return json.loads(value)
    except ValueError:
        return None
