"""The stand-in for the AWS provider: what it refuses, what passes, and that it makes nothing."""

from __future__ import annotations

import re
from typing import Any

import grpc
import pytest
import yaml
from google.protobuf.struct_pb2 import Struct

from local.aws_standin import schema, services
from local.aws_standin.provider import REFUSAL, Provider
from local.aws_standin.values import UNKNOWN, plain, same
from local.pulumi_host.stubs import provider_pb2 as pb
from tests.repo.tree import ROOT

GROUP = "aws:eks/nodeGroup:NodeGroup"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "x"}


def group(**more: Any) -> dict[str, Any]:
    """A node group that is right."""
    return {
        "clusterName": "test",
        "nodeRoleArn": "arn:aws:iam::123456789012:role/node",
        "scalingConfig": {"desiredSize": 1.0, "minSize": 1.0, "maxSize": 2.0},
        "subnetIds": ["subnet-1", UNKNOWN],
        **more,
    }


def of_types(token: str, inputs: dict[str, Any]) -> dict[str, str]:
    return dict(schema.failures(token, inputs))


def of_services(token: str, inputs: dict[str, Any]) -> dict[str, str]:
    return dict(services.Checker().failures(token, inputs))


def test_what_is_right_passes() -> None:
    assert of_types(GROUP, group(amiType="AL2023_x86_64_NVIDIA", tags={"a": "b"})) == {}
    assert of_services(GROUP, group(amiType="AL2023_x86_64_NVIDIA", tags={"a": "b"})) == {}


@pytest.mark.parametrize(
    ("changed", "path", "reason"),
    [
        ({"subnetIds": "subnet-1"}, "subnetIds", "wanted a list"),
        ({"scalingConfig": [1]}, "scalingConfig", "wanted a map"),
        ({"scalingConfig": {"minSize": 1.0, "maxSize": 2.0}}, "scalingConfig.desiredSize",
         "is missing"),
        ({"scalingConfig": {"desiredSize": "x", "minSize": 1.0, "maxSize": 2.0}},
         "scalingConfig.desiredSize", "wanted a whole number"),
        ({"scalingConfig": {"desiredSize": 1.5, "minSize": 1.0, "maxSize": 2.0}},
         "scalingConfig.desiredSize", "wanted a whole number"),
        ({"amiTyp": "x"}, "amiTyp", "did you mean amiType?"),
        ({"tags": ["a"]}, "tags", "wanted a map"),
        ({"tags": {"a": ["b"]}}, "tags.a", "wanted text"),
        ({"subnetIds": [{}]}, "subnetIds[0]", "wanted text"),
        ({"forceUpdateVersion": "perhaps"}, "forceUpdateVersion", "wanted true or false"),
    ],
)  # fmt: skip
def test_types_are_the_sdks(changed: dict[str, Any], path: str, reason: str) -> None:
    found = of_types(GROUP, group(**changed))
    assert list(found) == [path]
    assert reason in found[path]


def test_what_must_be_given_is_named() -> None:
    assert set(of_types(GROUP, {})) == {
        "clusterName", "nodeRoleArn", "scalingConfig", "subnetIds",
    }  # fmt: skip


def test_a_resource_that_is_not_there_is_named_with_the_nearest() -> None:
    found = of_types("aws:eks/nodeGrup:NodeGroup", {})
    assert "did you mean aws:eks/nodeGroup:NodeGroup?" in found[""]


def test_names_that_a_nested_type_has_taken_are_found() -> None:
    right = {"bucket": "b", "versioningConfiguration": {"status": "Enabled"}}
    assert of_types("aws:s3/bucketVersioning:BucketVersioning", right) == {}


@pytest.mark.parametrize(
    ("token", "inputs", "path"),
    [
        (GROUP, group(amiType="AL2023_NVIDIA"), "amiType"),
        (GROUP, group(capacityType="RESERVED"), "capacityType"),
        (GROUP, group(taints=[{"key": "a", "effect": "NoSchedule"}]), "taints[0].effect"),
        ("aws:ec2/placementGroup:PlacementGroup", {"strategy": "close"}, "strategy"),
        ("aws:ec2/launchTemplate:LaunchTemplate", {"instanceType": "p5.49xlarge"}, "instanceType"),
        ("aws:ec2/flowLog:FlowLog", {"trafficType": "SOME"}, "trafficType"),
        ("aws:eks/cluster:Cluster", {"name": "-x"}, "name"),
    ],
)
def test_values_are_the_services(token: str, inputs: dict[str, Any], path: str) -> None:
    assert list(of_services(token, inputs)) == [path]


def test_a_property_that_the_service_calls_otherwise_is_not_checked() -> None:
    """IAM's is RoleName, the provider's is name."""
    assert of_services("aws:iam/role:Role", {"name": "a b"}) == {}


def test_every_table_names_what_is_there() -> None:
    """A misspelt token or shape would silently check nothing."""
    assert set(services.operations()) <= set(schema.resources())
    for token in services.operations():
        assert list(services.Checker().failures(token, {})) == []


def test_secrets_are_looked_into_and_unknowns_fit() -> None:
    assert plain({"a": SECRET, "b": [SECRET]}) == {"a": "x", "b": ["x"]}
    assert of_types(GROUP, group(subnetIds=UNKNOWN, amiType=UNKNOWN)) == {}
    assert same({"a": [UNKNOWN, 1.0]}, {"a": ["x", 1.0]})
    assert not same({"a": [UNKNOWN]}, {"a": ["x", "y"]})
    assert not same({"a": 1.0}, {"a": 2.0})


class _AbortedError(Exception):
    pass


class _Context:
    """Of a gRPC call, as far as the provider uses it."""

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise _AbortedError(code, details)


def struct(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


def test_previews_are_echoed() -> None:
    request = pb.CreateRequest(urn="u", properties=struct(a="b"), preview=True)
    response = Provider("1").Create(request, _Context())  # type: ignore[arg-type]
    assert dict(response.properties) == {"a": "b"}
    assert response.id == ""


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("Create", pb.CreateRequest(properties=Struct())),
        ("Update", pb.UpdateRequest()),
        ("Delete", pb.DeleteRequest()),
        ("Read", pb.ReadRequest()),
        ("Invoke", pb.InvokeRequest()),
    ],
)
def test_everything_else_is_refused(method: str, request_: Any) -> None:
    with pytest.raises(_AbortedError) as raised:
        getattr(Provider("1"), method)(request_, _Context())
    assert raised.value.args == (grpc.StatusCode.FAILED_PRECONDITION, REFUSAL)


def test_a_check_counts_and_tells_what_is_wrong() -> None:
    provider = Provider("1")
    urn = f"urn:pulumi:s::p::tokenworks:x${GROUP}::n"
    request = pb.CheckRequest(urn=urn, news=struct(**group(amiType="x")))
    response = provider.Check(request, _Context())  # type: ignore[arg-type]
    assert [f.property for f in response.failures] == ["amiType"]
    assert provider.summary().startswith("1 AWS resources type-checked")


@pytest.mark.parametrize(
    ("changed", "replaced"),
    [({"amiType": "AL2023_ARM_64_NVIDIA"}, True), ({"labels": {"a": "b"}}, False), ({}, None)],
)
def test_what_cannot_change_in_place_is_replaced(
    changed: dict[str, Any], replaced: bool | None
) -> None:
    urn = f"urn:pulumi:s::p::{GROUP}::n"
    request = pb.DiffRequest(
        urn=urn,
        old_inputs=struct(**group(amiType="a")),
        news=struct(**group(amiType="a") | changed),
    )
    response = Provider("1").Diff(request, _Context())  # type: ignore[arg-type]
    assert list(response.diffs) == sorted(changed)
    assert list(response.replaces) == (sorted(changed) if replaced else [])


def test_sizes_that_the_autoscaler_keeps_are_no_change() -> None:
    new = struct(**group(labels={"a": "b"}))
    request = pb.DiffRequest(
        urn=f"urn:pulumi:s::p::{GROUP}::n", old_inputs=struct(**group()), news=new,
        ignoreChanges=["labels"],
    )  # fmt: skip
    assert list(Provider("1").Diff(request, _Context()).diffs) == []  # type: ignore[arg-type]


# What cannot be changed in place, and where that was read


OPERATIONS = yaml.safe_load((ROOT / "local/aws_standin/operations.yaml").read_text())
REPLACES: dict[str, dict[str, Any]] = OPERATIONS["replaces"]


def made() -> set[str]:
    """Types of AWS that the environments of this repository register."""
    trees = (ROOT / "tests/offline/golden").glob("*.txt")
    return {t for f in trees for t in re.findall(r"\baws:\S+/\S+:\S+", f.read_text())}


def test_every_type_that_is_made_was_looked_up_or_is_said_not_to_be() -> None:
    assert len(made()) > 40
    assert set(REPLACES) & set(OPERATIONS["unread"]) == set()
    assert made() == set(REPLACES) | set(OPERATIONS["unread"])


@pytest.mark.parametrize("token", REPLACES)
def test_what_is_listed_is_sourced_sorted_and_known_to_the_sdk(token: str) -> None:
    entry = REPLACES[token]
    assert entry["source"] in OPERATIONS["sources"]
    assert entry["properties"] == sorted(set(entry["properties"]))
    for path in entry["properties"]:
        assert _known(token, path), f"{token} has no {path}"


@pytest.mark.parametrize(("length", "refused"), [(128, False), (129, True)])
def test_one_tag_of_a_group_is_checked_as_those_of_its_call(length: int, refused: bool) -> None:
    tag = {"key": "k" * length, "value": "v", "propagateAtLaunch": False}
    found = of_services("aws:autoscaling/tag:Tag", {"autoscalingGroupName": "x", "tag": tag})
    assert ("tag.key" in found) is refused


ROLE = "aws:iam/role:Role"


@pytest.mark.parametrize(
    ("token", "inputs", "name", "refused"),
    [
        (ROLE, {}, "r" * 56, False),
        (ROLE, {}, "r" * 57, True),
        (ROLE, {"name": "short"}, "r" * 57, False),
        (ROLE, {"name": UNKNOWN}, "r" * 57, False),
        (ROLE, {"namePrefix": "short"}, "r" * 57, False),
        ("aws:cloudwatch/eventRule:EventRule", {}, "r" * 57, True),
        ("aws:iam/rolePolicy:RolePolicy", {}, "r" * 57, False),
        ("aws:iam/rolePolicy:RolePolicy", {}, "r" * 121, True),
        (GROUP, {}, "r" * 200, False),
        ("aws:ec2/vpc:Vpc", {}, "r" * 300, False),
        ("aws:no/such:Such", {}, "r" * 300, False),
    ],
)
def test_a_name_that_pulumi_would_make_is_refused_where_it_would_be_too_long(
    token: str, inputs: dict[str, Any], name: str, refused: bool
) -> None:
    found = dict(services.Checker().unnamed(token, inputs, name))
    assert bool(found) is refused
    request = pb.CheckRequest(urn=f"urn:pulumi:s::p::{token}::{name}", news=struct(**inputs))
    failures = Provider("1").Check(request, _Context()).failures  # type: ignore[arg-type]
    assert any("Pulumi would name it" in f.reason for f in failures) is refused


def _known(token: str, path: str) -> bool:
    """Whether the SDK knows an input, whatever its type."""
    inputs: Any = UNKNOWN
    for name in reversed(path.split(".")):
        inputs = {name: inputs}
    wrong = of_types(token, inputs)
    return not any(why.startswith("no such property") for why in wrong.values())


def test_an_input_that_is_not_there_would_be_found() -> None:
    assert not _known(GROUP, "amiTypes")
    assert not _known(GROUP, "launchTemplate.ids")


@pytest.mark.parametrize(
    ("changed", "replaced"),
    [({"id": "lt-2", "version": "1"}, True), ({"id": "lt-1", "version": "2"}, False),
     ({"id": UNKNOWN, "version": "2"}, False)],
)  # fmt: skip
def test_a_part_of_a_property_may_decide(changed: dict[str, Any], replaced: bool) -> None:
    before = group(launchTemplate={"id": "lt-1", "version": "1"})
    request = pb.DiffRequest(
        urn=f"urn:pulumi:s::p::{GROUP}::n",
        old_inputs=struct(**before),
        news=struct(**before | {"launchTemplate": changed}),
    )
    response = Provider("1").Diff(request, _Context())  # type: ignore[arg-type]
    assert list(response.diffs) == ["launchTemplate"]
    assert list(response.replaces) == (["launchTemplate"] if replaced else [])
