"""Plays `tritonserver` as far as probes and scrapers see it.

Source: docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/
user_guide/metrics.html, and the KServe v2 protocol for the health paths (2026-11-29).

Not played: inference by the KServe protocol, gRPC, model control. OpenAI's endpoints, which the
real one has in a front end of its own, are answered at the HTTP port, so that something can
be asked. The models are the folders of the repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .. import VERSION
from ..api import Api, openai_routes
from ..kv import Listener
from ..names import triton as names
from ..options import number, port
from ..plan import Plan, Server
from ..setup import Adapters, Setup
from .commandline import CommandLineError, Flag, read
from .common import Size, no_positionals, options
from .knobs import Knobs

_SEQUENCES = 64
_FLAGS = (
    Flag(("--model-repository", "--model-store")),
    Flag(("--http-address",), default="0.0.0.0"),
    Flag(("--http-port",), port, 8000),
    Flag(("--metrics-address",)),
    Flag(("--metrics-port",), port, 8002),
    Flag(("--allow-metrics",), default="true"),
    Flag(("--exit-timeout-secs",), number(), 30.0),
)


def plan(arguments: Sequence[str], environ: Mapping[str, str], knobs: Knobs) -> Plan:
    """What `tritonserver` does with these arguments.

    Raises:
        CommandLineError: it would not start.
    """
    del environ
    given = read(arguments, _FLAGS)
    no_positionals(given, "tritonserver")
    host = given["http-address"]
    setup = Setup(
        engine="triton",
        book=names.BOOK,
        model_path=given["model-repository"],
        adapters=Adapters(may_change=False),
    )
    size = Size(None, _SEQUENCES, 64)
    allowed = given["allow-metrics"].lower() in ("true", "1", "on")
    where = (given["metrics-address"] or host, given["metrics-port"])
    server = Server(
        options(
            _models(given["model-repository"], knobs),
            (host, given["http-port"]),
            size,
            knobs,
            given["exit-timeout-secs"],
        ),
        setup,
        routes,
        partial(_metrics, where=where) if allowed else _nothing,
    )
    return Plan((server,), without_effect=given.without_effect)


def routes(api: Api) -> list[Route]:
    """Triton's endpoints that say how it is, and OpenAI's."""
    native = _Native(api)
    return [
        Route("/v2", native.server),
        Route("/v2/health/live", native.live),
        Route("/v2/health/ready", native.ready),
        Route("/v2/models/{model}/ready", native.model),
        *openai_routes(api),
    ]


def _models(repository: str | None, knobs: Knobs) -> tuple[str, ...]:
    if repository is None:
        raise CommandLineError("--model-repository must be specified")
    folder = Path(repository)
    found = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    models = knobs.models or tuple(found)
    if not models:
        raise CommandLineError(f"no model is in the repository {repository}", 1)
    return models


def _metrics(api: Api, where: tuple[str, int]) -> Sequence[Listener]:
    app = Starlette(routes=[Route("/metrics", api.metrics)])
    return [Listener(app, *where, "metrics")]


def _nothing(_: Api) -> Sequence[Listener]:
    return ()


class _Native:
    """Triton's own endpoints."""

    def __init__(self, api: Api) -> None:
        self._service = api.service

    async def server(self, _: Request) -> Response:
        """What the server is."""
        return JSONResponse({"name": "triton", "version": VERSION, "extensions": []})

    async def live(self, _: Request) -> Response:
        """Whether it can answer at all."""
        return Response(status_code=400 if self._service.phase == "failed" else 200)

    async def ready(self, _: Request) -> Response:
        """Whether all models are loaded."""
        return Response(status_code=200 if self._service.healthy else 400)

    async def model(self, request: Request) -> Response:
        """Whether a model is loaded."""
        known = request.path_params["model"] in self._service.served
        return Response(status_code=200 if known and self._service.healthy else 400)
