"""Plays `ollama serve`.

Source: https://docs.ollama.com/api and https://docs.ollama.com/faq (2026-11-29). Which models
are there is for SIMULATOR_OPTIONS (`models`) and for /api/pull, which fetches nothing.

Not played: /api/generate with a prompt, /api/chat, embeddings, unloading, metrics (it has none).
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .. import VERSION
from ..api import Api, openai_routes
from ..names import llamacpp as names
from ..options import port
from ..plan import Plan, Server
from ..requests import ApiError, parse_body
from ..service import Service
from ..setup import Adapters, Setup
from .commandline import CommandLineError, read
from .common import Size, options
from .knobs import Knobs

_PORT = 11434
# Its default; more memory makes it larger.
_CONTEXT = 4096


def plan(arguments: Sequence[str], environ: Mapping[str, str], knobs: Knobs) -> Plan:
    """What `ollama` does with these arguments.

    Raises:
        CommandLineError: it would not start, or is another command than `serve`.
    """
    given = read(arguments, ())
    if given.positionals != ("serve",):
        raise CommandLineError(f"only `serve` is played, not {' '.join(given.positionals)!r}")
    if given.without_effect:
        raise CommandLineError(f"unknown flag: {given.without_effect[0]}")
    host, number = _address(environ.get("OLLAMA_HOST", ""))
    context = _whole(environ, "OLLAMA_CONTEXT_LENGTH", _CONTEXT)
    size = Size(context, _whole(environ, "OLLAMA_NUM_PARALLEL", 1), 1)
    setup = Setup(
        engine="ollama",
        book=names.BOOK,
        adapters=Adapters(may_change=False),
        known_as=tagged,
    )
    models = tuple(tagged(name) for name in knobs.models)
    server = Server(options(models, (host, number), size, knobs, 0.0), setup, routes)
    return Plan((server,))


def tagged(name: str) -> str:
    """Names without a tag mean the latest."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def routes(api: Api) -> list[Route]:
    """Ollama's endpoints."""
    native = _Native(api.service)
    return [
        Route("/", native.root, methods=["GET", "HEAD"]),
        Route("/api/version", native.version, methods=["GET", "HEAD"]),
        Route("/api/tags", native.tags, methods=["GET", "HEAD"]),
        Route("/api/ps", native.tags),
        Route("/api/pull", native.pull, methods=["POST"]),
        Route("/api/generate", native.load, methods=["POST"]),
        *openai_routes(api),
    ]


def _whole(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not int(text):
        raise CommandLineError(f"{name} must be a whole number above 0, found {text!r}", 1)
    return int(text)


def _address(text: str) -> tuple[str, int]:
    """`[scheme://]host[:port]`, as OLLAMA_HOST says it."""
    rest = text.partition("://")[2] or text
    host, colon, number = rest.rpartition(":")
    if not colon or "]" in number:
        host, number = rest, str(_PORT)
    try:
        return host.strip("[]") or "127.0.0.1", port(number)
    except (ValueError, ArgumentTypeError):
        raise CommandLineError(f"OLLAMA_HOST: no port in {text!r}", 1) from None


class _Native:
    """Ollama's own endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def root(self, _: Request) -> Response:
        """What probes look at: it runs, whatever models there are."""
        running = self._service.healthy
        return PlainTextResponse("Ollama is running" if running else "", 200 if running else 503)

    async def version(self, _: Request) -> Response:
        """The version, here the simulator's."""
        return JSONResponse({"version": VERSION})

    async def tags(self, _: Request) -> Response:
        """The models on disk."""
        return JSONResponse({"models": [{"name": n, "model": n} for n in self._service.served]})

    async def pull(self, request: Request) -> Response:
        """Have a model, as if it had been fetched."""
        name = tagged(_model(parse_body(await request.body())))
        if name not in self._service.served:
            self._service.served.append(name)
        return JSONResponse({"status": "success"})

    async def load(self, request: Request) -> Response:
        """Load a model into memory: a request without prompt."""
        body = parse_body(await request.body())
        name, _ = self._service.resolve(_model(body))
        if body.get("prompt"):
            raise ApiError("the simulator answers prompts at /v1 only", param="prompt")
        return JSONResponse({"model": name, "response": "", "done": True, "done_reason": "load"})


def _model(body: Mapping[str, object]) -> str:
    name = body.get("model") or body.get("name")
    if not isinstance(name, str):
        raise ApiError("model is required", param="model")
    return name
