"""NVIDIA's network operator: whose adapters are shared, and as what."""

from __future__ import annotations

import json
from typing import Any

from tokenworks.render.rdma import network_operator
from tokenworks.spec.environment import Environment
from tokenworks.spec.stack import Stack


def stack(**operator: Any) -> Stack:
    """An existing cluster whose nodes have eight adapters."""
    pool = {
        "gpu": "nvidia-h100-80gb", "gpusPerNode": 8, "nodes": 2,
        "rdma": {"resource": "rdma/hca", "perNode": 8}, "labels": {"pool": "h100"},
        "taints": [{"key": "nvidia.com/gpu"}],
    }  # fmt: skip
    document = {
        "metadata": {"name": "bare-metal"},
        "spec": {
            "cluster": {"provider": "existing", "context": "bare-metal"},
            "nodePools": {"h100": pool},
            "platform": {"networkOperator": operator},
        },
    }
    return Stack(Environment.model_validate(document), (), ())


def config(wanted: Stack) -> dict[str, Any]:
    _, devices = network_operator(wanted)
    (policy,) = devices.objects
    (entry,) = json.loads(policy["spec"]["rdmaSharedDevicePlugin"]["config"])["configList"]
    return entry


def test_without_being_asked_for_there_is_none() -> None:
    assert network_operator(stack()) == []


def test_pods_ask_for_the_resource_that_pools_name() -> None:
    entry = config(stack(enabled=True))
    assert f"{entry['resourcePrefix']}/{entry['resourceName']}" == "rdma/hca"
    assert entry["rdmaHcaMax"] == 8
    assert entry["selectors"] == {"vendors": ["15b3"]}


def test_only_the_named_interfaces_are_shared() -> None:
    entry = config(stack(enabled=True, interfaces=["ens1f0np0", "ens2f0np0"]))
    assert entry["selectors"] == {"vendors": ["15b3"], "ifNames": ["ens1f0np0", "ens2f0np0"]}


def test_the_policy_comes_after_what_defines_its_kind() -> None:
    operator, devices = network_operator(stack(enabled=True))
    assert devices.needs == (operator.name,)
    assert [chart.chart for chart in operator.charts] == ["network-operator"]


def test_plugin_and_discovery_reach_every_node_of_the_pools() -> None:
    operator, devices = network_operator(stack(enabled=True))
    wanted = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    worker = operator.charts[0].values["node-feature-discovery"]["worker"]
    assert worker["tolerations"] == wanted
    assert devices.objects[0]["spec"]["tolerations"] == wanted


def test_plugin_and_chart_are_of_one_release() -> None:
    operator, devices = network_operator(stack(enabled=True))
    version = devices.objects[0]["spec"]["rdmaSharedDevicePlugin"]["version"]
    assert version == f"network-operator-v{operator.charts[0].version}"
