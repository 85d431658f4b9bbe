"""Rules for AWS resources: pure functions over what a Pulumi stack registers.

A value that is not known before something is made is `UNKNOWN`: what a rule says after reading it
is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from policies.model import Context, Severity
from policies.profiles import weigh
from policies.resources import plain
from policies.tree import Place, Unknown, at, is_mapping, mapping, sequence, strings, watched
from policies.waivers import valid

UNKNOWN: Final = Unknown()
COST_TAG: Final = "cost-center"


@dataclass(frozen=True)
class AwsResource:
    """One resource, as plain data."""

    token: str
    """Its type without the module's file: `eks:Cluster` for `aws:eks/cluster:Cluster`."""
    name: str
    urn: str
    properties: Mapping[str, Any]
    protected: bool = False
    depends: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Property: URNs of the resources that its value comes from."""


@dataclass(frozen=True)
class AwsFinding:
    """One sentence about one property, and what to do about it."""

    rule: str
    urn: str
    resource: str
    property: str
    message: str
    remedy: str
    severity: Severity = "error"

    def words(self) -> str:
        """As `check` prints findings."""
        return (
            f"[{self.rule}] {self.resource}: {self.message} ({self.property})\n"
            f"    remedy: {self.remedy}"
        )


Found = tuple[AwsResource, str, str]
"""The resource, the property, what is wrong with it."""


@dataclass(frozen=True)
class AwsRule:
    """One rule, and its explanation."""

    id: str
    title: str
    reason: str
    remedy: str
    find: Callable[[Sequence[AwsResource]], Iterator[Found]]
    across: bool = False
    """It judges a resource by others too."""
    severity: Severity = "error"


def check(resources: Sequence[AwsResource]) -> list[AwsFinding]:
    """Every finding of every rule that holds whatever the unknown values will be."""
    return [
        AwsFinding(
            rule.id,
            item.urn,
            f"{item.token} {item.name}",
            path,
            message,
            rule.remedy,
            rule.severity,
        )
        for rule in RULES
        for item, path, message in _certain(rule, resources)
    ]


def _certain(rule: AwsRule, resources: Sequence[AwsResource]) -> Iterator[Found]:
    doubted: set[int] = set()

    def note(position: int, _place: Place) -> None:
        doubted.add(position)

    seen = [
        replace(item, properties=watched(dict(item.properties), partial(note, position)))
        for position, item in enumerate(resources)
    ]
    places = {id(item): position for position, item in enumerate(seen)}
    for found in list(rule.find(seen)):
        if not (doubted if rule.across else doubted & {places[id(found[0])]}):
            yield found


def judge(
    resources: Sequence[Any], unknown: type[Exception], severity: Severity, context: Context
) -> list[tuple[str, str]]:
    """Findings of one severity about what a stack registers, in words, each with its URN.

    Args:
        resources: as the policy SDK hands them; those of other providers are left out.
        unknown: what reading a value raises that exists only after `up`.
        severity: of the findings, as the context weighs them.
        context: levels of rules, and waivers, whose object is `TYPE NAME` as findings name it.
    """
    items = [item for given in resources if (item := resource_of(given, unknown)) is not None]
    waived = {(w.rule, w.object) for w in context.waivers if valid(w, context) is None}
    return [
        (found.words(), found.urn)
        for found in check(items)
        if (found.rule, found.resource) not in waived
        and weigh(found.rule, found.severity, context) == severity
    ]


class Registered(Protocol):
    """What the Pulumi policy SDK hands a stack policy of each resource."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str
    name: str
    opts: Any

    @property
    def property_dependencies(self) -> Mapping[str, Sequence[Any]]:
        """Property: the resources that its value comes from."""
        ...


def resource_of(given: Registered, unknown: type[Exception]) -> AwsResource | None:
    """The resource as plain data; None for what is not AWS's.

    Args:
        given: as the policy SDK hands it.
        unknown: what reading a value raises that exists only after `up`.
    """
    provider, _, rest = given.resource_type.partition(":")
    if provider != "aws":
        return None
    service, _, kind = rest.rpartition(":")
    depends = {k: [r.urn for r in v] for k, v in given.property_dependencies.items()}
    return AwsResource(
        f"{service.partition('/')[0]}:{kind}",
        given.name,
        given.urn,
        plain(given.props, unknown),
        bool(getattr(given.opts, "protect", False)),
        depends,
    )


def _of(resources: Sequence[AwsResource], *tokens: str) -> Iterator[AwsResource]:
    return (item for item in resources if item.token in tokens)


def _items(value: Any) -> list[Mapping[str, Any]]:
    """The maps of a list; one map alone counts as a list of it."""
    return [value] if is_mapping(value) else [mapping(item) for item in sequence(value)]


# Rules


def _public_endpoint(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "eks:Cluster"):
        # Absent means public: that is EKS's own default.
        public = at(item.properties, "vpcConfig", "endpointPublicAccess")
        if public not in (False, "false"):
            yield item, "vpcConfig.endpointPublicAccess", "its API server is on the internet"


_ANYWHERE: Final = ("0.0.0.0/0", "::/0")


def _open_ingress(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "vpc:SecurityGroupIngressRule"):
        for name in ("cidrIpv4", "cidrIpv6"):
            if item.properties.get(name) in _ANYWHERE:
                yield item, name, "lets everybody in"
    for item in _of(resources, "ec2:SecurityGroupRule"):
        if item.properties.get("type") == "ingress":
            yield from _blocks(item, item.properties, "")
    for item in _of(resources, "ec2:SecurityGroup", "ec2:DefaultSecurityGroup"):
        for place, rule in enumerate(_items(item.properties.get("ingress"))):
            yield from _blocks(item, rule, f"ingress[{place}].")


def _blocks(item: AwsResource, rule: Mapping[str, Any], path: str) -> Iterator[Found]:
    for name in ("cidrBlocks", "ipv6CidrBlocks"):
        if set(_ANYWHERE) & set(strings(rule.get(name))):
            yield item, f"{path}{name}", "lets everybody in"


_KEYS: Final = {
    "cloudwatch:LogGroup": "kmsKeyId",
    "fsx:LustreFileSystem": "kmsKeyId",
    "eks:Cluster": "encryptionConfig",
}


def _encryption(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in resources:
        name = _KEYS.get(item.token)
        if name is not None and not item.properties.get(name):
            yield item, name, "is not encrypted with a key of the environment"
    for item in _of(resources, "ebs:Volume"):
        if item.properties.get("encrypted") not in (True, "true"):
            yield item, "encrypted", "is a disk in clear"
    for item in _of(resources, "ec2:LaunchTemplate"):
        for place, disk in enumerate(_items(item.properties.get("blockDeviceMappings"))):
            if at(disk, "ebs") and at(disk, "ebs", "encrypted") not in (True, "true"):
                path = f"blockDeviceMappings[{place}].ebs.encrypted"
                yield item, path, "its nodes have a disk in clear"


def _metadata(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "ec2:LaunchTemplate", "ec2:Instance"):
        options = item.properties.get("metadataOptions")
        if at(options, "httpTokens") not in ("required",):
            yield item, "metadataOptions.httpTokens", "hands out credentials without a token"
        elif at(options, "httpPutResponseHopLimit") not in (1, 1.0, "1"):
            path = "metadataOptions.httpPutResponseHopLimit"
            yield item, path, "lets pods take the node's credentials"


_PAID: Final = (
    "ec2:Vpc", "ec2:NatGateway", "ec2:Eip", "ec2:LaunchTemplate", "ec2:VpcEndpoint", "eks:Cluster",
    "eks:NodeGroup", "fsx:LustreFileSystem", "s3:Bucket", "kms:Key", "sqs:Queue", "ebs:Volume",
    "cloudwatch:LogGroup",
)  # fmt: skip


def _tags(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, *_PAID):
        if not at(item.properties, "tags", COST_TAG):
            yield item, f"tags.{COST_TAG}", "nobody is named who pays for it"


def _long_lived(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "iam:AccessKey", "iam:User", "ec2:KeyPair"):
        yield item, "", "is a credential that lives until somebody removes it"
    for item in _of(resources, "ec2:LaunchTemplate", "ec2:Instance"):
        if item.properties.get("keyName"):
            yield item, "keyName", "opens its nodes to whoever has the key"


_STATEFUL: Final = ("s3:Bucket", "fsx:LustreFileSystem", "kms:Key", "eks:Cluster", "efs:FileSystem")


def _kept(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, *_STATEFUL):
        if not item.protected:
            yield item, "", "can be deleted, with what it holds, by one wrong edit"


def _efa(resources: Sequence[AwsResource]) -> Iterator[Found]:
    groups = {item.urn: item for item in _of(resources, "ec2:SecurityGroup")}
    inward = _naming_themselves(resources, "vpc:SecurityGroupIngressRule")
    outward = _naming_themselves(resources, "vpc:SecurityGroupEgressRule")
    for item in _of(resources, "ec2:LaunchTemplate"):
        interfaces = _items(item.properties.get("networkInterfaces"))
        kinds = {str(interface.get("interfaceType", "")) for interface in interfaces}
        if not kinds & {"efa", "efa-only"}:
            continue
        mine = [urn for urn in item.depends.get("networkInterfaces", ()) if urn in groups]
        if not any(urn in inward and urn in outward for urn in mine):
            yield (
                item,
                "networkInterfaces",
                ("has EFA, but none of its security groups names itself both in and out"),
            )


def _placed(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "ec2:LaunchTemplate"):
        interfaces = _items(item.properties.get("networkInterfaces"))
        efa = any("efa" in str(each.get("interfaceType")) for each in interfaces)
        named = any(at(first, "groupName") for first in _items(item.properties.get("placement")))
        held = ("capacityReservationSpecification", "instanceMarketOptions")
        if efa and not named and not any(item.properties.get(key) for key in held):
            yield item, "placement.groupName", "has EFA, and its nodes may stand anywhere"


def _naming_themselves(resources: Sequence[AwsResource], token: str) -> set[str]:
    """URNs of groups that have a rule, for all protocols, whose other side is the same group."""
    found: set[str] = set()
    for item in _of(resources, token):
        if item.properties.get("ipProtocol") == "-1":
            ends = (item.depends.get("securityGroupId", ()),
                    item.depends.get("referencedSecurityGroupId", ()))  # fmt: skip
            found |= set(ends[0]) & set(ends[1])
    return found


RULES: Final[tuple[AwsRule, ...]] = (
    AwsRule(
        "aws-public-endpoint", "The API server has a private endpoint only",
        "Whoever finds a hole in the API server reaches every GPU, weight and secret.",
        "write endpointPublicAccess: false, and name the networks that reach it in access.networks",
        _public_endpoint,
    ),
    AwsRule(
        "aws-open-ingress", "No security group lets everybody in",
        "Engines and their groups answer whoever reaches them.",
        "name the network or the security group that has to reach it",
        _open_ingress,
    ),
    AwsRule(
        "aws-encryption", "Disks, files, logs and secrets are encrypted with keys of ours",
        "What is written once can be read from a snapshot or a discarded disk.",
        "give it a KMS key of the environment",
        _encryption,
    ),
    AwsRule(
        "aws-node-metadata", "A node's credentials end at the node",
        "A pod that can ask the metadata service acts as the node.",
        "write httpTokens: required and httpPutResponseHopLimit: 1; pods have identities",
        _metadata,
    ),
    AwsRule(
        "aws-cost-tag", f"What costs money carries the tag {COST_TAG}",
        "A GPU node that nobody owns runs on for months.",
        f"pass the environment's tags on; {COST_TAG} comes from costCenter",
        _tags,
    ),
    AwsRule(
        "aws-long-lived-key", "No credentials that live until somebody removes them",
        "They end up in logs, images and laptops.",
        "use a role: EKS Pod Identity for pods, Session Manager for shells",
        _long_lived,
    ),
    AwsRule(
        "aws-protected", "What holds data is protected",
        "Weights take days to bring back; what a lost key encrypted never comes back.",
        "set the options protect and retain_on_delete",
        _kept,
    ),
    AwsRule(
        "aws-efa-group", "EFA's security group names itself in both directions",
        "EFA's traffic is no IP traffic: an open egress rule does not let it out, and collectives "
        "hang or fall back to TCP.",
        "add an ingress and an egress rule for all protocols whose other side is the group itself",
        _efa, across=True,
    ),
    AwsRule(
        "aws-efa-placement", "Nodes with EFA stand close together",
        "Without a placement group, or a reservation that is one, collectives are slower and "
        "differ from start to start.",
        "name a placement group of strategy cluster in placement.groupName",
        _placed, severity="warning",
    ),
)  # fmt: skip
