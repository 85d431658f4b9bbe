"""The life of the process: loading, ready, draining, closed; and one answer at a time.

Draining. The news that a pod ends reaches gateways and pickers some seconds after the pod
itself, and what they send in between must not fail. So SIGTERM makes /health answer 503 at
once, but new requests are served for another `--drain-accept-seconds`; later ones get 503
and `Retry-After`. The process ends when nothing runs any more, at the latest
`--shutdown-timeout` after SIGTERM; streams that still run then end with an error event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from .driver import Clock, Driver
from .engine import Engine, Job, Token
from .metrics import Metrics
from .options import Options
from .requests import ApiError, Ask
from .text import Answer, plan

Phase = Literal["loading", "ready", "draining", "closed", "failed"]
# How often a draining process looks whether anything still runs.
_DRAIN_LOOK = 0.1


@dataclass(frozen=True)
class Piece:
    """What one token adds to an answer."""

    text: str
    token: Token
    finish_reason: str | None


class Service:
    """An engine with its models, metrics and life cycle."""

    def __init__(self, options: Options, clock: Clock, pod: str) -> None:
        self.options = options
        self.pod = pod
        self.phase: Phase = "loading" if options.load_seconds else "ready"
        self.created = int(time.time())
        self.loras: dict[str, str] = dict.fromkeys(options.lora_modules, "")
        self.engine = Engine(options.engine)
        self.metrics = Metrics(self.engine, options.served_model_names[0])
        self._clock = clock
        self._driver = Driver(self.engine, clock, self.metrics.observe)

    async def run(self) -> None:
        """Load, then run the engine for ever."""
        try:
            if self.phase == "loading":
                await self._clock.sleep_until(self._clock.now() + self.options.load_seconds)
            if self.phase == "loading":  # not told to end meanwhile
                self.phase = "ready"
            await self._driver.run()
        except Exception:
            self.phase = "failed"  # /health says so, and the kubelet restarts the container
            self._driver.abort_all()
            raise

    async def drain(self) -> None:
        """Finish what runs, as the module describes; returns when the process may end."""
        self.phase = "draining"
        began = self._clock.now()
        accept = min(self.options.drain_accept_seconds, self.options.shutdown_timeout)
        await self._clock.sleep_until(began + accept)
        self.phase = "closed"
        deadline = began + self.options.shutdown_timeout
        while self._driver.in_flight and self._clock.now() < deadline:
            await self._clock.sleep_until(min(deadline, self._clock.now() + _DRAIN_LOOK))
        self._driver.abort_all()

    def check_serving(self) -> None:
        """Refuse work that cannot be done now.

        Raises:
            ApiError: 503 while loading, after draining, or when the engine has failed.
        """
        if self.phase not in ("ready", "draining"):
            raise ApiError(f"the engine is {self.phase}", 503, "ServiceUnavailableError")

    def models(self) -> list[dict[str, Any]]:
        """What /v1/models lists: served names first, then adapters."""
        base = self.options.served_model_names[0]
        cards = [(name, base, None) for name in self.options.served_model_names]
        cards += [(name, path or name, base) for name, path in sorted(self.loras.items())]
        return [
            {
                "id": name,
                "object": "model",
                "created": self.created,
                "owned_by": "tokenworks",
                "root": root,
                "parent": parent,
                "max_model_len": self.options.max_model_len,
            }
            for name, root, parent in cards
        ]

    def resolve(self, model: str | None) -> tuple[str, str | None]:
        """The name to answer under and the adapter, if it is one's name.

        Raises:
            ApiError: 404 for a model that is not served.
        """
        if model is None:
            return self.options.served_model_names[0], None
        if model in self.options.served_model_names:
            return model, None
        if model in self.loras:
            return model, model
        raise ApiError(f"The model `{model}` does not exist.", 404, "NotFoundError", "model")

    def answer(self, ask: Ask, model: str) -> Answer:
        """The whole answer, planned: it depends on the seed and the request alone."""
        seed = (self.options.seed, model, ask.kind, ask.prompt, ask.sampling)
        return plan(seed, ask.limits)

    async def pieces(
        self, ask: Ask, answer: Answer, lora: str | None, request_id: str
    ) -> AsyncGenerator[Piece]:
        """The answer piece by piece, as the engine gets to it.

        Raises:
            ApiError: 503 when the answer was cut off by the end of the process.
        """
        job = Job(request_id, ask.prompt, answer.ids, self._clock.now(), lora)
        reason = "abort"
        try:
            async with aclosing(self._driver.tokens(job)) as tokens:
                async for token in tokens:
                    end = answer.finish_reason if token.last else None
                    reason = end or reason
                    yield Piece(answer.pieces[token.index], token, end)
            if reason == "abort":
                raise ApiError("the engine was shut down", 503, "ServiceUnavailableError")
        finally:
            self.metrics.finished(reason)

    def abort(self, request_id: str) -> None:
        """The client has gone: stop working for it."""
        self._driver.abort(request_id)


def on_disconnect(receive: Callable[[], Any], gone: Callable[[], None]) -> asyncio.Task[None]:
    """A task that calls `gone` when the client closes its connection; cancel it at the end."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()

    return asyncio.create_task(watch())
