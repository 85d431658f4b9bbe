"""Rules for AWS resources: pure functions over what a Pulumi stack registers.

A value that is not known before something is made is `UNKNOWN`: what a rule says after reading it
is not said.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from policies.model import Context, Severity
from policies.profiles import weigh
from policies.resources import plain
from policies.tree import (
    Place,
    Unknown,
    at,
    is_mapping,
    mapping,
    sequence,
    strings,
    unread,
    watched,
)
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


def check(
    resources: Sequence[AwsResource], rules: Sequence[AwsRule] | None = None
) -> list[AwsFinding]:
    """Every finding of the rules, all by default, that holds whatever unknown values will be."""
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
        for rule in (RULES if rules is None else rules)
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
    resources: Sequence[Any],
    unknown: type[Exception],
    severity: Severity,
    context: Context,
    *,
    across: bool,
) -> list[tuple[str, str]]:
    """Findings of one severity about what a stack registers, in words, each with its URN.

    Args:
        resources: as the policy SDK hands them; those of other providers are left out.
        unknown: what reading a value raises that exists only after `up`.
        severity: of the findings, as the context weighs them.
        context: levels of rules, and waivers, whose object is `TYPE NAME` as findings name it.
        across: by the rules that judge resources by others; otherwise by those that judge each by
            itself.
    """
    rules = [rule for rule in RULES if rule.across is across]
    items = [item for given in resources if (item := resource_of(given, unknown)) is not None]
    waived = {(w.rule, w.object) for w in context.waivers if valid(w, context) is None}
    return [
        (found.words(), found.urn)
        for found in check(items, rules)
        if (found.rule, found.resource) not in waived
        and weigh(found.rule, found.severity, context) == severity
    ]


class Registered(Protocol):
    """What the Pulumi policy SDK hands a policy of a resource. A stack policy is told as
    `property_dependencies`, too, which resources each property's value comes from."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str
    name: str
    opts: Any


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
    told: Mapping[str, Sequence[Any]] = getattr(given, "property_dependencies", {})
    depends = {k: [r.urn for r in v] for k, v in told.items()}
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


_WIDEST: Final = {4: 8, 6: 16}
"""Networks of fewer bits are nobody's own: two halves of the internet are all of it."""


def _anywhere(text: Any) -> bool:
    try:
        network = ipaddress.ip_network(str(text), strict=False)
    except ValueError:
        return False
    return network.prefixlen < _WIDEST[network.version]


def _open_ingress(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "vpc:SecurityGroupIngressRule"):
        for name in ("cidrIpv4", "cidrIpv6"):
            if _anywhere(item.properties.get(name)):
                yield item, name, "lets everybody in"
    for item in _of(resources, "ec2:SecurityGroupRule"):
        if item.properties.get("type") == "ingress":
            yield from _blocks(item, item.properties, "")
    yield from _open_lists(resources)
    for item in _of(resources, "ec2:SecurityGroup", "ec2:DefaultSecurityGroup"):
        for place, rule in enumerate(_items(item.properties.get("ingress"))):
            yield from _blocks(item, rule, f"ingress[{place}].")


def _open_lists(resources: Sequence[AwsResource]) -> Iterator[Found]:
    """Lists of networks, which rules of security groups name as one."""
    for item in _of(resources, "ec2:ManagedPrefixList"):
        for place, entry in enumerate(_items(item.properties.get("entries"))):
            if _anywhere(entry.get("cidr")):
                yield item, f"entries[{place}].cidr", "names everybody to the groups that use it"
    for item in _of(resources, "ec2:ManagedPrefixListEntry"):
        if _anywhere(item.properties.get("cidr")):
            yield item, "cidr", "names everybody to the groups that use it"


def _blocks(item: AwsResource, rule: Mapping[str, Any], path: str) -> Iterator[Found]:
    for name in ("cidrBlocks", "ipv6CidrBlocks"):
        if any(_anywhere(text) for text in strings(rule.get(name))):
            yield item, f"{path}{name}", "lets everybody in"


_KEYS: Final = {
    "cloudwatch:LogGroup": "kmsKeyId",
    "eks:Cluster": "encryptionConfig",
    "fsx:LustreFileSystem": "kmsKeyId",
    "fsx:OntapFileSystem": "kmsKeyId",
    "fsx:OpenZfsFileSystem": "kmsKeyId",
    "fsx:WindowsFileSystem": "kmsKeyId",
    "fsx:FileCache": "kmsKeyId",
    "secretsmanager:Secret": "kmsKeyId",
    "sns:Topic": "kmsMasterKeyId",
}
_SWITCHES: Final = {
    "ebs:Volume": "encrypted",
    "efs:FileSystem": "encrypted",
    "rds:Cluster": "storageEncrypted",
    "rds:Instance": "storageEncrypted",
    "docdb:Cluster": "storageEncrypted",
    "neptune:Cluster": "storageEncrypted",
    "elasticache:ReplicationGroup": "atRestEncryptionEnabled",
}
"""Absent means off, unless it is a copy: that is as its original."""
_COPIES: Final = ("replicateSourceDb", "snapshotIdentifier", "snapshotId")
_OF_INSTANCES: Final = (("rootBlockDevice", ()), ("ebsBlockDevices", ()))
_DISKS: Final = {
    "ec2:LaunchTemplate": (("blockDeviceMappings", ("ebs",)),),
    "ec2:Instance": _OF_INSTANCES,
    "ec2:SpotInstanceRequest": _OF_INSTANCES,
    "ec2:LaunchConfiguration": _OF_INSTANCES,
}
"""Where nodes' disks are described: a list, and the way from its items. The first of them holds
the disk that a node starts from, which is in clear where nobody describes it."""


def _encryption(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in resources:
        yield from ((item, *found) for found in _stored(item))
        yield from ((item, *found) for found in _node_disks(item))
        yield from ((item, *found) for found in _written(item))


def _stored(item: AwsResource) -> Iterator[tuple[str, str]]:
    key, switch = _KEYS.get(item.token), _SWITCHES.get(item.token)
    if key is not None and not item.properties.get(key) and not _scratch(item):
        yield key, "is not encrypted with a key of the environment"
    if switch is not None and not _true(item.properties.get(switch)) and not _copied(item):
        yield switch, "is stored in clear"


def _node_disks(item: AwsResource) -> Iterator[tuple[str, str]]:
    if item.token == "eks:NodeGroup" and not item.properties.get("launchTemplate"):
        yield "launchTemplate", "its nodes have the disk that EKS gives them, in clear"
    described = _DISKS.get(item.token, ())
    if described and not item.properties.get(described[0][0]) and not _templated(item):
        yield described[0][0], "its nodes have the disk of their image, in clear"
    for name, path in described:
        for place, disk in enumerate(_items(item.properties.get(name))):
            ebs = at(disk, *path)
            if ebs and not _true(at(ebs, "encrypted")):
                where = ".".join((f"{name}[{place}]", *path, "encrypted"))
                yield where, "its nodes have a disk in clear"


def _templated(item: AwsResource) -> bool:
    """Whether a launch template, which is judged by itself, says what it does not say."""
    return bool(item.properties.get("launchTemplate"))


def _written(item: AwsResource) -> Iterator[tuple[str, str]]:
    """Images, messages, and what is put into buckets."""
    match item.token:
        case "ecr:Repository" | "ecr:RepositoryCreationTemplate":
            chosen = _items(item.properties.get("encryptionConfigurations"))
            if not any(_kms(c.get("encryptionType")) and c.get("kmsKey") for c in chosen):
                yield "encryptionConfigurations", "is not encrypted with a key of the environment"
        case "sqs:Queue":
            # Absent means on, with a key of SQS's own: what waits in a queue is gone in days.
            off = item.properties.get("sqsManagedSseEnabled") in (False, "false")
            if off and not item.properties.get("kmsMasterKeyId"):
                yield "sqsManagedSseEnabled", "keeps messages in clear"
        case _:
            for path, rule in _bucket_rules(item):
                chosen = at(rule, "applyServerSideEncryptionByDefault")
                # The two spellings are Pulumi's own: of a resource, and of a bucket's property.
                key = at(chosen, "kmsMasterKeyId") or at(chosen, "kmsMasterKeyID")
                if not (_kms(at(chosen, "sseAlgorithm")) and key):
                    yield path, "is not encrypted with a key of the environment"


def _bucket_rules(item: AwsResource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """How a bucket's contents are encrypted, as a resource or a property says, with its place."""
    if item.token in _BESIDE:
        for place, rule in enumerate(_items(item.properties.get("rules"))):
            yield f"rules[{place}]", rule
    elif item.token in _BUCKETS:
        for name in _INSIDE:
            for each in _items(item.properties.get(name)):
                for key in ("rule", "rules"):
                    yield from ((f"{name}.{key}", rule) for rule in _items(each.get(key)))


_BUCKETS: Final = ("s3:Bucket", "s3:BucketV2")
_BESIDE: Final = (
    "s3:BucketServerSideEncryptionConfiguration", "s3:BucketServerSideEncryptionConfigurationV2",
)  # fmt: skip
_INSIDE: Final = ("serverSideEncryptionConfiguration", "serverSideEncryptionConfigurations")


def _true(value: Any) -> bool:
    return value in (True, "true")


def _kms(value: Any) -> bool:
    """Whether what encrypts is KMS: `KMS`, `KMS_DSSE`, `aws:kms`, `aws:kms:dsse`."""
    return "kms" in str(value).lower()


def _scratch(item: AwsResource) -> bool:
    """A Lustre file system of a few hours, which takes no key. It is what FSx makes by default."""
    kind = str(item.properties.get("deploymentType") or "SCRATCH_1")
    return item.token == "fsx:LustreFileSystem" and kind.startswith("SCRATCH")


def _copied(item: AwsResource) -> bool:
    return any(item.properties.get(name) for name in _COPIES)


def _bucket_encryption(resources: Sequence[AwsResource]) -> Iterator[Found]:
    """Whether anything says how, is asked here; what it says, each resource shows by itself."""
    told: set[str] = set()
    for item in _of(resources, *_BESIDE):
        # The bucket that it belongs to: by URN, or else by name.
        told |= set(item.depends.get("bucket") or [str(unread(item.properties, "bucket"))])
    for item in _of(resources, *_BUCKETS):
        inside = any(unread(item.properties, name) for name in _INSIDE)
        if not inside and not told & {item.urn, str(unread(item.properties, "bucket"))}:
            yield item, "", "nothing says with which key its contents are encrypted"


_LAUNCHED: Final = (
    "ec2:LaunchTemplate", "ec2:Instance", "ec2:SpotInstanceRequest", "ec2:LaunchConfiguration",
)  # fmt: skip


def _metadata(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "eks:NodeGroup"):
        if not item.properties.get("launchTemplate"):
            yield (
                item,
                "launchTemplate",
                "has EKS's own, by which pods take the node's credentials",
            )
    for item in _of(resources, *_LAUNCHED):
        options = item.properties.get("metadataOptions")
        if at(options, "httpEndpoint") == "disabled" or (not options and _templated(item)):
            continue
        if at(options, "httpTokens") not in ("required",):
            yield item, "metadataOptions.httpTokens", "hands out credentials without a token"
        elif at(options, "httpPutResponseHopLimit") not in (1, 1.0, "1"):
            path = "metadataOptions.httpPutResponseHopLimit"
            yield item, path, "lets pods take the node's credentials"


_PAID: Final = (
    "ec2:Vpc", "ec2:NatGateway", "ec2:Eip", "ec2:LaunchTemplate", "ec2:VpcEndpoint", "ec2:Instance",
    "ec2:SpotInstanceRequest", "ec2:CapacityReservation", "ec2:CapacityBlockReservation",
    "ec2:Fleet", "eks:Cluster", "eks:NodeGroup", "eks:FargateProfile", "eks:Addon",
    "fsx:LustreFileSystem", "fsx:OntapFileSystem", "fsx:OpenZfsFileSystem",
    "fsx:WindowsFileSystem", "fsx:FileCache", "efs:FileSystem", "s3:Bucket", "s3:BucketV2",
    "s3:DirectoryBucket", "kms:Key", "sqs:Queue", "sns:Topic", "ebs:Volume", "ebs:Snapshot",
    "ebs:SnapshotCopy", "ec2:Ami", "ec2:AmiCopy", "cloudwatch:LogGroup", "ecr:Repository",
    "rds:Cluster", "rds:Instance", "rds:ClusterInstance", "docdb:Cluster", "neptune:Cluster",
    "dynamodb:Table", "elasticache:ReplicationGroup", "lb:LoadBalancer", "alb:LoadBalancer",
    "secretsmanager:Secret",
)  # fmt: skip


def _tags(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, *_PAID):
        if not at(item.properties, "tags", COST_TAG):
            yield item, f"tags.{COST_TAG}", "nobody is named who pays for it"
    for item in _of(resources, "ec2:LaunchTemplate"):
        # Its own tags are the template's: nodes have those that it hands on.
        given = _items(item.properties.get("tagSpecifications"))
        if not any(s.get("resourceType") == "instance" and at(s, "tags", COST_TAG) for s in given):
            yield item, "tagSpecifications", "its nodes name nobody who pays for them"


_CREDENTIALS: Final = (
    "iam:AccessKey", "iam:User", "iam:UserLoginProfile", "iam:SshKey", "iam:SigningCertificate",
    "iam:ServiceSpecificCredential", "ec2:KeyPair", "lightsail:KeyPair",
)  # fmt: skip


def _long_lived(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, *_CREDENTIALS):
        yield item, "", "is a credential that lives until somebody removes it"
    for item in _of(resources, *_LAUNCHED):
        if item.properties.get("keyName"):
            yield item, "keyName", "opens its nodes to whoever has the key"
    for item in _of(resources, "eks:NodeGroup"):
        if at(item.properties, "remoteAccess", "ec2SshKey"):
            yield item, "remoteAccess.ec2SshKey", "opens its nodes to whoever has the key"
    for item in _of(resources, "eks:AccessEntry", "eks:AccessPolicyAssociation"):
        if ":user/" in str(item.properties.get("principalArn")):
            yield (
                item,
                "principalArn",
                "lets a user in, whose keys live until somebody removes them",
            )


STATEFUL: Final = (
    "s3:Bucket", "s3:BucketV2", "fsx:LustreFileSystem", "fsx:OntapFileSystem",
    "fsx:OpenZfsFileSystem", "fsx:WindowsFileSystem", "efs:FileSystem", "ebs:Volume", "kms:Key",
    "rds:Cluster", "rds:Instance", "eks:Cluster", "docdb:Cluster", "neptune:Cluster",
    "dynamodb:Table", "s3:DirectoryBucket", "fsx:OntapVolume", "fsx:OpenZfsVolume",
)  # fmt: skip
"""What holds data, and what nothing brings back."""
_EMPTIED: Final = {
    "s3:Bucket": "forceDestroy",
    "s3:BucketV2": "forceDestroy",
    "s3:DirectoryBucket": "forceDestroy",
    "ecr:Repository": "forceDelete",
}


def _kept(resources: Sequence[AwsResource]) -> Iterator[Found]:
    # Whether it would be retained, the engine tells no policy: its protocol has no such field.
    for item in _of(resources, *STATEFUL):
        if not item.protected:
            yield item, "", "can be deleted, with what it holds, by one wrong edit"
    for item in _of(resources, *_EMPTIED):
        emptied = _EMPTIED.get(item.token)
        if emptied is not None and _true(item.properties.get(emptied)):
            yield item, emptied, "is emptied without a question when it is deleted"


def _efa(resources: Sequence[AwsResource]) -> Iterator[Found]:
    groups = {item.urn for item in _of(resources, "ec2:SecurityGroup", "ec2:DefaultSecurityGroup")}
    inward = _naming_themselves(resources, "ingress")
    outward = _naming_themselves(resources, "egress")
    for item, place in _with_efa(resources):
        named = (*item.depends.get(place, ()), *item.depends.get("securityGroups", ()))
        mine = [urn for urn in named if urn in groups]
        if not any(urn in inward and urn in outward for urn in mine):
            yield item, place, "has EFA, but none of its security groups names itself in and out"


_EFA_KINDS: Final = ("efa", "efa-only")


def _with_efa(resources: Sequence[AwsResource]) -> Iterator[tuple[AwsResource, str]]:
    """What has EFA, and where it says so."""
    for item in _of(resources, "ec2:LaunchTemplate"):
        interfaces = _items(item.properties.get("networkInterfaces"))
        if any(str(each.get("interfaceType")) in _EFA_KINDS for each in interfaces):
            yield item, "networkInterfaces"
    for item in _of(resources, "ec2:NetworkInterface"):
        if str(item.properties.get("interfaceType")) in _EFA_KINDS:
            yield item, "interfaceType"


def _placed(resources: Sequence[AwsResource]) -> Iterator[Found]:
    for item in _of(resources, "ec2:LaunchTemplate"):
        interfaces = _items(item.properties.get("networkInterfaces"))
        efa = any("efa" in str(each.get("interfaceType")) for each in interfaces)
        named = any(at(first, "groupName") for first in _items(item.properties.get("placement")))
        held = ("capacityReservationSpecification", "instanceMarketOptions")
        if efa and not named and not any(item.properties.get(key) for key in held):
            yield item, "placement.groupName", "has EFA, and its nodes may stand anywhere"


def _naming_themselves(resources: Sequence[AwsResource], way: str) -> set[str]:
    """URNs of groups that have a rule, for all protocols, whose other side is the same group: as a
    resource of either kind, or as a part of the group."""
    found: set[str] = set()
    for item in _of(resources, f"vpc:SecurityGroup{way.title()}Rule"):
        if _all_protocols(item.properties.get("ipProtocol")):
            found |= _ends(item, "referencedSecurityGroupId")
    for item in _of(resources, "ec2:SecurityGroupRule"):
        if item.properties.get("type") == way and _all_protocols(item.properties.get("protocol")):
            itself = _true(item.properties.get("self"))
            found |= set(item.depends.get("securityGroupId", ())) if itself else set()
            found |= _ends(item, "sourceSecurityGroupId")
    for item in _of(resources, "ec2:SecurityGroup", "ec2:DefaultSecurityGroup"):
        for rule in _items(item.properties.get(way)):
            if _all_protocols(rule.get("protocol")) and _true(rule.get("self")):
                found.add(item.urn)
    return found


def _ends(item: AwsResource, other: str) -> set[str]:
    """The group of a rule, where it is its other side as well."""
    return set(item.depends.get("securityGroupId", ())) & set(item.depends.get(other, ()))


def _all_protocols(value: Any) -> bool:
    return str(value) in ("-1", "all")


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
        "aws-bucket-encryption", "What is written into a bucket is encrypted with a key of ours",
        "With a key of S3's own, whoever may read the bucket may read what it holds; a key of the "
        "environment asks a second time, and can be taken away.",
        "add a BucketServerSideEncryptionConfiguration with aws:kms and a key of the environment",
        _bucket_encryption, across=True,
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
        "set the options protect and retain_on_delete, and leave out forceDestroy",
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
