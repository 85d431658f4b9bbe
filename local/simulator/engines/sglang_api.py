"""SGLang's endpoints beside OpenAI's."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .. import VERSION
from ..api import Api, Call, Routes, event, openai_routes
from ..requests import ApiError, Ask, parse_ask, parse_body

# SGLang's own default of /generate.
_NEW_TOKENS = 128


def routes(metrics: bool, tp_size: int, mode: str) -> Routes:
    """The endpoints of a server that shows its metrics or not."""

    def make(api: Api) -> list[Route]:
        native = _Native(api, tp_size, mode)
        found = [
            Route("/health", native.health),
            Route("/health_generate", native.health),
            Route("/get_model_info", native.model_info),
            Route("/model_info", native.model_info),
            Route("/get_server_info", native.server_info),
            Route("/server_info", native.server_info),
            Route("/generate", native.generate, methods=["POST", "PUT"]),
            *openai_routes(api),
        ]
        if metrics:
            found.append(Route("/metrics", api.metrics))
        if api.service.setup.adapters.may_change:
            found.append(Route("/load_lora_adapter", native.load_lora, methods=["POST"]))
            found.append(Route("/unload_lora_adapter", native.unload_lora, methods=["POST"]))
        return found

    return make


class _Native:
    """SGLang's own endpoints."""

    def __init__(self, api: Api, tp_size: int, mode: str) -> None:
        self._api, self._service = api, api.service
        self._tp_size, self._mode = tp_size, mode

    async def health(self, _: Request) -> Response:
        """200 with an empty body while it serves."""
        return Response(status_code=200 if self._service.healthy else 503)

    async def model_info(self, _: Request) -> Response:
        """What routers want to know of the model."""
        return JSONResponse(
            {
                "model_path": self._service.setup.model_path,
                "served_model_name": self._service.options.served_model_names[0],
                "tokenizer_path": self._service.setup.model_path,
                "is_generation": True,
                "disaggregation_mode": self._mode,
            }
        )

    async def server_info(self, _: Request) -> Response:
        """What routers want to know of the server."""
        service = self._service
        return JSONResponse(
            {
                "model_path": service.setup.model_path,
                "tokenizer_path": service.setup.model_path,
                "served_model_name": service.options.served_model_names[0],
                "tp_size": self._tp_size,
                "dp_size": len(service.cores),
                "context_length": service.options.max_model_len,
                "disaggregation_mode": self._mode,
                "status": service.phase,
                "version": VERSION,
            }
        )

    async def load_lora(self, request: Request) -> Response:
        """SGLang's fields are vLLM's; its answer is not."""
        await self._api.load_lora(request)
        return self._adapters()

    async def unload_lora(self, request: Request) -> Response:
        """SGLang's fields are vLLM's; its answer is not."""
        await self._api.unload_lora(request)
        return self._adapters()

    async def generate(self, request: Request) -> Response:
        """/generate: text or token ids in, text out."""
        self._service.check_serving()
        ask = _ask(await request.body(), self._service.options.max_model_len)
        call = await self._api.call(ask, request)
        events = self._answers(call, request)
        if ask.stream:
            headers = {"content-type": "text/event-stream", **call.headers}
            return StreamingResponse(_stream(events), headers=headers)
        return JSONResponse([answer async for answer in events][-1], headers=call.headers)

    def _adapters(self) -> Response:
        return JSONResponse({"success": True, "loaded_adapters": self._service.loras})

    async def _answers(self, call: Call, request: Request) -> AsyncGenerator[dict[str, Any]]:
        """The answer so far after every token, the whole at the end."""
        text, ids = "", list[int]()
        try:
            async with aclosing(self._api.pieces(call, request)) as pieces:
                async for piece in pieces:
                    text += piece.text
                    ids.append(call.answer.ids[piece.token.index])
                    yield _so_far(call, text, ids, piece.token.cached, piece.finish_reason)
            await self._service.finish(call.place, call.job_id)
        finally:
            self._service.forget(call.job_id)


def _so_far(
    call: Call, text: str, ids: list[int], cached: int, reason: str | None
) -> dict[str, Any]:
    finish = {"type": reason, "length": len(ids)} if reason else None
    return {
        "text": text,
        "output_ids": list(ids),
        "meta_info": {
            "id": call.request_id,
            "finish_reason": finish,
            "prompt_tokens": len(call.ask.prompt),
            "completion_tokens": len(ids),
            "cached_tokens": cached,
            "served_by": call.pod,
            "prefilled_by": call.place.prefilled_by,
        },
    }


async def _stream(answers: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[str]:
    try:
        async with aclosing(answers):
            async for answer in answers:
                yield event(answer)
    except ApiError as error:  # too late for a status
        yield event(error.body())
        return
    yield "data: [DONE]\n\n"


def _ask(raw: bytes, context: int) -> Ask:
    """A request for a completion, from SGLang's way to say it."""
    body = parse_body(raw)
    params: object = body.get("sampling_params") or {}
    if not isinstance(params, dict):
        raise ApiError("sampling_params must be an object", param="sampling_params")
    said = cast(Mapping[str, Any], params)
    if (prompt := body.get("text")) is None:
        prompt = body.get("input_ids")
    translated: dict[str, Any] = {
        **{name: body[name] for name in body if name.startswith("bootstrap_")},
        "prompt": prompt,
        "stream": body.get("stream"),
        "max_tokens": said.get("max_new_tokens", _NEW_TOKENS),
        "min_tokens": said.get("min_new_tokens"),
        "temperature": said.get("temperature"),
        "stop": said.get("stop"),
        "ignore_eos": said.get("ignore_eos"),
    }
    return parse_ask("completion", json.dumps(translated).encode(), context)
