"""The daemon that keeps a cluster's components running.

It starts what the plan says, each component when those before it are ready, starts
again what dies (with a growing pause), forwards ports, and answers who asks. Its
children die with it, so nothing is left running unwatched when it is killed; pods
outlive it, because containerd's shims do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import resource
import select
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local.cluster import processes, sandbox
from local.cluster.api import Api
from local.cluster.config import RIGHTS
from local.cluster.forwarding import Forwarder
from local.cluster.nodes import advertise
from local.cluster.spec import Paths
from tokenworks.errors import TokenworksError

_LOG_LIMIT = 32 * 1024 * 1024
_PAUSES = (0.2, 15.0)
_STEADY_SECONDS = 30.0
_PROBE_SECONDS = 2.0
_FAILURES = 3
_FILES = 65_536
# Authority that vouches for a component's certificate -> whose certificate to show it.
_CLIENTS = {"ca": "supervisor", "etcd-ca": "etcd-client"}


@dataclass
class Child:
    """One component as the supervisor sees it."""

    name: str
    argv: list[str]
    after: list[str]
    ready_url: str
    trust: str
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    starts: int = 0
    ready: bool = False
    failures: int = 0
    not_before: float = 0.0
    pause: float = _PAUSES[0]
    state: str = "waiting"
    since: float = 0.0

    def become(self, state: str) -> None:
        """Enter a state, remembering since when."""
        if state != self.state or not self.since:
            self.state, self.since = state, time.time()

    def pause_from(self, now: float) -> None:
        """It does not run, and is to be started again after a pause, longer each time."""
        self.process, self.ready = None, False
        self.not_before = now + self.pause
        self.pause = min(self.pause * 2, _PAUSES[1])
        self.become("restarting")

    def describe(self) -> dict[str, Any]:
        """For `local status`."""
        pid = self.process.pid if self.process else 0
        restarts = max(self.starts - 1, 0)
        row = {"name": self.name, "pid": pid, "state": self.state}
        return row | {"since": self.since, "restarts": restarts}


def _trust(paths: Paths, authority: str) -> ssl.SSLContext:
    if not authority:
        # Controller manager and scheduler serve their health with a certificate that they
        # make for themselves; nothing secret is asked or told there.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    context = ssl.create_default_context(cafile=str(paths.pki / f"{authority}.crt"))
    client = paths.pki / _CLIENTS[authority]
    context.load_cert_chain(client.with_suffix(".crt"), client.with_suffix(".key"))
    return context


def answers(url: str, context: ssl.SSLContext) -> bool:
    """Whether a readiness URL (`http…` or `unix:<socket>`) answers now; empty: it does."""
    if not url:
        return True
    parts = urlsplit(url)
    try:
        if parts.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_PROBE_SECONDS)
                probe.connect(parts.path)
            return True
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=_PROBE_SECONDS, context=context)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=_PROBE_SECONDS)
        )
        with contextlib.closing(connection):
            connection.request("GET", parts.path)
            return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


class Supervisor:
    """Runs one cluster's plan until told to stop."""

    def __init__(self, paths: Paths, plan: dict[str, Any]) -> None:
        self._paths = paths
        self.children = {
            c["name"]: Child(c["name"], c["argv"], c["after"], c["ready"], c["trust"])
            for c in plan["components"]
        }
        self._stopping = False
        self._wake = socket.socketpair()

    def run(self) -> None:
        """Work until SIGTERM."""
        for end in self._wake:
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake[1].fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, self._look_again)
        # Before this thread leaves the machine's network namespace: listeners belong there.
        self._serve()
        sandbox.enter_network(self._paths.netns)
        threading.Thread(target=self._probe, daemon=True).start()
        threading.Thread(target=self._keep_resources, daemon=True).start()
        while not self._stopping:
            self.turn()
            # Until a signal, a child's death or an order comes, or to look again.
            select.select([self._wake[0]], [], [], 0.2)
            with contextlib.suppress(BlockingIOError):
                self._wake[0].recv(4096)
        self._end()

    def _look_again(self, *_: object) -> None:
        """The signal itself ends the wait."""

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def turn(self) -> None:
        """Look after everything once.

        What the system refuses (the disk is full, too many files are open) ends nothing
        that runs: it is said, and tried again later.
        """
        for child in self.children.values():
            self._tend(child, time.monotonic())
        try:
            self._bound_logs()
        except OSError as error:
            _say(f"logs cannot be cut: {error}")

    def _tend(self, child: Child, now: float) -> None:
        if child.process is not None and child.process.poll() is None:
            if now - child.started > _STEADY_SECONDS:
                child.pause = _PAUSES[0]
            return
        if child.process is not None:
            _say(f"{child.name} ended ({child.process.returncode})")
            child.pause_from(now)
        if now >= child.not_before and self.startable(child.name):
            try:
                self._start(child, now)
            except OSError as error:
                _say(f"{child.name} cannot be started: {error}")
                child.pause_from(now)

    def startable(self, name: str) -> bool:
        """Whether all that a component waits for is there."""
        return all(self._there(other) for other in self.children[name].after)

    def _there(self, name: str) -> bool:
        """Whether what a component waits for is there: another component, or its rights."""
        return self._paths.rights.exists() if name == RIGHTS else self.children[name].ready

    def _start(self, child: Child, now: float) -> None:
        environment = {"PATH": processes.search_path(), "HOME": str(self._paths.root)}
        with (self._paths.logs / f"{child.name}.log").open("ab") as out:
            child.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *child.argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                # Nothing of the caller's environment leaks into components or pods.
                env=environment,
                start_new_session=True,
            )
        child.started, child.starts, child.failures = now, child.starts + 1, 0
        child.become("starting")

    def _probe(self) -> None:
        """Ask components how they are: often until they are ready, rarely afterwards."""
        contexts = {c.trust: _trust(self._paths, c.trust) for c in self.children.values()}
        asked: dict[str, float] = {}
        while True:
            for child in self.children.values():
                process, now = child.process, time.monotonic()
                pause = 3.0 if child.ready and not child.failures else 0.2
                if process is None or now - asked.get(child.name, 0) < pause:
                    continue
                asked[child.name] = now
                well = answers(child.ready_url, contexts[child.trust])
                if child.process is process:
                    self.judge(child, well)
            time.sleep(0.1)

    def judge(self, child: Child, well: bool) -> None:
        """Let a component's answer count; one that was ready is forgiven a few failures."""
        if well:
            child.ready, child.failures = True, 0
            child.become("ready")
        elif child.ready:
            child.failures += 1
            if child.failures >= _FAILURES:
                child.ready = False
                child.become("unhealthy")

    def _keep_resources(self) -> None:
        """Advertise the real node's simulated devices: a kubelet that restarts forgets them."""
        api = Api(self._paths.pki, "supervisor")
        while True:
            # Neither the API server nor the node may be there yet; the next look finds them.
            with contextlib.suppress(OSError, ValueError, TokenworksError):
                node = json.loads(self._paths.node.read_text())
                advertise(api, node["name"], node["resources"])
            time.sleep(1)

    def _bound_logs(self) -> None:
        """Keep each log within its limit; its writer keeps it open, so it is cut in place."""
        for log in self._paths.logs.glob("*.log"):
            if log.stat().st_size > _LOG_LIMIT:
                with contextlib.suppress(OSError):
                    keep_a_copy(log)

    def _serve(self) -> None:
        """Forward ports and answer questions, in a thread with a loop of its own."""
        started = threading.Event()
        thread = threading.Thread(
            target=lambda: asyncio.run(self._serving(started.set)), daemon=True
        )
        thread.start()
        started.wait()

    async def _serving(self, started: Callable[[], None]) -> None:
        forwarder = Forwarder(self._paths.forwards, self._paths.netns)
        try:
            await forwarder.resume()

            async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with contextlib.suppress(OSError):
                    said = await self.answer(await reader.readline(), forwarder)
                    writer.write(json.dumps(said).encode() + b"\n")
                    await writer.drain()
                writer.close()

            self._paths.control.unlink(missing_ok=True)
            server = await asyncio.start_unix_server(reply, self._paths.control)
        finally:
            started()
        await server.serve_forever()

    async def answer(self, line: bytes, forwarder: Forwarder) -> dict[str, Any]:
        """Do what a line asks for; what it cannot do it says under `error`."""
        try:
            request: dict[str, Any] = json.loads(line)
            match request.pop("do", None):
                case "status":
                    return {"components": [c.describe() for c in self.children.values()]}
                case "forward":
                    return {"port": await forwarder.open(**request)}
                case "restart":
                    self._restart(self.children[request["component"]])
                    return {}
                case other:
                    return {"error": f"does not know {other!r}"}
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _restart(self, child: Child) -> None:
        child.pause = _PAUSES[0]
        if child.process is not None:
            child.process.terminate()

    def _end(self) -> None:
        # Reverse order: the kubelet must not see the API server or containerd go first.
        for child in reversed(self.children.values()):
            if child.process is not None:
                child.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.process.wait(timeout=3)
                child.process.kill()
                child.process.wait()


def _say(line: str) -> None:
    """A line for the supervisor's own log, as long as the disk takes it."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def allow_many_files() -> None:
    """Each forwarded connection takes two; a login's limit is often 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def keep_a_copy(log: Path) -> None:
    """Move what a log holds to its copy; a writer that appends goes on at its new end."""
    temporary = log.with_suffix(".log.new")
    temporary.write_bytes(log.read_bytes())
    temporary.replace(log.with_suffix(".log.1"))
    os.truncate(log, 0)


def main() -> None:
    """Entry point: `python -m local.cluster.supervisor NAME ROOT LOCK`.

    LOCK is the descriptor by which it holds the cluster's lock until it can be found.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("root", type=Path)
    parser.add_argument("lock", type=int)
    arguments = parser.parse_args()
    paths = Paths(arguments.name, arguments.root)
    paths.pid_file.write_text(processes.identity(os.getpid()))
    os.close(arguments.lock)
    allow_many_files()
    Supervisor(paths, json.loads(paths.plan.read_text())).run()


if __name__ == "__main__":
    main()
