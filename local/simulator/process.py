"""Runs a plan: servers, the group, signals, and the code the process ends with."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
from collections.abc import Coroutine, Generator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from .api import Api, create_app
from .driver import Clock
from .group import GroupError, join
from .kv import Listener
from .plan import Plan
from .service import Service
from .waiting import within

# Once drained, connections get this long to take their last bytes.
_CLOSING_SECONDS = 2
# How often the supervisor looks whether its ranks are ready.
_LOOK = 0.05
_log = logging.getLogger("simulator")


class _Server(uvicorn.Server):
    """Uvicorn that leaves signals to the process, which may have several servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def server(app: ASGIApp, host: str, port: int) -> _Server:
    """A server that is not running yet."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="info",
        access_log=False,
        timeout_graceful_shutdown=_CLOSING_SECONDS,
        # Longer than gateways keep idle connections, so that they close first.
        timeout_keep_alive=75,
    )
    return _Server(config)


class Process:
    """One run of a plan."""

    def __init__(self, plan: Plan, clock: Clock, pod: str) -> None:
        self._plan, self._clock = plan, clock
        self._services = [Service(s.options, clock, pod, s.setup) for s in plan.servers]
        self._servers: list[_Server] = []
        self._group = join(plan.meeting, clock) if plan.meeting else None
        self._end = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.code = 0

    async def run(self) -> int:
        """Serve until told to stop or broken; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, functools.partial(self._signal, number))
        if self._group is not None:
            await self._group.open()
            self._start(self._meet())
        for listener in self._listeners():
            _log.info("%s at %s:%d", listener.what, listener.host, listener.port)
            self._serve(listener.app, listener.host, listener.port)
        for service, planned in zip(self._services, self._plan.servers, strict=True):
            app = create_app(service, planned.routes)
            self._serve(app, planned.options.host, planned.options.port)
        if self._plan.supervisor:
            self._start(self._supervise(*self._plan.supervisor))
        await self._end.wait()
        await self._stop()
        return self.code

    def _listeners(self) -> Sequence[Listener]:
        found = list(self._plan.idle)
        for service, planned in zip(self._services, self._plan.servers, strict=True):
            found += planned.more(Api(service))
            found += service.exchange.listeners() if service.exchange else ()
        return found

    def _serve(self, app: ASGIApp, host: str, port: int) -> None:
        one = server(app, host, port)
        self._servers.append(one)
        self._serving.add(self._start(self._run(one)))

    async def _run(self, one: _Server) -> None:
        try:
            await one.serve()
        except SystemExit:  # uvicorn's way to say that the port is taken
            self._finish(1)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("stopped by an error of the simulator itself", exc_info=error)
            self._finish(1)

    def _signal(self, number: signal.Signals) -> None:
        if self._draining is not None:  # the second one: at once
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        await asyncio.gather(*(service.drain() for service in self._services))
        if not self._services:
            # Ranks without servers finish what the leader's clients wait for.
            await within(self._clock, self._end, self._plan.linger_seconds)
        self._finish(0)

    def _finish(self, code: int) -> None:
        self.code = self.code or code
        self._end.set()

    async def _stop(self) -> None:
        for one in self._servers:
            one.should_exit = True
        if self._group is not None:
            await self._group.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=_CLOSING_SECONDS + 1)
        for task in self._tasks:
            task.cancel()

    async def _meet(self) -> None:
        assert self._group is not None
        try:
            await self._group.complete()
            for service in self._services:
                service.joined()
            reason = await self._group.broken()
        except (GroupError, OSError) as error:
            reason = str(error)
        if self._end.is_set():
            return
        if self._draining is not None and not self._services:
            self._finish(0)
            return
        _log.error("the group is broken: %s", reason)
        for service in self._services:
            service.fail()
        # As long as real engines take to notice; members, which serve nobody, end at once.
        seconds = self._plan.failure_seconds if self._services else 0.0
        await self._clock.sleep_until(self._clock.now() + seconds)
        self._finish(1)

    async def _supervise(self, host: str, port: int) -> None:
        """Like vLLM's supervisor, listen only once all ranks are ready."""
        while not self._all_ready():
            await self._clock.sleep_until(self._clock.now() + _LOOK)
        _log.info("data parallel supervisor at %s:%d", host, port)

        async def health(_: Request) -> Response:
            return Response(status_code=200 if self._all_ready() else 503)

        paths = ("/health", "/ready", "/readyz")
        app = Starlette(routes=[Route(path, health) for path in paths])
        self._serve(app, host, port)

    def _all_ready(self) -> bool:
        return all(service.phase == "ready" for service in self._services)
