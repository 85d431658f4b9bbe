"""Serve one preview: print the port, answer until standard input closes, then say what was done."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import grpc

from local.aws_standin.provider import Provider
from local.pulumi_host.stubs import provider_pb2_grpc

_MESSAGE_BYTES = 400 * 1024 * 1024


def main() -> int:
    """Serve on loopback; whoever started this holds its standard input open."""
    provider = Provider(version("pulumi-aws"))
    options = [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ]
    server = grpc.server(ThreadPoolExecutor(max_workers=16), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(grace=1).wait()
    print(provider.summary(), file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
