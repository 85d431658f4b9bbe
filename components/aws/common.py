"""What every AWS component shares: tags, roles, policy documents."""

from __future__ import annotations

import hashlib
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


def fitting(name: str, most: int = 64) -> str | None:
    """A name in the account for what Pulumi calls so; None where Pulumi's own fits.

    Pulumi puts 8 characters behind its own, and IAM and EventBridge take 64 in all: names of long
    environments end in a digest of what was cut off instead.
    """
    if len(name) + 8 <= most:
        return None
    return f"{name[: most - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


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
        name,
        name=physical or fitting(name),
        assume_role_policy=trusted,
        tags=named(tags, name),
        opts=opts,
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
