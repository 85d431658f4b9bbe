"""Seconds, memory, and the rows they go into."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """One line of the table; seconds are medians."""

    what: str
    seconds: float
    beside: str = ""
    other: float | None = None
    aim: str = ""
    unit: str = ""
    """Of both numbers; seconds where nothing is said."""

    def cells(self) -> tuple[str, str, str, str, str, str]:
        """The line as text."""
        other = "" if self.other is None else self._number(self.other)
        ratio = "" if not self.other else f"{self.seconds / self.other:.2f}"
        return self.what, self._number(self.seconds), self.beside, other, ratio, self.aim

    def _number(self, number: float) -> str:
        return f"{number:.0f} {self.unit}" if self.unit else f"{number:.2f}"


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Medians of both, measured A B A B …, after one round that does not count."""
    rounds = [(timed(ours), timed(theirs)) for _ in range(ROUNDS + 1)][1:]
    return statistics.median(a for a, _ in rounds), statistics.median(b for _, b in rounds)


@dataclass(frozen=True)
class Run:
    """One run of a program."""

    seconds: float
    peak: int
    """Most bytes of memory that it and its children had at once, as often as was looked."""


def run(command: list[str], environ: Mapping[str, str]) -> Run:
    """Run a program to its end, looking at its memory a few times a second.

    Raises:
        SystemExit: it failed.
    """
    start, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=environ, stdout=said, stderr=subprocess.STDOUT)
        while process.poll() is None:
            peak = max(peak, memory(process.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)
        seconds = time.perf_counter() - start
        if process.returncode:
            said.seek(0)
            text = said.read().decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} failed:\n{text}")
    return Run(seconds, peak)


_LOOK = 0.05
"""Seconds between two looks."""


def memory(pid: int) -> int:
    """Bytes of memory of a process and all below it; what they share counts once."""
    place = Path("/proc") / str(pid)
    try:
        text = (place / "smaps_rollup").read_text()
        threads = [file.read_text() for file in place.glob("task/*/children")]
    except OSError:  # it ended
        return 0
    own = (int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return sum(own) * 1024 + sum(memory(int(child)) for child in " ".join(threads).split())
