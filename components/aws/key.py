"""One encryption key with a name, and what may use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, document, kept, named

_USE = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]


@dataclass(frozen=True)
class KeyArgs:
    """What the key is for."""

    alias: str
    """Name without `alias/`."""
    description: str
    account: str
    tags: Tags
    services: Sequence[str] = ()
    """Services that use it for themselves, such as logs.us-east-1.amazonaws.com."""
    roles: Sequence[str] = ()
    """Names of roles that make encrypted disks with it, such as AWS's for Auto Scaling."""


def key_policy(args: KeyArgs) -> str:
    """The account's own policies decide, and the services may use the key."""
    root = f"arn:aws:iam::{args.account}:root"
    statements: list[dict[str, Any]] = [{
        "Sid": "Account", "Effect": "Allow", "Principal": {"AWS": root},
        "Action": "kms:*", "Resource": "*",
    }]  # fmt: skip
    if args.services:
        statements.append({
            "Sid": "Services", "Effect": "Allow", "Principal": {"Service": list(args.services)},
            "Action": _USE, "Resource": "*",
            "Condition": {"StringEquals": {"aws:SourceAccount": args.account}},
        })  # fmt: skip
    if args.roles:
        arns = [f"arn:aws:iam::{args.account}:role/{role}" for role in args.roles]
        statements += [
            {"Sid": "Disks", "Effect": "Allow", "Principal": {"AWS": arns}, "Action": _USE,
             "Resource": "*"},
            {"Sid": "Grants", "Effect": "Allow", "Principal": {"AWS": arns},
             "Action": "kms:CreateGrant", "Resource": "*",
             "Condition": {"Bool": {"kms:GrantIsForAWSResource": "true"}}},
        ]  # fmt: skip
    return document(statements)


def disk_statements(key_arn: str) -> list[dict[str, Any]]:
    """What whoever makes encrypted disks may do with their key: use it, and let EC2 use it."""
    return [
        {"Sid": "DiskKey", "Action": _USE, "Resource": key_arn},
        {"Sid": "DiskGrants", "Action": "kms:CreateGrant", "Resource": key_arn,
         "Condition": {"Bool": {"kms:GrantIsForAWSResource": "true"}}},
    ]  # fmt: skip


class Key(pulumi.ComponentResource):
    """A key that rotates every year, under a name."""

    arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: KeyArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Key", name, None, opts)
        key = aws.kms.Key(
            f"{name}-key",
            description=args.description,
            enable_key_rotation=True,
            deletion_window_in_days=30,
            policy=key_policy(args),
            tags=named(args.tags, args.alias),
            # Without the key whatever it encrypted is lost.
            opts=kept(self),
        )
        aws.kms.Alias(
            f"{name}-alias",
            name=f"alias/{args.alias}",
            target_key_id=key.key_id,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.arn = key.arn
        self.register_outputs({"arn": self.arn})
