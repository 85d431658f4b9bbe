"""Resources, labels and openness of roles."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.documents import model, stack, variants
from tokenworks.catalog.aws import instances
from tokenworks.catalog.network import load_networks
from tokenworks.render.model import model_values
from tokenworks.render.roles import huge_pages
from tokenworks.spec.aws import AwsPool
from tokenworks.spec.common import quantity_value
from tokenworks.spec.environment import NodePool
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.values import RoleValues


def roles(release: ModelRelease) -> dict[str, RoleValues]:
    """Values of every role."""
    return dict(model_values(stack(release), release).roles)


def test_devices_are_shared_like_gpus() -> None:
    devices = "vpc.amazonaws.com/efa"
    assert roles(variants()["group"])["engine"].resources.devices[devices] == "32"
    assert roles(variants()["split"])["decode"].resources.devices[devices] == "8"
    assert roles(model())["engine"].resources.devices == {}


def test_huge_pages_are_shared_like_gpus() -> None:
    """p4d.24xlarge has 21122Mi of them: with 5Gi for each, four of eight pods would fit."""
    asked = {
        kind: roles(variants()[kind])[role].resources.devices["hugepages-2Mi"]
        for kind, role in (("group", "engine"), ("split", "decode"))
    }
    assert asked == {"group": "5Gi", "split": "1280Mi"}


def test_no_pod_asks_for_more_huge_pages_than_its_node_has() -> None:
    """p5.4xlarge has 16 vCPUs, and 3522Mi of them."""
    pages = instances().efa_hugepages
    for name, instance in instances().accelerated.items():
        aws = AwsPool.model_validate({"instanceType": name})
        pool = NodePool(gpu="a", gpus_per_node=instance.accelerator.count, nodes=1, aws=aws)
        for gpus in range(1, pool.gpus_per_node + 1):
            asked = quantity_value(huge_pages(load_networks()["efa"], pool, gpus)[pages.resource])
            assert asked * (pool.gpus_per_node // gpus) <= pages.bytes_of(instance.vcpus), name
            assert asked > 0
            assert asked % quantity_value(pages.size) == 0


def test_tcp_between_roles_opens_the_release_and_rdma_does_not() -> None:
    over_tcp = model(topology={"kind": "disaggregated", "network": "tcp"}, pool="l4")
    assert {role.open_to for role in roles(over_tcp).values()} == {"release"}
    assert {role.open_to for role in roles(variants()["split"]).values()} == {"none"}
    assert roles(variants()["group"])["engine"].open_to == "role"


@pytest.mark.parametrize("changes", [{"engine": {"name": "sglang"}}, {"transfer": "mooncake"}])
def test_ports_that_a_bootstrap_server_tells_are_open_between_roles(
    changes: dict[str, Any],
) -> None:
    engine = {"engine": changes["engine"]} if "engine" in changes else {}
    topology = {"kind": "disaggregated", **({} if engine else changes)}
    assert {role.open_to for role in roles(model(topology=topology, **engine)).values()} == {
        "release"
    }


def test_decode_is_behind_its_sidecar_and_after_prefill() -> None:
    both = roles(variants()["split"])
    assert both["prefill"].sidecar is None and both["prefill"].engine_port is None
    assert both["decode"].sidecar is not None and both["decode"].engine_port == 8200
    assert (both["prefill"].after, both["decode"].after) == (None, "prefill")


def test_routers_read_where_to_ask_for_kv_from_prefill_alone() -> None:
    split = {"kind": "disaggregated", "router": "engine", "transfer": "mooncake"}
    both = roles(model(topology=split))
    assert both["prefill"].annotations == {"vllm.ai/bootstrap-port": "8998"}
    assert both["decode"].annotations == {}
