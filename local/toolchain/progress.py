"""Progress of slow work: one line a step, with its elapsed time and no control codes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
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


def run(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run quietly, keeping the output; on Ctrl-C the child gets it too and is waited for."""
    return subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
