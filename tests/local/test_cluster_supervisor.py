"""The supervisor's parts: what counts as an answer, how logs are bounded, how states change."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from local.cluster import control, lifecycle, processes, sandbox
from local.cluster.api import Api, ApiError, object_path
from local.cluster.control import NotRunningError
from local.cluster.forwarding import Forwarder
from local.cluster.spec import Paths
from local.cluster.supervisor import Child, Supervisor, answers, keep_a_copy
from tokenworks.errors import TokenworksError

PLAN = {
    "components": [
        {"name": "first", "argv": ["true"], "after": [], "ready": "", "trust": ""},
        {
            "name": "second",
            "argv": ["true"],
            "after": ["first", "rights"],
            "ready": "",
            "trust": "",
        },
    ]
}


@pytest.fixture
def where(tmp_path: Path) -> Paths:
    (tmp_path / "lab" / "logs").mkdir(parents=True)
    return Paths("lab", tmp_path / "lab")


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/well" else 500)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def health() -> Generator[int]:
    """Port of a server that is well at /well, and only there."""
    server = HTTPServer(("127.0.0.1", 0), _Health)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("path", "well"), [("well", True), ("ill", False)])
def test_an_answer_counts_only_when_it_is_well(health: int, path: str, well: bool) -> None:
    context = ssl.create_default_context()
    assert answers(f"http://127.0.0.1:{health}/{path}", context) is well


def test_a_proxy_in_the_environment_is_not_asked(
    health: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert answers(f"http://127.0.0.1:{health}/well", ssl.create_default_context())


def test_nobody_there_is_no_answer(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert not answers(f"http://127.0.0.1:{port}/well", context)
        assert not answers(f"https://127.0.0.1:{port}/well", context)
    assert not answers(f"unix:{tmp_path}/absent", context)


def test_a_socket_that_listens_answers_and_no_address_always_does(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(tmp_path / "s"))
        assert not answers(f"unix:{tmp_path}/s", context)
        listening.listen()
        assert answers(f"unix:{tmp_path}/s", context)
    assert answers("", context)


def test_a_component_waits_for_others_and_for_its_rights(where: Paths) -> None:
    supervisor = Supervisor(where, PLAN)
    first = supervisor.children["first"]
    assert supervisor.startable("first")
    assert not supervisor.startable("second")
    first.ready = True
    assert not supervisor.startable("second")
    where.rights.touch()
    assert supervisor.startable("second")


def test_one_bad_answer_is_forgiven_three_are_not(where: Paths) -> None:
    supervisor = Supervisor(where, PLAN)
    child = supervisor.children["first"]
    supervisor.judge(child, well=True)
    assert (child.state, child.ready) == ("ready", True)
    for _ in range(2):
        supervisor.judge(child, well=False)
    assert (child.state, child.ready) == ("ready", True)
    supervisor.judge(child, well=True)
    for _ in range(3):
        supervisor.judge(child, well=False)
    assert (child.state, child.ready) == ("unhealthy", False)


def test_a_state_is_dated_when_it_changes() -> None:
    child = Child("x", [], [], "", "")
    child.become("starting")
    since = child.since
    child.become("starting")
    assert child.since == since > 0


def test_a_log_is_cut_where_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "etcd.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old" * 10)
        keep_a_copy(log)
        writer.write(b"new")
    assert log.read_bytes() == b"new"
    assert (tmp_path / "etcd.log.1").read_bytes() == b"old" * 10


async def _answered(where: Paths, line: bytes) -> dict[str, Any]:
    forwarder = Forwarder(where.forwards, Path("/unused"))
    return await Supervisor(where, PLAN).answer(line, forwarder)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"", "JSONDecodeError"),
        (b"[]", "TypeError"),
        (b'{"do": "dance"}', "does not know 'dance'"),
        (b'{"do": "restart", "component": "third"}', "KeyError"),
        (b'{"do": "forward", "name": "x"}', "TypeError"),
    ],
)
def test_what_it_does_not_understand_it_says(where: Paths, line: bytes, error: str) -> None:
    assert error in asyncio.run(_answered(where, line))["error"]


def test_it_tells_of_every_component(where: Paths) -> None:
    told = asyncio.run(_answered(where, b'{"do": "status"}'))["components"]
    assert [row["name"] for row in told] == ["first", "second"]
    assert {row["state"] for row in told} == {"waiting"}
    assert [lifecycle.ComponentStatus(**row).pid for row in told] == [0, 0]


def test_asking_without_a_supervisor_says_how_to_start_one(where: Paths) -> None:
    with pytest.raises(NotRunningError, match=r"cluster lab does not run: \./tokenworks local up"):
        control.ask(where, "status")
    assert control.supervisor_pid(where) == 0


def test_a_refusal_reaches_who_asked(where: Paths) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(where.control))
        listening.listen()

        def refuse() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(json.dumps({"error": "no"}).encode() + b"\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(TokenworksError, match="the supervisor of cluster lab: no"):
            control.ask(where, "status")
        thread.join()


def test_strays_are_daemons_and_never_what_holds_pods(
    where: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.procs").write_text("1\n2\n3\n")
    lines = {1: ["/usr/bin/containerd-shim-runc-v2", "-id"], 2: ["kube", "kubelet"], 3: []}
    monkeypatch.setattr(sandbox, "_daemons", lambda _: tmp_path)
    monkeypatch.setattr(processes, "command_line", lambda pid: lines[pid])
    assert sandbox.strays(where) == {2, 3}


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "path"),
    [
        ("v1", "Namespace", None, "/api/v1/namespaces/x"),
        ("v1", "ConfigMap", "ns", "/api/v1/namespaces/ns/configmaps/x"),
        ("storage.k8s.io/v1", "StorageClass", None, "/apis/storage.k8s.io/v1/storageclasses/x"),
    ],
)
def test_objects_lie_where_the_api_has_them(
    version: str, kind: str, namespace: str | None, path: str
) -> None:
    metadata = {"name": "x"} | ({"namespace": namespace} if namespace else {})
    assert object_path({"apiVersion": version, "kind": kind, "metadata": metadata}) == path


def test_an_api_that_is_not_there_is_an_error_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(Api, "_send", refuse)
    with pytest.raises(ApiError, match=r"does not answer \(refused\)") as error:
        Api(tmp_path, "admin").get("/x")
    assert error.value.status == 0


def test_what_cannot_be_started_now_is_tried_again(
    where: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor = Supervisor(where, PLAN)
    first = supervisor.children["first"]
    where.logs.rmdir()  # as good a refusal as a full disk
    supervisor.turn()
    assert (first.process, first.state) == (None, "restarting")
    assert "first cannot be started: " in capsys.readouterr().out
    where.logs.mkdir()
    supervisor.turn()
    assert first.process is None  # not at once
    first.not_before = 0
    supervisor.turn()
    assert first.process is not None
    assert first.process.wait() == 0
    assert (first.state, first.starts) == ("starting", 1)


def test_logs_that_cannot_be_cut_end_nothing(
    where: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor = Supervisor(where, {"components": []})

    def refuse(_path: Path, _pattern: str) -> list[Path]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Path, "glob", refuse)
    supervisor.turn()
    assert "logs cannot be cut: [Errno 24] Too many open files" in capsys.readouterr().out


def test_many_connections_are_allowed_whatever_a_login_allows() -> None:
    code = (
        "import resource as r\n"
        "from local.cluster.supervisor import allow_many_files\n"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (256, hard))\n"
        "allow_many_files()\n"
        "print(r.getrlimit(r.RLIMIT_NOFILE)[0] == min(65536, hard) > 256)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert result.stdout.strip() == "True"
