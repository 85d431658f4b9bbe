"""What goes where in the VPC, kept for the days that are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, document, named, role, trust


@dataclass(frozen=True)
class FlowLogsArgs:
    """Which network, and for how long."""

    vpc_id: pulumi.Input[str]
    days: int
    key_arn: pulumi.Input[str]
    tags: Tags


class FlowLogs(pulumi.ComponentResource):
    """Flow logs of a VPC in an encrypted log group."""

    def __init__(
        self, name: str, args: FlowLogsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:FlowLogs", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        group = aws.cloudwatch.LogGroup(
            f"{name}-group",
            retention_in_days=args.days,
            kms_key_id=args.key_arn,
            tags=named(args.tags, name),
            opts=child,
        )
        writer, _ = role(
            f"{name}-writer", trust("vpc-flow-logs.amazonaws.com"), [], args.tags, self
        )
        may_write = [{
            "Effect": "Allow",
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"],
        }]  # fmt: skip
        aws.iam.RolePolicy(
            f"{name}-may-write",
            role=writer.name,
            policy=group.arn.apply(
                lambda arn: document([{**s, "Resource": f"{arn}:*"} for s in may_write])
            ),
            opts=child,
        )
        aws.ec2.FlowLog(
            f"{name}-all",
            vpc_id=args.vpc_id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=writer.arn,
            tags=named(args.tags, name),
            opts=child,
        )
        self.register_outputs({"group": group.name})
