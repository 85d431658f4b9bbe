"""What the cluster's own controllers may do in AWS: load balancers, and sizes of node groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.aws.common import Tags, document
from components.aws.pod_identity import PodIdentity, PodIdentityArgs

_OWNED: Final = "elbv2.k8s.aws/cluster"
_LOOK: Final = [
    "ec2:Describe*", "ec2:GetSecurityGroupsForVpc", "elasticloadbalancing:Describe*",
    "acm:ListCertificates", "acm:DescribeCertificate",
]  # fmt: skip
_CREATE: Final = [f"elasticloadbalancing:Create{kind}" for kind in ("LoadBalancer", "TargetGroup")]
_GROUP: Final = [
    "ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress",
    "ec2:DeleteSecurityGroup",
]  # fmt: skip
_CHANGE: Final = [
    f"elasticloadbalancing:{action}" for action in (
        "AddTags", "RemoveTags", "CreateListener", "DeleteListener", "CreateRule", "DeleteRule",
        "ModifyLoadBalancerAttributes", "SetIpAddressType", "SetSecurityGroups", "SetSubnets",
        "DeleteLoadBalancer", "ModifyTargetGroup", "ModifyTargetGroupAttributes",
        "DeleteTargetGroup", "ModifyListenerAttributes", "ModifyCapacityReservation",
        "RegisterTargets", "DeregisterTargets", "ModifyListener", "AddListenerCertificates",
        "RemoveListenerCertificates", "ModifyRule",
    )
]  # fmt: skip


@dataclass(frozen=True)
class ControllersArgs:
    """Which cluster."""

    cluster: str
    cluster_name: pulumi.Input[str]
    """The same, known once the cluster is there."""
    tags: Tags


def load_balancer_policy(cluster: str) -> str:
    """Load balancers and groups that carry the cluster's tag, and no others."""
    asked = {"StringEquals": {f"aws:RequestTag/{_OWNED}": cluster}}
    has = {"StringEquals": {f"aws:ResourceTag/{_OWNED}": cluster}}
    statements: list[dict[str, Any]] = [
        {"Sid": "Look", "Action": _LOOK, "Resource": "*"},
        {"Sid": "Create", "Action": [*_CREATE, "ec2:CreateSecurityGroup"],
         "Resource": ["arn:aws:elasticloadbalancing:*:*:*", "arn:aws:ec2:*:*:security-group/*"],
         "Condition": asked},
        {"Sid": "InVpc", "Action": "ec2:CreateSecurityGroup", "Resource": "arn:aws:ec2:*:*:vpc/*"},
        {"Sid": "TagNew", "Action": "ec2:CreateTags",
         "Resource": "arn:aws:ec2:*:*:security-group/*", "Condition": asked},
        {"Sid": "TagBorn", "Action": "elasticloadbalancing:AddTags",
         "Resource": "arn:aws:elasticloadbalancing:*:*:*",
         "Condition": {"StringEquals": {"elasticloadbalancing:CreateAction": [
             "CreateLoadBalancer", "CreateTargetGroup", "CreateListener", "CreateRule"]}}},
        {"Sid": "Groups", "Action": _GROUP, "Resource": "*", "Condition": has},
        {"Sid": "Change", "Action": _CHANGE, "Resource": "*", "Condition": has},
        {"Sid": "Role", "Action": "iam:CreateServiceLinkedRole", "Resource": "*",
         "Condition": {"StringEquals": {
             "iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}}},
    ]  # fmt: skip
    return _allow(statements)


def autoscaler_policy(cluster: str) -> str:
    """Sizes of the cluster's own node groups."""
    look = [
        "autoscaling:Describe*", "ec2:DescribeInstanceTypes", "ec2:DescribeImages",
        "ec2:DescribeLaunchTemplateVersions", "ec2:GetInstanceTypesFromInstanceRequirements",
        "eks:DescribeNodegroup",
    ]  # fmt: skip
    size = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    own = {"StringEquals": {"aws:ResourceTag/eks:cluster-name": cluster}}
    return _allow([
        {"Sid": "Look", "Action": look, "Resource": "*"},
        {"Sid": "Size", "Action": size, "Resource": "*", "Condition": own},
    ])  # fmt: skip


def _allow(statements: Sequence[dict[str, Any]]) -> str:
    return document([{"Effect": "Allow", **statement} for statement in statements])


class Controllers(pulumi.ComponentResource):
    """Identities of the load balancer controller and the cluster autoscaler."""

    def __init__(
        self, name: str, args: ControllersArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Controllers", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        for account, policy in (
            ("aws-load-balancer-controller", load_balancer_policy(args.cluster)),
            ("cluster-autoscaler", autoscaler_policy(args.cluster)),
        ):
            identity = PodIdentityArgs(
                args.cluster_name, "kube-system", account, args.tags, policy=policy
            )
            PodIdentity(f"{name}-{account}", identity, child)
        self.register_outputs({})
