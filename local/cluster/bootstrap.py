"""Objects that the cluster itself needs: rights of its components, DNS, storage."""

from __future__ import annotations

from collections.abc import Mapping

from local.cluster.api import Object
from local.cluster.spec import DNS_IP, NODE_IP

_RBAC = "rbac.authorization.k8s.io"
_READ = "get,list,watch"
_STORAGE = "local-path-storage"
_LABELS = {"app.kubernetes.io/managed-by": "tokenworks-local"}

# User -> (API groups, resources, verbs), comma-separated. Components that Kubernetes
# knows (scheduler, node, …) have roles that the API server makes.
_RIGHTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "apiserver-kubelet": (
        ("", "nodes/proxy,nodes/stats,nodes/log,nodes/metrics,nodes/configz,nodes/healthz", "*"),
        ("", "nodes/pods", "*"),
    ),
    "coredns": (
        ("", "endpoints,services,pods,namespaces", _READ),
        ("discovery.k8s.io", "endpointslices", _READ),
    ),
    "supervisor": (("", "nodes", "get"), ("", "nodes/status", "patch")),
    "kwok": (
        ("", "nodes,pods", f"{_READ},update,patch,delete"),
        ("", "nodes/status,pods/status", "update,patch"),
        ("coordination.k8s.io", "leases", f"{_READ},create,update,patch,delete"),
        ("", "events", "create,update,patch"),
    ),
    "provisioner": (
        ("", "nodes,persistentvolumeclaims,configmaps,namespaces", _READ),
        ("", "persistentvolumes", f"{_READ},create,update,patch,delete"),
        ("", "pods,pods/log", f"{_READ},create,delete"),
        ("", "events", "create,patch"),
        ("storage.k8s.io", "storageclasses", _READ),
        ("coordination.k8s.io", "leases", f"{_READ},create,update,patch"),
        ("", "endpoints", f"{_READ},create,update,patch"),
    ),
}


def _role(user: str, rules: tuple[tuple[str, str, str], ...]) -> list[Object]:
    name = f"tokenworks:{user}"
    keys = ("apiGroups", "resources", "verbs")
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{k: v.split(",") for k, v in zip(keys, r, strict=True)} for r in rules],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "apiGroup": _RBAC, "name": name}],
        },
    ]


def _dns() -> list[Object]:
    """The Service by which everybody looks for DNS; its server is a program on the node."""
    metadata = {"name": "kube-dns", "namespace": "kube-system"}
    labels = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"},
             {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]  # fmt: skip
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**metadata, "labels": labels},
            "spec": {"clusterIP": DNS_IP, "ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [NODE_IP]}],
            "ports": ports,
        },
    ]


def _storage(provisioner: Mapping[str, str]) -> list[Object]:
    return [
        # A label, because an object without any field of ours would differ at the next apply.
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": _STORAGE, "labels": _LABELS},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "local-path-config", "namespace": _STORAGE},
            "data": dict(provisioner),
        },
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
    ]


def objects(provisioner: Mapping[str, str]) -> list[Object]:
    """Everything, in the order in which it can be applied; `provisioner` is its configuration."""
    roles = [obj for user, rules in _RIGHTS.items() for obj in _role(user, rules)]
    return [*roles, *_dns(), *_storage(provisioner)]
