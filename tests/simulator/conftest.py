"""A simulator's service and its HTTP client, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from local.simulator.api import create_app
from local.simulator.options import parse
from local.simulator.service import Service
from tests.simulator.clock import VirtualClock


def make_service(*arguments: str) -> Service:
    """A service for a command line, on a clock of its own, in pod `pod-a`."""
    options = parse(["--served-model-name", "tiny", *arguments])
    return Service(options, VirtualClock(), "pod-a")


class Simulator:
    """A running simulator and its client; its engine moves while requests are answered."""

    def __init__(self, service: Service) -> None:
        app = create_app(service)
        self._runner = asyncio.Runner()
        self._lifespan = app.router.lifespan_context(app)
        self._runner.run(self._lifespan.__aenter__())
        transport = httpx.ASGITransport(app=app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://simulator")

    def get(self, path: str) -> httpx.Response:
        return self._runner.run(self._client.get(path))

    def post(self, path: str, **request: Any) -> httpx.Response:
        return self._runner.run(self._client.post(path, **request))

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.run(self._lifespan.__aexit__(None, None, None))
        self._runner.close()


Client = Callable[..., Simulator]


@pytest.fixture
def client() -> Iterator[Client]:
    """Starts a simulator with more arguments and gives its client."""
    started: list[Simulator] = []

    def start(*arguments: str) -> Simulator:
        started.append(Simulator(make_service(*arguments)))
        return started[-1]

    yield start
    for simulator in started:
        simulator.close()
