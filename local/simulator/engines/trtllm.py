"""Plays `trtllm-serve`.

Source: github.com/NVIDIA/TensorRT-LLM tensorrt_llm/commands/serve.py and
tensorrt_llm/serve/openai_server.py (2026-11-29).

Not played: disaggregation, several nodes (MPI), /perf_metrics, /v1/responses, gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .. import VERSION
from ..api import Api, openai_routes
from ..names import trtllm as names
from ..options import port, whole
from ..plan import Plan, Server
from ..setup import Adapters, Setup
from .commandline import CommandLineError, Flag, read
from .common import Size, options
from .knobs import Knobs

# What uvicorn gives running requests there is up to the pod's grace period.
_DRAIN_SECONDS = 86400.0
_FLAGS = (
    Flag(("--host",), default="localhost"),
    Flag(("--port",), port, 8000),
    Flag(("--max-batch-size",), whole(1), 2048),
    Flag(("--max-seq-len",), whole(1)),
    Flag(("--served-model-name",)),
    Flag(("--tp-size", "--tensor-parallel-size"), whole(1), 1),
    Flag(("--config", "--extra-llm-api-options")),
)


def plan(arguments: Sequence[str], environ: Mapping[str, str], knobs: Knobs) -> Plan:
    """What `trtllm-serve` does with these arguments.

    Raises:
        CommandLineError: it would not start.
    """
    del environ
    given = read(arguments, _FLAGS)
    rest = given.positionals[1:] if given.positionals[:1] == ("serve",) else given.positionals
    if len(rest) != 1:
        raise CommandLineError(f"one MODEL is needed, found {' '.join(rest) or 'none'}")
    (model,) = rest
    config = _config(given["config"])
    name = given["served-model-name"] or (Path(model).name if Path(model).is_dir() else model)
    size = Size(given["max-seq-len"], given["max-batch-size"], 32)
    setup = Setup(
        engine="trtllm",
        book=names.BOOK,
        model_path=model,
        adapters=Adapters(may_change=False),
        healthy_while_draining=True,
    )
    measured = bool(re.search(r"^return_perf_metrics:\s*true\b", config, re.MULTILINE | re.I))
    server = Server(
        options((name,), (given["host"], given["port"]), size, knobs, _DRAIN_SECONDS),
        setup,
        partial(routes, measured=measured),
    )
    return Plan((server,), without_effect=given.without_effect)


def routes(api: Api, measured: bool) -> list[Route]:
    """The endpoints; Prometheus's only if the configuration asks for measurements."""
    found = [
        Route("/health", api.health),
        Route("/health_generate", api.health),
        Route("/version", _version),
        Route("/metrics", _iterations),
        *openai_routes(api),
    ]
    return [*found, Route("/prometheus/metrics", api.metrics)] if measured else found


async def _version(_: Request) -> Response:
    return JSONResponse({"version": VERSION})


async def _iterations(_: Request) -> Response:
    """Statistics of every iteration, which is not Prometheus text; none are kept here."""
    return JSONResponse([])


def _config(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise CommandLineError(f"argument --config: {path}: {error.strerror}", 1) from None
