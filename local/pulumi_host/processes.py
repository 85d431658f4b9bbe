"""Child processes of the host: started, streamed, and ended with it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Literal

Chunk = tuple[Literal["stdout", "stderr"], bytes]
_GRACE_SECONDS = 5.0


class Children:
    """The processes that run now. `stop` ends them, and any started later at once."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def start(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], piped: bool
    ) -> subprocess.Popen[bytes]:
        """Start a process; its output goes to pipes, or where the host's own goes."""
        output = subprocess.PIPE if piped else None
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        with self._lock:
            self._running.add(process)
            stopped = self._stopped
        if stopped:
            self.end(process)
        return process

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """Exit code of the process, negative for a signal."""
        code = process.wait()
        with self._lock:
            self._running.discard(process)
        return code

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ask the process to end; kill it when it does not within a few seconds."""
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def stop(self) -> None:
        """End every process."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            self.end(process)


def stream(process: subprocess.Popen[bytes]) -> Iterator[Chunk]:
    """What a piped process writes, as it comes, until both its outputs close."""
    queue: SimpleQueue[Chunk | None] = SimpleQueue()

    def copy(name: Literal["stdout", "stderr"], source: IO[bytes]) -> None:
        while data := os.read(source.fileno(), 65536):
            queue.put((name, data))
        queue.put(None)

    assert process.stdout is not None and process.stderr is not None
    sources = (("stdout", process.stdout), ("stderr", process.stderr))
    for name, source in sources:
        threading.Thread(target=copy, args=(name, source), daemon=True).start()
    closed = 0
    while closed < len(sources):
        chunk = queue.get()
        if chunk is None:
            closed += 1
        else:
            yield chunk
