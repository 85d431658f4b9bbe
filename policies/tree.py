"""Reading plain data that may be wrong, absent, or not known yet.

Rules never crash on a malformed object: what is not a mapping reads as an empty
one, and the schema check says what is wrong with it.

What is not known yet is watched instead of being asked for at every place: `watched` gives data
that tells when something unknown is read, so that what a rule said after it need not be believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from fractions import Fraction
from typing import Any, TypeGuard


class Unknown(str):
    """A value that only exists after `up`; rules take it for present and do not judge it."""

    __slots__ = ()

    def __new__(cls, text: str = "(known after up)") -> Unknown:
        """`text` is what stands for it in messages."""
        return super().__new__(cls, text)


Place = tuple[str | int, ...]
"""Keys and positions that lead to a value."""
Note = Callable[[Place], None]
"""Called whenever something unknown is read, with the place of the map or list that holds it."""


class _PartMap(dict[str, Any]):
    """A mapping with something unknown in it, which tells when that is read."""

    __slots__ = ("note", "place")

    def __init__(self, known: Mapping[str, Any], note: Note, place: Place) -> None:
        super().__init__(known)
        self.note, self.place = note, place

    def _told(self, value: Any) -> Any:
        if isinstance(value, Unknown):
            self.note(self.place)
        return value

    def __getitem__(self, key: str) -> Any:
        return self._told(super().__getitem__(key))

    def get(self, key: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The value, told when it is unknown."""
        return self._told(super().get(key, default))

    def __iter__(self) -> Iterator[str]:
        # Copies of a dict that is iterated as dicts are would pass the values by.
        return super().__iter__()

    def items(self) -> ItemsView[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All of them, told when one is unknown."""
        self._all()
        return super().items()

    def values(self) -> ValuesView[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All of them, told when one is unknown."""
        self._all()
        return super().values()

    def known(self) -> list[tuple[str, Any]]:
        """The items that are known; nobody is told."""
        return [(key, v) for key, v in super().items() if not isinstance(v, Unknown)]

    def _all(self) -> None:
        if any(isinstance(value, Unknown) for value in super().values()):
            self.note(self.place)


class _PartList(list[Any]):
    """A list with something unknown in it, which tells when that is read."""

    __slots__ = ("note", "place")

    def __init__(self, known: Sequence[Any], note: Note, place: Place) -> None:
        super().__init__(known)
        self.note, self.place = note, place

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, Unknown):
            self.note(self.place)
        return value

    def __iter__(self) -> Iterator[Any]:
        if any(isinstance(value, Unknown) for value in super().__iter__()):
            self.note(self.place)
        return super().__iter__()

    def known(self) -> list[tuple[int, Any]]:
        """Positions and elements that are known; nobody is told."""
        every = enumerate(super().__iter__())
        return [(n, v) for n, v in every if not isinstance(v, Unknown)]


def watched(value: Any, note: Note, place: Place = ()) -> Any:
    """The same data, which calls `note` whenever something unknown is read from it."""
    if is_mapping(value):
        inner = {key: watched(child, note, (*place, key)) for key, child in value.items()}
        if any(isinstance(child, Unknown) for child in inner.values()):
            return _PartMap(inner, note, place)
        return inner if any(inner[key] is not value[key] for key in inner) else value
    if is_sequence(value):
        items = [watched(child, note, (*place, n)) for n, child in enumerate(value)]
        if any(isinstance(child, Unknown) for child in items):
            return _PartList(items, note, place)
        same = all(old is new for old, new in zip(value, items, strict=True))
        return value if same else items
    return value


def has_unknown(value: object) -> bool:
    """Whether something in the data is not known yet."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if type(one) in _SIMPLE:
            continue
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, Unknown):
            return True
    return False


_SIMPLE = frozenset({str, int, float, bool, type(None)})
"""Types of what is known and holds nothing: most of all there is."""


def unread(holder: object, key: str) -> Any:
    """The value under a key, for readers that can say "not known": nobody is told."""
    return dict.get(holder, key) if is_mapping(holder) else None  # type: ignore[arg-type]


def unread_items(value: object) -> Iterator[Any]:
    """The elements of a list, for readers that can say "not known": nobody is told."""
    return list.__iter__(value) if is_sequence(value) else iter(())  # type: ignore[arg-type]


def known_items(value: object) -> Iterable[tuple[Any, Any]]:
    """What a map or a list holds, with keys or positions, for readers that judge each value by
    itself: of what is watched only that which is known, and nobody is told."""
    if isinstance(value, _PartMap | _PartList):
        return value.known()
    if is_mapping(value):
        return value.items()
    return enumerate(value) if is_sequence(value) else ()


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the value is a mapping."""
    return isinstance(value, dict)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether the value is a list."""
    return isinstance(value, list)


def written(value: object) -> TypeGuard[str]:
    """Whether the value is text that is known now."""
    return isinstance(value, str) and not isinstance(value, Unknown)


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if is_mapping(value) else {}


def sequence(value: object) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if is_sequence(value) else ()


def at(value: object, *path: str) -> Any:
    """The value under nested keys, or None."""
    for key in path:
        value = mapping(value).get(key)
    return value


def strings(value: object) -> tuple[str, ...]:
    """The list's elements as text."""
    return tuple(str(item) for item in sequence(value))


def string_map(value: object) -> dict[str, str]:
    """Labels: keys and values as text; those of a watched mapping are watched on."""
    if isinstance(value, _PartMap):
        texts = {str(k): unread(value, k) for k in value}
        known = {k: v if isinstance(v, Unknown) else str(v) for k, v in texts.items()}
        return _PartMap(known, value.note, value.place)
    return {str(k): str(v) for k, v in mapping(value).items()}


def with_labels(labels: dict[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Labels and more of them; those of a watched mapping are watched on."""
    if isinstance(labels, _PartMap):
        own = {k: unread(labels, k) for k in labels}
        return _PartMap({**own, **more}, labels.note, labels.place)
    return {**labels, **more}


def integer(value: object, default: int) -> int | None:
    """A whole number with Kubernetes' default when absent; None when it cannot be known."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


_QUANTITY = re.compile(
    r"^([+-]?\d{1,400}(?:\.\d{0,400})?|[+-]?\.\d{1,400})([eE][+-]?\d{1,3}|[numkMGTPE]|[KMGTPE]i)?$"
)
_SUFFIX = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


def quantity(value: object) -> Fraction | None:
    """The exact number a Kubernetes quantity stands for; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _QUANTITY.match(str(value))
    if match is None:
        return None
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return number * Fraction(10) ** int(suffix[1:])
    return number * _SUFFIX.get(suffix, Fraction(1))
