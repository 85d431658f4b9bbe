"""Serve until the CLI goes: print the port, answer, end the children."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import grpc

from local.pulumi_host.host import Host
from local.pulumi_host.processes import Children
from local.pulumi_host.stubs import language_pb2_grpc

_MESSAGE_BYTES = 400 * 1024 * 1024  # as the SDKs: a CRD is a large message
_PARENT_CHECK_SECONDS = 1.0


def _until_stopped(stop: threading.Event) -> None:
    """Return when told to stop, or when the CLI that started us is gone."""
    parent = os.getppid()
    while not stop.wait(_PARENT_CHECK_SECONDS):
        if os.getppid() != parent:
            return


def main(arguments: list[str], executor: Path) -> int:
    """Serve one CLI. Its engine's address is the last argument, as for every plugin."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    children = Children()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=32),
        options=[
            ("grpc.max_receive_message_length", _MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ],
    )
    host = Host(arguments[-1] if arguments else "", executor, children)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    _until_stopped(stop)
    children.stop()
    server.stop(grace=1).wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], Path(sys.argv[1])))
