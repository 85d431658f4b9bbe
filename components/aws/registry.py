"""Copies of other registries' images in ECR, made as they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, document, role, trust


@dataclass(frozen=True)
class Upstream:
    """One registry."""

    host: str
    credentials: str | None = None
    """ARN of the secret with user and token, where the registry wants them."""


@dataclass(frozen=True)
class RegistryCacheArgs:
    """Prefix of repositories: the registry they are copies of."""

    upstreams: Mapping[str, Upstream]
    account: str
    region: str
    node_role: pulumi.Input[str]
    """Name of the nodes' role: pulling an image for the first time makes its repository."""
    key_arn: pulumi.Input[str]
    tags: Tags


def maker_policy(repositories: Sequence[str], key_arn: str) -> str:
    """What ECR does when it makes a repository after a template (ECR user guide, "Create a custom
    policy for repository creation templates", read 2026-12-01)."""
    make = ["ecr:CreateRepository", "ecr:ReplicateImage", "ecr:TagResource"]
    key = ["kms:CreateGrant", "kms:RetireGrant", "kms:DescribeKey"]
    return document([
        {"Effect": "Allow", "Action": make, "Resource": list(repositories)},
        {"Effect": "Allow", "Action": key, "Resource": key_arn},
    ])  # fmt: skip


class RegistryCache(pulumi.ComponentResource):
    """Pull-through rules, how the repositories they make look, and who may make them."""

    def __init__(
        self, name: str, args: RegistryCacheArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:RegistryCache", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        arns = [
            f"arn:aws:ecr:{args.region}:{args.account}:repository/{prefix}/*"
            for prefix in args.upstreams
        ]
        # Without a role of its own ECR makes no repository with tags, nor with a key of ours.
        maker, _ = role(f"{name}-maker", trust("ecr.amazonaws.com"), [], args.tags, self)
        may_make = aws.iam.RolePolicy(
            f"{name}-may-make",
            role=maker.name,
            policy=pulumi.Output.from_input(args.key_arn).apply(
                lambda key: maker_policy(arns, key)
            ),
            opts=child,
        )
        after = pulumi.ResourceOptions(parent=self, depends_on=[may_make])
        for prefix, upstream in args.upstreams.items():
            aws.ecr.PullThroughCacheRule(
                f"{name}-{prefix}",
                ecr_repository_prefix=prefix,
                upstream_registry_url=upstream.host,
                credential_arn=upstream.credentials,
                opts=child,
            )
            aws.ecr.RepositoryCreationTemplate(
                f"{name}-{prefix}-template",
                prefix=prefix,
                applied_fors=["PULL_THROUGH_CACHE"],
                custom_role_arn=maker.arn,
                image_tag_mutability="IMMUTABLE",
                encryption_configurations=[
                    aws.ecr.RepositoryCreationTemplateEncryptionConfigurationArgs(
                        encryption_type="KMS", kms_key=args.key_arn
                    )
                ],
                resource_tags=dict(args.tags),
                opts=after,
            )
        actions = ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository", "ecr:TagResource"]
        aws.iam.RolePolicy(
            f"{name}-first-pull",
            role=args.node_role,
            policy=document([{"Effect": "Allow", "Action": actions, "Resource": arns}]),
            opts=child,
        )
        self.register_outputs({})
