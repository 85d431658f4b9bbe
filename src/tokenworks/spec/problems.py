"""What is wrong with documents, as data: one `Problem` each, all of them together.

A problem names file, line, field, what was found, what is allowed and the remedy, so
that a user mends a whole environment after one run instead of one mistake a run.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from policies.secrets import masked
from tokenworks.errors import UsageError

FieldPath = tuple[str | int, ...]
"""Keys and list positions from the top of a document to a field."""


SHOWN: Final = 60
"""Characters of a value that a message repeats."""
_ALIKE: Final = ("CYRILLIC ", "GREEK ", "FULLWIDTH ", "MATHEMATICAL ")


def shown(text: str) -> str:
    """The text in quotes on one line, shortened where it is long, without credentials."""
    text = masked(text)  # first: a credential that is cut short is none any more
    short = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
    quoted = json.dumps(short, ensure_ascii=False)
    latin = any(c.isascii() and c.isalpha() for c in text)
    return "".join(
        c if c.isprintable() and not (latin and _looks_latin(c)) else json.dumps(c)[1:-1]
        for c in quoted
    )


def _looks_latin(character: str) -> bool:
    """Whether it could pass for a letter beside those of ASCII, and would hide what is wrong."""
    return unicodedata.name(character, "").startswith(_ALIKE)


def named(text: str) -> str:
    """A name as it is, or in quotes where it is no name."""
    return text if re.fullmatch(r"\S{1,60}", text) and text.isprintable() else shown(text)


def field_name(path: FieldPath) -> str:
    """`spec.taints[0].key` for ("spec", "taints", 0, "key"); empty for the whole document."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{named(part)}" if text else named(part)
    return text


@dataclass(frozen=True)
class Flaw:
    """Something wrong at a place in a text whose file is not known here."""

    line: int | None
    """1 is the first line; None when no line can be named (a folder, a missing file)."""
    path: FieldPath
    found: str
    allowed: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class Problem:
    """One mistake in one file."""

    file: Path
    """Relative to the root of the repository."""
    line: int | None
    field: str
    """Dotted path of the field; empty when the whole file is meant."""
    found: str
    allowed: str | None = None
    remedy: str | None = None

    @classmethod
    def of(cls, file: Path, flaw: Flaw) -> Problem:
        """The flaw, now that its file is known."""
        return cls(file, flaw.line, field_name(flaw.path), flaw.found, flaw.allowed, flaw.remedy)

    def __str__(self) -> str:
        # Other characters than these would need quotes, or break the line.
        name = self.file.as_posix()
        place = (name if name.isprintable() else shown(name)) + (
            "" if self.line is None else f":{self.line}"
        )
        allowed = None if self.allowed is None else f"allowed: {self.allowed}"
        text = "; ".join(part for part in (self.found, allowed, self.remedy) if part)
        return masked(": ".join(part for part in (place, self.field, text) if part))


class DocumentErrors(UsageError):  # noqa: N818 - it carries many
    """Every problem of one environment's documents, sorted by file and line."""

    def __init__(self, where: str, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            sorted(set(problems), key=lambda p: (p.file.as_posix(), p.line or 0, p.field, p.found))
        )
        count = len(self.problems)
        title = f"{where}: {count} problem{'' if count == 1 else 's'}"
        super().__init__("\n".join([title, *(str(problem) for problem in self.problems)]))
