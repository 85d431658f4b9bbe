"""What dies, what the user sees meanwhile, and how it heals."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.platform import MODEL, NAMESPACE, Platform, answered, ask, eventually
from tests.e2e.streams import Stream

pytestmark = pytest.mark.e2e

ENGINE = f"app.kubernetes.io/instance={MODEL},app.kubernetes.io/component=engine"
PICKER = f"app.kubernetes.io/instance={MODEL},app.kubernetes.io/component=picker"


def ready(platform: Platform, selector: str, count: int, namespace: str = NAMESPACE) -> bool:
    pods = platform.pods(selector, namespace)
    conditions = [c for p in pods for c in p["status"].get("conditions", [])]
    return (
        sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        == count
        == len(pods)
    )


@pytest.mark.parametrize("component", ["kube-apiserver", "kubelet"])
def test_requests_go_on_while_the_control_plane_heals(
    platform: Platform, url: str, component: str
) -> None:
    pid, restarts = platform.component(component)
    os.kill(pid, signal.SIGKILL)
    assert ask(url, "still there?").status_code == 200
    again = eventually(f"{component} is back", lambda: platform.component(component))
    assert again[0] != pid
    assert again[1] == restarts + 1
    eventually("the cluster answers", lambda: ready(platform, ENGINE, 3))
    assert answered(url)


def test_the_gateway_pod_comes_back(platform: Platform, url: str) -> None:
    gateway = "gateway.networking.k8s.io/gateway-name=gateway"
    old = platform.pods(gateway, "tokenworks-gateway")[0]["metadata"]["name"]
    stream = Stream(url, tokens=2000)
    platform.kubectl(
        "delete", "pod", "-n", "tokenworks-gateway", old, "--grace-period=0", "--force"
    )
    stream.thread.join(60)
    assert stream.error, "a cut stream must not look like a whole answer"
    assert stream.finish == ""

    def back() -> bool:
        pods = platform.pods(gateway, "tokenworks-gateway")
        return pods[0]["metadata"]["name"] != old and answered(url)

    eventually("requests pass again through a new gateway pod", back)


def test_without_its_picker_a_pool_refuses_and_says_so(platform: Platform, url: str) -> None:
    deployment = f"deployment/{MODEL}-epp"
    platform.kubectl("scale", "-n", NAMESPACE, deployment, "--replicas=0")
    try:
        refused = eventually(
            "requests are refused, not sent at random",
            lambda: r if (r := ask(url, "anyone?")).status_code >= 500 else None,
        )
        assert refused.status_code in (500, 503)
        assert ask(url, "and you?", "llama-sim").status_code == 200
    finally:
        platform.kubectl("scale", "-n", NAMESPACE, deployment, "--replicas=1")
    eventually("the pool serves again", lambda: answered(url))


def test_a_killed_picker_comes_back(platform: Platform, url: str) -> None:
    old = platform.pods(PICKER)[0]["metadata"]["name"]
    platform.kubectl("delete", "pod", "-n", NAMESPACE, old, "--grace-period=0", "--force")
    eventually("a new picker", lambda: platform.pods(PICKER)[0]["metadata"]["name"] != old)
    eventually("the pool serves again", lambda: answered(url))


def test_a_drained_engine_finishes_its_stream(platform: Platform, url: str) -> None:
    stream = Stream(url, tokens=400)
    platform.kubectl("delete", "pod", "-n", NAMESPACE, stream.pod, "--wait=false")
    stream.thread.join(120)
    assert stream.error == ""
    assert stream.finish == "length"
    assert stream.pieces >= 400
    eventually("three engines again", lambda: ready(platform, ENGINE, 3))


def test_a_killed_engine_cuts_its_stream_and_others_take_over(platform: Platform, url: str) -> None:
    stream = Stream(url, tokens=2000)
    pods = {p["metadata"]["name"]: p for p in platform.pods(ENGINE)}
    container = pods[stream.pod]["status"]["containerStatuses"][0]["containerID"]
    identity = container.removeprefix("containerd://")
    found = subprocess.run(
        ["pgrep", "-f", "-x", f".*-m simulator .*--served-model-name[= ]{MODEL}.*"],
        capture_output=True, text=True, check=False,
    ).stdout.split()  # fmt: skip
    victims = [p for p in found if identity in _cgroup(int(p))]
    assert victims, "the engine's process"
    for victim in victims:
        os.kill(int(victim), signal.SIGKILL)
    stream.thread.join(60)
    assert stream.error, "a cut stream must not look like a whole answer"
    assert stream.finish == ""
    eventually("others answer", lambda: answered(url))
    eventually("three engines again", lambda: ready(platform, ENGINE, 3))


def _cgroup(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
