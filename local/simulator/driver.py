"""The engine in real time: one task that runs its steps and hands out tokens.

Steps follow one another in the engine's own time, so a wake-up that comes late does not
make the engine slower; only when the process falls far behind does the time jump.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from .engine import Engine, Job, Token

# Seconds the engine's time may lag behind the clock before it is set again.
_LAG = 1.0


class Clock(Protocol):
    """What time it is, and waiting for it."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return at `moment` or as soon as possible after it."""
        ...


class WallClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    async def sleep_until(self, moment: float) -> None:
        """Sleep until `moment`, or let others run once if it has passed."""
        await asyncio.sleep(max(0.0, moment - self.now()))


class Driver:
    """Runs the engine and routes its tokens to those who wait for them."""

    def __init__(self, engine: Engine, clock: Clock, observe: Callable[[Token], None]) -> None:
        self._engine = engine
        self._clock = clock
        self._observe = observe
        self._queues: dict[str, asyncio.Queue[Token | None]] = {}
        self._work = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """Requests that wait for tokens."""
        return len(self._queues)

    async def run(self) -> None:
        """Step the engine for ever."""
        now = self._clock.now()
        while True:
            step = self._engine.begin(now)
            if step is None:
                self._work.clear()
                await self._work.wait()
                now = self._clock.now()
                continue
            now += step.duration
            await self._clock.sleep_until(now)
            for token in self._engine.finish(step, now):
                self._observe(token)
                self._queues[token.id].put_nowait(token)
            if self._clock.now() - now > _LAG:
                now = self._clock.now()

    async def tokens(self, job: Job) -> AsyncGenerator[Token]:
        """Submit a job and give its tokens as they appear, fewer if it is aborted.

        Leaving the iteration early aborts the job and frees what it holds.
        """
        queue: asyncio.Queue[Token | None] = asyncio.Queue()
        self._queues[job.id] = queue
        try:
            self._engine.submit(job)
            self._work.set()
            while (token := await queue.get()) is not None:
                yield token
                if token.last:
                    return
        finally:
            del self._queues[job.id]
            self._engine.abort(job.id)

    def abort(self, job_id: str) -> None:
        """End a job's tokens now."""
        if job_id in self._queues:
            self._engine.abort(job_id)
            self._queues[job_id].put_nowait(None)

    def abort_all(self) -> None:
        """End every job's tokens now."""
        for job_id in tuple(self._queues):
            self.abort(job_id)
