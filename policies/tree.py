"""Reading plain data that may be wrong, absent, or not known yet.

Rules never crash on a malformed object: what is not a mapping reads as an empty
one, and the schema check says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeGuard


class Unknown(str):
    """A value that only exists after `up`; rules take it for present and do not judge it."""

    __slots__ = ()

    def __new__(cls, text: str = "(known after up)") -> Unknown:
        """`text` is what stands for it in messages."""
        return super().__new__(cls, text)


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
    """Labels: keys and values as text."""
    return {str(k): str(v) for k, v in mapping(value).items()}


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
    r"^([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)([eE][+-]?\d{1,3}|[numkMGTPE]|[KMGTPE]i)?$"
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
