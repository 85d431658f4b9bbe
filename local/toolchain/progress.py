"""Progress of slow work: one line a step, with its elapsed time and no control codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

Progress = Callable[[str], None]
"""Takes one line for the user."""


def say(line: str) -> None:
    """Default progress: a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def step(title: str, progress: Progress = say, every: float = 20.0) -> Generator[None]:
    """Say `title`, repeat it with the elapsed time while it lasts, and say when it is done."""
    start, done = time.monotonic(), threading.Event()

    def tick() -> None:
        while not done.wait(every):
            progress(f"  … {title} ({_clock(time.monotonic() - start)})")

    progress(f"  → {title}")
    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    except BaseException:
        progress(f"  ✗ {title} ({_clock(time.monotonic() - start)})")
        raise
    else:
        progress(f"  ✓ {title} ({_clock(time.monotonic() - start)})")
    finally:
        done.set()
        ticker.join()


class Running:
    """Children of other threads. One that starts while they are told to end is told as well."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._children: list[subprocess.Popen[str]] = []
        self._ended = False
        self._lock = threading.Lock()

    def add(self, child: subprocess.Popen[str]) -> None:
        """It runs."""
        with self._lock:
            self._children.append(child)
            if self._ended:
                _tell(child)

    def remove(self, child: subprocess.Popen[str]) -> None:
        """It has ended."""
        with self._lock:
            self._children.remove(child)

    def end(self) -> None:
        """Tell them to end, with all that they started."""
        with self._lock:
            self._ended = True
            for child in self._children:
                _tell(child)


def run(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    running: Running | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run quietly, keeping the output. When we are told to end, the child and all that it started
    are told too, and waited for. While it runs another thread ends it by `running`.

    Raises:
        TimeoutExpired: it took longer than `timeout` seconds, and was killed.
    """
    words = [str(c) for c in command]
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as child:
        if running is not None:
            running.add(child)
        try:
            out, err = child.communicate(timeout=timeout)
        except BaseException as error:
            _end(child, signal.SIGKILL if isinstance(error, _Expired) else signal.SIGINT)
            raise
        finally:
            if running is not None:
                running.remove(child)
        return subprocess.CompletedProcess(words, child.returncode, out, err)


_Expired = subprocess.TimeoutExpired
_PATIENCE = 20.0
"""Seconds that a child has to end by itself."""


def _tell(child: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGINT)


def _end(child: subprocess.Popen[str], first: signal.Signals) -> None:
    for number in (first, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        try:
            child.communicate(timeout=_PATIENCE)
        except _Expired:
            continue
        return
