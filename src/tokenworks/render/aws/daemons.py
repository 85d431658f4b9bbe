"""Pods on every node with devices: what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tokenworks.render.aws.plan import PoolPlan
from tokenworks.spec.stack import Manifest

NAMESPACE: Final = "node-software"


@dataclass(frozen=True)
class Folder:
    """A folder of the node, at the same path in the pod."""

    path: str
    read_only: bool = False
    made: bool = False
    """Whether it is made where it is missing."""

    @property
    def name(self) -> str:
        """Of the volume."""
        return self.path.rpartition("/")[2].replace(".", "-")


@dataclass(frozen=True)
class Daemon:
    """One container on each node that has a label."""

    name: str
    container: dict[str, Any]
    """What tells it from the others: image, command, environment, ports, probes."""
    label: str
    """Nodes where it is `true`."""
    pools: Sequence[PoolPlan]
    """Whose taints it tolerates."""
    folders: Sequence[Folder] = ()
    memory: str = "256Mi"


def labels_of(name: str) -> dict[str, str]:
    """Labels of an object of ours here."""
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "tokenworks"}


def daemon_set(daemon: Daemon) -> Manifest:
    """The DaemonSet."""
    labels = labels_of(daemon.name)
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": daemon.name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": daemon.name}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": _pod(daemon)},
        },
    }


def _pod(daemon: Daemon) -> dict[str, Any]:
    whole = {
        **daemon.container,
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": daemon.memory},
        },
        "volumeMounts": [_mount(folder) for folder in daemon.folders],
    }  # fmt: skip
    return {
        "nodeSelector": {daemon.label: "true"},
        "tolerations": tolerations(daemon.pools),
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [whole],
        "volumes": [_volume(folder) for folder in daemon.folders],
    }


def _mount(folder: Folder) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": folder.name, "mountPath": folder.path}
    return {**mount, **({"readOnly": True} if folder.read_only else {})}


def _volume(folder: Folder) -> dict[str, Any]:
    host = {"path": folder.path, **({"type": "DirectoryOrCreate"} if folder.made else {})}
    return {"name": folder.name, "hostPath": host}


def tolerations(pools: Sequence[PoolPlan]) -> list[dict[str, str]]:
    """Every taint of the pools: on a node that it does not tolerate, the devices stay unseen."""
    taints = sorted({(t.key, t.effect) for pool in pools for t in pool.taints})
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
