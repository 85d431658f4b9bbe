"""Nodes: what they advertise, and the simulated ones."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from typing import Any

from local.cluster.config import CLUSTER_DOMAIN
from local.cluster.spec import API_PORT, NODE_IP, ClusterSpec, Paths, Pool

__all__ = ["CLUSTER_DOMAIN", "bootstrap_objects", "keep_resources", "kwok_node"]

_TYPES = {"GET": "application/json", "PATCH": "application/merge-patch+json"}


def _request(paths: Paths, method: str, path: str, body: Any = None) -> Any:
    context = ssl.create_default_context(cafile=str(paths.pki / "ca.crt"))
    context.load_cert_chain(paths.pki / "node-resources.crt", paths.pki / "node-resources.key")
    request = urllib.request.Request(
        f"https://{NODE_IP}:{API_PORT}{path}",
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": _TYPES[method]},
    )
    with urllib.request.urlopen(request, timeout=5, context=context) as response:
        return json.load(response)


def advertise(paths: Paths, node: str, resources: dict[str, int]) -> bool:
    """Make the node's status say it has `resources`; True when it had to be changed."""
    capacity = _request(paths, "GET", f"/api/v1/nodes/{node}")["status"].get("capacity", {})
    wanted = {name: str(count) for name, count in resources.items()}
    if wanted.items() <= capacity.items():
        return False
    patch = {"status": {"capacity": wanted, "allocatable": wanted}}
    _request(paths, "PATCH", f"/api/v1/nodes/{node}/status", patch)
    return True


def keep_resources(paths: Paths, plan: dict[str, Any]) -> None:
    """Advertise the real node's simulated devices for ever: a kubelet that restarts forgets them."""
    while True:
        try:
            advertise(paths, plan["node"], plan["resources"])
        except (OSError, ValueError, KeyError):
            pass  # the API server or the node is not there yet; the next look finds them
        time.sleep(1)


def kwok_node(pool: Pool, index: int) -> dict[str, Any]:
    """A node that KWOK plays: it has devices, and pods on it run nothing."""
    # Keyed, because a pool may name KWOK's own taint as well.
    keyed = {(k, e): v for k, v, e in (("kwok.x-k8s.io/node", "fake", "NoSchedule"), *pool.taints)}
    taints = [{"key": k, "value": v, "effect": e} for (k, e), v in keyed.items()]
    resources = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "8Ti", "pods": "110"}
    resources |= {name: str(count) for name, count in pool.resources.items()}
    name = f"{pool.name}-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "type": "kwok", **pool.labels,
            },
        },
        "spec": {"taints": taints},
        "status": {"allocatable": resources, "capacity": resources},
    }  # fmt: skip


def _role(name: str, *rules: tuple[str, str, str]) -> list[dict[str, Any]]:
    user = f"tokenworks:{name}"
    written = [
        {
            "apiGroups": groups.split(","),
            "resources": resources.split(","),
            "verbs": verbs.split(","),
        }
        for groups, resources, verbs in rules
    ]
    metadata = {"name": user}
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": written},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": user},
            "subjects": [{"kind": "User", "apiGroup": rbac, "name": user}],
        },
    ]


def _kubelet_api() -> list[dict[str, Any]]:
    objects = _role(
        "apiserver-kubelet", ("", "nodes/proxy,nodes/stats,nodes/log,nodes/metrics,nodes/configz,nodes/healthz,nodes/pods", "*")
    )  # fmt: skip
    return objects


def bootstrap_objects(spec: ClusterSpec, provisioner: dict[str, str]) -> list[dict[str, Any]]:
    """What the cluster itself needs: rights of its components, storage, simulated nodes."""
    read = "get,list,watch"
    objects = [
        *_kubelet_api(),
        *_role("coredns", ("", "endpoints,services,pods,namespaces", read),
               ("discovery.k8s.io", "endpointslices", read)),
        *_role("node-resources", ("", "nodes", read), ("", "nodes/status", "patch,update")),
        *_role("kwok", ("", "nodes,pods", f"{read},update,patch,delete"),
               ("", "nodes/status,pods/status", "update,patch"),
               ("coordination.k8s.io", "leases", f"{read},create,update,patch,delete"),
               ("", "events", "create,update,patch")),
        *_role("provisioner", ("", "nodes,persistentvolumeclaims,configmaps,namespaces", read),
               ("", "persistentvolumes", f"{read},create,update,patch,delete"),
               ("", "pods,pods/log", f"{read},create,delete"),
               ("", "events", "create,patch"), ("storage.k8s.io", "storageclasses", read),
               ("coordination.k8s.io", "leases", f"{read},create,update,patch"),
               ("", "endpoints", f"{read},create,update,patch")),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "local-path-storage"}},
        {"apiVersion": "v1", "kind": "ConfigMap",
         "metadata": {"name": "local-path-config", "namespace": "local-path-storage"},
         "data": provisioner},
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "local-path",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "rancher.io/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    ]  # fmt: skip
    for pool in spec.simulated:
        objects += [kwok_node(pool, index) for index in range(pool.nodes)]
    return objects
