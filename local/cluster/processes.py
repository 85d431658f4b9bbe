"""Telling our processes from others: a pid alone may have been given away again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")


def start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since boot; 0 when there is none (or a zombie)."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def alive(pid: int, started: int) -> bool:
    """Whether that very process still runs."""
    return started != 0 and start_ticks(pid) == started


def command_line(pid: int) -> list[str]:
    """Arguments of a process; empty when it is gone."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def every() -> Iterator[int]:
    """Every pid on the machine."""
    return (int(p.name) for p in _PROC.iterdir() if p.name.isdigit())


def stop(pids: Iterable[int], patience: float = 10.0) -> None:
    """End these processes: SIGTERM, then SIGKILL to what is left after `patience` seconds."""
    left = {pid: start_ticks(pid) for pid in pids}
    for sig, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        left = {pid: ticks for pid, ticks in left.items() if alive(pid, ticks)}
        for pid in left:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + seconds
        while any(alive(p, t) for p, t in left.items()) and time.monotonic() < deadline:
            time.sleep(0.05)
