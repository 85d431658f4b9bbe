"""What one service account may do in AWS: a role whose credentials last for hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import POD_ASSUME, POD_IDENTITY, Tags, named, role, trust


@dataclass(frozen=True)
class PodIdentityArgs:
    """Who, and what for."""

    cluster: pulumi.Input[str]
    namespace: str
    service_account: str
    tags: Tags
    managed: Sequence[str] = ()
    """ARNs of policies of AWS's."""
    policy: pulumi.Input[str] | None = None
    """A policy document of ours."""


class PodIdentity(pulumi.ComponentResource):
    """A role that the pods of a service account get through EKS Pod Identity."""

    role_arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: PodIdentityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:PodIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        trusted = trust(POD_IDENTITY, POD_ASSUME)
        made, _ = role(f"{name}-role", trusted, args.managed, args.tags, self)
        if args.policy is not None:
            aws.iam.RolePolicy(f"{name}-policy", role=made.name, policy=args.policy, opts=child)
        aws.eks.PodIdentityAssociation(
            f"{name}-association",
            cluster_name=args.cluster,
            namespace=args.namespace,
            service_account=args.service_account,
            role_arn=made.arn,
            tags=named(args.tags, name),
            opts=child,
        )
        self.role_arn = made.arn
        self.register_outputs({"roleArn": self.role_arn})
