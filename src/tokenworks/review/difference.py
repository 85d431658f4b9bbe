"""What differs between two objects, as a reader means it.

The order of maps, of named lists and of lists that are sets says nothing; neither does how a
quantity is written. Command lines differ by flag, JSON inside flags by field.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from policies.tree import is_mapping, is_sequence, quantity
from tokenworks.review.paths import ABSENT, Flag, Item, Part, Path
from tokenworks.review.words import PLAIN, flags_of, structured


@dataclass(frozen=True)
class Change:
    """One field before and after; ABSENT where it is not there."""

    path: Path
    before: Any
    after: Any


_KEYS: Final = (
    "name",
    "mountPath",
    "containerPort",
    "port",
    "number",
    "key",
    "topologyKey",
    "ip",
    "id",
)
"""Fields that name the entries of a list, the most telling first."""
_QUANTITIES: Final = frozenset(
    {"requests", "limits", "capacity", "hard", "allocatable", "overhead"}
)
_QUANTITY_FIELDS: Final = frozenset(
    {"sizeLimit", "nominalQuota", "borrowingLimit", "lendingLimit", "volumeSize"}
)
_COMMANDS: Final = frozenset({"args", "command"})
_IN_ORDER: Final = frozenset({"initContainers", "rules", "matches", "filters", "levels"})
"""Named lists whose order means something."""
_SETS: Final = frozenset(
    {
        "verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs", "policyTypes",
        "accessModes", "finalizers", "values", "ingress", "egress", "from", "to", "ports",
        "subjects", "coveredResources", "shortNames", "categories", "required", "enum", "add",
        "drop", "operations", "apiVersions", "scopes", "volumeLifecycleModes", "mountOptions",
    }
)  # fmt: skip
"""Lists whose order means nothing, though their entries have no names."""
_NOT_RULES: Final = frozenset({"Role", "ClusterRole", "ValidatingWebhookConfiguration"})
"""Kinds whose `rules` have no order."""


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Every field in which two versions of one object differ, by path."""
    found = _maps(before, after, ())
    if str(after.get("kind")) in _NOT_RULES:
        found = (change for change in found if change.path != ("rules", ORDER))
    return tuple(found)


ORDER: Final = Item("order")
"""Last part of a change that is one of order alone."""


def values(before: Any, after: Any, path: Path) -> Iterator[Change]:
    """What differs between two values at a path."""
    if same(before, after, path):
        return
    told = structured(before), structured(after)
    if None not in told:
        before, after = told
    if is_mapping(before) and is_mapping(after):
        yield from _maps(before, after, path)
    elif is_sequence(before) and is_sequence(after):
        yield from _lists(before, after, path)
    else:
        yield Change(path, before, after)


def same(before: Any, after: Any, path: Path) -> bool:
    """Whether two values mean the same; 1 and true do not."""
    if isinstance(before, bool) is isinstance(after, bool) and before == after:
        return not _has_booleans(before, after)
    if not _is_quantity(path) or ABSENT in (before, after):
        return False
    known = quantity(before), quantity(after)
    return known[0] is not None and known[0] == known[1]


def _has_booleans(before: Any, after: Any) -> bool:
    """Whether equal containers may hide a boolean beside a number."""
    return (is_mapping(before) or is_sequence(before)) and _text(before) != _text(after)


def _is_quantity(path: Path) -> bool:
    if path and path[-1] in _QUANTITY_FIELDS:
        return True
    return any(part in _QUANTITIES for part in path[-2:-1])


def _maps(before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> Iterator[Change]:
    for key in sorted({*before, *after}, key=str):
        old, new = (ABSENT if m.get(key) is None else m[key] for m in (before, after))
        if old is not ABSENT or new is not ABSENT:
            yield from values(old, new, (*path, str(key)))


def _lists(before: Sequence[Any], after: Sequence[Any], path: Path) -> Iterator[Change]:
    plain = all(isinstance(item, str) for item in (*before, *after))
    key = _key_of(before, after)
    if plain and path and path[-1] in _COMMANDS:
        yield from _words(before, after, path)
    elif key is not None:
        yield from _named(_by(before, key), _by(after, key), path)
    else:
        yield from _unnamed(before, after, path)


def _key_of(before: Sequence[Any], after: Sequence[Any]) -> str | None:
    """The field whose values tell all entries apart, in both lists."""
    if not before and not after:
        return None
    return next((key for key in _KEYS if _tells(before, key) and _tells(after, key)), None)


def _tells(items: Sequence[Any], key: str) -> bool:
    names = [item.get(key) if is_mapping(item) else None for item in items]
    known = all(isinstance(name, str | int) for name in names)
    return known and len(set(map(str, names))) == len(names)


def _by(items: Sequence[Any], key: str) -> dict[str, Any]:
    return {str(item[key]): item for item in items}


def _named(before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> Iterator[Change]:
    for name in [*before, *(name for name in after if name not in before)]:
        yield from values(before.get(name, ABSENT), after.get(name, ABSENT), (*path, Item(name)))
    kept = [name for name in before if name in after], [name for name in after if name in before]
    if path and path[-1] in _IN_ORDER and kept[0] != kept[1]:
        yield Change((*path, ORDER), *kept)


def _unnamed(before: Sequence[Any], after: Sequence[Any], path: Path) -> Iterator[Change]:
    """Equal entries first; what is left over is paired by position."""
    old, new = _left(before, after), _left(after, before)
    if not old and not new:
        if not path or path[-1] not in _SETS:
            yield Change((*path, ORDER), list(before), list(after))
        return
    for position in range(max(len(old), len(new))):
        place, was = old[position] if position < len(old) else (None, ABSENT)
        at, now = new[position] if position < len(new) else (None, ABSENT)
        number = place if place is not None else at
        yield from values(was, now, (*path, number if number is not None else position))


def _left(items: Sequence[Any], others: Sequence[Any]) -> list[tuple[int, Any]]:
    """Positions and entries that the other list has not, as often as it has not."""
    there = Counter(_text(other) for other in others)
    found: list[tuple[int, Any]] = []
    for position, item in enumerate(items):
        text = _text(item)
        if there[text]:
            there[text] -= 1
        else:
            found.append((position, item))
    return found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _words(before: Sequence[str], after: Sequence[str], path: Path) -> Iterator[Change]:
    old, new = flags_of(before), flags_of(after)
    names = [*old, *(name for name in new if name not in old)]
    some = False
    for name in names:
        for change in _flag(old.get(name), new.get(name), path, name):
            some = True
            yield change
    if not some and list(before) != list(after):
        yield Change((*path, ORDER), list(before), list(after))


def _flag(
    before: Sequence[str | None] | None, after: Sequence[str | None] | None, path: Path, name: str
) -> Iterator[Change]:
    """What differs in the values of one flag, or in the words without one."""
    parts: tuple[Part, ...] = () if name == PLAIN else (Flag(name),)
    count = max(len(before or ()), len(after or ()))
    for position in range(count):
        old, new = _nth(before, position), _nth(after, position)
        many = name == PLAIN or count > 1
        place = (*path, *parts, position) if many else (*path, *parts)
        yield from values(old, new, place)


def _nth(values: Sequence[str | None] | None, position: int) -> Any:
    if values is None or position >= len(values):
        return ABSENT
    value = values[position]
    return True if value is None else value
