"""What every AWS component shares: tags, roles, policy documents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_aws as aws

Tags = Mapping[str, str]
"""Tags of every resource of an environment: what it is, and who pays."""
Statement = Mapping[str, Any]

ASSUME: Final = ("sts:AssumeRole",)
POD_ASSUME: Final = ("sts:AssumeRole", "sts:TagSession")
POD_IDENTITY: Final = "pods.eks.amazonaws.com"


def named(tags: Tags, name: str, **more: str) -> dict[str, str]:
    """The tags, and the name that consoles show."""
    return {**tags, "Name": name, **more}


def document(statements: Sequence[Statement]) -> str:
    """A policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)}, sort_keys=True)


def trust(service: str, actions: Sequence[str] = ASSUME) -> str:
    """Who may take a role: one AWS service."""
    principal = {"Service": service}
    return document([{"Effect": "Allow", "Principal": principal, "Action": list(actions)}])


def aws_managed(*names: str) -> list[str]:
    """ARNs of policies that AWS writes."""
    return [f"arn:aws:iam::aws:policy/{name}" for name in names]


def role(
    name: str,
    trusted: str,
    managed: Sequence[str],
    tags: Tags,
    parent: pulumi.Resource,
    *,
    physical: str | None = None,
) -> tuple[aws.iam.Role, list[aws.iam.RolePolicyAttachment]]:
    """A role with policies of AWS's; `physical` where somebody has to know its name."""
    opts = pulumi.ResourceOptions(parent=parent)
    made = aws.iam.Role(
        name, name=physical, assume_role_policy=trusted, tags=named(tags, name), opts=opts
    )
    attached = [
        aws.iam.RolePolicyAttachment(
            f"{name}-{arn.rpartition('/')[2]}", role=made.name, policy_arn=arn, opts=opts
        )
        for arn in managed
    ]
    return made, attached


def kept(parent: pulumi.Resource) -> pulumi.ResourceOptions:
    """For what holds data: deleting it takes two deliberate steps."""
    return pulumi.ResourceOptions(parent=parent, protect=True, retain_on_delete=True)
