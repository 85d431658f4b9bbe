"""Several JSON documents in one text, as `kubectl` and logs print them: one after the other.

YAML wants a marker between documents. `split` sets the markers and keeps, for every document, where
it stood, so that what is found is said of the text that people have.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

_MARK: Final = "--- "
_SPACE: Final = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True)
class Start:
    """Where a document begins; lines from 1, columns from 0."""

    line: int
    """In the text with markers; there its first character comes after the marker."""
    original: int
    """Line in the text without them."""
    column: int
    """Column there."""


@dataclass(frozen=True)
class Origins:
    """From places in the text with markers to those in the text without."""

    starts: tuple[Start, ...]

    def place(self, line: int, column: int) -> tuple[int, int]:
        """The place in the original text; both count from 1."""
        at = bisect_right(self.starts, line, key=lambda start: start.line)
        if at == 0:
            return line, column
        start = self.starts[at - 1]
        if line > start.line:
            return start.original + line - start.line, column
        return start.original, max(column - len(_MARK), 1) + start.column


def is_json(text: str) -> bool:
    """Whether Kubernetes would read the text as JSON: it begins with a brace, and not with two, as
    templates do."""
    begin = _after_space(text, 0)
    return text.startswith("{", begin) and not text.startswith("{{", begin)


def readable(text: str) -> str:
    """JSON as a reader of YAML takes it: blanks for tabs, which can only stand between values, and
    one escape for characters that JSON writes in two halves. No place moves."""
    text = text.replace("\t", " ")
    return _STRING.sub(_joined, text) if _HALF.search(text) else text


_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_HALF: Final = re.compile(r"\\u[dD][89abAB]")
_PAIR: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)


def _joined(string: re.Match[str]) -> str:
    """A string whose halves are joined; blanks behind it take the place that was saved."""
    made = _PAIR.sub(_whole, string[0])
    return made + " " * (len(string[0]) - len(made))


def _whole(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16) - 0xD800, int(pair[3], 16) - 0xDC00
    return f"{pair[1]}\\U{0x10000 + (high << 10) + low:08X}"


def split(text: str) -> tuple[str, Origins] | None:
    """The text with markers between its documents; None where it holds one document, or none.

    What follows the last document that can be read is left as one more, for the reader to object.
    """
    ends = _documents(text)
    if len(ends) < 2:
        return None
    parts: list[str] = []
    starts: list[Start] = []
    line = original = 1
    before = 0
    for begin, end in ends:
        gap = text.count("\n", before, begin)
        original += gap
        # Lines stay the same ones, but where two documents share one.
        added = gap if gap or not parts else 1
        parts.append("\n" * added)
        line += added
        starts.append(Start(line, original, begin - text.rfind("\n", 0, begin) - 1))
        document = text[begin:end]
        parts += (_MARK, document)
        lines = document.count("\n")
        line, original, before = line + lines, original + lines, end
    return "".join(parts), Origins(tuple(starts))


def _documents(text: str) -> list[tuple[int, int]]:
    """Where each document begins and ends."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)  # long numbers are slow to read
    found: list[tuple[int, int]] = []
    at = _after_space(text, 0)
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = len(text)
        found.append((at, end))
        at = _after_space(text, end)
    return found


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
