"""Several played engines on one virtual clock, connected without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx

from local.simulator.api import Api, create_app
from local.simulator.engines import FORMS
from local.simulator.engines.knobs import knobs
from local.simulator.kv import PeerAwayError, PeerError
from local.simulator.plan import Plan, Server
from local.simulator.service import Service
from tests.simulator.clock import VirtualClock


def plan(engine: str, arguments: str, options: str = "", **environ: str) -> Plan:
    """The plan of a command line, with SIMULATOR_OPTIONS and an environment."""
    return FORMS[engine](arguments.split(), environ, knobs(options))


class Engine:
    """One played server and its client."""

    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        self.service, self._client = service, client

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self._client.get(path, **more)

    async def post(self, path: str, body: Mapping[str, Any], **more: Any) -> httpx.Response:
        return await self._client.post(path, json=body, **more)

    async def sample(self, name: str, path: str = "/metrics", **labels: str) -> float:
        """The one sample of that name and those labels."""
        text = (await self.get(path)).text
        found = [
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith((f"{name}{{", f"{name} "))
            and all(f'{key}="{value}"' in line for key, value in labels.items())
        ]
        assert len(found) == 1, (name, labels, found)
        return found[0]


class Fleet:
    """Servers that find each other by host and port."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._stack = AsyncExitStack()
        self._peers: dict[tuple[str, int], httpx.AsyncClient] = {}

    async def start(self, pod: str, planned: Plan) -> list[Engine]:
        """Run the plan's servers as a pod."""
        return [await self._serve(pod, server) for server in planned.servers]

    async def _serve(self, pod: str, server: Server) -> Engine:
        service = Service(server.options, self.clock, pod, server.setup, self.ask)
        more = service.exchange.listeners() if service.exchange else ()
        for listener in (*more, *server.more(Api(service))):
            self._peers[listener.host, listener.port] = await self._client(listener.app)
        app = create_app(service, server.routes)
        await self._stack.enter_async_context(app.router.lifespan_context(app))
        return Engine(service, await self._client(app))

    async def _client(self, app: Any) -> httpx.AsyncClient:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://it")
        return await self._stack.enter_async_context(client)

    async def ask(
        self, host: str, port: int, path: str, message: Mapping[str, Any], patience: float
    ) -> dict[str, Any]:
        """What one simulator asks another."""
        assert patience > 0
        if (peer := self._peers.get((host, port))) is None:
            raise PeerAwayError(f"{host}:{port}: nobody is there")
        answer = await peer.post(path, json=message)
        if answer.status_code != 200:
            raise PeerError(answer.json()["error"])
        return answer.json()

    def lose(self, host: str, port: int) -> None:
        """That listener is away from now on."""
        del self._peers[host, port]

    async def peer(self, host: str, port: int, path: str) -> httpx.Response:
        """Ask a listener as a stranger would."""
        return await self._peers[host, port].get(path)

    async def close(self) -> None:
        await self._stack.aclose()


def run(scenario: Callable[[Fleet], Awaitable[None]]) -> None:
    """Play a scenario."""

    async def play() -> None:
        fleet = Fleet()
        try:
            await scenario(fleet)
        finally:
            await fleet.close()

    asyncio.run(play())
