"""Markdown in which values stay values: none ends its quotes, calls people or loads a picture."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

from policies.secrets import masked
from policies.text import visible

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+|~>!$])")
_BREAK: Final = "&#8203;"
"""A blank of no width: what stands on both sides of it is no name and no address."""
LONGEST: Final = 200
"""Characters of a value on a line."""


def code(text: str, longest: int = LONGEST) -> str:
    """The text as it is, on one line, between enough backticks; long text is cut."""
    line = _line(text, longest)
    if not line.strip():
        return "(empty)" if not line else "(blanks)"
    ticks = _ticks(line)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def plain(text: str) -> str:
    """Words that mean nothing to Markdown, HTML or GitHub."""
    line = html.escape(visible(" ".join(masked(text).split())), quote=False)
    line = _SPECIAL.sub(r"\\\1", line)
    line = line.replace("@", f"@{_BREAK}").replace("\\#", f"\\#{_BREAK}")
    return re.sub(r"(?i)(://|www\.|\bgh-)", lambda m: f"{m[0][0]}{_BREAK}{m[0][1:]}", line)


def prose(text: str) -> str:
    """Words of our own, in which what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one without its other
        return plain(text)
    return "".join(code(p) if n % 2 else _spaced(p) for n, p in enumerate(parts))


def _spaced(text: str) -> str:
    """Plain words with the blanks at their ends."""
    if not text.strip():
        return " " if text else ""
    return f"{' ' * text[0].isspace()}{plain(text)}{' ' * text[-1].isspace()}"


def fence(text: str, language: str = "") -> list[str]:
    """The text as a block of its own."""
    lines = ["\t".join(map(visible, line.split("\t"))) for line in masked(text).splitlines()]
    ticks = "`" * max(3, 1 + _longest_run("\n".join(lines)))
    return [f"{ticks}{language}", *lines, ticks]


def fold(title: str, body: Sequence[str]) -> list[str]:
    """A section that opens with a click; the title is HTML."""
    return ["<details>", f"<summary>{title}</summary>", "", *body, "", "</details>"]


def tag(text: str, longest: int = LONGEST) -> str:
    """The text as code, in HTML."""
    line = _line(text, longest)
    return f"<code>{html.escape(line)}</code>"


def _line(text: str, longest: int) -> str:
    # A sign that is written out takes more room: what is cut here is cut again.
    line = visible(masked(text)[: longest + 1].replace("\n", " "))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Cells are Markdown, in which nothing but ours has a bar."""
    lines = [" | ".join(head), "|".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return [f"| {lines[0]} |", f"|{lines[1]}|", *(f"| {line} |" for line in lines[2:])]


def cell(text: str) -> str:
    """A name as code that fits a table's cell."""
    return code(text.replace("|", "¦"))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _ticks(line: str) -> str:
    """A run of backticks that the line does not have."""
    runs = {len(run) for run in re.findall(r"`+", line)}
    return "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
