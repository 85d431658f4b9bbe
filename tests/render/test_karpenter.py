"""Karpenter's pools: what a node is made of, which there may be, and when they go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local.toolchain import module_dir
from tests.components.aws.environments import ACCOUNT, G6, P5, changed, plan
from tests.render import aws_stacks
from tests.render.karpenter_objects import karpenter_objects
from tokenworks.catalog.bill import bill
from tokenworks.catalog.network import load_networks
from tokenworks.check.conform import validate_schemas
from tokenworks.check.schemas import build_schemas
from tokenworks.render.aws import AwsPlan
from tokenworks.render.aws.karpenter import (
    karpenter,
    karpenter_values,
    node_class,
    node_pool,
    pool_objects,
)
from tokenworks.render.helm import RenderTools, parse
from tokenworks.spec.common import quantity_value

P5K = changed(P5, manager="karpenter")


def made(pool: dict[str, Any], **aws: Any) -> tuple[AwsPlan, dict[str, Any], dict[str, Any]]:
    """Plan, and specs of the pool's EC2NodeClass and NodePool."""
    found = plan({"it": pool}, **aws)
    (it,) = found.pools
    return found, node_class(found, it, 65532)["spec"], node_pool(it)["spec"]


def requirement(spec: dict[str, Any], key: str) -> list[str]:
    (found,) = [r for r in spec["template"]["spec"]["requirements"] if r["key"] == key]
    assert found["operator"] == "In"
    return found["values"]


def test_efa_sits_on_every_card_in_one_zone_and_close_together() -> None:
    _, class_, pool = made(P5K)
    assert len(class_["networkInterfaces"]) == 33
    assert class_["networkInterfaces"][0]["interfaceType"] == "interface"
    assert {i["interfaceType"] for i in class_["networkInterfaces"][1:]} == {"efa-only"}
    assert class_["placementGroupSelector"] == {"name": "test-it"}
    assert {"tags": {"tokenworks.dev/efa": "test"}} in class_["securityGroupSelectorTerms"]
    assert requirement(pool, "topology.kubernetes.io/zone") == ["us-east-1a"]


def test_a_pool_without_efa_has_none_of_it() -> None:
    _, class_, pool = made(changed(G6, manager="karpenter", minNodes=0))
    assert {"networkInterfaces", "placementGroupSelector", "userData"} & class_.keys() == set()
    assert len(class_["securityGroupSelectorTerms"]) == 1
    assert requirement(pool, "topology.kubernetes.io/zone") == ["us-east-1a", "us-east-1b"]


@pytest.mark.parametrize(
    ("purchase", "capacity"),
    [("on-demand", "on-demand"), ("spot", "spot"), ("reservation", "reserved"),
     ("capacity-block", "reserved")],
)  # fmt: skip
def test_how_capacity_is_bought(purchase: str, capacity: str) -> None:
    number = {"reservation": "cr-0123456789abcdef0"} if capacity == "reserved" else {}
    _, class_, pool = made(changed(P5K, purchase=purchase, **number))
    assert requirement(pool, "karpenter.sh/capacity-type") == [capacity]
    terms = [{"id": "cr-0123456789abcdef0"}] if number else None
    assert class_.get("capacityReservationSelectorTerms") == terms


def test_huge_pages_of_efa_nodes_are_told_as_no_instance_type_has_them() -> None:
    """Pods with EFA ask for them: for Karpenter no node would fit, and none would ever be made."""
    found, _, _ = made(P5K)
    _, _, overlay = pool_objects(found, found.pools[0], 65532)
    assert overlay["kind"] == "NodeOverlay"
    (only,) = overlay["spec"]["requirements"]
    assert only == {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["it"]}
    asked, told = load_networks()["efa"].hugepages, overlay["spec"]["capacity"]
    assert asked.keys() == told.keys()
    assert all(quantity_value(asked[name]) <= quantity_value(told[name]) for name in asked)
    without, _, _ = made(changed(G6, manager="karpenter", minNodes=0))
    assert len(pool_objects(without, without.pools[0], 65532)) == 2
    assert "featureGates" not in karpenter_values(without)["settings"]


@pytest.mark.helm
@pytest.mark.parametrize(("manager", "gate"), [("karpenter", "true"), ("node-group", "false")])
def test_the_controller_heeds_overlays_where_there_are_any(
    manager: str, gate: str, renderer: Path
) -> None:
    stack = aws_stacks.changed(pools={"p5": {"manager": manager, "minNodes": 0}})
    releases = {r.name: r for r in karpenter(stack, RenderTools(renderer, module_dir))}
    release = releases["karpenter"]
    (deployment,) = [o for o in release.objects if o["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (gates,) = [e["value"] for e in container["env"] if e["name"] == "FEATURE_GATES"]
    assert f"NodeOverlay={gate}" in gates


def test_images_are_pinned_by_the_date_of_their_release() -> None:
    _, class_, _ = made(P5K)
    assert class_["amiSelectorTerms"] == [{"alias": "al2023@v20260728"}]


def test_a_nodes_credentials_end_at_the_node_and_its_disks_are_encrypted() -> None:
    _, class_, _ = made(P5K)
    assert class_["metadataOptions"]["httpTokens"] == "required"
    assert class_["metadataOptions"]["httpPutResponseHopLimit"] == 1
    assert class_["blockDeviceMappings"][0]["ebs"]["encrypted"] is True
    assert class_["role"] == "test-node"
    assert class_["tags"]["cost-center"] == "inference"


def test_local_disks_are_joined_by_karpenter_and_the_folder_made_by_the_node() -> None:
    _, class_, _ = made(P5K)
    assert class_["instanceStorePolicy"] == "RAID0"
    assert "RAID0" not in class_["userData"]
    assert "'/mnt/k8s-disks/0/weights'" in class_["userData"]


@pytest.mark.fieldnote(62)
def test_never_more_gpus_than_quota_counts_on_and_never_a_node_in_use() -> None:
    _, _, pool = made(P5K)
    assert pool["limits"] == {"nvidia.com/gpu": "16"}
    assert pool["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert pool["template"]["spec"]["expireAfter"] == "Never"
    assert pool["template"]["spec"]["taints"] == [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
    assert pool["template"]["metadata"]["labels"]["tokenworks.dev/pool"] == "p5"


def test_the_controller_knows_its_cluster_and_its_queue() -> None:
    found, _, _ = made(P5K)
    settings = karpenter_values(found)["settings"]
    assert settings["clusterName"] == "test"
    assert settings["interruptionQueue"] == "test-interruptions"
    assert ACCOUNT not in str(karpenter_values(found))


# Against the pinned CRDs


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Strict schemas: a field that the CRD does not have would be dropped without a word."""
    component = bill().components["karpenter"]
    assert component.module is not None
    folder = module_dir(component.module) / component.crds[0]
    definitions = [o for file in sorted(folder.glob("*.yaml")) for o in parse(file.read_text())]
    openapi = module_dir("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3"
    return build_schemas(openapi, definitions, tmp_path_factory.mktemp("schemas"))


@pytest.mark.kubeconform
def test_every_pool_fits_the_crds_of_the_pinned_version(kubeconform: Path, schemas: Path) -> None:
    objects = karpenter_objects()
    assert {o["kind"] for o in objects} == {"EC2NodeClass", "NodePool", "NodeOverlay"}
    assert validate_schemas(objects, kubeconform, schemas) == []


@pytest.mark.kubeconform
@pytest.mark.parametrize("kind", ["EC2NodeClass", "NodePool", "NodeOverlay"])
def test_a_misspelt_field_would_be_found(kind: str, kubeconform: Path, schemas: Path) -> None:
    broken = next(o for o in karpenter_objects() if o["kind"] == kind)
    broken["spec"]["tagz"] = {}
    (finding,) = validate_schemas([broken], kubeconform, schemas)
    assert "tagz" in finding.message
