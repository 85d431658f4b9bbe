"""Disaggregated serving: one engine prefills, another reads the KV and decodes.

A `KvRole` says what the command line says; an `Exchange` plays it for the requests of one
server. `nixl` and `bootstrap` are the two ways engines know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from starlette.types import ASGIApp

from .core import Core
from .driver import Clock
from .requests import Ask

AskPeer = Callable[[str, int, str, Mapping[str, Any], float], Awaitable[dict[str, Any]]]
"""Host, port, path, message and the most seconds to wait: another simulator's reply."""


class PeerError(Exception):
    """The other simulator was not reached or refused."""


class PeerAwayError(PeerError):
    """Nobody is there, at least not now."""


@dataclass(frozen=True)
class Nixl:
    """vLLM's NIXL connector: the prefill's answer says where its KV lies."""

    host: str
    """What the prefill tells the decode to connect to; it listens there as well."""
    port: int
    """Of rank 0; every other rank adds its own."""
    tp_size: int
    layout: str
    """Whatever must be equal on both sides."""
    lease: float
    """Seconds that KV is kept for a decode that does not come."""
    recompute: bool
    """Compute the prompt again when the KV cannot be had, rather than fail."""
    rate: float
    """Tokens a second."""


@dataclass(frozen=True)
class Bootstrap:
    """SGLang's way: both get the request and meet in a room of the prefill's bootstrap server."""

    mode: Literal["prefill", "decode"]
    host: str
    port: int
    patience: float
    """Seconds to wait for the other side."""
    rate: float
    """Tokens a second."""


KvRole = Nixl | Bootstrap


@dataclass(frozen=True)
class Place:
    """Where a request runs, what it brings and what it leaves."""

    core: Core
    given: int = 0
    """Prompt tokens whose KV has come from elsewhere."""
    keep: bool = False
    """Keep the KV for another engine."""
    one_token: bool = False
    """End after the first token: the rest is another engine's."""
    prefilled_by: str | None = None
    """The pod that the KV came from."""


@dataclass(frozen=True)
class Listener:
    """Something besides the API that listens."""

    app: ASGIApp
    host: str
    port: int
    what: str


@dataclass(frozen=True)
class Site:
    """What an exchange knows of its server."""

    clock: Clock
    pod: str
    cores: Sequence[Core]
    took: Callable[[int, float], None]
    """Takes the rank and the seconds of a transfer."""


class Exchange(Protocol):
    """Plays a role for one server's requests."""

    def rank(self, ask: Ask) -> int | None:
        """The index of the core that must take the request, if it matters."""
        ...

    async def admit(self, ask: Ask, job_id: str, core: Core) -> Place:
        """Wait for what the request needs from elsewhere.

        Raises:
            ApiError: it cannot be had.
        """
        ...

    async def finish(self, place: Place, job_id: str) -> Mapping[str, Any]:
        """After the last token: hand over the KV; what the answer says besides.

        Raises:
            ApiError: nobody took the KV that had to be taken.
        """
        ...

    def forget(self, job_id: str) -> None:
        """The request is over, whether it was finished or not."""
        ...

    def listeners(self) -> Sequence[Listener]:
        """What other simulators connect to."""
        ...
