"""A cluster placement group: nodes close together, in one zone."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, named


@dataclass(frozen=True)
class PlacementGroupArgs:
    """Its name in the account, by which Karpenter finds it too."""

    group: str
    tags: Tags


class PlacementGroup(pulumi.ComponentResource):
    """One placement group of strategy cluster."""

    name: pulumi.Output[str]

    def __init__(
        self, name: str, args: PlacementGroupArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:PlacementGroup", name, None, opts)
        group = aws.ec2.PlacementGroup(
            f"{name}-group",
            name=args.group,
            strategy="cluster",
            tags=named(args.tags, args.group),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.name = group.name
        self.register_outputs({"name": self.name})
