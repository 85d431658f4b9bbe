"""Device plugins: one for each resource, on the nodes that have it, whatever their taints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenworks.render.aws import plan_of
from tokenworks.render.aws.node_software import node_software
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Stack

ROOT = Path(__file__).resolve().parents[2]


def changed(**software: str) -> Stack:
    """prod with other owners of node software."""
    stack = load_stack(ROOT, "prod")
    aws = stack.environment.spec.cluster.aws
    assert aws is not None
    owners = aws.node_software.model_copy(update=software)
    cluster = stack.environment.spec.cluster.model_copy(
        update={"aws": aws.model_copy(update={"node_software": owners})}
    )
    spec = stack.environment.spec.model_copy(update={"cluster": cluster})
    return Stack(stack.environment.model_copy(update={"spec": spec}), (), stack.tenants)


def daemons(stack: Stack) -> dict[str, dict[str, Any]]:
    """Pod specs by name."""
    return {
        o["metadata"]["name"]: o["spec"]["template"]["spec"]
        for release in node_software(stack)
        for o in release.objects
        if o["kind"] == "DaemonSet"
    }


def test_each_resource_has_one_plugin() -> None:
    assert set(daemons(changed())) == {"nvidia-device-plugin", "efa-device-plugin"}


def test_what_another_owner_installs_is_left_to_it() -> None:
    assert set(daemons(changed(gpus="gpu-operator"))) == {"efa-device-plugin"}
    assert node_software(changed(gpus="gpu-operator", efa="dra")) == []


def test_plugins_run_where_the_devices_are() -> None:
    found = daemons(changed())
    labels = [pool.labels for pool in plan_of(changed()).pools]
    for name, count in (("nvidia-device-plugin", 3), ("efa-device-plugin", 1)):
        ((key, value),) = found[name]["nodeSelector"].items()
        assert sum(each.get(key) == value for each in labels) == count


def test_plugins_tolerate_every_taint_of_their_pools() -> None:
    wanted = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert all(spec["tolerations"] == wanted for spec in daemons(changed()).values())


def test_plugins_get_the_sockets_of_the_kubelet_and_no_privileges() -> None:
    for spec in daemons(changed()).values():
        (container,) = spec["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in container["securityContext"]
        assert [v["hostPath"]["path"] for v in spec["volumes"]] == [
            "/var/lib/kubelet/device-plugins"
        ]
