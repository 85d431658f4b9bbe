"""A hub of models on loopback, as far as pulling an adapter needs one, with flaws to order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

REVISION = "89abcdef0123456789abcdef0123456789abcdef"
WEIGHTS = "adapter_model.safetensors"


def sha256(data: bytes) -> str:
    """A digest as documents write it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def adapter(weights: bytes = b"weights" * 100, **config: Any) -> dict[str, bytes]:
    """The files of a sound adapter."""
    settings = {"peft_type": "LORA", "r": 8, "base_model_name_or_path": "org/base", **config}
    return {
        "adapter_config.json": json.dumps(settings).encode(),
        WEIGHTS: weights,
        "README.md": b"# An adapter",
        ".gitattributes": b"",
    }


@dataclass
class Hub:
    """Repositories, and what was asked."""

    repositories: dict[str, Mapping[str, bytes]]
    truncated: int = 0
    """How many answers with weights end early."""
    broken: int = 0
    """How many answers are 503."""
    cut: int = 0
    """How many lists of files end early."""
    odd: int = 0
    """How many lists of files are something else."""
    elsewhere: str = ""
    """Address that weights are handed to."""
    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])

    @contextmanager
    def serving(self) -> Generator[Hub]:
        """Answer on loopback meanwhile."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        if self.broken:
            self.broken -= 1
            return 503, b""
        for name, files in self.repositories.items():
            if path == f"/api/models/{name}/revision/{REVISION}":
                if self.odd:
                    self.odd -= 1
                    return 200, b'["unexpected"]'
                siblings = [{"rfilename": file} for file in files]
                return 200, json.dumps({"siblings": siblings}).encode()
            file = path.removeprefix(f"/{name}/resolve/{REVISION}/")
            if file in files:
                return 200, files[file]
        return 404, b""


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append((self.path, self.headers["Authorization"]))
            status, body = hub.answer(self.path)
            if hub.elsewhere and self.path.endswith(WEIGHTS):
                self.send_response(302)
                self.send_header("Location", hub.elsewhere + self.path)
                self.end_headers()
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if hub.truncated and self.path.endswith(WEIGHTS):
                hub.truncated -= 1
                body = body[:-1]
            if hub.cut and self.path.startswith("/api/"):
                hub.cut -= 1
                body = body[:-1]
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
