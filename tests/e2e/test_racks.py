"""Groups of pause pods on simulated nodes in two racks: Kueue keeps each where it has to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.platform import NAMESPACE, Platform, eventually

pytestmark = pytest.mark.e2e

POOL, RACK = "kwok-h100", "topology.tokenworks.dev/rack"
NAME = "racks"
LWS = f"leaderworkerset.sigs.k8s.io/name={NAME}"
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
Start = Callable[[str, int, int], None]


def template(how: str) -> dict[str, Any]:
    """A pod that takes a whole node of the pool, placed as our chart says it."""
    return {
        "metadata": {
            "annotations": {
                f"kueue.x-k8s.io/podset-{how}-topology": RACK,
                "kueue.x-k8s.io/podset-group-name": "group",
            }
        },
        "spec": {
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"tokenworks.dev/pool": POOL},
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "pause",
                    "image": "registry.k8s.io/pause:3.10.1",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "8Mi"},
                        "limits": {"nvidia.com/gpu": "8"},
                    },
                }
            ],
        },
    }


def groups(how: str, replicas: int, size: int) -> dict[str, Any]:
    """So many groups of so many pods."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": "research"},
        },
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template(how),
                "workerTemplate": template(how),
            },
        },
    }


def workloads(platform: Platform) -> list[dict[str, Any]]:
    """What Kueue admits: one for each group."""
    found = platform.get("workloads", "-n", NAMESPACE)["items"]
    return [
        w for w in found if any(o["name"] == NAME for o in w["metadata"].get("ownerReferences", []))
    ]


def condition(workload: dict[str, Any], kind: str) -> tuple[str, str]:
    """Status and message of a condition."""
    found = {c["type"]: c for c in workload.get("status", {}).get("conditions", [])}
    return found[kind]["status"], found[kind]["message"]


@pytest.fixture
def start(platform: Platform, tmp_path: Path) -> Iterator[Start]:
    """Starts the groups, which are gone after the test: they take the whole pool."""

    def run(how: str, replicas: int, size: int) -> None:
        file = tmp_path / "groups.json"
        file.write_text(json.dumps(groups(how, replicas, size)))
        platform.kubectl("apply", "-f", str(file))

    yield run
    platform.kubectl("delete", "lws", NAME, "-n", NAMESPACE, "--wait=true")
    eventually("nothing is held", lambda: not workloads(platform) and not platform.pods(LWS))


def racks(platform: Platform) -> dict[str, str]:
    """Node of the pool: its rack."""
    nodes = platform.get("nodes", "-l", f"tokenworks.dev/pool={POOL}")["items"]
    return {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in nodes}


def placed(platform: Platform, pods: int) -> dict[str, list[str]] | None:
    """Group: rack of each of its pods, once so many pods run, each on a node of its own."""
    where = racks(platform)
    found: dict[str, list[str]] = {}
    nodes: set[str] = set()
    for pod in platform.pods(LWS):
        if pod["status"].get("phase") == "Running":
            node = pod["spec"]["nodeName"]
            nodes.add(node)
            found.setdefault(pod["metadata"]["labels"][GROUP], []).append(where[node])
    return found if len(nodes) == pods else None


def test_nodes_stand_in_two_racks(platform: Platform) -> None:
    assert racks(platform) == {
        "kwok-h100-0": "kwok-h100-rack-0",
        "kwok-h100-1": "kwok-h100-rack-0",
        "kwok-h100-2": "kwok-h100-rack-1",
        "kwok-h100-3": "kwok-h100-rack-1",
    }


def test_each_group_is_within_one_rack(platform: Platform, start: Start) -> None:
    start("required", 2, 2)
    found = eventually("two groups of two run", lambda: placed(platform, 4))
    assert sorted(found) == ["0", "1"]
    first, second = (set(found[group]) for group in ("0", "1"))
    assert len(first) == len(second) == 1
    assert first != second


def test_a_group_larger_than_any_rack_waits_and_its_workload_says_why(
    platform: Platform, start: Start
) -> None:
    start("required", 1, 3)

    def told() -> str | None:
        (workload,) = workloads(platform)
        status, message = condition(workload, "QuotaReserved")
        return message if status == "False" else None

    message = eventually("Kueue says why", told)
    assert f'topology "{POOL}" allows to fit only' in message
    assert "insufficient quota" not in message
    assert message in platform.kubectl("events", "-n", NAMESPACE, "--types=Warning")
    assert all(pod["spec"].get("nodeName") is None for pod in platform.pods(LWS))


def test_a_group_that_only_prefers_one_rack_is_spread_over_two(
    platform: Platform, start: Start
) -> None:
    start("preferred", 1, 3)
    found = eventually("a group of three runs", lambda: placed(platform, 3))
    assert len(set(found["0"])) == 2
