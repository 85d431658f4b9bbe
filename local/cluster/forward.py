"""Ports on loopback that lead into the cluster's network namespace.

A listening socket belongs to the namespace in which it was made, so listeners are
made in the host's and the sockets towards the cluster by threads that entered the
cluster's; one event loop serves both.
"""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local.cluster import netns

_CHUNK = 64 * 1024


def read_table(path: Path) -> dict[int, tuple[str, int]]:
    """Local port to address in the namespace, from the table file."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {int(port): (host, int(to)) for port, (host, to) in data.items()}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


class Forwarder:
    """Keeps listeners in step with the table file; runs in a thread of the host's namespace."""

    def __init__(self, table: Path, namespace: Path) -> None:
        self._table = table
        self._pool = ThreadPoolExecutor(
            max_workers=2, initializer=netns.enter, initargs=(namespace,)
        )
        self._servers: dict[int, tuple[tuple[str, int], asyncio.Server]] = {}

    def run(self) -> None:
        """Serve until the process ends."""
        asyncio.run(self._follow())

    async def _follow(self) -> None:
        while True:
            wanted = read_table(self._table)
            for port, (target, server) in list(self._servers.items()):
                if wanted.get(port) != target:
                    server.close()
                    del self._servers[port]
            for port, target in wanted.items():
                if port not in self._servers:
                    await self._listen(port, target)
            await asyncio.sleep(0.2)

    async def _listen(self, port: int, target: tuple[str, int]) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, target)

        try:
            server = await asyncio.start_server(serve, "127.0.0.1", port)
        except OSError:
            return  # taken by somebody else for now; tried again at the next look
        self._servers[port] = (target, server)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int]
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            out = await loop.run_in_executor(self._pool, socket.socket)
            out.setblocking(False)
            await loop.sock_connect(out, target)
            to_reader, to_writer = await asyncio.open_connection(sock=out)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, to_writer), _pump(to_reader, writer))
        to_writer.close()
        writer.close()


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
