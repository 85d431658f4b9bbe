"""What a process is to do: the servers it runs, and the group that it is part of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .api import Api, Routes, own_routes
from .group import Meeting
from .kv import Listener
from .options import Options
from .setup import Setup


def _none(_: Api) -> Sequence[Listener]:
    return ()


@dataclass(frozen=True)
class Server:
    """One HTTP port and the engine cores behind it."""

    options: Options
    setup: Setup = field(default_factory=Setup)
    routes: Routes = own_routes
    more: Callable[[Api], Sequence[Listener]] = _none
    """Other ports of the same engine."""


@dataclass(frozen=True)
class Plan:
    """Everything that a command line asks for."""

    servers: tuple[Server, ...] = ()
    """None in a process that only computes for others."""
    meeting: Meeting | None = None
    supervisor: tuple[str, int] | None = None
    """Host and port of vLLM's data parallel supervisor."""
    idle: tuple[Listener, ...] = ()
    """What listens in a process without servers."""
    failure_seconds: float = 0.0
    """Between the break of the group and the end of the process."""
    linger_seconds: float = 0.0
    """Between SIGTERM and the end of a process without servers, if the leader stays."""
    without_effect: tuple[str, ...] = ()
    """Flags that mean nothing to a simulation."""
