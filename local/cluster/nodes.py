"""Nodes: what they advertise, and the simulated ones."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from local.cluster.api import Api, ApiError, Object
from local.cluster.spec import ClusterSpec, Pool

_NODES = "/api/v1/nodes"
_APPLIED = "tokenworks.dev/local-cluster"
"""Annotation that tells which labels, taints and resources of a node are ours."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_KWOK = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
# Of a machine with eight large GPUs (p5.48xlarge has 192 processors and 2 TiB).
_SIMULATED = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "8Ti", "pods": "110"}
_HOSTNAME = "kubernetes.io/hostname"
_LEVEL = 16
"""Characters of a level's name in its values: with pool and number they stay within 63."""

Taint = dict[str, str]


def at(pool: Pool, index: int) -> Pool:
    """The pool as its node of that index has it: with labels that say where the node stands.

    The widest level has two domains, each narrower one two in every domain of the one above,
    and nodes that follow each other are spread over them as evenly as their number allows.
    """
    levels = [level for level in pool.topology if level != _HOSTNAME]
    domains = [index * 2**depth // max(1, pool.nodes) for depth in range(1, len(levels) + 1)]
    places = {
        level: f"{pool.name}-{level.rpartition('/')[2][:_LEVEL]}-{domain}"
        for level, domain in zip(levels, domains, strict=True)
    }
    return replace(pool, labels={**places, **pool.labels})


def _taints(pool: Pool, simulated: bool) -> list[Taint]:
    written = [{"key": k, "value": v, "effect": e} for k, v, e in pool.taints]
    # Keyed, because a pool may name KWOK's own taint as well.
    keyed = {(t["key"], t["effect"]): t for t in ([_KWOK] if simulated else []) + written}
    return list(keyed.values())


def _counts(pool: Pool) -> dict[str, str]:
    return {name: str(count) for name, count in pool.resources.items()}


def kwok_node(pool: Pool, index: int) -> Object:
    """A node that KWOK plays: it has devices, and pods on it run nothing."""
    name, pool = f"{pool.name}-{index}", at(pool, index)
    resources = _SIMULATED | _counts(pool)
    labels = {
        _HOSTNAME: name, "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "type": "kwok", **pool.labels,
    }  # fmt: skip
    annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations | {_APPLIED: _applied(pool, simulated=True)},
        },
        "spec": {"taints": _taints(pool, simulated=True)},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _applied(pool: Pool, simulated: bool) -> str:
    taints = sorted([t["key"], t["effect"]] for t in _taints(pool, simulated))
    ours = {"labels": sorted(pool.labels), "taints": taints, "resources": sorted(pool.resources)}
    return json.dumps(ours)


def _before(node: Object) -> dict[str, list[Any]]:
    empty: dict[str, list[Any]] = {"labels": [], "taints": [], "resources": []}
    try:
        return empty | json.loads(node["metadata"].get("annotations", {})[_APPLIED])
    except (KeyError, ValueError):
        return empty


def node_patch(node: Object, pool: Pool, simulated: bool) -> Object:
    """What must change in a node's labels and taints; empty when nothing must.

    What others put on the node stays.
    """
    before, metadata = _before(node), node["metadata"]
    labels: dict[str, str | None] = {k: None for k in before["labels"] if k not in pool.labels}
    labels |= pool.labels
    there: Mapping[str, str] = metadata.get("labels", {})
    labels = {k: v for k, v in labels.items() if there.get(k) != v}
    wanted = _taints(pool, simulated)
    taints = _merged(node.get("spec", {}).get("taints", []), before["taints"], wanted)
    annotation = _applied(pool, simulated)
    patch: Object = {}
    if labels or metadata.get("annotations", {}).get(_APPLIED) != annotation:
        patch["metadata"] = {"labels": labels, "annotations": {_APPLIED: annotation}}
    if taints is not None:
        patch["spec"] = {"taints": taints}
    return patch


def _merged(there: Sequence[Taint], ours: Iterable[Sequence[str]], wanted: Sequence[Taint]) -> Any:
    """All taints the node must have, or None when it has them."""
    gone = {tuple(t) for t in ours} - {(t["key"], t["effect"]) for t in wanted}
    keyed = {(t["key"], t["effect"]): t for t in there}
    merged = {k: t for k, t in keyed.items() if k not in gone}
    for taint in wanted:
        key = (taint["key"], taint["effect"])
        # An empty value is left out in what the server gives back.
        if merged.get(key, {}).get("value", "") != taint["value"] or key not in merged:
            merged[key] = taint
    return None if merged == keyed else list(merged.values())


def status_patch(node: Object, resources: Mapping[str, str], gone: Iterable[str] = ()) -> Object:
    """What must change in a node's status for it to have the resources; empty when nothing must."""
    status = node.get("status", {})
    wanted: dict[str, str | None] = {name: None for name in gone if name not in resources}
    wanted |= resources
    parts = {
        part: {k: v for k, v in wanted.items() if status.get(part, {}).get(k) != v}
        for part in ("capacity", "allocatable")
    }
    changed = {part: values for part, values in parts.items() if values}
    return {"status": changed} if changed else {}


def advertise(api: Api, node: str, resources: Mapping[str, str]) -> None:
    """Make the node have the resources; a kubelet that restarts may have dropped them."""
    found = api.get(f"{_NODES}/{node}")
    patch = status_patch(found, resources) if found else {}
    if patch:
        api.merge(f"{_NODES}/{node}/status", patch)


def exists(api: Api, node: str) -> bool:
    """Whether the API has the node."""
    return api.get(f"{_NODES}/{node}") is not None


def _change(api: Api, node: Object, pool: Pool, simulated: bool) -> bool:
    path = f"{_NODES}/{node['metadata']['name']}"
    gone = _before(node)["resources"]
    status = status_patch(node, _counts(pool), gone)
    rest = node_patch(node, pool, simulated)
    # The status first: the annotation then says that what is gone has been removed.
    if status:
        api.merge(f"{path}/status", status)
    if rest:
        api.merge(path, rest)
    return bool(status or rest)


def reconcile(api: Api, spec: ClusterSpec, real_name: str) -> list[str]:
    """Make the nodes as the pools say; returns the names of those that changed.

    Simulated nodes that somebody else made are left alone. The real node is its
    kubelet's to make: when it is not there yet, it is left out.
    """
    listed: list[Object] = (api.get(_NODES) or {}).get("items", [])
    there = {str(n["metadata"]["name"]): n for n in listed}
    changed: list[str] = []
    real = there.get(real_name)
    if real is not None and _change(api, real, at(spec.real, 0), simulated=False):
        changed.append(real_name)
    wanted: set[str] = {real_name}
    for pool in spec.simulated:
        for index in range(pool.nodes):
            name = f"{pool.name}-{index}"
            wanted.add(name)
            if name not in there:
                api.create(_NODES, kwok_node(pool, index))
            elif not _change(api, there[name], at(pool, index), simulated=True):
                continue
            changed.append(name)
    for name in sorted(there.keys() - wanted):
        if _APPLIED in there[name]["metadata"].get("annotations", {}):
            api.delete(f"{_NODES}/{name}")
            changed.append(name)
    return changed


def late(api: Api, spec: ClusterSpec, real_name: str) -> list[str]:
    """Nodes of the spec that are not ready, or do not have their resources."""
    try:
        listed: list[Object] = (api.get(_NODES) or {}).get("items", [])
    except ApiError:
        listed = []
    there = {str(n["metadata"]["name"]): n for n in listed}
    wanted = {real_name: spec.real}
    for pool in spec.simulated:
        wanted |= {f"{pool.name}-{index}": pool for index in range(pool.nodes)}
    return [name for name, pool in wanted.items() if not _complete(there.get(name), pool)]


def _complete(node: Object | None, pool: Pool) -> bool:
    if node is None or status_patch(node, _counts(pool)):
        return False
    return _ready(node)


@dataclass(frozen=True)
class NodeStatus:
    """One node as `local status` shows it."""

    name: str
    simulated: bool
    ready: bool
    devices: Mapping[str, tuple[int, int]]
    """Extended resource -> asked for by pods on the node, there are."""


def overview(api: Api) -> list[NodeStatus]:
    """Every node with its devices."""
    pods: list[Object] = (api.get("/api/v1/pods") or {}).get("items", [])
    used: dict[tuple[str, str], int] = {}
    for pod in pods:
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        for container in pod["spec"]["containers"]:
            for resource, count in container.get("resources", {}).get("requests", {}).items():
                if "/" in resource:
                    key = (pod["spec"].get("nodeName", ""), resource)
                    used[key] = used.get(key, 0) + int(count)
    listed: list[Object] = (api.get(_NODES) or {}).get("items", [])
    return [_node_status(node, used) for node in listed]


def _node_status(node: Object, used: Mapping[tuple[str, str], int]) -> NodeStatus:
    name = str(node["metadata"]["name"])
    there: Mapping[str, str] = node["status"].get("allocatable", {})
    devices = {r: (used.get((name, r), 0), int(n)) for r, n in there.items() if "/" in r}
    simulated = "kwok.x-k8s.io/node" in node["metadata"].get("annotations", {})
    return NodeStatus(name, simulated, _ready(node), devices)


def _ready(node: Object) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
