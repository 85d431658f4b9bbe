"""Simulators talk to one another: JSON objects over plain HTTP/1.1, one a connection.

Real engines use ZeroMQ and RDMA here; only the ports and who connects to whom are theirs.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .kv import PeerAwayError, PeerError

Handler = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


def keep_alive(sock: socket.socket) -> None:
    """Notice within a quarter of a minute when the other machine has gone without a word."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3)):
        if number := getattr(socket, option, None):  # not everywhere
            sock.setsockopt(socket.IPPROTO_TCP, number, value)


async def ask_peer(
    host: str, port: int, path: str, message: Mapping[str, Any], patience: float
) -> dict[str, Any]:
    """The reply of the simulator there.

    Raises:
        PeerAwayError: it was not reached.
        PeerError: it refused, or did not reply within `patience` seconds.
    """
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(patience):
            raw = await _post(host, port, path, json.dumps(message).encode())
    except TimeoutError:
        raise PeerError(f"{where}: no reply in {patience:g} s") from None
    except OSError as error:
        raise PeerAwayError(f"{where}: {error}") from None
    head, _, body = raw.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    try:
        reply: object = json.loads(body)
    except ValueError:
        reply = None
    if status != [b"200"] or not isinstance(reply, dict):
        said = cast(dict[str, Any], reply).get("error") if isinstance(reply, dict) else None
        raise PeerError(f"{where}: {said or 'no simulator of such an engine answers there'}")
    return cast(dict[str, Any], reply)


async def _post(host: str, port: int, path: str, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        keep_alive(writer.get_extra_info("socket"))
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(body)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def peer_route(path: str, handler: Handler) -> Route:
    """An endpoint for other simulators; a `PeerError` refuses."""

    async def endpoint(request: Request) -> Response:
        try:
            message: object = json.loads(await request.body())
            if not isinstance(message, dict):
                raise PeerError("the message must be a JSON object")
            return JSONResponse(await handler(cast(dict[str, Any], message)))
        except (PeerError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 409)

    return Route(path, endpoint, methods=["POST"])
