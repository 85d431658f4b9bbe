"""Succeed if HOST PORT PATH answers 200 within SECONDS.

A probe starts this every few seconds: sockets, since modules for HTTP load slower than they ask.
"""

import socket
import sys

host, port, path, seconds = sys.argv[1:]
try:
    with socket.create_connection((host, int(port)), float(seconds)) as peer:
        peer.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        status = peer.makefile("rb").readline()
except OSError as error:
    sys.exit(f"{host}:{port}: {error}")
if b" 200 " not in status:
    sys.exit(f"{host}:{port}{path}: {status!r}")
