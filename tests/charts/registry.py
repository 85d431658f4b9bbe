"""An OCI registry on loopback that takes and gives (distribution specification 1.1)."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_UPLOAD = re.compile(r"/v2/(.+)/blobs/uploads/(\w*)")
_BLOB = re.compile(r"/v2/(.+)/blobs/(sha256:\w+)")
_MANIFEST = re.compile(r"/v2/(.+)/manifests/([\w.:+-]+)")


@dataclass
class Registry:
    """What it holds."""

    port: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(
        default_factory=dict[tuple[str, str], tuple[str, bytes]]
    )
    refuses: bool = False
    login: str = ""
    """`user:password` that it asks for; empty: nobody has to log in."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _known(self) -> bool:
        """Whether the login is right; otherwise it is asked for."""
        login = base64.b64encode(self.registry.login.encode()).decode()
        if self.registry.login and self.headers.get("Authorization") != f"Basic {login}":
            self._answer(401, WWW_Authenticate='Basic realm="tests"')
            return False
        return True

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self._known():
            return None
        if path == "/v2/":
            return self._answer(200)
        if found := _BLOB.fullmatch(path):
            content = self.registry.blobs.get(found[2])
            if content is None:
                return self._answer(404)
            return self._answer(200, content, Docker_Content_Digest=found[2])
        if found := _MANIFEST.fullmatch(path):
            held = self.registry.manifests.get((found[1], found[2]))
            if held is not None:
                kind, content = held
                digest = digest_of(content)
                return self._answer(200, content, Content_Type=kind, Docker_Content_Digest=digest)
        return self._answer(404)

    do_HEAD = do_GET  # noqa: N815 - the library calls it so

    def do_POST(self) -> None:
        self._body()
        if not self._known():
            return None
        found = _UPLOAD.fullmatch(self.path.partition("?")[0])
        if found is None or self.registry.refuses:
            return self._answer(403 if self.registry.refuses else 404)
        return self._answer(202, Location=f"/v2/{found[1]}/blobs/uploads/one")

    def do_PUT(self) -> None:
        content, path = self._body(), self.path.partition("?")[0]
        digest = digest_of(content)
        if not self._known():
            return None
        if _UPLOAD.fullmatch(path):
            self.registry.blobs[digest] = content
        elif found := _MANIFEST.fullmatch(path):
            held = (self.headers["Content-Type"], content)
            self.registry.manifests[found[1], found[2]] = held
            self.registry.manifests[found[1], digest] = held
        return self._answer(201, Location=path, Docker_Content_Digest=digest)


@contextmanager
def serving() -> Generator[Registry]:
    """A registry until the end of the block."""
    registry = Registry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
