"""The account and region that an environment is in, and no other."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from tokenworks.render.aws import AwsPlan


def provider(name: str, plan: AwsPlan, parent: pulumi.Resource | None = None) -> aws.Provider:
    """A provider for the plan's region, which refuses credentials of any other account."""
    return aws.Provider(
        f"{name}-aws",
        region=plan.spec.region,  # pyright: ignore[reportArgumentType] - any region of the catalog
        allowed_account_ids=[plan.spec.account],
        opts=pulumi.ResourceOptions(parent=parent),
    )
