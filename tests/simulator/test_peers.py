"""How simulators talk to one another, over a real connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from starlette.applications import Starlette

from local.simulator.kv import PeerAwayError, PeerError
from local.simulator.peers import ask_peer, peer_route
from local.simulator.process import server

HOST = "127.0.0.1"


async def echo(message: Mapping[str, Any]) -> dict[str, Any]:
    if message.get("refuse"):
        raise PeerError("not this one")
    return {"said": message["say"], "of": int(message.get("number", 0))}


def listening() -> socket.socket:
    listener = socket.socket()
    listener.bind((HOST, 0))
    listener.listen()
    return listener


def run(scenario: Callable[[int], Awaitable[None]]) -> None:
    """Play a scenario beside a simulator's server."""

    async def play() -> None:
        listener = listening()
        app = Starlette(routes=[peer_route("/echo", echo)])
        one = server(app, HOST, 0)
        serving = asyncio.create_task(one.serve(sockets=[listener]))
        try:
            await scenario(listener.getsockname()[1])
        finally:
            one.should_exit = True
            await serving

    asyncio.run(play())


def test_a_message_and_its_reply() -> None:
    async def scenario(port: int) -> None:
        message = {"say": "schön " * 20_000, "number": 7}
        reply = await ask_peer(HOST, port, "/echo", message, 10)
        assert reply == {"said": message["say"], "of": 7}

    run(scenario)


@pytest.mark.parametrize(
    ("path", "message", "said"),
    [
        ("/echo", {"refuse": True}, "not this one"),
        ("/echo", {"say": "x", "number": "y"}, "invalid literal"),
        ("/none", {}, "no simulator of such an engine answers there"),
    ],
)
def test_a_refusal_says_why(path: str, message: dict[str, Any], said: str) -> None:
    async def scenario(port: int) -> None:
        with pytest.raises(PeerError, match=said):
            await ask_peer(HOST, port, path, message, 10)

    run(scenario)


def test_nobody_there_and_no_reply_differ() -> None:
    async def scenario(_: int) -> None:
        with listening() as silent:
            port = silent.getsockname()[1]
            with pytest.raises(PeerError, match=r"no reply in 0\.01 s") as late:
                await ask_peer(HOST, port, "/echo", {}, 0.01)
            assert not isinstance(late.value, PeerAwayError)
        with pytest.raises(PeerAwayError):
            await ask_peer(HOST, port, "/echo", {}, 10)

    run(scenario)
