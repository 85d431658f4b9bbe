"""SGLang's disaggregation, played.

A router sends the same request to a prefill and a decode, with a room number and the address
of the prefill's bootstrap server. The decode goes there; the prefill begins when the decode
has come, computes one token, and both answer once the decode has read the KV.

Simplified: the decode takes its own blocks when the KV has arrived, not before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .core import Core
from .kv import AskPeer, Bootstrap, Exchange, Listener, PeerAwayError, PeerError, Place, Site
from .peers import peer_route
from .requests import ApiError, Ask
from .waiting import within

WAIT, DONE = "/kv/wait", "/kv/done"
# What SGLang's own health checks say instead of a prefill's address.
FAKE_HOST = "2.2.2.2"
_ATTEMPTS, _BETWEEN = 10, 1.0
_REPLY_SECONDS = 10.0
_log = logging.getLogger("simulator")


@dataclass
class _Room:
    came: asyncio.Event = field(default_factory=asyncio.Event)
    """The decode has."""
    computed: asyncio.Event = field(default_factory=asyncio.Event)
    """Or given up, when there are no tokens."""
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    tokens: int = 0


def _failed(message: str) -> ApiError:
    return ApiError(message, 500, "InternalServerError")


def _said(ask: Ask, name: str) -> object:
    """Routers say it in an array when the prompt is one."""
    value: object = ask.transfer.get(name)
    items = cast(list[object], value) if isinstance(value, list) else [value]
    return items[0] if len(items) == 1 else items


def _room_of(ask: Ask) -> int:
    room = _said(ask, "bootstrap_room")
    if isinstance(room, bool) or not isinstance(room, int):
        raise ApiError(
            "Disaggregated request received without bootstrap room id: send it through a router",
            param="bootstrap_room",
        )
    return room


def _is_fake(ask: Ask) -> bool:
    return _said(ask, "bootstrap_host") == FAKE_HOST


class Prefill(Exchange):
    """Keeps a bootstrap server where decodes come for their KV."""

    def __init__(self, role: Bootstrap, site: Site) -> None:
        self._role, self._site = role, site
        self._rooms: dict[int, _Room] = {}
        self._jobs: dict[str, tuple[int, int]] = {}

    def rank(self, ask: Ask) -> int | None:
        """The room number says which core, on both sides alike."""
        return _room_of(ask) % len(self._site.cores)

    async def admit(self, ask: Ask, job_id: str, core: Core) -> Place:
        """Wait for the decode."""
        number = _room_of(ask)
        if _is_fake(ask):
            return Place(core, one_token=True)
        self._jobs[job_id] = (number, len(ask.prompt))
        room = self._rooms.setdefault(number, _Room())
        core.transfers.awaited += 1
        try:
            came = await within(self._site.clock, room.came, self._role.patience)
        finally:
            core.transfers.awaited -= 1
        if not came:
            core.transfers.expired += 1
            self.forget(job_id)
            raise _failed(f"no decode came to room {number} in {self._role.patience:g} s")
        return Place(core, keep=True, one_token=True)

    async def finish(self, place: Place, job_id: str) -> Mapping[str, Any]:
        """Let the decode read, and wait until it has."""
        if job_id not in self._jobs:
            return {}
        number, tokens = self._jobs[job_id]
        room = self._rooms[number]
        room.tokens = tokens
        room.computed.set()
        transfers = place.core.transfers
        transfers.waiting += 1
        try:
            taken = await within(self._site.clock, room.taken, self._role.patience)
        finally:
            transfers.waiting -= 1
            self.forget(job_id)
        if not taken:
            transfers.failed += 1
            raise _failed(f"the decode of room {number} did not take its KV")
        transfers.done += 1
        _log.info("room %d: prefilled %d tokens, read by the decode", number, tokens)
        return {}

    def forget(self, job_id: str) -> None:
        """Free what it holds; a decode that still waits is told."""
        if job_id not in self._jobs:
            return
        number, _ = self._jobs.pop(job_id)
        if room := self._rooms.pop(number, None):
            room.computed.set()
        for core in self._site.cores:
            core.engine.let_go(job_id)

    def listeners(self) -> Sequence[Listener]:
        """The bootstrap server: what a real decode asks first, and our own way to read."""
        routes = [
            Route("/health", self._health),
            Route("/route", self._route),
            peer_route(WAIT, self.wait),
            peer_route(DONE, self.done),
        ]
        app = Starlette(routes=routes)
        return [Listener(app, self._role.host, self._role.port, "bootstrap server")]

    async def wait(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A decode comes to a room and waits for its KV.

        Raises:
            PeerError: there will be none.
        """
        number = int(message.get("room") or 0)
        room = self._rooms.setdefault(number, _Room())
        room.came.set()
        await within(self._site.clock, room.computed, self._role.patience)
        if not room.tokens:
            self._rooms.pop(number, None)
            raise PeerError(f"no KV came to room {number}")
        return {"pod": self._site.pod, "tokens": room.tokens}

    async def done(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A decode has read the KV of its room."""
        number = int(message.get("room") or 0)
        if (room := self._rooms.get(number)) is None:
            raise PeerError(f"there is no room {number} (any more)")
        room.taken.set()
        return {}

    async def _health(self, _: Request) -> Response:
        return PlainTextResponse("OK")

    async def _route(self, _: Request) -> Response:
        config = self._site.cores[0].engine.config
        return JSONResponse(
            {
                "attn_tp_size": 1,
                "attn_cp_size": 1,
                "dp_size": len(self._site.cores),
                "pp_size": 1,
                "page_size": config.block_size,
                "follow_bootstrap_room": True,
            }
        )


class Decode(Exchange):
    """Goes to the prefill's bootstrap server for every request."""

    def __init__(self, role: Bootstrap, site: Site, ask_peer: AskPeer) -> None:
        self._role, self._site, self._ask = role, site, ask_peer

    def rank(self, ask: Ask) -> int | None:
        """The room number says which core, on both sides alike."""
        return _room_of(ask) % len(self._site.cores)

    async def admit(self, ask: Ask, job_id: str, core: Core) -> Place:
        """Wait for the KV and read it."""
        del job_id
        number = _room_of(ask)
        if _is_fake(ask):
            return Place(core)
        core.transfers.waiting += 1
        try:
            pod = await self._read(ask, number)
        except PeerError as error:
            core.transfers.failed += 1
            _log.warning("room %d: KV transfer failed: %s", number, error)
            raise _failed(f"KV transfer of room {number} failed: {error}") from None
        finally:
            core.transfers.waiting -= 1
        seconds = len(ask.prompt) / self._role.rate
        core.transfers.done += 1
        self._site.took(core.rank, seconds)
        _log.info("room %d: KV of %d tokens from %s", number, len(ask.prompt), pod)
        return Place(core, given=len(ask.prompt), prefilled_by=pod)

    async def finish(self, place: Place, job_id: str) -> Mapping[str, Any]:
        """Nothing is left to hand over."""
        del place, job_id
        return {}

    def forget(self, job_id: str) -> None:
        """Nothing is kept."""
        del job_id

    def listeners(self) -> Sequence[Listener]:
        """Nobody comes to a decode."""
        return []

    async def _read(self, ask: Ask, number: int) -> str:
        host, port = _said(ask, "bootstrap_host"), _said(ask, "bootstrap_port")
        port = 8998 if port is None else port
        if not isinstance(host, str) or isinstance(port, bool) or not isinstance(port, int):
            raise PeerError("the request says no bootstrap_host or a wrong bootstrap_port")
        found = await self._enter(host, port, {"room": number})
        clock = self._site.clock
        await clock.sleep_until(clock.now() + len(ask.prompt) / self._role.rate)
        await self._ask(host, port, DONE, {"room": number}, _REPLY_SECONDS)
        return str(found.get("pod"))

    async def _enter(self, host: str, port: int, message: Mapping[str, Any]) -> dict[str, Any]:
        """As in a real decode, a bootstrap server that is away is asked again for a while."""
        clock = self._site.clock
        patience = self._role.patience + 5
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(PeerAwayError):
                return await self._ask(host, port, WAIT, message, patience)
            await clock.sleep_until(clock.now() + _BETWEEN)
        return await self._ask(host, port, WAIT, message, patience)
