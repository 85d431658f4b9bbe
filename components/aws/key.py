"""One encryption key with a name, and what may use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, document, kept, named

_USE: Final = (
    "kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey",
)  # fmt: skip
_DISK_ROLES: Final = (
    "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com/AWSServiceRoleForEC2Spot",
)
_FILE_ROLES: Final = ("s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*",)
"""One for each file system, named after it (FSx for Lustre user guide, "Working with server-side
encrypted Amazon S3 buckets", read 2026-12-01)."""


@dataclass(frozen=True)
class KeyArgs:
    """What the key is for."""

    alias: str
    """Name without `alias/`."""
    description: str
    account: str
    tags: Tags
    region: str
    logs: bool = False
    """CloudWatch Logs encrypts log groups of the account with it."""
    disks: bool = False
    """AWS's own roles for Auto Scaling and spot capacity make encrypted disks with it."""
    files: bool = False
    """File systems of FSx read and write objects in S3 that it encrypts."""


def key_policy(args: KeyArgs) -> str:
    """The account's own policies decide, and AWS's services may use the key for what it is for."""
    root = f"arn:aws:iam::{args.account}:root"
    statements: list[dict[str, Any]] = [{
        "Sid": "Account", "Effect": "Allow", "Principal": {"AWS": root},
        "Action": "kms:*", "Resource": "*",
    }]  # fmt: skip
    if args.logs:
        groups = f"arn:aws:logs:{args.region}:{args.account}:*"
        service = {"Service": f"logs.{args.region}.amazonaws.com"}
        condition = {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}}
        statements.append(_may("Logs", service, _USE, condition))
    if args.disks:
        condition = _linked(args, _DISK_ROLES)
        grants = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
        statements += [
            _may("Disks", {"AWS": "*"}, _USE, condition),
            _may("Grants", {"AWS": "*"}, ["kms:CreateGrant"], {**condition, **grants}),
        ]
    if args.files:
        condition = _linked(args, _FILE_ROLES)
        through = {"kms:ViaService": f"s3.{args.region}.amazonaws.com"}
        condition["StringEquals"] |= through
        statements.append(_may("Files", {"AWS": "*"}, _USE, condition))
    return document(statements)


def _may(
    sid: str, who: dict[str, str], actions: Sequence[str], condition: dict[str, Any]
) -> dict[str, Any]:
    return {
        "Sid": sid, "Effect": "Allow", "Principal": who, "Action": list(actions),
        "Resource": "*", "Condition": condition,
    }  # fmt: skip


def _linked(args: KeyArgs, roles: Sequence[str]) -> dict[str, Any]:
    """Only these roles of the account, which AWS makes when it first needs them.

    KMS refuses a policy whose principal does not exist, and in an empty account none of them does:
    a condition names them instead.
    """
    arns = [f"arn:aws:iam::{args.account}:role/aws-service-role/{role}" for role in roles]
    return {
        "StringEquals": {"kms:CallerAccount": args.account},
        "ArnLike": {"aws:PrincipalArn": arns},
    }


def disk_statements(key_arn: str) -> list[dict[str, Any]]:
    """What whoever makes encrypted disks may do with their key: use it, and let EC2 use it."""
    return [
        {"Sid": "DiskKey", "Action": list(_USE), "Resource": key_arn},
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
