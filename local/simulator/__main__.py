"""Start the simulator: `python3 -m simulator --help`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from types import FrameType

import uvicorn

from .api import create_app
from .driver import WallClock
from .options import Options, parse
from .service import Service

# Once drained, connections get this long to take their last bytes.
_CLOSING_SECONDS = 2


class _Server(uvicorn.Server):
    """Uvicorn that drains before it stops; a second signal stops it at once."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._draining: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._draining is not None or self._loop is None:
            super().handle_exit(sig, frame)
            return
        self._loop.call_soon_threadsafe(self._begin_drain)

    def _begin_drain(self) -> None:
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        await self._service.drain()
        self.should_exit = True


def main(options: Options) -> None:
    """Serve until told to stop."""
    pod = os.environ.get("POD_NAME") or socket.gethostname()
    service = Service(options, WallClock(), pod)
    config = uvicorn.Config(
        create_app(service),
        host=options.host,
        port=options.port,
        log_level="info",
        access_log=False,
        timeout_graceful_shutdown=_CLOSING_SECONDS,
        # Longer than gateways keep idle connections, so that they close first.
        timeout_keep_alive=75,
    )
    _Server(config, service).run()


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
