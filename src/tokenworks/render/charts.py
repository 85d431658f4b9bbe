"""The program that renders charts: one process for all charts of a rendering, for many threads."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from tokenworks.errors import TokenworksError
from tokenworks.spec.stack import Manifest

_TAIL: Final = 2000
"""Bytes of its last words that are repeated."""


@dataclass(frozen=True)
class Request:
    """One chart to render."""

    chart: Path
    name: str
    namespace: str
    kube_version: str
    values: str
    """As one line of JSON that is YAML too."""

    def line(self, number: int) -> bytes:
        """The request as the program reads it; `values` goes as it is."""
        fields: dict[str, Any] = {
            "id": number, "chart": str(self.chart), "name": self.name,
            "namespace": self.namespace, "kubeVersion": self.kube_version,
        }  # fmt: skip
        return f'{json.dumps(fields)[:-1]}, "values": {self.values}}}\n'.encode()


class Renderer:
    """One run of the program. It starts with the first request, and `close` ends it.

    Requests of several threads are answered as they get ready.
    """

    def __init__(self, program: Path) -> None:
        self._program = program
        self._state = threading.Lock()
        self._writing = threading.Lock()  # apart: the reader needs the other while a writer waits
        self._waiting: dict[int, tuple[Request, Future[dict[str, Any]]]] = {}
        self._asked = 0
        self._run: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._ended: str | None = None

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def objects(self, request: Request) -> tuple[Manifest, ...]:
        """Objects of one chart.

        Raises:
            TokenworksError: the chart refused its values, or the program is not there any more.
        """
        answer = self._ask(request).result()
        if (refusal := answer.get("error")) is not None:
            raise TokenworksError(
                f"chart {request.chart} does not render as {request.name}:\n{str(refusal).strip()}"
            )
        return tuple(cast("list[Manifest]", answer["objects"]))

    def close(self) -> None:
        """End the program; whoever still waits for an answer is told."""
        with self._state:
            run, reader, words = self._run, self._reader, self._words
            self._ended = self._ended or "it was stopped"
        if run is None or reader is None or words is None:
            return
        run.kill()  # it keeps nothing that could be lost
        reader.join()
        assert run.stdin is not None
        with self._writing, contextlib.suppress(OSError):  # of what was not written yet
            run.stdin.close()
        words.close()

    def _ask(self, request: Request) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = Future()
        with self._state:
            if self._ended is not None:
                raise TokenworksError(self._without(self._ended))
            run = self._run or self._start()
            self._asked += 1
            number = self._asked
            line = request.line(number)
            self._waiting[number] = (request, future)
        assert run.stdin is not None
        # Where it has ended, the reader tells whoever waits.
        with self._writing, contextlib.suppress(OSError, ValueError):
            run.stdin.write(line)
            run.stdin.flush()
        return future

    def _start(self) -> subprocess.Popen[bytes]:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self._run = subprocess.Popen(
                [self._program],
                env={"HOME": "/", "PATH": "/usr/bin:/bin", "GOGC": "200"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
            )
        except OSError as error:
            self._words.close()
            self._ended = f"it does not start: {error.strerror}"
            raise TokenworksError(self._without(self._ended)) from None
        self._reader = threading.Thread(target=self._read, args=(self._run,), daemon=True)
        self._reader.start()
        return self._run

    def _read(self, run: subprocess.Popen[bytes]) -> None:
        """Hand out answers until there are no more, then tell whoever waits."""
        assert run.stdout is not None
        garbage = None
        for line in run.stdout:
            if not self._answered(line):
                garbage = line
                break
        if garbage is not None:
            run.kill()
        run.stdout.close()
        status = run.wait()
        with self._state:
            self._ended = self._ended or self._why(status, garbage)
            ended, left = self._ended, list(self._waiting.values())
            self._waiting.clear()
        for _, future in left:
            future.set_exception(TokenworksError(self._without(ended)))

    def _answered(self, line: bytes) -> bool:
        """Whether the line was an answer that somebody waits for."""
        try:
            answer: dict[str, Any] = json.loads(line)
            number = int(answer["id"])
            known = "objects" in answer or "error" in answer
        except (ValueError, KeyError, TypeError):
            return False
        with self._state:
            found = self._waiting.pop(number, None) if known else None
        if found is not None:
            found[1].set_result(answer)
        return found is not None

    def _why(self, status: int, garbage: bytes | None) -> str:
        if garbage is not None and garbage.endswith(b"\n"):
            return f"it said what is no answer: {_shown(garbage)}"
        asked = ", ".join(sorted(f"{r.chart.name} {r.name}" for r, _ in self._waiting.values()))
        how = f"by signal {-status}" if status < 0 else f"with exit code {status}"
        during = f" while it rendered {asked}" if asked else ""
        return f"it ended {how}{during}: {self._last_words() or 'it said nothing'}"

    def _last_words(self) -> str:
        assert self._words is not None
        size = self._words.seek(0, 2)
        self._words.seek(max(0, size - _TAIL))
        return _shown(self._words.read())

    def _without(self, why: str) -> str:
        return (
            f"charts cannot be rendered by {self._program}: {why}\n"
            "Run the command again. If it stays so, delete that file: it is built anew."
        )


def _shown(raw: bytes) -> str:
    return raw[-_TAIL:].decode("utf-8", "replace").strip()
