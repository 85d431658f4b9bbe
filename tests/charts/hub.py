"""A hub on loopback, as far as weights are fetched from it: also slow, wrong, unfriendly."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REVISION = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What it has, what it does wrong, and what it was asked."""

    files: Mapping[str, bytes]
    port: int = 0
    token: str | None = None
    cuts: dict[str, int] = field(default_factory=dict[str, int])
    """File: bytes after which the next answer ends, once."""
    corrupt: dict[str, int] = field(default_factory=dict[str, int])
    """File: answers whose last byte is wrong."""
    busy: list[int] = field(default_factory=list[int])
    """Status codes of the next answers."""
    hold: dict[str, threading.Event] = field(default_factory=dict[str, threading.Event])
    """File: the second half is sent once this is set."""
    half: threading.Event = field(default_factory=threading.Event)
    """Set when the first half of a held file went out."""
    asked: list[tuple[str, str | None, str | None]] = field(
        default_factory=list[tuple[str, str | None, str | None]]
    )
    """Path, Range and Authorization of every request."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def loads(self, name: str) -> list[str | None]:
        """Ranges that a file was asked for with, at the store."""
        return [r for path, r, _ in self.asked if path == f"/store/{name}"]

    def entry(self, name: str) -> dict[str, Any]:
        """The file in the list of the model."""
        data = self.files[name]
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        entry: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": blob}
        if name.endswith(".safetensors"):
            entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return entry


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        """Any request."""
        path, given = self.path.partition("?")[0], self.headers.get("Authorization")
        self.hub.asked.append((path, self.headers.get("Range"), given))
        if path.startswith("/store/"):
            self._file(path.removeprefix("/store/"))
        elif self.hub.busy:
            self.send_error(self.hub.busy.pop(0))
        elif self.hub.token and given != f"Bearer {self.hub.token}":
            self.send_error(401)
        elif self.path == f"/api/models/org/name/revision/{REVISION}?blobs=true":
            self._json({"siblings": [self.hub.entry(name) for name in self.hub.files]})
        elif path.startswith(f"/org/name/resolve/{REVISION}/"):
            self._resolve(path.rpartition(f"{REVISION}/")[2])
        else:
            self.send_error(404)

    def _json(self, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _resolve(self, name: str) -> None:
        if name.endswith(".safetensors"):
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.hub.port}/store/{name}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._file(name)

    def _file(self, name: str) -> None:
        data = self.hub.files[name]
        offset = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if self.hub.corrupt.get(name, 0) > 0:
            self.hub.corrupt[name] -= 1
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.send_response(206 if offset else 200)
        self.send_header("Content-Length", str(len(data) - offset))
        self.end_headers()
        end = self.hub.cuts.pop(name, len(data))
        middle = (offset + end) // 2 if name in self.hub.hold else end
        self.wfile.write(data[offset:middle])
        if name in self.hub.hold:
            self.wfile.flush()
            self.hub.half.set()
            self.hub.hold[name].wait(60)
            self.wfile.write(data[middle:end])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub, until the end."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        for event in hub.hold.values():
            event.set()
        server.shutdown()
        server.server_close()
        thread.join()
