"""Plays llama.cpp's `llama-server`.

Source: github.com/ggml-org/llama.cpp tools/server/README.md (2026-11-29).

Not played: its own /completion, embeddings, the router of several models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..api import Api, openai_routes
from ..names import llamacpp as names
from ..options import port
from ..plan import Plan, Server
from ..setup import Adapters, Setup
from .commandline import CommandLineError, Flag, Given, read
from .common import Size, no_positionals, options
from .knobs import Knobs

# Slots when the command line does not say.
_SLOTS = 4


def _integer(text: str) -> int:
    return int(text)


_integer.__name__ = "whole number"
_FLAGS = (
    Flag(("--model", "-m")),
    Flag(("--hf-repo", "-hf", "-hfr")),
    Flag(("--alias", "-a")),
    Flag(("--ctx-size", "-c"), _integer, 0),
    Flag(("--parallel", "-np"), _integer, -1),
    Flag(("--host",), default="127.0.0.1"),
    Flag(("--port",), port, 8080),
    Flag(("--metrics",), kind="both", default=False),
    Flag(("--slots",), kind="both", default=True),
    Flag(("--kv-unified", "-kvu"), kind="both"),
)
# Variables of the environment that stand for flags; flags count more.
_VARIABLES = {
    "LLAMA_ARG_MODEL": "--model",
    "LLAMA_ARG_HF_REPO": "--hf-repo",
    "LLAMA_ARG_ALIAS": "--alias",
    "LLAMA_ARG_CTX_SIZE": "--ctx-size",
    "LLAMA_ARG_N_PARALLEL": "--parallel",
    "LLAMA_ARG_HOST": "--host",
    "LLAMA_ARG_PORT": "--port",
}


def plan(arguments: Sequence[str], environ: Mapping[str, str], knobs: Knobs) -> Plan:
    """What `llama-server` does with these arguments.

    Raises:
        CommandLineError: it would not start.
    """
    from_environ = [
        f"{flag}={environ[name]}" for name, flag in _VARIABLES.items() if name in environ
    ]
    if environ.get("LLAMA_ARG_ENDPOINT_METRICS", "").lower() in ("1", "true", "on", "enabled"):
        from_environ.append("--metrics")
    given = read([*from_environ, *arguments], _FLAGS)
    no_positionals(given)
    model = given["model"] or given["hf-repo"]
    if model is None:
        raise CommandLineError("no model: --model or --hf-repo is needed")
    slots, context = _slots(given)
    size = Size(context, slots, 1)
    name = given["alias"] or model
    setup = Setup(
        engine="llamacpp",
        book=names.BOOK,
        model_path=model,
        adapters=Adapters(may_change=False),
        known_as=lambda _: name,  # it has one model and does not look at the name
    )
    server = Server(
        # SIGTERM ends the real one as soon as what runs has been cut off.
        options((name,), (given["host"], given["port"]), size, knobs, 0.0),
        setup,
        partial(routes, metrics=given["metrics"], slots=given["slots"]),
    )
    return Plan((server,), without_effect=given.without_effect)


def _slots(given: Given) -> tuple[int, int | None]:
    """Slots, and the context of each: they share it, unless their number was chosen."""
    chosen, context = given["parallel"], given["ctx-size"]
    if chosen == 0 or chosen < -1 or context < 0:
        raise CommandLineError("--parallel must be above 0 or -1, and --ctx-size 0 or more")
    unified = given["kv-unified"]
    shared = chosen == -1 if unified is None else unified
    slots = _SLOTS if chosen == -1 else chosen
    return slots, (context if shared else context // slots) or None


def routes(api: Api, metrics: bool, slots: bool) -> list[Route]:
    """llama.cpp's endpoints."""
    native = _Native(api, metrics, slots)
    return [
        Route("/health", native.health),
        Route("/v1/health", native.health),
        Route("/metrics", native.metrics),
        Route("/slots", native.slots),
        Route("/props", native.props),
        *openai_routes(api),
    ]


def _refused(what: str) -> Response:
    message = f"This server does not support {what} endpoint. Start it with `--{what}`"
    error = {"code": 501, "message": message, "type": "not_supported_error"}
    return JSONResponse({"error": error}, 501)


class _Native:
    """llama.cpp's own endpoints."""

    def __init__(self, api: Api, metrics: bool, slots: bool) -> None:
        self._api, self._service = api, api.service
        self._metrics, self._slots = metrics, slots

    async def health(self, _: Request) -> Response:
        """Whether the model is loaded."""
        if self._service.healthy:
            return JSONResponse({"status": "ok"})
        error = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
        return JSONResponse({"error": error}, 503)

    async def metrics(self, request: Request) -> Response:
        """Prometheus text, if asked for on the command line."""
        return await self._api.metrics(request) if self._metrics else _refused("metrics")

    async def slots(self, _: Request) -> Response:
        """What every slot does."""
        if not self._slots:
            return _refused("slots")
        self._service.check_serving()
        engine = self._service.engine
        context = self._service.options.max_model_len
        return JSONResponse(
            [
                {"id": i, "n_ctx": context, "is_processing": i < len(engine.running)}
                for i in range(engine.config.max_num_seqs)
            ]
        )

    async def props(self, _: Request) -> Response:
        """What the server is like."""
        options = self._service.options
        return JSONResponse(
            {
                "model_alias": options.served_model_names[0],
                "model_path": self._service.setup.model_path,
                "total_slots": options.engine.max_num_seqs,
                "default_generation_settings": {"n_ctx": options.max_model_len},
            }
        )
