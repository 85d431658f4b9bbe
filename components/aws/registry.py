"""Copies of other registries' images in ECR, made as they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, document


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


class RegistryCache(pulumi.ComponentResource):
    """Pull-through rules, how the repositories they make look, and who may make them."""

    def __init__(
        self, name: str, args: RegistryCacheArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:RegistryCache", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
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
                image_tag_mutability="IMMUTABLE",
                encryption_configurations=[
                    aws.ecr.RepositoryCreationTemplateEncryptionConfigurationArgs(
                        encryption_type="KMS", kms_key=args.key_arn
                    )
                ],
                resource_tags=dict(args.tags),
                opts=child,
            )
        arns = [
            f"arn:aws:ecr:{args.region}:{args.account}:repository/{prefix}/*"
            for prefix in args.upstreams
        ]
        actions = ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository", "ecr:TagResource"]
        aws.iam.RolePolicy(
            f"{name}-first-pull",
            role=args.node_role,
            policy=document([{"Effect": "Allow", "Action": actions, "Resource": arns}]),
            opts=child,
        )
        self.register_outputs({})
