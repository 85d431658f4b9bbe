"""GitHub, played here: a server that a test's own handler answers for."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hack.comment import GitHub


class Quiet(BaseHTTPRequestHandler):
    """A handler that writes no log."""

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def played(handler: type[Quiet]) -> Generator[GitHub]:
    """The repository `owner/name`, while the context lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield GitHub(f"http://127.0.0.1:{server.server_port}", "owner/name", "t0ken")
    finally:
        server.shutdown()
        server.server_close()
