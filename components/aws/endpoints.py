"""Private ways to the AWS services that nodes and pods cannot do without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, named

INTERFACES: Final = ("ecr.api", "ecr.dkr", "sts", "logs", "ec2", "eks", "eks-auth")
"""Services behind an interface each; weights and image layers come through S3's gateway."""


@dataclass(frozen=True)
class EndpointsArgs:
    """Where the endpoints stand."""

    vpc_id: pulumi.Input[str]
    cidr: str
    subnets: Sequence[pulumi.Input[str]]
    route_tables: Sequence[pulumi.Input[str]]
    region: str
    tags: Tags


class Endpoints(pulumi.ComponentResource):
    """A gateway endpoint for S3, interface endpoints for the rest."""

    def __init__(
        self, name: str, args: EndpointsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Endpoints", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(
            f"{name}-group",
            vpc_id=args.vpc_id,
            description="Endpoints of AWS services",
            tags=named(args.tags, name),
            opts=child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-https",
            security_group_id=group.id,
            description="HTTPS from the VPC",
            cidr_ipv4=args.cidr,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            tags=named(args.tags, name),
            opts=child,
        )
        aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=args.vpc_id,
            service_name=f"com.amazonaws.{args.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=list(args.route_tables),
            tags=named(args.tags, f"{name}-s3"),
            opts=child,
        )
        for service in INTERFACES:
            part = f"{name}-{service.replace('.', '-')}"
            aws.ec2.VpcEndpoint(
                part,
                vpc_id=args.vpc_id,
                service_name=f"com.amazonaws.{args.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(args.subnets),
                security_group_ids=[group.id],
                tags=named(args.tags, part),
                opts=child,
            )
        self.register_outputs({})
