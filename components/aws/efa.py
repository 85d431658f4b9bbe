"""The security group of EFA: everything between its members, in both directions by name.

EFA's traffic is no IP traffic: a rule for 0.0.0.0/0 does not let it out, only one that names
the group itself does.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, named


@dataclass(frozen=True)
class EfaGroupArgs:
    """Where it is."""

    vpc_id: pulumi.Input[str]
    cluster: str
    tags: Tags


class EfaGroup(pulumi.ComponentResource):
    """A group whose members reach each other, and nobody else."""

    group_id: pulumi.Output[str]

    def __init__(
        self, name: str, args: EfaGroupArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:EfaGroup", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        tags = named(args.tags, name, **{"tokenworks.dev/efa": args.cluster})
        group = aws.ec2.SecurityGroup(
            f"{name}-group",
            vpc_id=args.vpc_id,
            description="EFA between nodes",
            tags=tags,
            opts=child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-in",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            description="EFA from members",
            ip_protocol="-1",
            tags=tags,
            opts=child,
        )
        aws.vpc.SecurityGroupEgressRule(
            f"{name}-out",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            description="EFA to members",
            ip_protocol="-1",
            tags=tags,
            opts=child,
        )
        self.group_id = group.id
        self.register_outputs({"groupId": self.group_id})
