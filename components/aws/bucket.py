"""Where weights are kept: a private, encrypted bucket that outlives the environment."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, document, kept, named


@dataclass(frozen=True)
class BucketArgs:
    """The bucket."""

    bucket: str
    key_arn: pulumi.Input[str]
    tags: Tags


def tls_only(bucket: str) -> str:
    """Nobody reads or writes without TLS."""
    arn = f"arn:aws:s3:::{bucket}"
    return document([{
        "Sid": "TlsOnly", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }])  # fmt: skip


class Bucket(pulumi.ComponentResource):
    """A private bucket with versions; it stays when the environment goes."""

    name: pulumi.Output[str]

    def __init__(
        self, name: str, args: BucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Bucket", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        made = aws.s3.Bucket(
            f"{name}-bucket", bucket=args.bucket, tags=named(args.tags, args.bucket),
            opts=kept(self),
        )  # fmt: skip
        aws.s3.BucketPublicAccessBlock(
            f"{name}-private",
            bucket=made.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=child,
        )
        aws.s3.BucketVersioning(
            f"{name}-versions",
            bucket=made.id,
            versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(
                status="Enabled"
            ),
            opts=child,
        )
        rule = aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
            apply_server_side_encryption_by_default=aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
                sse_algorithm="aws:kms", kms_master_key_id=args.key_arn
            ),
            bucket_key_enabled=True,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            f"{name}-encryption", bucket=made.id, rules=[rule], opts=child
        )
        aws.s3.BucketPolicy(
            f"{name}-policy", bucket=made.id, policy=tls_only(args.bucket), opts=child
        )
        self.name = made.id
        self.register_outputs({"name": self.name})
