"""Add-ons that EKS keeps: network, DNS, identities, storage drivers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from components.aws.common import (
    POD_ASSUME,
    POD_IDENTITY,
    Tags,
    aws_managed,
    document,
    named,
    role,
    trust,
)
from components.aws.key import disk_statements

_DISKS: Final = "aws-ebs-csi-driver"
_ACCOUNTS: Final[Mapping[str, tuple[str, str]]] = {
    "vpc-cni": ("aws-node", "AmazonEKS_CNI_Policy"),
    "aws-ebs-csi-driver": ("ebs-csi-controller-sa", "service-role/AmazonEBSCSIDriverPolicy"),
    "aws-fsx-csi-driver": ("fsx-csi-controller-sa", "AmazonFSxFullAccess"),
}
"""Add-on: its service account, and the policy of AWS's that it needs."""
_CONFIGURATION: Final[Mapping[str, str]] = {
    # Otherwise NetworkPolicies are taken, and nothing keeps to them (EKS user guide, "Configure
    # your cluster for Kubernetes network policies", read 2026-11-30).
    "vpc-cni": json.dumps({"enableNetworkPolicy": "true"}),
}


@dataclass(frozen=True)
class AddonsArgs:
    """Which add-ons of which cluster."""

    cluster: pulumi.Input[str]
    versions: Mapping[str, str]
    """Add-on: its version."""
    tags: Tags
    volumes_key: pulumi.Input[str]
    """ARN of the key that disks of claims are encrypted with."""
    after: Sequence[pulumi.Resource] = ()
    """What their pods need first, such as nodes."""


class Addons(pulumi.ComponentResource):
    """Add-ons, each with its own role where it calls AWS."""

    addons: list[aws.eks.Addon]

    def __init__(
        self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Addons", name, None, opts)
        self.addons = [self._addon(f"{name}-{addon}", addon, args) for addon in args.versions]
        self.register_outputs({"versions": dict(args.versions)})

    def _addon(self, name: str, addon: str, args: AddonsArgs) -> aws.eks.Addon:
        identities: list[aws.eks.AddonPodIdentityAssociationArgs] = []
        before: list[pulumi.Resource] = list(args.after)
        if addon in _ACCOUNTS:
            account, policy = _ACCOUNTS[addon]
            trusted = trust(POD_IDENTITY, POD_ASSUME)
            made, attached = role(f"{name}-role", trusted, aws_managed(policy), args.tags, self)
            before += attached
            if addon == _DISKS:
                before.append(self._disks(f"{name}-key", made, args.volumes_key))
            identities.append(
                aws.eks.AddonPodIdentityAssociationArgs(role_arn=made.arn, service_account=account)
            )
        return self._register(name, addon, args, identities, before)

    def _disks(
        self, name: str, driver: aws.iam.Role, key_arn: pulumi.Input[str]
    ) -> aws.iam.RolePolicy:
        """AWS's own policy for the driver knows no keys of ours."""
        policy = pulumi.Output.from_input(key_arn).apply(
            lambda arn: document([{"Effect": "Allow", **s} for s in disk_statements(arn)])
        )
        child = pulumi.ResourceOptions(parent=self)
        return aws.iam.RolePolicy(name, role=driver.name, policy=policy, opts=child)

    def _register(
        self,
        name: str,
        addon: str,
        args: AddonsArgs,
        identities: list[aws.eks.AddonPodIdentityAssociationArgs],
        before: list[pulumi.Resource],
    ) -> aws.eks.Addon:
        return aws.eks.Addon(
            name,
            cluster_name=args.cluster,
            addon_name=addon,
            addon_version=args.versions[addon],
            configuration_values=_CONFIGURATION.get(addon),
            # Ours decides on the first installation; later somebody's own settings stay.
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="PRESERVE",
            pod_identity_associations=identities or None,
            tags=named(args.tags, name),
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )
