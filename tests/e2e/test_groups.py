"""An LWS of pause pods, admitted by Kueue; a worker's death is its group's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.platform import NAMESPACE, Platform, eventually

pytestmark = pytest.mark.e2e

LWS = "leaderworkerset.sigs.k8s.io/name=pause"
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
FILE = "docs/exercises/pause-groups.yaml"


@pytest.fixture
def groups(platform: Platform) -> Iterator[Platform]:
    platform.kubectl("apply", "-f", FILE)
    yield platform
    platform.kubectl("delete", "-f", FILE, "--wait=true")


def running(platform: Platform) -> dict[str, dict[str, str]]:
    """Group: pod: uid, of pods that are ready."""
    found: dict[str, dict[str, str]] = {}
    for pod in platform.pods(LWS):
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        if conditions.get("Ready") == "True":
            meta = pod["metadata"]
            found.setdefault(meta["labels"][GROUP], {})[meta["name"]] = meta["uid"]
    return found


def complete(platform: Platform) -> dict[str, dict[str, str]] | None:
    found = running(platform)
    return found if [len(found.get(g, {})) for g in ("0", "1")] == [3, 3] else None


def test_a_dead_worker_rebuilds_its_group_alone(groups: Platform) -> None:
    before = eventually("two groups of three", lambda: complete(groups))
    workloads = groups.get("workloads", "-n", NAMESPACE)["items"]
    admitted = [
        w["metadata"]["name"]
        for w in workloads
        if "pause" in w["metadata"]["name"]
        and any(
            c["type"] == "Admitted" and c["status"] == "True" for c in w["status"]["conditions"]
        )
    ]
    assert len(admitted) == 2
    groups.kubectl("delete", "pod", "-n", NAMESPACE, "pause-0-1", "--wait=false")

    def rebuilt() -> dict[str, dict[str, str]] | None:
        now = complete(groups)
        return now if now and not set(now["0"].values()) & set(before["0"].values()) else None

    after = eventually("group 0 is rebuilt whole", rebuilt)
    assert after["1"] == before["1"]
