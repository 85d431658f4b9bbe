"""The EKS control plane: private endpoint, encrypted secrets, logs, access by entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, aws_managed, named, role, trust

LOGS: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_POLICY: Final = "arn:aws:eks::aws:cluster-access-policy"
_POLICIES: Final = {"admin": "AmazonEKSClusterAdminPolicy", "viewer": "AmazonEKSViewPolicy"}


@dataclass(frozen=True)
class ControlPlaneArgs:
    """What the control plane is."""

    cluster: str
    """Its name in the account."""
    account: str
    version: str
    subnets: Sequence[pulumi.Input[str]]
    key_arn: pulumi.Input[str]
    log_days: int
    admins: Sequence[str]
    viewers: Sequence[str]
    networks: Sequence[str]
    """Networks outside the VPC that reach the endpoint."""
    tags: Tags


def _called(role: str, account: str) -> str:
    """A role's name with its path, and its account where that is another: roles of two paths or of
    two accounts may have one name."""
    owner, _, name = role.removeprefix("arn:aws:iam::").partition(":role/")
    return name if owner == account else f"{owner}-{name}"


class ControlPlane(pulumi.ComponentResource):
    """A cluster without nodes, and who may enter it."""

    name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    authority: pulumi.Output[str]
    """Certificate of the API server's signer, in base64."""
    arn: pulumi.Output[str]
    security_group: pulumi.Output[str]
    """EKS makes it; control plane and nodes talk through it."""
    service_cidr: pulumi.Output[str]
    cluster: aws.eks.Cluster

    def __init__(
        self, name: str, args: ControlPlaneArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:ControlPlane", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        # EKS would make the group itself: without a limit of days, and unencrypted.
        group = aws.cloudwatch.LogGroup(
            f"{name}-logs",
            name=f"/aws/eks/{args.cluster}/cluster",
            retention_in_days=args.log_days,
            kms_key_id=args.key_arn,
            tags=named(args.tags, args.cluster),
            opts=child,
        )
        managed = aws_managed("AmazonEKSClusterPolicy")
        acts_as, attached = role(
            f"{name}-role", trust("eks.amazonaws.com"), managed, args.tags, self
        )
        self.cluster = aws.eks.Cluster(
            f"{name}-cluster",
            name=args.cluster,
            role_arn=acts_as.arn,
            version=args.version,
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=list(args.subnets),
                endpoint_private_access=True,
                endpoint_public_access=False,
            ),
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False
            ),
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=args.key_arn),
                resources=["secrets"],
            ),
            enabled_cluster_log_types=list(LOGS),
            # Add-ons of EKS are installed on their own, so that they can be upgraded.
            bootstrap_self_managed_addons=False,
            deletion_protection=True,
            tags=named(args.tags, args.cluster),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[group, *attached], protect=True),
        )
        self.name, self.endpoint = self.cluster.name, self.cluster.endpoint
        self.arn = self.cluster.arn
        self.authority = self.cluster.certificate_authority.apply(lambda ca: ca.data or "")
        self.security_group = self.cluster.vpc_config.apply(
            lambda config: config.cluster_security_group_id or ""
        )
        self.service_cidr = self.cluster.kubernetes_network_config.apply(
            lambda config: config.service_ipv4_cidr or ""
        )
        for kind, arns in (("admin", args.admins), ("viewer", args.viewers)):
            for arn in arns:
                self._enter(f"{name}-{kind}-{_called(arn, args.account)}", arn, kind, args.tags)
        for number, network in enumerate(args.networks):
            self._reach(f"{name}-from-{number}", network, args.tags)
        self.register_outputs({"name": self.name, "endpoint": self.endpoint})

    def _enter(self, name: str, arn: str, kind: str, tags: Tags) -> None:
        child = pulumi.ResourceOptions(parent=self)
        entry = aws.eks.AccessEntry(
            name, cluster_name=self.name, principal_arn=arn, tags=named(tags, name), opts=child
        )
        aws.eks.AccessPolicyAssociation(
            f"{name}-policy",
            cluster_name=self.name,
            principal_arn=entry.principal_arn,
            policy_arn=f"{_POLICY}/{_POLICIES[kind]}",
            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
            opts=child,
        )

    def _reach(self, name: str, network: str, tags: Tags) -> None:
        aws.vpc.SecurityGroupIngressRule(
            name,
            security_group_id=self.security_group,
            description="API server",
            cidr_ipv4=network,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            tags=named(tags, name),
            opts=pulumi.ResourceOptions(parent=self),
        )
