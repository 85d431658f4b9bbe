"""What an unquoted YAML scalar means: only where YAML's versions and readers agree.

YAML 1.1 and 1.2, PyYAML and the Go parsers of Kubernetes differ on `on`, `012`, `1_000`
and more. Such a scalar is `Ambiguous`, and its writer says which is meant by quoting it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ScalarValue = str | int | float | bool | None

MAX_INTEGER: Final = 2**53
"""Largest whole number of a document: values pass through JSON readers that keep 53 bits."""
_INT64: Final = 2**63 - 1
"""What Kubernetes keeps of the numbers in its objects."""
_LONGEST: Final = 36
"""Characters of a fraction; no double says more."""

UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that no value needs and that XML, terminals or JSON readers choke on."""


@dataclass(frozen=True)
class Ambiguous:
    """A plain scalar that readers understand differently, or that none keeps exactly."""

    allowed: str
    reason: str = "which YAML versions read differently"


_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final = {
    case: word == "true"
    for word in ("true", "false")
    for case in (word, word.capitalize(), word.upper())
}
_OLD_BOOL: Final = frozenset(
    case
    for word in ("y", "n", "yes", "no", "on", "off")
    for case in (word, word.capitalize(), word.upper())
)
_INT: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_HEX: Final = re.compile(r"[-+]?0x[0-9a-fA-F]+")
_OCTAL: Final = re.compile(r"0o?[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_ODD_NUMBER: Final = re.compile(
    r"[-+]?(0b[01_]+|[0-9][0-9_]*_[0-9_.]*|0x[0-9a-fA-F_]+|0[0-9]+|0o[0-9]+)"
)

SWITCH: Final = "true or false"
_INEXACT: Final = "too long to be kept exactly"
_TOO_LONG: Final = Ambiguous(f"fractions of up to {_LONGEST} characters", _INEXACT)
_ENDLESS: Final = Ambiguous("finite numbers", "which JSON cannot hold")
_ODD: Final = Ambiguous("a decimal number without leading zeros and underscores")


def plain_value(text: str, *, kubernetes: bool) -> ScalarValue | Ambiguous:
    """What an unquoted scalar means.

    `kubernetes`: as Kubernetes reads its objects, where `0555` is a number and 64 bits are kept.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text in _OLD_BOOL:
        return Ambiguous(SWITCH)
    if text[:1] not in "+-.0123456789":
        return text
    return _number(text, kubernetes)


def _number(text: str, kubernetes: bool) -> ScalarValue | Ambiguous:
    if _NOT_FINITE.fullmatch(text):
        return _ENDLESS
    limit = _INT64 if kubernetes else MAX_INTEGER
    for form, base in ((_INT, 10), (_HEX, 16)):
        if form.fullmatch(text):
            return _whole(text, base, limit)
    if kubernetes and _OCTAL.fullmatch(text):
        return _whole(text.replace("o", ""), 8, limit)
    if _ODD_NUMBER.fullmatch(text):
        return _ODD
    return _fraction(text) if _FLOAT.fullmatch(text) else text


def _whole(text: str, base: int, limit: int) -> int | Ambiguous:
    # Python refuses to read thousands of digits.
    value = int(text, base) if len(text) <= _LONGEST else limit + 1
    return value if abs(value) <= limit else Ambiguous(f"numbers of up to {limit}", _INEXACT)


def _fraction(text: str) -> float | Ambiguous:
    if len(text) > _LONGEST:
        return _TOO_LONG
    value = float(text)
    return _ENDLESS if value in (float("inf"), float("-inf")) else value
