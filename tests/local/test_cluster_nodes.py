"""Nodes: what must change for them to be as the pools say, and what stays."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from local.cluster import ClusterSpec, Pool, nodes
from local.cluster.api import ApiError, Object

GPU, HCA, EFA = "nvidia.com/gpu", "rdma/hca", "vpc.amazonaws.com/efa"
REAL = Pool("sim", 1, {GPU: 8, HCA: 8}, {"pool": "sim"})
BIG = Pool("big", 2, {GPU: 8, EFA: 32}, {"pool": "big"}, (("team", "a", "NoExecute"),))
SPEC = ClusterSpec("lab", REAL, (BIG,))


class FakeApi:
    """Nodes in a dictionary, changed as a merge patch says."""

    def __init__(self, *there: Object) -> None:
        self.nodes = {n["metadata"]["name"]: n for n in there}
        self.calls: list[str] = []

    def get(self, path: str) -> Object | None:
        if path == "/api/v1/nodes":
            return {"items": list(self.nodes.values())}
        return self.nodes.get(path.rpartition("/")[2])

    def create(self, path: str, obj: Object) -> Object:
        self.calls.append(f"create {path}")
        self.nodes[obj["metadata"]["name"]] = deepcopy(obj)
        return obj

    def delete(self, path: str) -> None:
        self.calls.append(f"delete {path}")
        del self.nodes[path.rpartition("/")[2]]

    def merge(self, path: str, patch: Object) -> Object:
        self.calls.append(f"merge {path}")
        name = path.removeprefix("/api/v1/nodes/").removesuffix("/status")
        _merge(self.nodes[name], patch)
        return self.nodes[name]


def _merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def registered() -> Object:
    """The real node as a kubelet registers it, with a label, a taint and a device of others."""
    return {
        "metadata": {"name": "lab-0", "labels": {"kubernetes.io/os": "linux", "mine": "kept"}},
        "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "2", "example.com/other": "1"},
            "allocatable": {"cpu": "2", "example.com/other": "1"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def reconcile(api: FakeApi, spec: ClusterSpec = SPEC) -> list[str]:
    return nodes.reconcile(api, spec, "lab-0")  # type: ignore[arg-type]


def test_everything_is_set_once() -> None:
    api = FakeApi(registered())
    assert reconcile(api) == ["lab-0", "big-0", "big-1"]
    assert api.nodes["lab-0"]["status"]["allocatable"][GPU] == "8"
    assert api.nodes["lab-0"]["metadata"]["labels"]["pool"] == "sim"
    assert api.nodes["big-1"]["status"]["capacity"][EFA] == "32"
    api.calls.clear()
    assert reconcile(api) == []
    assert api.calls == []


def test_what_others_put_on_a_node_stays() -> None:
    api = FakeApi(registered())
    reconcile(api)
    node = api.nodes["lab-0"]
    assert node["metadata"]["labels"]["mine"] == "kept"
    assert node["spec"]["taints"] == [{"key": "mine", "effect": "NoSchedule"}]
    assert node["status"]["capacity"]["example.com/other"] == "1"


def test_what_the_pool_no_longer_says_goes() -> None:
    api = FakeApi(registered())
    tainted = Pool("sim", 1, {GPU: 8}, {"pool": "sim"}, (("x", "", "NoSchedule"),))
    reconcile(api, ClusterSpec("lab", tainted))
    assert {"key": "x", "value": "", "effect": "NoSchedule"} in api.nodes["lab-0"]["spec"]["taints"]
    assert reconcile(api, ClusterSpec("lab", Pool("sim", 1, {HCA: 4}))) == ["lab-0"]
    node = api.nodes["lab-0"]
    assert GPU not in node["status"]["allocatable"]
    assert GPU not in node["status"]["capacity"]
    assert node["status"]["allocatable"][HCA] == "4"
    assert "pool" not in node["metadata"]["labels"]
    assert node["spec"]["taints"] == [{"key": "mine", "effect": "NoSchedule"}]


def test_a_pool_that_shrinks_loses_its_last_nodes() -> None:
    api = FakeApi(registered())
    reconcile(api)
    smaller = ClusterSpec("lab", REAL, (Pool("big", 1, BIG.resources, BIG.labels, BIG.taints),))
    assert reconcile(api, smaller) == ["big-1"]
    assert set(api.nodes) == {"lab-0", "big-0"}


def test_nodes_that_somebody_else_simulates_are_left_alone() -> None:
    theirs: Object = {"metadata": {"name": "theirs"}, "status": {}}
    api = FakeApi(registered(), theirs)
    reconcile(api)
    assert api.nodes["theirs"] == {"metadata": {"name": "theirs"}, "status": {}}


def test_a_node_that_is_not_registered_yet_is_left_out() -> None:
    api = FakeApi()
    assert reconcile(api) == ["big-0", "big-1"]
    assert nodes.late(api, SPEC, "lab-0") == ["lab-0", "big-0", "big-1"]  # type: ignore[arg-type]


def test_late_names_nodes_that_are_not_ready_or_lack_devices() -> None:
    api = FakeApi(registered())
    assert "lab-0" in nodes.late(api, SPEC, "lab-0")  # type: ignore[arg-type]
    reconcile(api)
    assert nodes.late(api, SPEC, "lab-0") == ["big-0", "big-1"]  # type: ignore[arg-type]
    for name in ("big-0", "big-1"):
        api.nodes[name]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert nodes.late(api, SPEC, "lab-0") == []  # type: ignore[arg-type]


def test_everything_is_late_while_the_api_does_not_answer() -> None:
    class Silent(FakeApi):
        def get(self, path: str) -> Object | None:
            raise ApiError(0, path)

    assert nodes.late(Silent(), SPEC, "lab-0") == ["lab-0", "big-0", "big-1"]  # type: ignore[arg-type]


def test_devices_are_advertised_again_only_when_they_are_gone() -> None:
    api = FakeApi(registered())
    nodes.advertise(api, "lab-0", {GPU: "8"})  # type: ignore[arg-type]
    nodes.advertise(api, "lab-0", {GPU: "8"})  # type: ignore[arg-type]
    nodes.advertise(api, "absent", {GPU: "8"})  # type: ignore[arg-type]
    assert api.calls == ["merge /api/v1/nodes/lab-0/status"]


RACK, ROW, HOST = "example.com/rack", "example.com/row", "kubernetes.io/hostname"


def places(pool: Pool) -> dict[str, list[str]]:
    """Level: where each node of the pool stands."""
    made = [nodes.kwok_node(pool, index)["metadata"]["labels"] for index in range(pool.nodes)]
    return {level: [labels[level] for labels in made] for level in pool.topology}


def test_nodes_stand_in_two_domains_of_the_widest_level_and_halve_them_from_there() -> None:
    eight = replace(BIG, nodes=8, topology=(ROW, RACK, HOST))
    assert places(eight) == {
        ROW: ["big-row-0"] * 4 + ["big-row-1"] * 4,
        RACK: [f"big-rack-{n}" for n in (0, 0, 1, 1, 2, 2, 3, 3)],
        HOST: [f"big-{index}" for index in range(8)],
    }


@pytest.mark.parametrize("count", range(1, 20))
def test_domains_are_as_large_as_each_other_and_nested(count: int) -> None:
    found = places(replace(BIG, nodes=count, topology=(ROW, RACK)))
    for level, most in ((ROW, 2), (RACK, 4)):
        sizes = Counter(found[level]).values()
        assert len(sizes) == min(count, most)
        assert max(sizes) - min(sizes) <= 1
    # What shares a rack shares a row.
    assert len(set(zip(found[ROW], found[RACK], strict=True))) == len(set(found[RACK]))


def test_names_of_domains_are_label_values() -> None:
    deep = tuple(f"example.com/{'x' * 60}{depth:02}" for depth in range(16))
    pool = replace(BIG, name="p" * 40, nodes=10000, topology=deep)
    labels = nodes.kwok_node(pool, 9999)["metadata"]["labels"]
    assert all(len(labels[level]) <= 63 for level in deep)


def test_what_the_pool_says_of_all_nodes_wins() -> None:
    pool = replace(BIG, topology=(ROW, RACK), labels={ROW: "a"})
    assert places(pool) == {ROW: ["a", "a"], RACK: ["big-rack-0", "big-rack-2"]}


def test_other_levels_relabel_the_nodes() -> None:
    api = FakeApi(registered())
    racks = replace(BIG, topology=(RACK, HOST))
    spec = ClusterSpec("lab", replace(REAL, topology=(RACK,)), (racks,))
    reconcile(api, spec)
    assert reconcile(api, spec) == []
    assert api.nodes["lab-0"]["metadata"]["labels"][RACK] == "sim-rack-0"
    assert api.nodes["big-1"]["metadata"]["labels"][RACK] == "big-rack-1"
    rows = ClusterSpec("lab", REAL, (replace(racks, topology=(ROW, HOST)),))
    assert reconcile(api, rows) == ["lab-0", "big-0", "big-1"]
    for node in api.nodes.values():
        assert RACK not in node["metadata"]["labels"]
    assert api.nodes["big-1"]["metadata"]["labels"][ROW] == "big-row-1"
    assert api.nodes["big-1"]["metadata"]["labels"][HOST] == "big-1"
    assert reconcile(api, rows) == []


def test_pods_without_toleration_stay_off_simulated_nodes() -> None:
    taint = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
    node = nodes.kwok_node(BIG, 0)
    assert node["spec"]["taints"] == [taint, {"key": "team", "value": "a", "effect": "NoExecute"}]
    named = Pool("big", 1, {}, {}, (("kwok.x-k8s.io/node", "fake", "NoSchedule"),))
    assert nodes.kwok_node(named, 0)["spec"]["taints"] == [taint]


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_the_overview_counts_what_running_pods_hold(phase: str) -> None:
    pod = {
        "spec": {
            "nodeName": "lab-0",
            "containers": [{"resources": {"requests": {GPU: "2", "cpu": "1"}}}, {}],
        },
        "status": {"phase": phase},
    }

    class WithPods(FakeApi):
        def get(self, path: str) -> Object | None:
            return {"items": [pod]} if path == "/api/v1/pods" else super().get(path)

    api = WithPods(registered())
    reconcile(api)
    seen = {n.name: n for n in nodes.overview(api)}  # type: ignore[arg-type]
    assert seen["lab-0"].devices[GPU] == (2 if phase == "Running" else 0, 8)
    assert (seen["lab-0"].simulated, seen["big-0"].simulated) == (False, True)
    assert (seen["lab-0"].ready, seen["big-0"].ready) == (True, False)
