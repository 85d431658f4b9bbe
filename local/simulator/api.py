"""HTTP: OpenAI's endpoints, vLLM's adapters, health and metrics.

Every answer carries `x-served-by` (the pod) and `x-request-id` (the client's, or a new
one). Answers also say the pod in `system_fingerprint`, which streams carry in each event.
Completions say the core's rank in `x-served-rank`; if another pod computed the prompt,
`x-prefilled-by` and `prefilled_by` name it.

Which of the endpoints there are is for the engine that is played to say; it may have more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .kv import Place
from .requests import ApiError, Ask, Kind, parse_ask, parse_body
from .service import Piece, Service, on_disconnect
from .text import Answer

_MAX_ID = 128


@dataclass(frozen=True)
class Call:
    """One accepted request and what its answers have in common."""

    ask: Ask
    answer: Answer
    model: str
    lora: str | None
    request_id: str
    job_id: str
    """Unique inside the engine; a client may use one id twice at a time."""
    place: Place
    created: int
    pod: str

    @property
    def id(self) -> str:
        prefix = "chatcmpl" if self.ask.kind == "chat" else "cmpl"
        return f"{prefix}-{self.request_id}"

    def frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """What answers and events begin with."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.pod,
            **({"prefilled_by": by} if (by := self.place.prefilled_by) else {}),
            "choices": choices,
        }

    @property
    def headers(self) -> dict[str, str]:
        """What else the answer's head says."""
        by = self.place.prefilled_by
        return {
            "x-served-rank": str(self.place.core.rank),
            **({"x-prefilled-by": by} if by else {}),
        }

    def usage(self, completion: int, cached: int) -> dict[str, Any]:
        """OpenAI's usage object."""
        prompt = len(self.ask.prompt)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


def create_app(service: Service, routes: Routes | None = None) -> Starlette:
    """The application; its lifespan runs the engine."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        task = asyncio.create_task(service.run())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    api = Api(service)
    return Starlette(
        routes=(routes or own_routes)(api),
        middleware=[Middleware(_Identity, pod=service.pod)],
        exception_handlers={ApiError: _api_error, HTTPException: _http_error},
        lifespan=lifespan,
    )


def openai_routes(api: Api) -> list[Route]:
    """What every engine here has."""
    return [
        Route("/v1/models", api.models),
        Route("/v1/chat/completions", api.chat, methods=["POST"]),
        Route("/v1/completions", api.completion, methods=["POST"]),
    ]


def adapter_routes(api: Api) -> list[Route]:
    """vLLM's way to change adapters, if it was told that it may."""
    if not api.service.setup.adapters.may_change:
        return []
    return [
        Route("/v1/load_lora_adapter", api.load_lora, methods=["POST"]),
        Route("/v1/unload_lora_adapter", api.unload_lora, methods=["POST"]),
    ]


def own_routes(api: Api) -> list[Route]:
    """The simulator's own endpoints: vLLM's."""
    return [
        Route("/health", api.health),
        Route("/metrics", api.metrics),
        *openai_routes(api),
        *adapter_routes(api),
    ]


class Api:
    """The endpoints."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def health(self, _: Request) -> Response:
        """200 while new requests are welcome."""
        return PlainTextResponse(self.service.phase, 200 if self.service.healthy else 503)

    async def metrics(self, _: Request) -> Response:
        """Prometheus text."""
        return Response(self.service.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def models(self, _: Request) -> Response:
        """The models and adapters."""
        self.service.check_serving()
        return JSONResponse({"object": "list", "data": self.service.models()})

    async def chat(self, request: Request) -> Response:
        """/v1/chat/completions"""
        return await self._complete("chat", request)

    async def completion(self, request: Request) -> Response:
        """/v1/completions"""
        return await self._complete("completion", request)

    async def load_lora(self, request: Request) -> Response:
        """Add an adapter by name, as vLLM does when told that it may."""
        name, body = await self._lora_name(request)
        path = body.get("lora_path")
        if not isinstance(path, str) or not path:
            raise ApiError("lora_path must be a text that is not empty", param="lora_path")
        if name in (card["id"] for card in self.service.models()):
            raise ApiError(f"The lora adapter '{name}' has already been loaded.", param="lora_name")
        if self.service.setup.adapters.read_paths and missing(path):
            raise ApiError(
                f"Loading lora {name} failed: No adapter found for {path}", 404, "NotFoundError"
            )
        rank, most = rank_of(path), self.service.setup.adapters.max_rank
        if rank is not None and most is not None and rank > most:
            raise ApiError(
                f"LoRA rank {rank} is greater than max_lora_rank {most}.",
                500,
                "InternalServerError",
            )
        self.service.loras[name] = path
        return PlainTextResponse(f"Success: LoRA adapter '{name}' added successfully.")

    async def unload_lora(self, request: Request) -> Response:
        """Take an adapter away; requests that use it are finished."""
        name, _ = await self._lora_name(request)
        if name not in self.service.loras:
            raise ApiError(f"The lora adapter '{name}' cannot be found.", 404, "NotFoundError")
        del self.service.loras[name]
        return PlainTextResponse(f"Success: LoRA adapter '{name}' removed successfully.")

    async def _lora_name(self, request: Request) -> tuple[str, Mapping[str, Any]]:
        self.service.check_serving()
        body = parse_body(await request.body())
        name = body.get("lora_name")
        if not isinstance(name, str) or not name:
            raise ApiError("lora_name must be a text that is not empty", param="lora_name")
        return name, body

    async def _complete(self, kind: Kind, request: Request) -> Response:
        self.service.check_serving()
        ask = parse_ask(kind, await request.body(), self.service.options.max_model_len)
        call = await self.call(ask, request)
        if ask.stream:
            headers = {"content-type": "text/event-stream", **call.headers}
            return StreamingResponse(self._events(call, request), headers=headers)
        return JSONResponse(await self._whole(call, request), headers=call.headers)

    async def call(self, ask: Ask, request: Request) -> Call:
        """The request, accepted: with its model, its answer and its place."""
        service = self.service
        model, lora = service.resolve(ask.model)
        job_id = f"{request.state.request_id}/{uuid.uuid4().hex}"
        return Call(
            ask=ask,
            answer=service.answer(ask, model),
            model=ask.model or model if service.setup.echoes else model,
            lora=lora,
            request_id=request.state.request_id,
            job_id=job_id,
            place=await service.admit(ask, job_id, _rank(request)),
            created=int(time.time()),
            pod=service.pod,
        )

    async def pieces(self, call: Call, request: Request) -> AsyncGenerator[Piece]:
        """The answer's pieces, until the client leaves."""
        service = self.service
        gone = on_disconnect(request.receive, lambda: service.abort(call.job_id))
        pieces = service.pieces(call.ask, call.answer, call.lora, call.job_id, call.place)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        finally:
            gone.cancel()

    async def _whole(self, call: Call, request: Request) -> dict[str, Any]:
        text, reason, cached, count = "", "", 0, 0
        try:
            async with aclosing(self.pieces(call, request)) as pieces:
                async for piece in pieces:
                    text, reason = text + piece.text, piece.finish_reason or ""
                    cached, count = piece.token.cached, count + 1
            more = await self.service.finish(call.place, call.job_id)
        finally:
            self.service.forget(call.job_id)
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
        if call.ask.kind == "chat":
            choice["message"] = {"role": "assistant", "content": text}
            kind = "chat.completion"
        else:
            choice["text"] = text
            kind = "text_completion"
        return {**call.frame(kind, [choice]), "usage": call.usage(count, cached), **more}

    async def _events(self, call: Call, request: Request) -> AsyncGenerator[str]:
        """Server-sent events: one a token, then usage if asked for, then the end mark."""
        kind = "chat.completion.chunk" if call.ask.kind == "chat" else "text_completion"
        cached, count = 0, 0
        try:
            async with aclosing(self.pieces(call, request)) as pieces:
                async for piece in pieces:
                    cached, count = piece.token.cached, count + 1
                    yield event(call.frame(kind, [_choice(call.ask.kind, piece)]))
            await self.service.finish(call.place, call.job_id)
        except ApiError as error:  # too late for a status
            yield event(error.body())
            return
        finally:
            self.service.forget(call.job_id)
        if call.ask.include_usage:
            yield event({**call.frame(kind, []), "usage": call.usage(count, cached)})
        yield "data: [DONE]\n\n"


Routes = Callable[[Api], Sequence[Route]]


def missing(path: str) -> bool:
    """Whether an adapter's path is on this machine and not there; names of hubs are not."""
    return path.startswith("/") and not Path(path).exists()


def rank_of(path: str) -> int | None:
    """The rank that an adapter's configuration states, if one can be read."""
    try:
        found: object = json.loads((Path(path) / "adapter_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    rank = cast(dict[str, Any], found).get("r") if isinstance(found, dict) else None
    return rank if isinstance(rank, int) else None


def _rank(request: Request) -> int | None:
    """The data parallel rank that a router chose."""
    value = request.headers.get("x-data-parallel-rank", "")
    return int(value) if value.isdecimal() else None


def _choice(kind: Kind, piece: Piece) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": 0,
        "logprobs": None,
        "finish_reason": piece.finish_reason,
    }
    if kind == "completion":
        return {**choice, "text": piece.text}
    role = {"role": "assistant"} if piece.token.index == 0 else {}
    return {**choice, "delta": {**role, "content": piece.text}}


def event(body: Mapping[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n"


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    headers = {"retry-after": "1"} if error.status == 503 else None
    return JSONResponse(error.body(), error.status, headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = "NotFoundError" if error.status_code == 404 else "BadRequestError"
    body = ApiError(error.detail, error.status_code, kind).body()
    return JSONResponse(body, error.status_code, error.headers)


class _Identity:
    """Puts the pod and the request's id on every answer."""

    def __init__(self, app: ASGIApp, pod: str) -> None:
        self._app = app
        self._pod = pod

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-served-by"] = self._pod
                headers["x-request-id"] = request_id
            await send(message)

        await self._app(scope, receive, send_named)


def _request_id(scope: Scope) -> str:
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1").strip()
    return given[:_MAX_ID] if given.isprintable() and given else uuid.uuid4().hex
