"""Device plugins: what offers GPUs and EFA interfaces to pods, on the nodes that have them."""

from __future__ import annotations

from typing import Any, Final

from tokenworks.catalog.bill import bill
from tokenworks.render.aws.plan import EFA_LABEL, GPU_LABEL, AwsPlan, PoolPlan, plan_of
from tokenworks.render.platform import image_reference, namespace_object
from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack

NAMESPACE: Final = "node-software"
_SOCKETS: Final = "/var/lib/kubelet/device-plugins"


def node_software(stack: Stack) -> list[Release]:
    """The plugins that the environment's document gives to us, one owner for each resource."""
    plan = plan_of(stack)
    objects: list[Manifest] = []
    if plan.pools and plan.spec.node_software.gpus == "device-plugin":
        objects.append(_nvidia(plan))
    if plan.has_efa and plan.spec.node_software.efa == "device-plugin":
        objects.append(_efa(plan))
    if not objects:
        return []
    # The plugins mount a folder of the host.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    whole = (namespace_object(NAMESPACE, labels), *objects)
    return [Release("node-software", "operators", NAMESPACE, whole)]


def _nvidia(plan: AwsPlan) -> Manifest:
    image = image_reference(bill().image("nvidia-device-plugin", "plugin"))
    container = {
        "name": "plugin",
        "image": image,
        # A node whose driver is still loading must not end the plugin for ever.
        "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
    }
    return _daemon("nvidia-device-plugin", container, GPU_LABEL, plan.pools)


def _efa(plan: AwsPlan) -> Manifest:
    image = image_reference(bill().image("efa-device-plugin", "plugin"))
    pools = tuple(pool for pool in plan.pools if pool.efa_cards)
    daemon = _daemon("efa-device-plugin", {"name": "plugin", "image": image}, EFA_LABEL, pools)
    # It asks the metadata service, which answers the node alone: pods are a hop too far.
    daemon["spec"]["template"]["spec"]["hostNetwork"] = True
    return daemon


def _daemon(
    name: str, container: dict[str, Any], label: str, pools: tuple[PoolPlan, ...]
) -> Manifest:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "tokenworks"}
    sockets = [{"name": "sockets", "mountPath": _SOCKETS}]
    whole = {
        **container,
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"},
        },
        "volumeMounts": sockets,
    }  # fmt: skip
    spec = {
        "nodeSelector": {label: "true"},
        "tolerations": _tolerations(pools),
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [whole],
        "volumes": [{"name": "sockets", "hostPath": {"path": _SOCKETS}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _tolerations(pools: tuple[PoolPlan, ...]) -> list[dict[str, str]]:
    """Every taint of the pools: on a node that it does not tolerate, the devices stay unseen."""
    taints = sorted({(t.key, t.effect) for pool in pools for t in pool.taints})
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
