"""Pools: EFA on every card, in one zone and both directions; capacity; sizes; what a node runs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.components.aws.environments import G6, P5, built, changed, inputs, of
from tests.components.recorder import Registered
from tokenworks.catalog.aws import instances
from tokenworks.render.aws.interfaces import Interface, interfaces
from tokenworks.render.aws.user_data import user_data


def template(found: dict[str, Registered], pool: str) -> dict[str, Any]:
    return found[f"test-nodes-{pool}-nodes-template"].inputs


def group(found: dict[str, Registered], pool: str) -> Registered:
    return found[f"test-nodes-{pool}-nodes-group"]


# EFA


@pytest.mark.parametrize(
    ("instance", "count"),
    [("p5.48xlarge", 32), ("p5en.48xlarge", 16), ("p4d.24xlarge", 4), ("p6-b200.48xlarge", 8)],
)
def test_one_interface_has_an_address_and_each_card_an_efa(instance: str, count: int) -> None:
    found = interfaces(instances().accelerated[instance].efa_cards)
    assert found[0] == Interface(card=0, device=0, efa_only=False)
    assert [i.card for i in found[1:]] == list(range(count))
    assert all(i.efa_only for i in found[1:])
    assert found[1].device == 1, "the first card's first device has the address"
    assert {i.device for i in found[2:]} == {0}
    assert len({(i.card, i.device) for i in found}) == count + 1


def test_where_the_first_card_cannot_carry_efa_the_others_do() -> None:
    found = interfaces(instances().accelerated["p6-b300.48xlarge"].efa_cards)
    assert [i.card for i in found[1:]] == list(range(1, 17))
    assert {i.device for i in found} == {0}


@pytest.mark.fieldnote(56)
def test_every_interface_of_an_efa_node_is_in_the_clusters_group_and_in_efas() -> None:
    found = template(built(), "p5")
    assert len(found["networkInterfaces"]) == 33
    assert "vpcSecurityGroupIds" not in found, "the two exclude each other"
    for interface in found["networkInterfaces"]:
        assert interface["securityGroups"] == ["sg-cluster", "test-nodes-efa-group"]
        assert "associatePublicIpAddress" not in interface


@pytest.mark.fieldnote(55)
def test_the_efa_group_names_itself_in_both_directions() -> None:
    found = built()
    rules = {n: found[f"test-nodes-efa-{n}"] for n in ("in", "out")}
    assert rules["in"].token.endswith("SecurityGroupIngressRule")
    assert rules["out"].token.endswith("SecurityGroupEgressRule")
    for rule in rules.values():
        assert rule.inputs["securityGroupId"] == "test-nodes-efa-group"
        assert rule.inputs["referencedSecurityGroupId"] == "test-nodes-efa-group"
        assert rule.inputs["ipProtocol"] == "-1"
        assert "cidrIpv4" not in rule.inputs
        assert rule.above == "tokenworks:aws:EfaGroup"


@pytest.mark.fieldnote(56)
def test_an_efa_pool_stands_in_one_zone_and_close_together() -> None:
    found = built()
    assert group(found, "p5").inputs["subnetIds"] == ["test-foundation-network-private-us-east-1a"]
    placement = inputs(found, "ec2:PlacementGroup")
    assert (placement["strategy"], placement["name"]) == ("cluster", "test-p5")
    assert template(found, "p5")["placement"] == {"groupName": "test-p5"}


def test_a_pool_without_efa_has_none_of_it() -> None:
    found = built({"g6": G6})
    assert of(found, "ec2:PlacementGroup") == []
    assert "test-nodes-efa-group" not in found
    assert "networkInterfaces" not in template(found, "g6")
    assert template(found, "g6")["vpcSecurityGroupIds"] == ["sg-cluster"]
    assert len(group(found, "g6").inputs["subnetIds"]) == 2


# Capacity and size


@pytest.mark.parametrize(
    ("purchase", "capacity"),
    [
        ("on-demand", "ON_DEMAND"),
        ("reservation", "ON_DEMAND"),
        ("capacity-block", "CAPACITY_BLOCK"),
    ],
)
def test_how_capacity_is_bought(purchase: str, capacity: str) -> None:
    reserved = {} if purchase == "on-demand" else {"reservation": "cr-0123456789abcdef0"}
    found = built({"p5": changed(P5, purchase=purchase, **reserved)})
    assert group(found, "p5").inputs["capacityType"] == capacity
    launch = template(found, "p5")
    if reserved:
        spec = launch["capacityReservationSpecification"]
        assert spec["capacityReservationTarget"] == {
            "capacityReservationId": reserved["reservation"]
        }
        assert spec["capacityReservationPreference"] == "capacity-reservations-only"
    else:
        assert "capacityReservationSpecification" not in launch
    block = purchase == "capacity-block"
    assert launch.get("instanceMarketOptions") == (
        {"marketType": "capacity-block"} if block else None
    )
    assert bool(of(found, "ec2:PlacementGroup")) is not block


def test_spot() -> None:
    found = built({"g6": changed(G6, purchase="spot")})
    assert group(found, "g6").inputs["capacityType"] == "SPOT"


@pytest.mark.fieldnote(61, 65)
def test_limits_are_the_documents_and_the_number_in_between_is_the_autoscalers() -> None:
    node_group = group(built(), "g6")
    assert node_group.inputs["scalingConfig"] == {"minSize": 1, "maxSize": 4, "desiredSize": 1}
    assert node_group.ignored == ("scalingConfig.desiredSize",)
    assert node_group.timeout == "60m"


@pytest.mark.fieldnote(62)
def test_an_update_needs_no_gpu_nodes_beyond_those_that_there_may_be() -> None:
    """By default EKS starts new nodes first, beyond the most that quota and reservation hold."""
    found = built()
    strategies = {
        pool: group(found, pool).inputs["updateConfig"] for pool in ("p5", "g6", "system")
    }
    assert strategies == {
        "p5": {"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
        "g6": {"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
        "system": {"maxUnavailable": 1, "updateStrategy": "DEFAULT"},
    }


def test_an_empty_group_tells_the_autoscaler_what_its_nodes_would_have() -> None:
    tags = {
        t.inputs["tag"]["key"].removeprefix("k8s.io/cluster-autoscaler/node-template/"): t.inputs[
            "tag"
        ]["value"]
        for t in of(built({"p5": P5}), "autoscaling:Tag")
        if "-p5-" in t.name
    }
    assert tags == {
        "label/tokenworks.dev/pool": "p5",
        "label/nvidia.com/gpu.present": "true",
        "label/tokenworks.dev/efa": "true",
        "taint/nvidia.com/gpu": ":NoSchedule",
        "resources/nvidia.com/gpu": "8",
        "resources/vpc.amazonaws.com/efa": "32",
        "resources/hugepages-2Mi": "42242Mi",
        "resources/ephemeral-storage": "22649Gi",
        "label/k8s.amazonaws.com/accelerator": "nvidia-h100-80gb",
    }


def test_labels_and_taints_are_on_the_nodes() -> None:
    found = group(built(), "p5").inputs
    assert found["labels"] == {
        "tokenworks.dev/pool": "p5", "nvidia.com/gpu.present": "true", "tokenworks.dev/efa": "true",
        "k8s.amazonaws.com/accelerator": "nvidia-h100-80gb",
    }  # fmt: skip
    assert found["taints"] == [{"key": "nvidia.com/gpu", "value": "", "effect": "NO_SCHEDULE"}]


# What a node is


@pytest.mark.parametrize("pool", ["p5", "g6", "system"])
def test_a_nodes_metadata_ends_at_the_node(pool: str) -> None:
    assert template(built(), pool)["metadataOptions"] == {
        "httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1,
    }  # fmt: skip


@pytest.mark.parametrize("pool", ["p5", "g6", "system"])
@pytest.mark.fieldnote(59)
def test_disks_are_encrypted_and_images_pinned(pool: str) -> None:
    found = built()
    (disk,) = template(found, pool)["blockDeviceMappings"]
    assert disk["ebs"]["encrypted"] == "true"
    assert disk["ebs"]["kmsKeyId"] == "arn:aws:test:::test-foundation-volumes-key-key"
    assert group(found, pool).inputs["releaseVersion"] == "1.35.6-20260728"
    assert "imageId" not in template(found, pool)


def test_images_have_the_driver_where_there_are_gpus() -> None:
    found = built()
    assert group(found, "p5").inputs["amiType"] == "AL2023_x86_64_NVIDIA"
    assert group(found, "system").inputs["amiType"] == "AL2023_x86_64_STANDARD"
    plain = {"image": "plain", "driver": "gpu-operator", "toolkit": "gpu-operator"}
    assert group(built(nodeSoftware=plain), "p5").inputs["amiType"] == "AL2023_x86_64_STANDARD"


def decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def test_disks_of_a_node_are_joined_and_hold_the_folder_for_weights() -> None:
    said = decoded(template(built(), "p5")["userData"])
    assert '"strategy": "RAID0"' in said
    assert "install -d -m 0755 -o 65532 -g 65532 '/mnt/k8s-disks/0/weights'" in said
    assert said.count("--//tokenworks//\n") == 2
    assert said.endswith("--//tokenworks//--\n")


def test_nodes_without_disks_join_nothing() -> None:
    said = user_data(raid=False)
    assert "RAID0" not in said
    assert "install" not in said
    assert "kind" in said


def test_a_change_of_instance_type_changes_template_and_nothing_but() -> None:
    before, after = built({"p5": P5}), built({"p5": changed(P5, instanceType="p5e.48xlarge")})
    assert before.keys() == after.keys()
    assert [n for n in before if before[n] != after[n]] == ["test-nodes-p5-nodes-template"]


def test_an_added_pool_changes_no_other() -> None:
    before, after = built({"p5": P5}), built({"p5": P5, "g6": G6})
    assert {n for n in before if before[n] != after[n]} == set()
    assert {n for n in after if n not in before and after[n].token.startswith("aws:")} >= {
        "test-nodes-g6-nodes-group", "test-nodes-g6-nodes-template",
    }  # fmt: skip
    assert all("-g6" in n for n in after.keys() - before.keys())


def test_labels_that_differ_by_a_slash_have_a_tag_each() -> None:
    labels = {"team-a/x.y": "1", "team/a-x.y": "2", "team-a-x.y": "3"}
    tags = of(built({"g6": {**G6, "labels": labels}}), "autoscaling:Tag")
    told = {t.inputs["tag"]["value"] for t in tags if "/label/team" in t.inputs["tag"]["key"]}
    assert told == {"1", "2", "3"}


def test_one_tag_more_leaves_the_others_what_they_are() -> None:
    """A resource that took over another's key would have it deleted by the old one."""

    def tags(pool: dict[str, Any]) -> dict[str, str]:
        tags = of(built({"p5": pool}), "autoscaling:Tag")
        return {t.name: t.inputs["tag"]["key"] for t in tags if "-p5-" in t.name}

    few, more = tags(P5), tags({**P5, "labels": {**P5["labels"], "a.example.com/first": "x"}})
    assert len(more) == len(few) + 1
    assert few.items() <= more.items()
