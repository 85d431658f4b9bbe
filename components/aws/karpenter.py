"""What Karpenter needs of AWS: its own role, and word of interruptions before they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, document, fitting, named
from components.aws.key import disk_statements
from components.aws.pod_identity import PodIdentity, PodIdentityArgs

EVENTS: Final = {
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
    "health": ("aws.health", "AWS Health Event"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
_READ: Final = ["ec2:Describe*", "pricing:GetProducts", "ssm:GetParameter",
                "iam:GetInstanceProfile", "iam:ListInstanceProfiles"]  # fmt: skip
_MAKE: Final = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"]
_OWN: Final = ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"]
_SPOT: Final = "spot.amazonaws.com"
_PROFILES: Final = [
    f"iam:{verb}" for verb in (
        "CreateInstanceProfile", "DeleteInstanceProfile", "TagInstanceProfile",
        "AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile",
    )
]  # fmt: skip


@dataclass(frozen=True)
class KarpenterArgs:
    """Which cluster, and as whom nodes run."""

    cluster: str
    cluster_name: pulumi.Input[str]
    """The same, known once the cluster is there."""
    cluster_arn: str
    account: str
    node_role: str
    volumes_key: pulumi.Input[str]
    """ARN of the key that disks of nodes are encrypted with."""
    tags: Tags


def controller_policy(args: KarpenterArgs, queue_arn: str, key_arn: str) -> str:
    """Nodes of its own cluster only: they carry the cluster's tag from their first moment."""
    tag = f"kubernetes.io/cluster/{args.cluster}"
    asked, has = f"aws:RequestTag/{tag}", f"aws:ResourceTag/{tag}"
    node_role = f"arn:aws:iam::{args.account}:role/{args.node_role}"
    profiles = f"arn:aws:iam::{args.account}:instance-profile/*"
    statements: list[dict[str, Any]] = [
        {"Sid": "Read", "Action": _READ, "Resource": "*"},
        {"Sid": "Cluster", "Action": "eks:DescribeCluster", "Resource": args.cluster_arn},
        {"Sid": "Use", "Action": ["ec2:RunInstances", "ec2:CreateFleet"],
         "Resource": [f"arn:aws:ec2:*:*:{kind}/*" for kind in (
             "subnet", "security-group", "capacity-reservation", "placement-group",
         )] + ["arn:aws:ec2:*::image/*", "arn:aws:ec2:*::snapshot/*"]},
        {"Sid": "Template", "Action": ["ec2:RunInstances", "ec2:CreateFleet"],
         "Resource": "arn:aws:ec2:*:*:launch-template/*",
         "Condition": {"StringEquals": {has: "owned"}}},
        {"Sid": "Make", "Action": _MAKE,
         "Resource": [f"arn:aws:ec2:*:*:{kind}/*" for kind in (
             "fleet", "instance", "volume", "network-interface", "launch-template",
             "spot-instances-request",
         )],
         "Condition": {"StringEquals": {asked: "owned"}}},
        {"Sid": "Tag", "Action": "ec2:CreateTags", "Resource": "arn:aws:ec2:*:*:*/*",
         "Condition": {"StringEquals": {asked: "owned", "ec2:CreateAction": [
             "RunInstances", "CreateFleet", "CreateLaunchTemplate"]}}},
        {"Sid": "TagOwn", "Action": "ec2:CreateTags", "Resource": "arn:aws:ec2:*:*:instance/*",
         "Condition": {"StringEquals": {has: "owned"}}},
        {"Sid": "Own", "Action": _OWN, "Resource": "*",
         "Condition": {"StringEquals": {has: "owned"}}},
        {"Sid": "Pass", "Action": "iam:PassRole", "Resource": node_role,
         "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}},
        {"Sid": "Profiles", "Action": _PROFILES, "Resource": profiles},
        # An account that never had spot capacity has no role for it yet.
        {"Sid": "Spot", "Action": "iam:CreateServiceLinkedRole",
         "Resource": f"arn:aws:iam::{args.account}:role/aws-service-role/{_SPOT}/*",
         "Condition": {"StringEquals": {"iam:AWSServiceName": _SPOT}}},
        {"Sid": "Queue", "Resource": queue_arn,
         "Action": ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]},
        # It launches nodes in its own name: without the key their disks end before they start.
        *disk_statements(key_arn),
    ]  # fmt: skip
    return document([{"Effect": "Allow", **statement} for statement in statements])


class Karpenter(pulumi.ComponentResource):
    """Identity of the controller, queue of interruptions, entry of its nodes."""

    def __init__(
        self, name: str, args: KarpenterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Karpenter", name, None, opts)
        child, tags = pulumi.ResourceOptions(parent=self), named(args.tags, name)
        queue = aws.sqs.Queue(
            f"{name}-queue",
            name=f"{args.cluster}-interruptions",
            message_retention_seconds=300,
            sqs_managed_sse_enabled=True,
            tags=tags,
            opts=child,
        )
        aws.sqs.QueuePolicy(
            f"{name}-queue-policy",
            queue_url=queue.url,
            policy=queue.arn.apply(lambda arn: document(_senders(arn))),
            opts=child,
        )
        for event, (source, kind) in EVENTS.items():
            pattern = f'{{"detail-type": ["{kind}"], "source": ["{source}"]}}'
            rule = aws.cloudwatch.EventRule(
                f"{name}-{event}", name=fitting(f"{name}-{event}"), event_pattern=pattern,
                tags=tags, opts=child,
            )  # fmt: skip
            aws.cloudwatch.EventTarget(
                f"{name}-{event}-target", rule=rule.name, arn=queue.arn, opts=child
            )
        identity = PodIdentityArgs(
            args.cluster_name, "karpenter", "karpenter", args.tags,
            policy=pulumi.Output.all(queue.arn, args.volumes_key).apply(
                lambda known: controller_policy(args, known[0], known[1])
            ),
        )  # fmt: skip
        PodIdentity(f"{name}-controller", identity, child)
        self.register_outputs({"queue": queue.name})


def _senders(queue_arn: str) -> Sequence[dict[str, Any]]:
    services = ["events.amazonaws.com", "sqs.amazonaws.com"]
    return [
        {"Effect": "Allow", "Principal": {"Service": services}, "Action": "sqs:SendMessage",
         "Resource": queue_arn},
        {"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": queue_arn,
         "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
    ]  # fmt: skip
