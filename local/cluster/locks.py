"""One at a time, between processes; the lock's file can be removed by whoever holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def _same(handle: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def locked(path: Path, waiting: Callable[[], None] = lambda: None) -> Generator[int]:
    """Hold `path` as a lock; `waiting` is called once when somebody else holds it.

    Gives the descriptor: a child that inherits it holds the lock too, until it closes it.
    """
    told = False
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    waiting()
                told = True
                fcntl.flock(handle, fcntl.LOCK_EX)
            # The one before us may have removed the file: then ours is no lock any more.
            if _same(handle, path):
                yield handle.fileno()
                return
