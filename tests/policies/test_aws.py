"""Rules for AWS resources: what each finds, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pulumi.runtime.proto import analyzer_pb2

from policies import Context
from policies import check as judged
from policies.aws import COST_TAG, RULES, UNKNOWN, AwsResource, check, judge, resource_of
from policies.model import Waiver

TAGS = {COST_TAG: "inference"}
PRIVATE = {"endpointPublicAccess": False}
KEYED = {"provider": {"keyArn": "arn:x"}}


def cluster(**properties: Any) -> AwsResource:
    whole = {"tags": TAGS, "vpcConfig": PRIVATE, "encryptionConfig": KEYED, **properties}
    return AwsResource("eks:Cluster", "x", "urn:x", whole, protected=True)


def template(depends: dict[str, Sequence[str]] | None = None, **properties: Any) -> AwsResource:
    options = {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    handed_on = [{"resourceType": "instance", "tags": TAGS}]
    whole = {
        "tags": TAGS, "metadataOptions": options, "tagSpecifications": handed_on,
        **disk(encrypted="true"), **properties,
    }  # fmt: skip
    return AwsResource("ec2:LaunchTemplate", "t", "urn:t", whole, depends=depends or {})


def of(token: str, protected: bool = False, **properties: Any) -> AwsResource:
    return AwsResource(token, "x", "urn:x", {"tags": TAGS, **properties}, protected)


def disk(**ebs: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}


def by_default(algorithm: Any, **key: Any) -> dict[str, Any]:
    return {"applyServerSideEncryptionByDefault": {"sseAlgorithm": algorithm, **key}}


METADATA = {"httpTokens": "required", "httpPutResponseHopLimit": 1}
PERSISTENT = "PERSISTENT_2"
BESIDE = "s3:BucketServerSideEncryptionConfiguration"
KEPT = {
    "serverSideEncryptionConfiguration": {"rule": by_default("aws:kms", kmsMasterKeyId="arn:x")}
}
EFA = [{"interfaceType": "efa-only"}]
NEAR = {"groupName": "near"}
LETS = "vpc:SecurityGroupIngressRule"
OPEN = ["0.0.0.0/0"]
# Compliant, not known yet, absent where that is right, configured otherwise: all silent.
SILENT = [
    cluster(),
    cluster(vpcConfig=UNKNOWN, encryptionConfig=UNKNOWN, tags=UNKNOWN),
    cluster(vpcConfig={"endpointPublicAccess": UNKNOWN}),
    of(LETS, cidrIpv4="10.0.0.0/16"),
    of(LETS, cidrIpv4=UNKNOWN),
    of(LETS, referencedSecurityGroupId="sg-1"),
    of("vpc:SecurityGroupEgressRule", cidrIpv4="0.0.0.0/0"),
    of("ec2:SecurityGroup"),
    of("ec2:SecurityGroup", ingress=[{"cidrBlocks": ["10.0.0.0/8"]}]),
    of("ec2:SecurityGroup", egress=[{"cidrBlocks": OPEN}]),
    of("ec2:SecurityGroupRule", type="egress", cidrBlocks=OPEN),
    template(),
    template(**disk(encrypted="true")),
    template(**disk(encrypted=True)),
    template(**disk(encrypted=UNKNOWN)),
    template(blockDeviceMappings=[{"deviceName": "/dev/xvda", "noDevice": "x"}]),
    template(metadataOptions=UNKNOWN),
    template(metadataOptions={"httpTokens": "required", "httpPutResponseHopLimit": 1.0}),
    template(networkInterfaces=[{"interfaceType": "interface"}]),
    of("cloudwatch:LogGroup", kmsKeyId="arn:x"),
    of("ebs:Volume", protected=True, encrypted=True),
    of("ebs:Volume", protected=True, snapshotId="snap-1"),
    of("efs:FileSystem", protected=True, encrypted=True),
    of("efs:FileSystem", protected=True, encrypted=UNKNOWN),
    of("rds:Instance", protected=True, storageEncrypted="true"),
    of("rds:Instance", protected=True, replicateSourceDb="db-1"),
    of("rds:Cluster", protected=True, snapshotIdentifier=UNKNOWN),
    of("ec2:Instance", launchTemplate={"id": "lt-1"}),
    of("ec2:Instance", metadataOptions={"httpEndpoint": "disabled"}, rootBlockDevice=UNKNOWN),
    of("ec2:LaunchConfiguration", metadataOptions=METADATA, rootBlockDevice={"encrypted": True}),
    of("eks:NodeGroup", launchTemplate={"id": UNKNOWN}),
    of("eks:NodeGroup", launchTemplate=UNKNOWN, remoteAccess=UNKNOWN),
    of("eks:AccessEntry", principalArn="arn:aws:iam::123456789012:role/user/x"),
    of("ec2:ManagedPrefixList", entries=[{"cidr": "10.0.0.0/8"}, {"cidr": UNKNOWN}]),
    of(LETS, cidrIpv4="172.16.0.0/12"),
    of(LETS, cidrIpv6="2001:db8::/32"),
    of("elasticache:ReplicationGroup", atRestEncryptionEnabled=True),
    of("sns:Topic", kmsMasterKeyId=UNKNOWN),
    of("dynamodb:Table", protected=True),
    template(tagSpecifications=UNKNOWN),
    template(tagSpecifications=[{"resourceType": "volume"}, {"resourceType": UNKNOWN}]),
    of("ec2:NetworkInterface", interfaceType="interface"),
    of("ec2:Instance", metadataOptions=METADATA, rootBlockDevice={"encrypted": True}),
    of("fsx:LustreFileSystem", protected=True, deploymentType=PERSISTENT, kmsKeyId=UNKNOWN),
    of("fsx:LustreFileSystem", protected=True, deploymentType="SCRATCH_2"),
    of("fsx:LustreFileSystem", protected=True),
    of("fsx:OpenZfsFileSystem", protected=True, kmsKeyId="arn:x"),
    of("ecr:Repository", encryptionConfigurations=[{"encryptionType": "KMS", "kmsKey": "arn:x"}]),
    of("ecr:Repository", encryptionConfigurations=[{"encryptionType": "KMS", "kmsKey": UNKNOWN}]),
    of("ecr:Repository", encryptionConfigurations=UNKNOWN),
    of("sqs:Queue"),
    of("sqs:Queue", sqsManagedSseEnabled=True),
    of("sqs:Queue", sqsManagedSseEnabled=False, kmsMasterKeyId="alias/x"),
    of(BESIDE, bucket="x", rules=[by_default("aws:kms", kmsMasterKeyId="arn:x")]),
    of(BESIDE, bucket="x", rules=[by_default("aws:kms:dsse", kmsMasterKeyId=UNKNOWN)]),
    of(BESIDE, bucket="x", rules=[by_default(UNKNOWN)]),
    of(BESIDE, bucket="x", rules=UNKNOWN),
    of("s3:Bucket", protected=True, serverSideEncryptionConfiguration={
        "rule": by_default("aws:kms", kmsMasterKeyId="arn:x")}),
    of("s3:Bucket", protected=True, serverSideEncryptionConfiguration=UNKNOWN),
    of("kms:Key", protected=True),
    of("s3:BucketObject", forceDestroy=True),
    of("iam:Role"),
    of("autoscaling:Tag", tags=None),
]  # fmt: skip
LOUD = [
    ("aws-public-endpoint", cluster(vpcConfig={"endpointPublicAccess": True}), "vpcConfig"),
    ("aws-public-endpoint", cluster(vpcConfig={}), "vpcConfig"),
    ("aws-open-ingress", of(LETS, cidrIpv4="0.0.0.0/0"), "cidrIpv4"),
    ("aws-open-ingress", of(LETS, cidrIpv6="::/0"), "cidrIpv6"),
    ("aws-open-ingress", of(LETS, cidrIpv4="0.0.0.0/1"), "cidrIpv4"),
    ("aws-open-ingress", of(LETS, cidrIpv4="0.0.0.0/00"), "cidrIpv4"),
    ("aws-open-ingress", of(LETS, cidrIpv6="0::/0"), "cidrIpv6"),
    ("aws-open-ingress", of(LETS, cidrIpv6="2000::/3"), "cidrIpv6"),
    ("aws-open-ingress", of("ec2:ManagedPrefixList", entries=[{"cidr": "0.0.0.0/0"}]), "entries"),
    ("aws-open-ingress", of("ec2:ManagedPrefixListEntry", cidr="0.0.0.0/0"), "cidr"),
    ("aws-open-ingress", of("ec2:SecurityGroupRule", type="ingress", cidrBlocks=OPEN), "cidr"),
    ("aws-open-ingress", of("ec2:SecurityGroup", ingress=[{}, {"cidrBlocks": OPEN}]), "ingress[1]"),
    ("aws-open-ingress", of("ec2:DefaultSecurityGroup", ingress=[{"ipv6CidrBlocks": ["::/0"]}]),
     "ingress[0]"),
    ("aws-encryption", cluster(encryptionConfig=None), "encryptionConfig"),
    ("aws-encryption", of("cloudwatch:LogGroup"), "kmsKeyId"),
    ("aws-encryption", of("fsx:LustreFileSystem", True, deploymentType=PERSISTENT), "kmsKeyId"),
    ("aws-encryption", of("fsx:WindowsFileSystem", True), "kmsKeyId"),
    ("aws-encryption", of("ebs:Volume", True, encrypted=False), "encrypted"),
    ("aws-encryption", of("ebs:Volume", True), "encrypted"),
    ("aws-encryption", of("efs:FileSystem", True), "encrypted"),
    ("aws-encryption", of("rds:Instance", True, storageEncrypted=False), "storageEncrypted"),
    ("aws-encryption", of("rds:Cluster", True), "storageEncrypted"),
    ("aws-encryption",
     of("ec2:Instance", metadataOptions=METADATA, rootBlockDevice={"volumeSize": 8}),
     "rootBlockDevice[0].encrypted"),
    ("aws-encryption",
     of("ec2:Instance", metadataOptions=METADATA, rootBlockDevice={"encrypted": True},
        ebsBlockDevices=[{"encrypted": True}, {"x": 1}]),
     "ebsBlockDevices[1].encrypted"),
    ("aws-encryption", of("ec2:Instance", metadataOptions=METADATA), "rootBlockDevice"),
    ("aws-encryption", of("ec2:LaunchConfiguration", metadataOptions=METADATA), "rootBlockDevice"),
    ("aws-encryption", template(blockDeviceMappings=None), "blockDeviceMappings"),
    ("aws-encryption", of("docdb:Cluster", True), "storageEncrypted"),
    ("aws-encryption", of("sns:Topic"), "kmsMasterKeyId"),
    ("aws-encryption", of("secretsmanager:Secret"), "kmsKeyId"),
    ("aws-encryption", of("ecr:Repository"), "encryptionConfigurations"),
    ("aws-encryption", of("ecr:Repository", encryptionConfigurations=[{"encryptionType": "KMS"}]),
     "encryptionConfigurations"),
    ("aws-encryption",
     of("ecr:RepositoryCreationTemplate", encryptionConfigurations={"encryptionType": "AES256"}),
     "encryptionConfigurations"),
    ("aws-encryption", of("sqs:Queue", sqsManagedSseEnabled=False), "sqsManagedSseEnabled"),
    ("aws-encryption", of(BESIDE, bucket="x", rules=[by_default("AES256")]), "rules[0]"),
    ("aws-encryption", of(BESIDE, bucket="x", rules=[by_default("aws:kms")]), "rules[0]"),
    ("aws-encryption", of(BESIDE, rules=[{"bucketKeyEnabled": True}]), "rules[0]"),
    ("aws-encryption",
     of("s3:Bucket", True, serverSideEncryptionConfiguration={"rule": by_default("AES256")}),
     "serverSideEncryptionConfiguration.rule"),
    ("aws-bucket-encryption", of("s3:Bucket", True), ""),
    ("aws-bucket-encryption", of("s3:BucketV2", True, bucket="weights"), ""),
    ("aws-encryption", template(**disk(volumeSize=10)), "blockDeviceMappings[0].ebs.encrypted"),
    ("aws-encryption", template(**disk(encrypted="false")), "blockDeviceMappings[0]"),
    ("aws-node-metadata", template(metadataOptions=None), "httpTokens"),
    ("aws-node-metadata", template(metadataOptions={"httpTokens": "optional"}), "httpTokens"),
    ("aws-node-metadata",
     template(metadataOptions={"httpTokens": "required", "httpPutResponseHopLimit": 2}), "Limit"),
    ("aws-node-metadata", template(metadataOptions={"httpTokens": "required"}), "HopLimit"),
    ("aws-node-metadata",
     of("ec2:SpotInstanceRequest", rootBlockDevice={"encrypted": True}), "httpTokens"),
    ("aws-cost-tag", template(tagSpecifications=None), "tagSpecifications"),
    ("aws-cost-tag", template(tagSpecifications=[{"resourceType": "volume", "tags": TAGS}]),
     "tagSpecifications"),
    ("aws-cost-tag", of("lb:LoadBalancer", tags={}), "tags"),
    ("aws-cost-tag", template(tags={"team": "x"}), "tags"),
    ("aws-cost-tag", template(tags=None), "tags"),
    ("aws-long-lived-key", of("iam:User"), ""),
    ("aws-long-lived-key", of("iam:AccessKey"), ""),
    ("aws-long-lived-key", template(keyName="mine"), "keyName"),
    ("aws-long-lived-key", of("iam:ServiceSpecificCredential"), ""),
    ("aws-long-lived-key",
     of("eks:NodeGroup", launchTemplate={"id": "lt-1"}, remoteAccess={"ec2SshKey": "mine"}),
     "remoteAccess"),
    ("aws-long-lived-key",
     of("eks:AccessEntry", principalArn="arn:aws:iam::123456789012:user/bob"), "principalArn"),
    ("aws-protected", of("dynamodb:Table"), ""),
    ("aws-protected",
     of("ecr:Repository", forceDelete=True,
        encryptionConfigurations=[{"encryptionType": "KMS", "kmsKey": "arn:x"}]), "forceDelete"),
    ("aws-protected", of("s3:Bucket", **KEPT), ""),
    ("aws-protected", of("s3:Bucket", True, forceDestroy=True, **KEPT), "forceDestroy"),
    ("aws-protected", of("kms:Key"), ""),
    ("aws-protected", of("rds:Instance", storageEncrypted=True), ""),
    ("aws-protected", of("ebs:Volume", encrypted=True), ""),
    ("aws-efa-group", template(networkInterfaces=EFA, placement=NEAR), "networkInt"),
]  # fmt: skip


@pytest.mark.parametrize("item", SILENT, ids=str)
def test_what_is_right_is_left_alone(item: AwsResource) -> None:
    assert check([item]) == []


@pytest.mark.parametrize(("rule", "item", "path"), LOUD, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_found_once(rule: str, item: AwsResource, path: str) -> None:
    (finding,) = check([item])
    assert (finding.rule, finding.urn) == (rule, item.urn)
    assert path in finding.property
    assert finding.remedy in finding.words()


def test_every_rule_finds_something() -> None:
    found = {finding.rule for finding in check([template(networkInterfaces=EFA)])}
    assert {rule for rule, _, _ in LOUD} | found == {rule.id for rule in RULES}


def test_an_empty_stack_has_no_findings() -> None:
    assert check([]) == []


def efa(inward: str | None, outward: str | None, protocol: str = "-1") -> list[AwsResource]:
    """A node with EFA in group urn:g, and rules of that group whose other side is given."""

    def rule(kind: str, other: str) -> AwsResource:
        depends = {"securityGroupId": ["urn:g"], "referencedSecurityGroupId": [other]}
        properties = {"ipProtocol": protocol, "tags": TAGS}
        return AwsResource(f"vpc:SecurityGroup{kind}Rule", kind, f"urn:{kind}", properties,
                           depends=depends)  # fmt: skip

    rules = [rule(k, o) for k, o in (("Ingress", inward), ("Egress", outward)) if o]
    group = AwsResource("ec2:SecurityGroup", "g", "urn:g", {"tags": TAGS})
    launch = template({"networkInterfaces": ["urn:g"]}, networkInterfaces=EFA, placement=NEAR)
    return [group, launch, *rules]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, True),
        ({"placement": {}}, True),
        ({"placement": {"groupName": UNKNOWN}}, False),
        ({"placement": NEAR}, False),
        ({"placement": [NEAR]}, False),
        ({"capacityReservationSpecification": {"capacityReservationTarget": {}}}, False),
        ({"instanceMarketOptions": {"marketType": "capacity-block"}}, False),
        ({"networkInterfaces": UNKNOWN}, False),
        ({"networkInterfaces": [{"interfaceType": UNKNOWN}]}, False),
        ({"networkInterfaces": [{"interfaceType": "interface"}]}, False),
    ],
    ids=str,
)
def test_nodes_with_efa_stand_close_together(more: dict[str, Any], expected: bool) -> None:
    item = template(**{"networkInterfaces": EFA, **more})
    assert ("aws-efa-placement" in {f.rule for f in check([item])}) is expected


@pytest.mark.fieldnote(55)
def test_efas_group_names_itself_in_both_directions() -> None:
    assert check(efa("urn:g", "urn:g")) == []


def test_a_node_group_without_a_template_has_what_eks_gives_it() -> None:
    found = check([of("eks:NodeGroup")])
    assert {f.rule for f in found} == {"aws-encryption", "aws-node-metadata"}
    assert {f.property for f in found} == {"launchTemplate"}


def efa_in(inside: dict[str, Any], *rules: AwsResource) -> list[AwsResource]:
    """A node with EFA in a group of whose rules some are a part of it."""
    group = AwsResource("ec2:SecurityGroup", "g", "urn:g", {"tags": TAGS, **inside})
    launch = template({"networkInterfaces": ["urn:g"]}, networkInterfaces=EFA, placement=NEAR)
    return [group, launch, *rules]


def older(way: str, source: str | None = None, **properties: Any) -> AwsResource:
    """A rule as the older kind of resource, whose other side is `source`, or itself."""
    depends = {"securityGroupId": ["urn:g"]}
    depends |= {"sourceSecurityGroupId": [source]} if source else {}
    whole = {"type": way, "protocol": "-1", **properties}
    return AwsResource("ec2:SecurityGroupRule", way, f"urn:{way}", whole, depends=depends)


ITSELF = [{"protocol": "-1", "self": True, "fromPort": 0, "toPort": 0}]


@pytest.mark.fieldnote(55)
@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (efa_in({"ingress": ITSELF, "egress": ITSELF}), []),
        (efa_in({}, older("ingress", self=True), older("egress", self=True)), []),
        (efa_in({"ingress": ITSELF}, older("egress", "urn:g")), []),
        (efa_in({"ingress": ITSELF}), ["aws-efa-group"]),
        (efa_in({"ingress": ITSELF}, older("egress", "urn:other")), ["aws-efa-group"]),
        (efa_in({"ingress": ITSELF, "egress": [{"protocol": "-1", "cidrBlocks": OPEN}]}),
         ["aws-efa-group"]),
        (efa_in({"ingress": ITSELF, "egress": [{"protocol": "tcp", "self": True}]}),
         ["aws-efa-group"]),
        ([of("ec2:NetworkInterface", interfaceType="efa-only")], ["aws-efa-group"]),
    ],
)  # fmt: skip
def test_a_group_may_name_itself_in_any_way_that_aws_has(
    resources: list[AwsResource], expected: list[str]
) -> None:
    assert [f.rule for f in check(resources)] == expected


@pytest.mark.parametrize(
    "resources",
    [
        efa("urn:g", None), efa(None, "urn:g"), efa("urn:g", "urn:other"),
        efa("urn:g", "urn:g", protocol="tcp"), efa(None, None),
    ],
)  # fmt: skip
def test_one_direction_or_one_protocol_is_not_enough(resources: list[AwsResource]) -> None:
    assert [f.rule for f in check(resources)] == ["aws-efa-group"]


def bucket(name: Any, *others: AwsResource) -> list[AwsResource]:
    made = AwsResource("s3:Bucket", "b", "urn:b", {"tags": TAGS, "bucket": name}, protected=True)
    return [made, *others]


def beside(name: Any, made: str | None = None) -> AwsResource:
    """How a bucket's contents are encrypted; `made`: URN of the bucket that the name comes from."""
    rule = by_default("aws:kms", kmsMasterKeyId=UNKNOWN)
    depends = {"bucket": [made]} if made else {}
    properties = {"bucket": name, "rules": [rule]}
    return AwsResource(BESIDE, "c", f"urn:c-{name}", properties, depends=depends)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (bucket("weights", beside("weights")), []),
        (bucket("weights", beside(UNKNOWN, "urn:b")), []),
        (bucket(UNKNOWN, beside(UNKNOWN, "urn:b")), []),
        (bucket("weights", beside("logs")), ["aws-bucket-encryption"]),
        (bucket("weights", beside(UNKNOWN, "urn:other")), ["aws-bucket-encryption"]),
        (bucket(UNKNOWN, beside(UNKNOWN, "urn:other")), ["aws-bucket-encryption"]),
    ],
)
def test_the_key_of_a_bucket_is_said_beside_it(
    resources: list[AwsResource], expected: list[str]
) -> None:
    assert [f.rule for f in check(resources)] == expected


class _NotKnownError(Exception):
    pass


class _Proxy(dict[str, Any]):
    """As the policy SDK's: reading what is not known raises."""

    def __getitem__(self, key: str) -> Any:
        if key == "id":
            raise _NotKnownError
        return super().__getitem__(key)


@dataclass
class _Given:
    resource_type: str
    props: Any
    urn: str = "urn:x"
    name: str = "x"
    opts: Any = None
    property_dependencies: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])


def test_what_pulumi_hands_over_becomes_plain() -> None:
    other = _Given("aws:ec2/vpc:Vpc", {}, urn="urn:vpc")
    props = _Proxy(id=None, tags=TAGS, list=[{"a": 1.0}])
    given = _Given("aws:ec2/subnet:Subnet", props, property_dependencies={"vpcId": [other]})
    found = resource_of(given, _NotKnownError)
    assert found is not None
    assert found.token == "ec2:Subnet"
    assert found.properties == {"id": UNKNOWN, "tags": TAGS, "list": [{"a": 1.0}]}
    assert found.depends == {"vpcId": ["urn:vpc"]}
    assert found.protected is False


def test_other_providers_are_left_out() -> None:
    assert resource_of(_Given("kubernetes:core/v1:Secret", {}), _NotKnownError) is None


def test_where_nodes_stand_is_a_warning() -> None:
    # Who writes placementGroup: false has chosen so; what EFA cannot do without is an error.
    found = {f.rule: f.severity for f in check([template(networkInterfaces=EFA)])}
    assert found == {"aws-efa-group": "error", "aws-efa-placement": "warning"}


WAIVER = Waiver(
    "aws-public-endpoint", "eks:Cluster main", "until the tunnel is there", "team-a", "2099-12-31"
)


@pytest.mark.parametrize(
    ("context", "severity"),
    [
        (Context(), "error"),
        (Context(levels={"aws-public-endpoint": "warning"}), "warning"),
        (Context(levels={"aws-public-endpoint": "off"}), None),
        (Context(waivers=(WAIVER,), today="2026-11-30"), None),
        (Context(waivers=(replace(WAIVER, expires="2020-01-01"),), today="2026-11-30"), "error"),
        (Context(waivers=(replace(WAIVER, object="eks:Cluster other"),)), "error"),
    ],
)
def test_the_environment_weighs_and_waives_them_too(context: Context, severity: str | None) -> None:
    config = {"endpointPublicAccess": True, "endpointPrivateAccess": True}
    given = _Given("aws:eks/cluster:Cluster", {"vpcConfig": config, "tags": TAGS}, name="main")
    found = {
        level
        for level in ("error", "warning")
        for words, _ in judge([given], _NotKnownError, level, context, across=False)
        if "aws-public-endpoint" in words
    }
    assert found == ({severity} if severity else set())


def test_a_waiver_of_one_is_no_waiver_of_nothing() -> None:
    context = Context(waivers=(WAIVER,), today="2026-11-30", whole=True)
    assert [f for f in judged([], context) if f.rule == "waiver"] == []


def test_what_is_wrong_in_itself_is_said_of_the_resource_and_the_rest_of_the_stack() -> None:
    given = _Given("aws:s3/bucket:Bucket", {"tags": TAGS, "forceDestroy": True}, name="weights")
    said = {
        across: [
            words.partition("]")[0].strip("[")
            for words, _ in judge([given], _NotKnownError, "error", Context(), across=across)
        ]
        for across in (False, True)
    }
    assert said == {False: ["aws-protected", "aws-protected"], True: ["aws-bucket-encryption"]}


def test_no_policy_is_told_what_would_be_retained() -> None:
    """As soon as the engine says it, `aws-protected` has to ask for it."""
    told = {f.name for f in analyzer_pb2.AnalyzerResourceOptions.DESCRIPTOR.fields}
    assert "protect" in told
    assert [name for name in told if "retain" in name.lower()] == []
