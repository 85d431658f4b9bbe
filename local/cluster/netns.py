"""The cluster's network namespace: made once, entered by threads, removed whole."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from local.cluster.spec import BRIDGE, NODE_IP, SERVICE_CIDR, Paths
from tokenworks.errors import TokenworksError

_CLONE_NEWNET = 0x40000000


def enter(netns: Path) -> None:
    """Move the calling thread into the namespace; threads it starts later follow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with netns.open() as handle:
        if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"setns {netns}: {os.strerror(code)}")


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def _must(*arguments: str) -> None:
    result = _ip(*arguments)
    if result.returncode != 0:
        raise TokenworksError(f"`ip {' '.join(arguments)}` failed: {result.stderr.strip()}")


def _inside(paths: Paths, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nsenter", f"--net={paths.netns}", *command], capture_output=True, text=True, check=False
    )


def make(paths: Paths) -> bool:
    """Make the namespace and its bridge where they are missing; True when anything was made.

    Raises:
        TokenworksError: `ip` refused.
    """
    made = False
    if not os.path.ismount(paths.netns):
        paths.netns.unlink(missing_ok=True)
        _must("netns", "add", paths.netns_name)
        made = True
    if _inside(paths, ["ip", "link", "show", BRIDGE]).returncode != 0:
        name = paths.netns_name
        for words in (
            ("link", "set", "lo", "up"),
            ("link", "add", BRIDGE, "type", "bridge"),
            ("addr", "add", f"{NODE_IP}/16", "dev", BRIDGE),
            ("link", "set", BRIDGE, "up"),
            # Service addresses must be routable before nftables rewrites them.
            ("route", "replace", SERVICE_CIDR, "dev", BRIDGE),
        ):
            _must("-n", name, *words)
        made = True
    script = "echo 1 > /proc/sys/net/ipv4/ip_forward"
    _inside(paths, ["sh", "-c", script])
    return made


def remove(paths: Paths) -> None:
    """Remove the namespace and everything in it; nothing happens where there is none."""
    if paths.netns.exists():
        _must("netns", "del", paths.netns_name)
