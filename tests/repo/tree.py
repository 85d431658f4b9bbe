"""What the rules look at: the files git knows or would know, and the committed exceptions."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Violation:
    """One breach of a rule."""

    rule: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


@dataclass(frozen=True)
class Waiver:
    """One entry of exceptions.yaml."""

    rule: str
    file: str
    reason: str
    expires: date


@cache
def files() -> tuple[str, ...]:
    """Paths from the root of every file that is, or would be, committed."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    return tuple(sorted(f for f in listed if f and _is_plain(ROOT / f)))


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _git(*args: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True
    ).stdout


@cache
def text_of(file: str) -> str:
    """Text of a file; nothing for one that is not text."""
    data = (ROOT / file).read_bytes()
    return "" if b"\0" in data else data.decode(errors="replace")


def numbered(file: str) -> Iterator[tuple[int, str]]:
    """Lines of a file with their numbers, from 1."""
    return enumerate(text_of(file).splitlines(), start=1)


@cache
def waivers() -> tuple[Waiver, ...]:
    """The committed exceptions."""
    data = yaml.safe_load((ROOT / "tests/repo/exceptions.yaml").read_text())
    return tuple(Waiver(**entry) for entry in data["exceptions"])


def last_change() -> date:
    """Day of the last commit: exceptions expire by it, so that a commit's verdict never changes."""
    return date.fromisoformat(_git("log", "-1", "--format=%cs").strip())


def refuse(violations: Iterable[Violation]) -> None:
    """Fail with one line per violation that no exception covers."""
    covered = {(w.rule, w.file) for w in waivers()}
    found = [str(v) for v in violations if (v.rule, v.file) not in covered]
    assert not found, "\n" + "\n".join(found)
