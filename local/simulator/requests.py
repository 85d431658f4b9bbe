"""What clients may ask for: OpenAI's request bodies, checked by hand into plain data.

Fields unknown here are accepted, as vLLM does; fields that would change the shape of the
answer and that the simulator cannot serve are refused, so that nobody believes they worked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from .text import Limits
from .tokens import encode, encode_chat

Kind = Literal["chat", "completion"]
# vLLM's default for /v1/completions; chat may fill the context.
_COMPLETION_TOKENS = 16
_SAMPLING = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
_TRANSFER = ("kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room")
_REFUSED = ("tools", "functions", "logprobs", "top_logprobs", "echo", "suffix", "prompt_logprobs")


class ApiError(Exception):
    """An answer in OpenAI's error format."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        kind: str = "BadRequestError",
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind, self.param = message, status, kind, param

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status,
        }
        return {"error": error}


@dataclass(frozen=True)
class Ask:
    """A valid request for a completion."""

    kind: Kind
    model: str | None
    prompt: tuple[int, ...]
    limits: Limits
    stream: bool
    include_usage: bool
    sampling: tuple[tuple[str, object], ...]
    """What besides the prompt the answer depends on."""
    transfer: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a router says about KV of another engine."""


def parse_body(raw: bytes) -> dict[str, Any]:
    """The body's JSON object.

    Raises:
        ApiError: it is none.
    """
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:  # the former also for text that is not UTF-8
        raise ApiError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ApiError(f"the body must be a JSON object, found {_kind(body)}")
    return cast(dict[str, Any], body)


def parse_ask(kind: Kind, raw: bytes, max_model_len: int) -> Ask:
    """A request for a completion from its body.

    Raises:
        ApiError: a field is wrong, or the request does not fit into the context.
    """
    body = parse_body(raw)
    _refuse(body)
    prompt = tuple(_chat_prompt(body) if kind == "chat" else _prompt(body))
    stream = _flag(body, "stream")
    return Ask(
        kind=kind,
        model=_text(body, "model"),
        prompt=prompt,
        limits=_limits(kind, body, len(prompt), max_model_len),
        stream=stream,
        include_usage=_include_usage(body, stream),
        sampling=_sampling(body),
        transfer={name: body[name] for name in _TRANSFER if name in body},
    )


def _kind(value: object) -> str:
    names: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean"}
    if value is None:
        return "null"
    return names.get(type(value), "number")


def _wrong(field: str, wanted: str, value: object) -> ApiError:
    return ApiError(f"{field} must be {wanted}, found {_kind(value)}", param=field)


def _text(body: Mapping[str, Any], field: str) -> str | None:
    value = body.get(field)
    if value is not None and not isinstance(value, str):
        raise _wrong(field, "a string", value)
    return value


def _flag(body: Mapping[str, Any], field: str) -> bool:
    value = body.get(field)
    if value is not None and not isinstance(value, bool):
        raise _wrong(field, "true or false", value)
    return bool(value)


def _whole(body: Mapping[str, Any], field: str, least: int | None) -> int | None:
    value = body.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(field, "a whole number", value)
    if least is not None and value < least:
        raise ApiError(f"{field} must be at least {least}, found {value}", param=field)
    return value


def _refuse(body: Mapping[str, Any]) -> None:
    for name in ("n", "best_of"):
        if (_whole(body, name, 1) or 1) != 1:
            raise ApiError(f"{name} must be 1: the simulator gives one answer", param=name)
    for name in _REFUSED:
        if body.get(name):
            raise ApiError(f"{name} is not something the simulator can do", param=name)
    form = body.get("response_format")
    if form is not None and form != {"type": "text"}:
        raise ApiError("response_format must be text in the simulator", param="response_format")


def _chat_prompt(body: Mapping[str, Any]) -> list[int]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError("messages must be an array with at least one message", param="messages")
    items = cast(list[object], messages)
    return encode_chat([_message(item, f"messages[{i}]") for i, item in enumerate(items)])


def _message(message: object, where: str) -> tuple[str, str]:
    if not isinstance(message, dict):
        raise _wrong(where, "an object", message)
    fields = cast(dict[str, object], message)
    role = fields.get("role")
    if not isinstance(role, str) or not role:
        raise _wrong(f"{where}.role", "a string such as user", role)
    return role, _content(fields.get("content"), f"{where}.content")


def _content(content: object, where: str) -> str:
    """Text of a message: a string, parts of type text, or null."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise _wrong(where, "a string or an array of parts", content)
    return "".join(_part(p, f"{where}[{i}]") for i, p in enumerate(cast(list[object], content)))


def _part(part: object, where: str) -> str:
    fields = cast(dict[str, object], part) if isinstance(part, dict) else {}
    text = fields.get("text")
    if fields.get("type") != "text" or not isinstance(text, str):
        raise ApiError(f"{where} must be a part of type text with its text", param=where)
    return text


def _prompt(body: Mapping[str, Any]) -> list[int]:
    prompt: object = body.get("prompt")
    if isinstance(prompt, list):
        items = cast(list[object], prompt)
        if items and all(isinstance(t, int) and not isinstance(t, bool) for t in items):
            return cast(list[int], items)
        prompt = items[0] if len(items) == 1 else None
    if not isinstance(prompt, str) or not prompt:
        raise ApiError("prompt must be one text or one array of token ids", param="prompt")
    return encode(prompt)


def _limits(kind: Kind, body: Mapping[str, Any], prompt: int, context: int) -> Limits:
    asked = _whole(body, "max_completion_tokens", 1) if kind == "chat" else None
    asked = asked or _whole(body, "max_tokens", 1)
    if asked is None and kind == "completion":
        asked = min(_COMPLETION_TOKENS, max(1, context - prompt))
    if prompt + (asked or 1) > context:
        raise ApiError(
            f"This model's maximum context length is {context} tokens. However, you requested "
            f"{prompt + (asked or 1)} tokens ({prompt} in the prompt, {asked or 1} in the "
            "completion). Please shorten the prompt or the completion.",
            param="max_tokens" if prompt < context else "messages" if kind == "chat" else "prompt",
        )
    most = asked or context - prompt
    least = _whole(body, "min_tokens", 0) or 0
    if least > most:
        raise ApiError(f"min_tokens must be at most {most}, found {least}", param="min_tokens")
    return Limits(most, least, _stop(body), _flag(body, "ignore_eos"))


def _stop(body: Mapping[str, Any]) -> tuple[str, ...]:
    value: object = body.get("stop")
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise _wrong("stop", "a string or an array of strings", value)
    for item in cast(list[object], items):
        if not isinstance(item, str) or not item:
            raise ApiError("stop must hold texts that are not empty", param="stop")
    return tuple(cast(list[str], items))


def _include_usage(body: Mapping[str, Any], stream: bool) -> bool:
    options: object = body.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise _wrong("stream_options", "an object", options)
    if not stream:
        raise ApiError("stream_options is allowed only with stream", param="stream_options")
    return _flag(cast(dict[str, Any], options), "include_usage")


def _sampling(body: Mapping[str, Any]) -> tuple[tuple[str, object], ...]:
    chosen: list[tuple[str, object]] = [("seed", _whole(body, "seed", None))]
    for name, (least, most) in _SAMPLING.items():
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(name, "a number", value)
        if not least <= value <= most:
            raise ApiError(f"{name} must be {least:g} to {most:g}, found {value}", param=name)
        chosen.append((name, float(value)))
    return tuple(chosen)
