"""What an unquoted YAML scalar means: only where YAML's versions and readers agree.

YAML 1.1 and 1.2, PyYAML and the Go parsers of Kubernetes differ on `on`, `012`, `1_000`
and more. Such a scalar is `Ambiguous`, and its writer says which is meant by quoting it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ScalarValue = str | int | float | bool | None

MAX_DIGITS: Final = 18
"""Digits of an integer: all of them fit the 64 bits that Kubernetes keeps."""

UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
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

_TOO_LONG: Final = Ambiguous(f"numbers of up to {MAX_DIGITS} digits", "too long to be kept exactly")
_ENDLESS: Final = Ambiguous("finite numbers", "which JSON cannot hold")
_ODD: Final = Ambiguous("a decimal number without leading zeros and underscores")


def plain_value(text: str, *, octal: bool) -> ScalarValue | Ambiguous:
    """What an unquoted scalar means. `octal`: `0555` is a number, as Kubernetes reads it."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text in _OLD_BOOL:
        return Ambiguous("true or false")
    if text[:1] not in "+-.0123456789":
        return text
    return _number(text, octal)


def _number(text: str, octal: bool) -> ScalarValue | Ambiguous:
    if _NOT_FINITE.fullmatch(text):
        return _ENDLESS
    for form, base in ((_INT, 10), (_HEX, 16)):
        if form.fullmatch(text):
            return _TOO_LONG if len(text) > MAX_DIGITS else int(text, base)
    if octal and _OCTAL.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text.replace("o", ""), 8)
    if _ODD_NUMBER.fullmatch(text):
        return _ODD
    return _fraction(text) if _FLOAT.fullmatch(text) else text


def _fraction(text: str) -> float | Ambiguous:
    if len(text) > 2 * MAX_DIGITS:
        return _TOO_LONG
    value = float(text)
    return _ENDLESS if value in (float("inf"), float("-inf")) else value
