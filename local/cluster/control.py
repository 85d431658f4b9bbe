"""Talking to the supervisor over a socket only root can reach: a line of JSON each way."""

from __future__ import annotations

import json
import socket
from typing import Any

from local.cluster import processes
from local.cluster.spec import Paths
from tokenworks.errors import TokenworksError

_SECONDS = 10.0


class NotRunningError(TokenworksError):
    """There is no supervisor to talk to."""

    def __init__(self, name: str) -> None:
        super().__init__(f"cluster {name} does not run: ./tokenworks local up --env {name}")


def supervisor_pid(paths: Paths) -> int:
    """The supervisor's pid, or 0."""
    try:
        return processes.from_identity(paths.pid_file.read_text())
    except OSError:
        return 0


def ask(paths: Paths, do: str, **arguments: Any) -> dict[str, Any]:
    """Have the supervisor do something and return its answer.

    Raises:
        NotRunningError: nobody answers.
        TokenworksError: it refused.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(paths.control))
            connection.sendall(json.dumps({"do": do, **arguments}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
    except (OSError, ValueError):
        raise NotRunningError(paths.name) from None
    if "error" in answer:
        raise TokenworksError(f"the supervisor of cluster {paths.name}: {answer['error']}")
    return answer
