"""Played engines as processes: groups that come together and fall apart, KV that moves."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

LOCAL = Path(__file__).parent.parent.parent / "local"
HOST = "127.0.0.1"
TEXT = "/v1/completions"
_ATTEMPTS = 20_000


def ports(count: int) -> int:
    """The first of some free ports in a row; another test run looks elsewhere first."""
    for number in range(625):
        base = 20000 + 16 * ((os.getpid() + number) % 625)
        with contextlib.ExitStack() as taken:
            try:
                for offset in range(count):
                    taken.enter_context(socket.create_server((HOST, base + offset)))
            except OSError:
                continue
            return base
    raise AssertionError("no free ports")


class Child:
    """A played engine; its log is read when it has ended."""

    def __init__(self, pod: str, engine: str, arguments: str, **environ: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simulator", "--as", engine, "--", *arguments.split()],
            cwd=LOCAL,
            env={**os.environ, "POD_NAME": pod, **environ},
            stderr=subprocess.PIPE,
            text=True,
        )

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """The exit code and the log, once it has ended."""
        _, log = self._process.communicate(timeout=30)
        return self._process.returncode, log

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def children(*made: Callable[[], Child]) -> Generator[list[Child]]:
    started: list[Child] = []
    try:
        for make in made:
            started.append(make())
        yield started
    finally:
        for child in started:
            child.close()


def becomes(url: str, status: int | None) -> None:
    """Ask until the answer has that status; None: until nobody listens."""
    found: int | None = None
    with httpx.Client() as client:
        for _ in range(_ATTEMPTS):
            try:
                found = client.get(url).status_code
            except httpx.TransportError:
                found = None
            if found == status:
                return
    raise AssertionError(f"{url} never became {status}: {found}")


def test_wide_expert_parallelism_over_two_pods() -> None:
    """A port for every rank, a supervisor for every pod, and one fate."""
    base = ports(7)
    wide = (
        "serve /m --data-parallel-size 4 --data-parallel-size-local 2 --host 127.0.0.1 "
        "--data-parallel-multi-port-external-lb --enable-expert-parallel "
        f"--data-parallel-address {HOST} --data-parallel-rpc-port {base + 6}"
    )

    def pod(index: int) -> Callable[[], Child]:
        mine = (
            f"--port {base + 3 * index} --data-parallel-start-rank {2 * index} "
            f"--data-parallel-supervisor-port {base + 3 * index + 2}"
        )
        options = '{"failure-seconds": 0.1}'
        return lambda: Child(f"pod-{index}", "vllm", f"{wide} {mine}", SIMULATOR_OPTIONS=options)

    def url(port: int, path: str) -> str:
        return f"http://{HOST}:{port}{path}"

    with children(pod(0)) as (first,):
        becomes(url(base, "/health"), 503)
        becomes(url(base + 2, "/readyz"), None)
        with children(pod(1)) as (second,):
            for rank, port in enumerate((base, base + 1, base + 3, base + 4)):
                becomes(url(port, "/health"), 200)
                answer = httpx.post(url(port, TEXT), json={"prompt": "x", "max_tokens": 1})
                assert answer.headers["x-served-by"] == f"pod-{rank // 2}"
                assert answer.headers["x-served-rank"] == str(rank)
                assert (
                    f'num_requests_running{{engine="{rank}"'
                    in httpx.get(url(port, "/metrics")).text
                )
            becomes(url(base + 2, "/readyz"), 200)
            becomes(url(base + 5, "/health"), 200)
            second.signal(signal.SIGKILL)
            second.ended()
        code, log = first.ended()
        assert code == 1
        assert "the group is broken: rank 2, 3 has gone" in log
        assert "no effect here: --enable-expert-parallel" in log


def test_a_headless_node_ends_with_its_leader() -> None:
    base = ports(2)
    nodes = f"serve /m -tp 4 -pp 2 --nnodes 2 --master-addr {HOST} --master-port {base + 1}"
    with children(
        lambda: Child("n1", "vllm", f"{nodes} --node-rank 1 --headless"),
        lambda: Child("n0", "vllm", f"{nodes} --node-rank 0 --host {HOST} --port {base}"),
    ) as (worker, leader):
        becomes(f"http://{HOST}:{base}/health", 200)
        leader.signal(signal.SIGKILL)
        code, log = worker.ended()
        assert code == 1
        assert "has gone" in log


def test_a_worker_that_is_told_to_end_takes_the_leader_with_it() -> None:
    base = ports(2)
    ray = f"{HOST}:{base + 1}"
    environ = {"SIMULATOR_OPTIONS": '{"failure-seconds": 0.1}', "LWS_GROUP_SIZE": "2"}
    line = f"serve /m -tp 16 --distributed-executor-backend ray --host {HOST} --port {base}"
    with children(
        lambda: Child("n0", "vllm", line, RAY_ADDRESS=ray, **environ),
        lambda: Child("n1", "ray", f"start --address={ray} --block"),
    ) as (leader, worker):
        becomes(f"http://{HOST}:{base}/health", 200)
        worker.signal(signal.SIGTERM)
        assert worker.ended()[0] == 0
        code, log = leader.ended()
        assert code == 1
        assert "ray node 1 has gone" in log


def test_ray_s_head_returns_at_once() -> None:
    with children(lambda: Child("n0", "ray", "start --head --port=6379")) as (head,):
        code, log = head.ended()
        assert (code, "no effect here: --port" in log) == (0, True)


def test_a_rank_of_another_group_is_refused_and_ends() -> None:
    base = ports(2)
    pair = f"serve /m -dp 2 -dpl 1 -dpa {HOST} -dpp {base + 1} --host {HOST} --port {base}"
    stranger = f"serve /m -dp 4 -dpl 1 -dpr 1 --headless -dpa {HOST} -dpp {base + 1}"
    with children(lambda: Child("n0", "vllm", pair), lambda: Child("n1", "vllm", stranger)) as (
        _,
        wrong,
    ):
        code, log = wrong.ended()
        assert code == 1
        assert "this is a group of 2 ranks, not 4 ranks" in log


def test_kv_moves_from_prefill_to_decode_over_the_network() -> None:
    base = ports(4)
    config = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
    line = f"serve /m --served-model-name m --host {HOST} --kv-transfer-config {config}"

    def pod(name: str, port: int, channel: int) -> Callable[[], Child]:
        return lambda: Child(
            name,
            "vllm",
            f"{line} --port {port}",
            VLLM_NIXL_SIDE_CHANNEL_HOST=HOST,
            VLLM_NIXL_SIDE_CHANNEL_PORT=str(channel),
        )

    with children(pod("prefill-0", base, base + 1), pod("decode-0", base + 2, base + 3)):
        for port in (base, base + 2):
            becomes(f"http://{HOST}:{port}/health", 200)
        asked = {"prompt": "one two three " * 30, "max_tokens": 1}
        first = httpx.post(
            f"http://{HOST}:{base}{TEXT}",
            json={**asked, "kv_transfer_params": {"do_remote_decode": True}},
        )
        second = httpx.post(
            f"http://{HOST}:{base + 2}{TEXT}",
            json={**asked, "kv_transfer_params": first.json()["kv_transfer_params"]},
        )
        assert second.headers["x-prefilled-by"] == "prefill-0"
        assert second.headers["x-served-by"] == "decode-0"


def test_a_port_that_is_taken_ends_the_process() -> None:
    with socket.create_server((HOST, 0)) as taken:
        line = f"serve /m --host {HOST} --port {taken.getsockname()[1]}"
        with children(lambda: Child("n0", "vllm", line)) as (one,):
            code, log = one.ended()
            assert code == 1
            assert "address already in use" in log.lower()
