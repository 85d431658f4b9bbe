"""The cluster autoscaler: how many nodes each managed node group has."""

from __future__ import annotations

from typing import Any, Final

from tokenworks.catalog.bill import bill
from tokenworks.render.aws.plan import AwsPlan, plan_of
from tokenworks.render.platform import image_reference
from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack

NAME: Final = "cluster-autoscaler"
NAMESPACE: Final = "kube-system"
_TAG: Final = f"k8s.io/{NAME}"
_LOOK: Final = ["get", "list", "watch"]
_RBAC: Final = "rbac.authorization.k8s.io"
_PORT: Final = 8085
_READ: Final = {
    "": [
        "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
        "replicationcontrollers", "services",
    ],
    "apps": ["daemonsets", "replicasets", "statefulsets"],
    "batch": ["jobs"],
    "policy": ["poddisruptionbudgets"],
    "resource.k8s.io": ["deviceclasses", "resourceclaims", "resourceslices"],
    "storage.k8s.io": [
        "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments",
    ],
}  # fmt: skip
"""What it simulates scheduling with, by API group."""


def cluster_autoscaler(stack: Stack) -> list[Release]:
    """The autoscaler; nothing where no node group may grow."""
    plan = plan_of(stack)
    if not plan.autoscaled:
        return []
    objects = (*_rights(), _deployment(plan))
    return [Release(NAME, "operators", NAMESPACE, objects)]


def _metadata(namespaced: bool = True) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "tokenworks"}
    return {"name": NAME, **({"namespace": NAMESPACE} if namespaced else {}), "labels": labels}


def _rule(group: str, resources: list[str], verbs: list[str], *names: str) -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**rule, **({"resourceNames": list(names)} if names else {})}


def _rights() -> tuple[Manifest, ...]:
    """Look at everything that decides where pods fit; empty nodes; tell what it does."""
    cluster = [
        *(_rule(group, resources, _LOOK) for group, resources in _READ.items()),
        _rule("", ["nodes"], ["update"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("", ["pods/status"], ["update"]),
    ]
    own = [
        _rule("", ["configmaps"], ["create", "list", "watch"]),
        _rule("", ["configmaps"], ["delete", "get", "update"], f"{NAME}-status"),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], NAME),
    ]
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata()},
        _role("ClusterRole", cluster),
        _binding("ClusterRole"),
        _role("Role", own),
        _binding("Role"),
    )


def _role(kind: str, rules: list[dict[str, Any]]) -> Manifest:
    metadata = _metadata(kind == "Role")
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(kind: str) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": _metadata(kind == "Role"),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    }


def _deployment(plan: AwsPlan) -> Manifest:
    selector = {"app.kubernetes.io/name": NAME}
    template = {"metadata": {"labels": _metadata()["labels"]}, "spec": _pod(plan)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 3,
            # Two at once would only wait for each other's lease.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector},
            "template": template,
        },
    }


def _pod(plan: AwsPlan) -> dict[str, Any]:
    image = bill().image(NAME, plan.spec.kubernetes_version)
    probe = {"httpGet": {"path": "/health-check", "port": _PORT}, "timeoutSeconds": 5}
    container = {
        "name": NAME,
        "image": image_reference(image),
        "command": ["./cluster-autoscaler", *arguments(plan)],
        # The metadata service, which would tell the region, does not answer pods.
        "env": [{"name": "AWS_REGION", "value": plan.spec.region}],
        "ports": [{"name": "metrics", "containerPort": _PORT, "protocol": "TCP"}],
        "livenessProbe": {**probe, "periodSeconds": 20, "failureThreshold": 6},
        "resources": {
            "requests": {"cpu": "100m", "memory": "600Mi"}, "limits": {"memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }  # fmt: skip
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "priorityClassName": "system-cluster-critical",
        # A node that it empties must not be its own.
        "nodeSelector": {"tokenworks.dev/pool": "system"},
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 65534, "fsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }  # fmt: skip


def arguments(plan: AwsPlan) -> list[str]:
    """Which groups it sizes, and when a node may go."""
    tags = f"{_TAG}/enabled,{_TAG}/{plan.cluster}"
    return [
        "--cloud-provider=aws",
        # EKS puts these tags on the groups that it makes.
        f"--node-group-auto-discovery=asg:tag={tags}",
        "--expander=least-waste",
        # Engines have memory-backed volumes, which count as local storage.
        "--skip-nodes-with-local-storage=false",
        # A GPU node goes when no GPU of it is in use: emptying it would break answers off.
        "--scale-down-gpu-utilization-threshold=0.01",
        "--cordon-node-before-terminating=true",
        "--stderrthreshold=info",
        "--v=2",
    ]
