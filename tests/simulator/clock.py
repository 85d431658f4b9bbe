"""Virtual time for asyncio: sleeping costs nothing and always ends in the right order."""

from __future__ import annotations

import asyncio
import heapq
import itertools

# Turns of the event loop after which everything that could run has run.
_SETTLE = 100


class VirtualClock:
    """Jumps to the earliest sleeper's moment once all others wait."""

    def __init__(self) -> None:
        self.time = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._pump: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self.time

    async def sleep_until(self, moment: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (moment, next(self._order), future))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._advance())
        await future

    async def _advance(self) -> None:
        while self._sleepers:
            for _ in range(_SETTLE):
                await asyncio.sleep(0)
            moment, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self.time = max(self.time, moment)
                future.set_result(None)
