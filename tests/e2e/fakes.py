"""Stand-ins around a router on loopback: engines that note what they are asked, a Kubernetes API.

The engines answer as far as routers look; what an engine really does is the simulator's part.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

KV = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [7, 8],
    "remote_engine_id": "prefill-engine",
    "remote_host": "127.0.0.1",
    "remote_port": 5600,
}
"""What a prefill engine of vLLM says about the KV that it holds for decode."""

INFO = {
    "/health": {},
    # A path, not a name: for a name the router would ask the hub for its tokenizer.
    "/server_info": {"model_path": "/nowhere", "served_model_name": "m", "tp_size": 1},
    "/model_info": {"model_path": "/nowhere", "is_generation": True},
    "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model"}]},
}


@dataclass(frozen=True)
class Asked:
    """One completion that an engine was asked for."""

    who: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Engines:
    """Prefill and decode engines, and what they were asked, in order."""

    urls: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[Asked] = field(default_factory=list[Asked])
    gate: threading.Event = field(default_factory=threading.Event)
    """While it is not set, decode's streams stay open after their first piece."""

    def address(self, role: str) -> str:
        """Host and port."""
        return self.urls[role].removeprefix("http://")

    def port(self, role: str) -> int:
        """Where the engine of the role listens."""
        return int(self.urls[role].rpartition(":")[2])

    def of(self, role: str) -> Asked:
        """The one completion that the engine of the role was asked for."""
        found = [asked for asked in self.asked if asked.who == role]
        assert len(found) == 1, self.asked
        return found[0]

    def order(self) -> list[str]:
        """Whom routers asked, in order."""
        return [asked.who for asked in self.asked]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing to the terminal."""

    def handle(self) -> None:
        """Whoever asked may leave, as routers do when they have what they want."""
        with suppress(ConnectionError):
            super().handle()

    def send(self, status: int, answer: Any) -> None:
        """Answer with JSON."""
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def chunk(self, text: str) -> None:
        """Send one piece of a stream; an empty one ends it."""
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())

    def stream(self) -> None:
        """Begin a stream."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()


def _engine(role: str, engines: Engines) -> type[_Handler]:
    class Engine(_Handler):
        def do_GET(self) -> None:
            path = urlparse(self.path).path
            self.send(200 if path in INFO else 404, INFO.get(path, {}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith(("/render", "/tokenize")):
                self.send(404, {})
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            engines.asked.append(Asked(role, self.path, headers, body))
            if body.get("stream"):
                self.answer_in_pieces()
            else:
                kv = body.get("kv_transfer_params") or {}
                more = {"kv_transfer_params": KV} if kv.get("do_remote_decode") else {}
                self.send(200, {"id": "x", "choices": [{"index": 0, "text": role}], **more})

        def answer_in_pieces(self) -> None:
            self.stream()
            self.chunk(f"data: {json.dumps({'choices': [{'index': 0, 'text': role}]})}\n\n")
            if role == "decode":
                engines.gate.wait(60)
            self.chunk("data: [DONE]\n\n")
            self.chunk("")

    return Engine


@contextmanager
def _serving(handler: type[_Handler], host: str, port: int = 0) -> Generator[int]:
    server = ThreadingHTTPServer((host, port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def engines(decode: str) -> Generator[Engines]:
    """A prefill engine on 127.0.0.1, and a decode engine on the address `decode`.

    Where that is another one, both have the same port, as pods of two roles do.
    """
    found = Engines()
    found.gate.set()
    with ExitStack() as stack:
        for role, host in (("prefill", "127.0.0.1"), ("decode", decode)):
            port = found.port("prefill") if found.urls and host != "127.0.0.1" else 0
            port = stack.enter_context(_serving(_engine(role, found), host, port))
            found.urls[role] = f"http://{host}:{port}"
        stack.callback(found.gate.set)
        yield found


def pod(role: str, address: str, annotations: dict[str, str], ready: bool = True) -> dict[str, Any]:
    """A pod of an engine, as far as routers look."""
    metadata = {
        "name": f"{role}-{address}",
        "namespace": "models",
        "resourceVersion": "1",
        "labels": {"model": "m", "role": role},
        "annotations": annotations,
    }
    condition = {"type": "Ready", "status": str(ready)}
    status = {"phase": "Running", "podIP": address, "conditions": [condition]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


@dataclass
class Api:
    """A Kubernetes API that knows pods only."""

    url: str
    paths: set[str]
    """What was asked of it."""


@contextmanager
def kubernetes(pods: list[dict[str, Any]]) -> Generator[Api]:
    """An API with these pods, none of which ever changes."""
    asked: set[str] = set()
    ended = threading.Event()

    class Kubernetes(_Handler):
        def do_GET(self) -> None:
            address = urlparse(self.path)
            asked.add(address.path)
            if "watch" in parse_qs(address.query):
                self.stream()
                ended.wait(60)
                self.chunk("")
            else:
                found = {"metadata": {"resourceVersion": "1"}, "items": pods}
                self.send(200, {"apiVersion": "v1", "kind": "PodList", **found})

    with _serving(Kubernetes, "127.0.0.1") as port:
        try:
            yield Api(f"http://127.0.0.1:{port}", asked)
        finally:
            ended.set()
