"""Engine cores: each an engine with its driver and its rank; a server has one or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .driver import Clock, Driver
from .engine import Engine, EngineConfig, Token


@dataclass
class Transfers:
    """KV that came from or went to other engines. What only ever grows, but `waiting`."""

    waiting: int = 0
    """Requests whose KV is on its way, here or to the reader."""
    awaited: int = 0
    """Requests that wait for their reader, before any work."""
    done: int = 0
    failed: int = 0
    """Transfers that broke, could not begin or found nothing."""
    expired: int = 0
    """Kept KV that nobody read in time."""


class Core:
    """One engine, numbered within its data parallel group."""

    def __init__(
        self,
        config: EngineConfig,
        clock: Clock,
        rank: int,
        observe: Callable[[int, Token], None],
    ) -> None:
        self.rank = rank
        self.engine = Engine(config)
        self.driver = Driver(self.engine, clock, lambda token: observe(rank, token))
        self.transfers = Transfers()
        self.ended: Counter[str] = Counter()
        """Requests by how they ended: `stop`, `length` or `abort`."""

    @property
    def load(self) -> int:
        """Requests that are here."""
        return self.driver.in_flight + self.transfers.waiting + self.transfers.awaited
