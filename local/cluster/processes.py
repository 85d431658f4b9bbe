"""Telling our processes from others: a pid alone may have been given away again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_PROC = Path("/proc")


def search_path() -> str:
    """PATH with the folders of system programs, which users' shells leave out."""
    return os.pathsep.join((os.environ.get("PATH") or os.defpath, "/usr/sbin", "/sbin"))


def boot_id() -> str:
    """Names the time since the machine started; nothing that the kernel keeps outlives it."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since boot; 0 when there is none (or a zombie)."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def identity(pid: int) -> str:
    """What tells this process from every other, before and after it."""
    return f"{pid} {start_ticks(pid)} {boot_id()}"


def from_identity(text: str) -> int:
    """The pid behind `identity`'s text, or 0 when that process is gone."""
    words = text.split()
    if not words or not words[0].isdigit():
        return 0
    pid = int(words[0])
    return pid if start_ticks(pid) and identity(pid) == text.strip() else 0


def command_line(pid: int) -> list[str]:
    """Arguments of a process; empty when it is gone."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def stop(pid: int, patience: float = 10.0) -> None:
    """End a process: SIGTERM, then SIGKILL when it is there after `patience` seconds."""
    started = start_ticks(pid)
    for sig, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        if not started or start_ticks(pid) != started:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)
        deadline = time.monotonic() + seconds
        while start_ticks(pid) == started and time.monotonic() < deadline:
            time.sleep(0.02)
