"""vLLM's NIXL connector, played.

The prefill keeps a request's KV blocks after its one token and says in the answer where they
are. The router hands that to a decode, which connects to the prefill's side channel, takes
its time to read, and says when it is done. Who does not come loses the KV when the lease ends.

Simplified: the decode takes its own blocks when the KV has arrived, not before.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from starlette.applications import Starlette

from .core import Core
from .kv import AskPeer, Exchange, Listener, Nixl, PeerError, Place, Site
from .peers import peer_route
from .requests import ApiError, Ask

READ, DONE = "/kv/read", "/kv/done"
_NEEDED = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port")
_REPLY_SECONDS = 10.0
_log = logging.getLogger("simulator")


@dataclass
class _Lease:
    core: Core
    tokens: int
    until: float
    end: asyncio.Task[None]


class NixlExchange(Exchange):
    """The connector of one server's cores; each may prefill and decode."""

    def __init__(self, role: Nixl, site: Site, ask_peer: AskPeer) -> None:
        self._role, self._site, self._ask = role, site, ask_peer
        # New with every start: KV of a former life cannot be read.
        self.engine_id = uuid.uuid4().hex
        self._prompts: dict[str, int] = {}
        self._leases: dict[str, _Lease] = {}

    def rank(self, ask: Ask) -> int | None:
        """Any core will do."""
        del ask

    async def admit(self, ask: Ask, job_id: str, core: Core) -> Place:
        """Fetch the KV of a request that was prefilled elsewhere."""
        params = ask.transfer.get("kv_transfer_params")
        said: Mapping[str, Any] = cast(Any, params) if isinstance(params, dict) else {}
        if said.get("do_remote_decode"):
            self._prompts[job_id] = len(ask.prompt)
            return Place(core, keep=True)
        if not said.get("do_remote_prefill") or not said.get("remote_block_ids"):
            return Place(core)
        if missing := [name for name in _NEEDED if said.get(name) is None]:
            _log.warning("kv_transfer_params without %s: prefilling here", ", ".join(missing))
            return Place(core)
        return await self._fetch(said, len(ask.prompt), core)

    async def finish(self, place: Place, job_id: str) -> Mapping[str, Any]:
        """A prefill's answer says where its KV is."""
        blocks = place.core.engine.kept.get(job_id)
        tokens = self._prompts.pop(job_id, 0)
        if not place.keep or not blocks:
            return {}
        until = self._site.clock.now() + self._role.lease
        end = asyncio.create_task(self._expire(job_id))
        self._leases[job_id] = _Lease(place.core, tokens, until, end)
        _log.info("request %s: prefilled %d tokens, kept for the decode", job_id, tokens)
        return {
            "kv_transfer_params": {
                "do_remote_prefill": True,
                "do_remote_decode": False,
                "remote_engine_id": self._engine_id(place.core.rank),
                "remote_request_id": job_id,
                "remote_block_ids": [blocks],
                "remote_host": self._role.host,
                "remote_port": self._role.port + place.core.rank,
                "remote_num_tokens": tokens,
                "tp_size": self._role.tp_size,
            }
        }

    def forget(self, job_id: str) -> None:
        """An aborted prefill keeps nothing."""
        if self._prompts.pop(job_id, None) is not None:
            for core in self._site.cores:
                core.engine.let_go(job_id)

    def listeners(self) -> Sequence[Listener]:
        """The side channel of every rank."""
        return [
            Listener(
                Starlette(
                    routes=[
                        peer_route(READ, partial(self.read, core.rank)),
                        peer_route(DONE, partial(self.done, core.rank)),
                    ]
                ),
                self._role.host,
                self._role.port + core.rank,
                f"NIXL side channel of rank {core.rank}",
            )
            for core in self._site.cores
        ]

    async def read(self, rank: int, message: Mapping[str, Any]) -> dict[str, Any]:
        """A decode begins to read a request's KV.

        Raises:
            PeerError: it is not here (any more), or does not fit the decode's.
        """
        if message.get("engine_id") != self._engine_id(rank):
            raise PeerError(f"the engine here is {self._engine_id(rank)}")
        if message.get("layout") != self._role.layout:
            raise PeerError(f"handshake: KV here is of {self._role.layout}")
        lease = self._leases.get(str(message.get("request_id")))
        if lease is None:
            raise PeerError("no KV of this request: read already, expired or never computed")
        # A real decode extends the lease by heartbeats for as long as it reads.
        reading = float(message.get("seconds") or 0.0)
        lease.until = max(lease.until, self._site.clock.now() + reading + self._role.lease * 2 / 3)
        return {"pod": self._site.pod, "tokens": lease.tokens}

    async def done(self, rank: int, message: Mapping[str, Any]) -> dict[str, Any]:
        """A decode has read a request's KV: free it."""
        del rank
        lease = self._leases.pop(str(message.get("request_id")), None)
        if lease is None:
            raise PeerError("the KV had expired before it was read to its end")
        lease.end.cancel()
        lease.core.engine.let_go(str(message["request_id"]))
        lease.core.transfers.done += 1
        return {}

    def _engine_id(self, rank: int) -> str:
        return f"{self.engine_id}_dp{rank}"

    async def _expire(self, job_id: str) -> None:
        while True:
            lease = self._leases[job_id]
            if self._site.clock.now() >= lease.until:
                break
            await self._site.clock.sleep_until(lease.until)
        del self._leases[job_id]
        lease.core.engine.let_go(job_id)
        lease.core.transfers.expired += 1
        _log.warning("request %s: no decode came for its KV; freed", job_id)

    async def _fetch(self, said: Mapping[str, Any], tokens: int, core: Core) -> Place:
        core.transfers.waiting += 1
        try:
            pod = await self._read_remote(said, tokens, core)
        except PeerError as error:
            core.transfers.failed += 1
            _log.warning("KV transfer failed: %s", error)
            if self._role.recompute:
                return Place(core)
            raise ApiError(f"KV transfer failed: {error}", 500, "InternalServerError") from None
        finally:
            core.transfers.waiting -= 1
        return Place(core, given=tokens, prefilled_by=pod)

    async def _read_remote(self, said: Mapping[str, Any], tokens: int, core: Core) -> str:
        """The pod that the KV was read from."""
        try:
            host, port = str(said["remote_host"]), int(said["remote_port"])
        except (ValueError, TypeError):
            raise PeerError(f"remote_port is no port: {said['remote_port']!r}") from None
        seconds = tokens / self._role.rate
        message = {
            "engine_id": said["remote_engine_id"],
            "request_id": said["remote_request_id"],
            "layout": self._role.layout,
            "seconds": seconds,
        }
        found = await self._ask(host, port, READ, message, _REPLY_SECONDS)
        clock = self._site.clock
        await clock.sleep_until(clock.now() + seconds)
        await self._ask(host, port, DONE, message, _REPLY_SECONDS)
        core.transfers.done += 1
        self._site.took(core.rank, seconds)
        pod = str(found.get("pod"))
        _log.info("KV of %d tokens from %s in %.3f s", tokens, pod, seconds)
        return pod
