"""A registry and a hub on this machine, which answer as theirs do (distribution specification)."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

USER, PASSWORD, TOKEN = "ada", "canary-of-a-password", "canary-of-a-token"
INDEX: Final = "application/vnd.oci.image.index.v1+json"


def manifest(repository: str, tag: str) -> bytes:
    """An index that is its own."""
    what = {"schemaVersion": 2, "mediaType": INDEX, "of": f"{repository}:{tag}"}
    return json.dumps(what).encode()


def digest(repository: str, tag: str) -> str:
    """What its digest is."""
    return f"sha256:{hashlib.sha256(manifest(repository, tag)).hexdigest()}"


@dataclass
class Served:
    """What is there, how it behaves, and what it was asked."""

    tags: set[tuple[str, str]]
    private: bool = False
    lies: bool = False
    silent: bool = False
    """States no digest beside the manifest."""
    status: int = 200
    says: bytes | None = None
    """What it sends in place of a manifest."""
    token: str = TOKEN
    realm: str = ""
    host: str = ""
    asked: list[str] = field(default_factory=list[str])
    commits: dict[str, str] = field(default_factory=dict[str, str])
    adapters: bool = True
    """Whether its models are adapters."""


@contextmanager
def registry(served: Served) -> Generator[str]:
    """Its host:port, while it runs."""
    handler = type("Handler", (_Handler,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    served.host = f"127.0.0.1:{server.server_port}"
    try:
        yield served.host
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: Served

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        self.served.asked.append(self.path)
        if path.path == "/token":
            self._token(parse_qs(path.query))
        elif path.path.startswith("/api/models/"):
            self._model(path.path.removeprefix("/api/models/"))
        else:
            self._manifest(path.path)

    def _token(self, query: dict[str, list[str]]) -> None:
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {login}":
            return self._send(401, b"{}")
        assert query["service"] == ["tests"] and query["scope"][0].startswith("repository:")
        return self._send(200, json.dumps({"token": self.served.token}).encode())

    def _model(self, rest: str) -> None:
        name, _, branch = rest.partition("/revision/")
        known = self.served.commits.get(name)
        if known is None or branch not in ("main", known):
            return self._send(404, b"{}")
        said: dict[str, Any] = {"sha": known}
        if self.path.endswith("?blobs=true"):
            weights = {"rfilename": "adapter_model.safetensors", "lfs": {"sha256": known[:4] * 16}}
            said["siblings"] = [{"rfilename": "README.md"}, *([weights] * self.served.adapters)]
        return self._send(200, json.dumps(said).encode())

    def _manifest(self, path: str) -> None:
        served = self.served
        repository, _, tag = path.removeprefix("/v2/").partition("/manifests/")
        if served.private and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            where = served.realm or f"http://{served.host}/token"
            realm = f'Bearer realm="{where}",service="tests"'
            scope = f'scope="repository:{repository}:pull"'
            return self._send(401, b"{}", {"WWW-Authenticate": f"{realm},{scope}"})
        if served.status != 200:
            return self._send(served.status, b"{}")
        if (repository, tag) not in served.tags:
            return self._send(404, b"{}")
        assert INDEX in self.headers["Accept"]
        if served.says is not None:
            return self._send(200, served.says)
        stated = "sha256:" + "0" * 64 if served.lies else digest(repository, tag)
        headers: dict[str, str] = {} if served.silent else {"Docker-Content-Digest": stated}
        return self._send(200, manifest(repository, tag), headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests read `asked`."""
