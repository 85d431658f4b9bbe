"""RDMA on clusters that are there already: adapters that the pods of a node share."""

from __future__ import annotations

import json
from typing import Any, Final

from tokenworks.catalog.bill import bill, upstream_values
from tokenworks.render.platform import remote_release
from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack

KEY: Final = "network-operator"
RESOURCE: Final = "rdma/hca"
_MELLANOX: Final = "15b3"
"""Vendor of the adapters, as PCI numbers it."""


def network_operator(stack: Stack) -> list[Release]:
    """The operator and its policy; nothing where the document does not ask for it."""
    if not stack.environment.spec.platform.network_operator.enabled:
        return []
    # Its pods mount folders of the host.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return [
        remote_release(KEY, network_operator_values(stack), labels),
        Release("rdma-devices", "platform", "", (nic_cluster_policy(stack),), (KEY,)),
    ]


def network_operator_values(stack: Stack) -> dict[str, Any]:
    """Values of the upstream chart: discovery on every node of a pool, whatever its taints."""
    values = upstream_values(KEY)
    values["node-feature-discovery"]["worker"]["tolerations"] = _tolerations(stack)
    return values


def _tolerations(stack: Stack) -> list[dict[str, str]]:
    pools = stack.environment.spec.node_pools.values()
    taints = sorted({(t.key, t.effect) for pool in pools for t in pool.taints})
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]


def nic_cluster_policy(stack: Stack) -> Manifest:
    """Which adapters pods share, and as what they ask for them.

    Every pool has as many shares (checked when documents are loaded): the policy is one for all.
    """
    image = bill().image(KEY, "rdma-shared-device-plugin")
    registry, _, name = image.repository.rpartition("/")
    operator = stack.environment.spec.platform.network_operator
    chosen = {"ifNames": list(operator.interfaces)} if operator.interfaces else {}
    shares = max(p.rdma.per_node for p in stack.environment.spec.node_pools.values() if p.rdma)
    prefix, _, resource = RESOURCE.partition("/")
    config = {
        "configList": [{
            "resourcePrefix": prefix, "resourceName": resource, "rdmaHcaMax": shares,
            "selectors": {"vendors": [_MELLANOX], **chosen},
        }],
    }  # fmt: skip
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicClusterPolicy",
        # The operator knows it by this name alone.
        "metadata": {
            "name": "nic-cluster-policy",
            "labels": {"app.kubernetes.io/part-of": "tokenworks"},
        },
        "spec": {
            "tolerations": _tolerations(stack),
            "rdmaSharedDevicePlugin": {
                "repository": registry,
                "image": name,
                "version": str(image.tag),
                "config": json.dumps(config, sort_keys=True),
            },
        },
    }
