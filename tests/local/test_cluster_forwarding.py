"""Ports on loopback: where they lead, that they stay, that nothing of a stream is held back."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from local.cluster import sandbox
from local.cluster.forwarding import Forward, Forwarder, read_table

HOST = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table's file; both ends lie in this process's own network namespace."""
    monkeypatch.setattr(sandbox, "enter_network", lambda _: None)
    return tmp_path / "forwards.json"


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[int]:
    """A server of the cluster; its port."""
    running = await asyncio.start_server(handler, HOST, 0)
    async with running:
        yield int(running.sockets[0].getsockname()[1])


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with what came, in capitals, once all of it came."""
    writer.write((await reader.read()).upper())
    writer.close()


async def _asked(port: int, data: bytes = b"hello") -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def forwarder(table: Path) -> Forwarder:
    return Forwarder(table, Path("/unused"))


def test_a_port_leads_into_the_cluster_and_ends_are_passed_on(table: Path) -> None:
    async def run() -> bytes:
        async with server(_shout) as target:
            port = await forwarder(table).open("web", HOST, target)
            return await _asked(port, b"x" * 1_000_000)

    assert asyncio.run(run()) == b"X" * 1_000_000


def test_each_piece_of_a_stream_arrives_when_it_is_sent(table: Path) -> None:
    async def run() -> list[bytes]:
        go = asyncio.Event()

        async def stream(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"first")
            await go.wait()
            writer.write(b"second")
            writer.close()

        async with server(stream) as target:
            port = await forwarder(table).open("web", HOST, target)
            reader, writer = await asyncio.open_connection(HOST, port)
            first = await reader.readexactly(5)
            go.set()  # only now is the second sent
            rest = await reader.read()
            writer.close()
            return [first, rest]

    assert asyncio.run(run()) == [b"first", b"second"]


def test_a_client_that_goes_away_is_gone_for_the_server_too(table: Path) -> None:
    async def run() -> bytes:
        seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.set_result(await reader.read())
            writer.close()

        async with server(wait) as target:
            port = await forwarder(table).open("web", HOST, target)
            _, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"half")
            await writer.drain()
            writer.close()
            return await asyncio.wait_for(seen, 30)

    assert asyncio.run(run()) == b"half"


def test_what_nobody_serves_is_refused(table: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))  # bound, and nobody listens
        target = int(taken.getsockname()[1])

        async def run() -> bytes:
            port = await forwarder(table).open("web", HOST, target)
            return await asyncio.wait_for(_asked(port), 30)

        with pytest.raises(ConnectionError):
            asyncio.run(run())


def test_a_name_keeps_its_port_when_it_leads_elsewhere(table: Path) -> None:
    async def run() -> tuple[int, int, bytes]:
        async with server(_shout) as target:
            running = forwarder(table)
            first = await running.open("web", HOST, 1)
            second = await running.open("web", HOST, target)
            return first, second, await _asked(second)

    first, second, answer = asyncio.run(run())
    assert first == second
    assert answer == b"HELLO"
    assert read_table(table)["web"].target_port != 1


def test_ports_are_the_same_after_a_restart(table: Path) -> None:
    async def first() -> int:
        before = forwarder(table)
        port = await before.open("web", HOST, 1)
        before._servers["web"].close()
        return port

    async def second() -> int:
        again = forwarder(table)
        await again.resume()
        return await again.open("web", HOST, 1)

    assert asyncio.run(first()) == asyncio.run(second())


def test_a_port_that_somebody_took_meanwhile_is_given_up(table: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        table.write_text(json.dumps({"web": {"port": port, "target": HOST, "target_port": 1}}))

        async def run() -> int:
            again = forwarder(table)
            await again.resume()
            return await again.open("web", HOST, 1)

        now = asyncio.run(run())
    assert now != port
    assert read_table(table) == {"web": Forward(now, HOST, 1)}


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"web": 1}', '{"web": {"port": 1}}'])
def test_a_broken_table_is_an_empty_one(table: Path, text: str | None) -> None:
    if text is not None:
        table.write_text(text)
    assert read_table(table) == {}
