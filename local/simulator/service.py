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
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from .bootstrap import Decode, Prefill
from .core import Core
from .driver import Clock
from .engine import Engine, Job, Token
from .kv import AskPeer, Exchange, KvRole, Nixl, Place, Site
from .metrics import Metrics
from .nixl import NixlExchange
from .options import Options
from .peers import ask_peer
from .requests import ApiError, Ask
from .setup import Setup
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
    """Engine cores behind one port, with their models, metrics and life cycle."""

    def __init__(
        self,
        options: Options,
        clock: Clock,
        pod: str,
        setup: Setup | None = None,
        ask: AskPeer = ask_peer,
    ) -> None:
        self.options = options
        self.setup = setup or Setup()
        self.pod = pod
        waits = options.load_seconds or self.setup.in_group
        self.phase: Phase = "loading" if waits else "ready"
        self.created = int(time.time())
        self.served = list(options.served_model_names)
        """Names of the model, which only Ollama changes."""
        self.loras: dict[str, str] = dict.fromkeys(options.lora_modules, "")
        self.loras.update(self.setup.adapters.served)
        self.cores = tuple(
            Core(options.engine, clock, rank, self._observe) for rank in self.setup.ranks
        )
        self.metrics = Metrics(self.cores, "".join(self.served[:1]), self.setup.book)
        self.exchange = self._exchange(self.setup.kv, clock, ask)
        self._clock = clock
        self._joined = asyncio.Event()

    @property
    def engine(self) -> Engine:
        """The first core's engine."""
        return self.cores[0].engine

    @property
    def in_flight(self) -> int:
        """Requests that are here."""
        return sum(core.load for core in self.cores)

    async def run(self) -> None:
        """Load, then run the engines for ever."""
        try:
            if self.setup.in_group:
                await self._joined.wait()
            if self.phase == "loading" and self.options.load_seconds:
                await self._clock.sleep_until(self._clock.now() + self.options.load_seconds)
            if self.phase == "loading":  # not told to end meanwhile
                self.phase = "ready"
            await self._run_cores()
        except Exception:
            self.fail()  # /health says so, and the kubelet restarts the container
            raise

    def joined(self) -> None:
        """All members of the group are there."""
        self._joined.set()

    def fail(self) -> None:
        """The engine is broken: nothing more comes from it."""
        self.phase = "failed"
        self._abort_all()

    async def drain(self) -> None:
        """Finish what runs, as the module describes; returns when the process may end."""
        self.phase = "draining"
        began = self._clock.now()
        accept = min(self.options.drain_accept_seconds, self.options.shutdown_timeout)
        await self._clock.sleep_until(began + accept)
        self.phase = "closed"
        deadline = began + self.options.shutdown_timeout
        while self.in_flight and self._clock.now() < deadline:
            await self._clock.sleep_until(min(deadline, self._clock.now() + _DRAIN_LOOK))
        self._abort_all()

    @property
    def healthy(self) -> bool:
        """What health checks are told."""
        ending = self.phase in ("draining", "closed")
        return self.phase == "ready" or (ending and self.setup.healthy_while_draining)

    def check_serving(self) -> None:
        """Refuse work that cannot be done now.

        Raises:
            ApiError: 503 while loading, after draining, or when the engine has failed.
        """
        if self.phase not in ("ready", "draining"):
            raise ApiError(f"the engine is {self.phase}", 503, "ServiceUnavailableError")

    def models(self) -> list[dict[str, Any]]:
        """What /v1/models lists: served names first, then adapters."""
        base = "".join(self.served[:1])
        root = self.setup.model_path or base
        cards = [(name, root, None) for name in self.served]
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
        if model is None and self.served:
            return self.served[0], None
        name = self.setup.known_as(model or "")
        if name in self.served:
            return name, None
        if name in self.loras:
            return name, name
        raise ApiError(f"The model `{model}` does not exist.", 404, "NotFoundError", "model")

    def answer(self, ask: Ask, model: str) -> Answer:
        """The whole answer, planned: it depends on the seed and the request alone."""
        seed = (self.options.seed, model, ask.kind, ask.prompt, ask.sampling)
        return plan(seed, ask.limits)

    async def admit(self, ask: Ask, job_id: str, rank: int | None = None) -> Place:
        """Choose a core, and fetch what the request needs from other engines.

        Raises:
            ApiError: there is no such rank, or what is needed cannot be had.
        """
        core = self._pick(ask, rank)
        if self.exchange is None:
            return Place(core)
        return await self.exchange.admit(ask, job_id, core)

    async def finish(self, place: Place, job_id: str) -> Mapping[str, Any]:
        """After the last token: what the answer says besides.

        Raises:
            ApiError: KV that had to be taken was not.
        """
        return await self.exchange.finish(place, job_id) if self.exchange else {}

    def forget(self, job_id: str) -> None:
        """The request is over, whether it was finished or not."""
        if self.exchange:
            self.exchange.forget(job_id)

    async def pieces(
        self, ask: Ask, answer: Answer, lora: str | None, job_id: str, place: Place | None = None
    ) -> AsyncGenerator[Piece]:
        """The answer piece by piece, as the engine gets to it.

        Raises:
            ApiError: 503 when the answer was cut off by the end of the process.
        """
        place = place or Place(self.cores[0])
        ids = answer.ids[:1] if place.one_token else answer.ids
        now = self._clock.now()
        job = Job(job_id, ask.prompt, ids, now, lora, place.given, place.keep)
        reason = "abort"
        try:
            async with aclosing(place.core.driver.tokens(job)) as tokens:
                async for token in tokens:
                    end = self._end(answer, place) if token.last else None
                    reason = end or reason
                    yield Piece(answer.pieces[token.index], token, end)
            if reason == "abort":
                raise ApiError("the engine was shut down", 503, "ServiceUnavailableError")
        finally:
            place.core.ended[reason] += 1

    def abort(self, job_id: str) -> None:
        """The client has gone: stop working for it."""
        for core in self.cores:
            core.driver.abort(job_id)

    def _end(self, answer: Answer, place: Place) -> str:
        cut = place.one_token and len(answer.ids) > 1
        return "length" if cut else answer.finish_reason

    def _pick(self, ask: Ask, rank: int | None) -> Core:
        if self.exchange is not None and (index := self.exchange.rank(ask)) is not None:
            return self.cores[index]
        if rank is None:
            return min(self.cores, key=lambda core: core.load)
        for core in self.cores:
            if core.rank == rank:
                return core
        raise ApiError(f"data_parallel_rank {rank} is not one of {self.setup.ranks}")

    def _exchange(self, role: KvRole | None, clock: Clock, ask: AskPeer) -> Exchange | None:
        if role is None:
            return None
        site = Site(clock, self.pod, self.cores, lambda r, s: self.metrics.took(r, "transfer", s))
        if isinstance(role, Nixl):
            return NixlExchange(role, site, ask)
        return Prefill(role, site) if role.mode == "prefill" else Decode(role, site, ask)

    def _observe(self, rank: int, token: Token) -> None:
        self.metrics.observe(rank, token)

    async def _run_cores(self) -> None:
        tasks = [asyncio.create_task(core.driver.run()) for core in self.cores]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def _abort_all(self) -> None:
        for core in self.cores:
            core.driver.abort_all()


def on_disconnect(receive: Callable[[], Any], gone: Callable[[], None]) -> asyncio.Task[None]:
    """A task that calls `gone` when the client closes its connection; cancel it at the end."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()

    return asyncio.create_task(watch())
