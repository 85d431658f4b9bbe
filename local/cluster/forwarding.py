"""Ports on loopback that lead into the cluster's network namespace.

A listening socket belongs to the namespace in which it was made, so listeners are
made in the machine's and the sockets towards the cluster by threads that entered the
cluster's; one event loop serves both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from local.cluster import sandbox

_CHUNK = 64 * 1024
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Forward:
    """One row of the table: a port on loopback, and where in the cluster it leads."""

    port: int
    target: str
    target_port: int


def read_table(path: Path) -> dict[str, Forward]:
    """Name to forward, as the table's file has it; nothing when there is none or it is broken."""
    try:
        data = json.loads(path.read_text())
        return {name: Forward(**row) for name, row in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


class Forwarder:
    """Keeps the listeners; its loop runs in a thread of the machine's network namespace."""

    def __init__(self, table: Path, namespace: Path) -> None:
        self._file = table
        self._pool = ThreadPoolExecutor(
            max_workers=2, initializer=sandbox.enter_network, initargs=(namespace,)
        )
        self._table: dict[str, Forward] = {}
        self._servers: dict[str, asyncio.Server] = {}

    async def resume(self) -> None:
        """Open what the table's file names."""
        for name, row in read_table(self._file).items():
            await self.open(name, row.target, row.target_port, row.port)

    async def open(self, name: str, target: str, target_port: int, wished: int = 0) -> int:
        """The port of the forward `name`, made or led elsewhere as asked.

        A name keeps its port as long as nobody else takes it while the cluster is down.
        """
        known = self._table.get(name)
        if known is None:
            server = await self._listen(name, wished)
            self._servers[name] = server
            port = int(server.sockets[0].getsockname()[1])
        else:
            port = known.port
        row = Forward(port, target, target_port)
        if row != known:
            self._table[name] = row
            self._save()
        return port

    def _save(self) -> None:
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps({n: asdict(row) for n, row in self._table.items()}))
        temporary.replace(self._file)

    async def _listen(self, name: str, wished: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, self._table[name])

        with contextlib.suppress(OSError):
            return await asyncio.start_server(serve, _HOST, wished)
        return await asyncio.start_server(serve, _HOST, 0)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, row: Forward
    ) -> None:
        try:
            there = await self._connect(row)
        except OSError:
            _reset(writer)  # refused there, refused here
            return
        await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
        for end in (there[1], writer):
            end.close()

    async def _connect(self, row: Forward) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        out = await loop.run_in_executor(self._pool, socket.socket)
        out.setblocking(False)
        try:
            await loop.sock_connect(out, (row.target, row.target_port))
        except OSError:
            out.close()
            raise
        return await asyncio.open_connection(sock=out)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, and pass the end on; a broken connection breaks the other one too."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection, so that the other end does not take it for a proper end."""
    with contextlib.suppress(OSError):
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
