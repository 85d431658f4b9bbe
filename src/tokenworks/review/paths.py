"""Paths into objects: how they are written in facts, and how they are shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from policies.tree import is_mapping


@dataclass(frozen=True)
class Item:
    """An entry of a list that is known by a name, not by its position."""

    name: str


@dataclass(frozen=True)
class Flag:
    """A flag of a command line."""

    name: str
    """With its dashes."""


Part = str | int | Item | Flag
Path = tuple[Part, ...]


class Absent:
    """Nothing is written there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
_PART: Final = re.compile(r'\["([^"]+)"\]|\.?([^.\[]+)')


def parsed(text: str) -> tuple[str, ...]:
    """The keys of a path such as `metadata.labels["a.b/c"]`."""
    return tuple(match[1] or match[2] for match in _PART.finditer(text))


def value_at(value: object, path: tuple[str, ...]) -> Any:
    """What the maps hold under the path, or ABSENT; null is absent."""
    for key in path:
        value = value.get(key) if is_mapping(value) else None
    return ABSENT if value is None else value


def shown(path: Path) -> str:
    """`spec.template.spec.containers[engine].args --max-model-len`."""
    text = ""
    for part in path:
        match part:
            case int():
                text += f"[{part}]"
            case Item():
                text += f"[{part.name}]"
            case Flag():
                text += f" {part.name}"
            case str() if re.fullmatch(r"[A-Za-z0-9_-]+", part):
                text += f".{part}" if text else part
            case _:
                text += f'["{part}"]'
    return text.strip()
