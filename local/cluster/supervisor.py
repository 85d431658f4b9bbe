"""The daemon that keeps a cluster's components running.

It enters the cluster's network namespace, starts what the plan says in order of
readiness, starts again what dies (with a growing pause), and says in the status
file what it sees. Its children die with it, so nothing is left behind when it is
killed; pods outlive it, because containerd's shims do.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from local.cluster import netns
from local.cluster.forward import Forwarder
from local.cluster.nodes import keep_resources
from local.cluster.processes import start_ticks
from local.cluster.spec import Paths

_PR_SET_PDEATHSIG = 1
_LOG_LIMIT = 32 * 1024 * 1024
_LONGEST_PAUSE = 15.0


@dataclass
class Child:
    """One component as the supervisor sees it."""

    name: str
    argv: list[str]
    after: list[str]
    ready_url: str
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    restarts: int = -1
    ready: bool = False
    not_before: float = 0.0
    pause: float = 0.5


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _tls(paths: Paths) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(paths.pki / "ca.crt"))
    context.load_cert_chain(paths.pki / "admin.crt", paths.pki / "admin.key")
    # Controller manager and scheduler serve their health with a certificate of their own making.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _etcd_tls(paths: Paths) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(paths.pki / "ca.crt"))
    context.load_cert_chain(paths.pki / "etcd.crt", paths.pki / "etcd.key")
    return context


def answers(url: str, paths: Paths) -> bool:
    """Whether a readiness URL (`http…` or `unix:<socket>`) answers now."""
    try:
        if url.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(2)
                probe.connect(url.removeprefix("unix:"))
            return True
        tls = None
        if url.startswith("https"):
            tls = _etcd_tls(paths) if ":2379" in url else _tls(paths)
        with urllib.request.urlopen(url, timeout=2, context=tls) as response:
            return response.status == 200
    except (OSError, ValueError):
        return False


class Supervisor:
    """Runs one cluster's plan until told to stop."""

    def __init__(self, paths: Paths, plan: dict[str, Any]) -> None:
        self._paths = paths
        self._plan = plan
        self._children = {
            c["name"]: Child(c["name"], c["argv"], c["after"], c["ready"])
            for c in plan["components"]
        }
        self._stopping = False
        self._written = ""

    def run(self) -> None:
        """Work until SIGTERM."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        # Started before this thread leaves the host's namespace: listeners belong there.
        forwarder = Forwarder(self._paths.forwards, self._paths.netns)
        threading.Thread(target=forwarder.run, daemon=True).start()
        netns.enter(self._paths.netns)
        keeper = threading.Thread(
            target=keep_resources, args=(self._paths, self._plan), daemon=True
        )
        keeper.start()
        while not self._stopping:
            for child in self._children.values():
                self._tend(child)
            self._write_status()
            time.sleep(0.15)
        self._end()

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _tend(self, child: Child) -> None:
        now = time.monotonic()
        if child.process is not None and child.process.poll() is None:
            self._look(child, now)
            return
        if child.process is not None:
            child.process, child.ready = None, False
            child.not_before = now + child.pause
            child.pause = min(child.pause * 2, _LONGEST_PAUSE)
        waits = any(not self._children[name].ready for name in child.after)
        if not waits and now >= child.not_before:
            self._start(child, now)

    def _look(self, child: Child, now: float) -> None:
        if now - child.started > 30:
            child.pause = 0.5
        if not child.ready:
            child.ready = not child.ready_url or answers(child.ready_url, self._paths)

    def _start(self, child: Child, now: float) -> None:
        log = self._paths.logs / f"{child.name}.log"
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".log.1"))
        with log.open("ab") as out:
            # Children read the clean environment; nothing of the caller's leaks into pods.
            child.process = subprocess.Popen(
                child.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._paths.root)},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - two system calls, no lock taken
                start_new_session=True,
            )
        child.started, child.restarts = now, child.restarts + 1

    def _write_status(self) -> None:
        text = json.dumps({n: self._describe(c) for n, c in self._children.items()})
        if text != self._written:
            temporary = self._paths.status.with_suffix(".tmp")
            temporary.write_text(text)
            temporary.replace(self._paths.status)
            self._written = text

    def _describe(self, child: Child) -> dict[str, Any]:
        pid = child.process.pid if child.process else 0
        state = "ready" if child.ready else "starting" if child.process else "waiting"
        return {
            "pid": pid,
            "start": start_ticks(pid) if pid else 0,
            "state": state,
            "restarts": max(child.restarts, 0),
        }

    def _end(self) -> None:
        # Reverse order: the kubelet must not see the API server or containerd go first.
        for child in reversed(self._children.values()):
            if child.process is not None:
                child.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.process.wait(timeout=3)
                if child.process.poll() is None:
                    child.process.kill()
                    child.process.wait()


def main() -> None:
    """Entry point: `python -m local.cluster.supervisor NAME ROOT`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("root", type=Path)
    arguments = parser.parse_args()
    paths = Paths(arguments.name, arguments.root)
    try:
        Supervisor(paths, json.loads(paths.plan.read_text())).run()
    finally:
        paths.status.unlink(missing_ok=True)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
