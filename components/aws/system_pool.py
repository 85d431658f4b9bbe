"""Nodes without GPUs, spread over the zones: operators, gateway and add-ons run there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi

from components.aws.common import Tags
from components.aws.launch import LaunchArgs
from components.aws.node_group import NodeGroup, NodeGroupArgs
from tokenworks.render.aws.user_data import user_data

_ROOT_GIGABYTES: Final = 100
LABELS: Final = {"tokenworks.dev/pool": "system"}


@dataclass(frozen=True)
class SystemPoolArgs:
    """Size, and what it stands on."""

    cluster: pulumi.Input[str]
    instance_type: str
    least: int
    most: int
    image: str
    version: str
    release: str | None
    role_arn: pulumi.Input[str]
    subnets: Sequence[pulumi.Input[str]]
    cluster_group: pulumi.Input[str]
    key_arn: pulumi.Input[str]
    tags: Tags
    after: Sequence[pulumi.Resource] = ()


class SystemPool(pulumi.ComponentResource):
    """A managed node group without taints."""

    group: NodeGroup

    def __init__(
        self, name: str, args: SystemPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:SystemPool", name, None, opts)
        launch = LaunchArgs(
            instance_type=args.instance_type,
            security_groups=[args.cluster_group],
            root_gigabytes=_ROOT_GIGABYTES,
            key_arn=args.key_arn,
            user_data=user_data(raid=False),
            tags={**args.tags, **LABELS},
        )
        self.group = NodeGroup(
            f"{name}-nodes",
            NodeGroupArgs(
                cluster=args.cluster,
                group="system",
                role_arn=args.role_arn,
                subnets=args.subnets,
                launch=launch,
                image=args.image,
                version=args.version,
                release=args.release,
                capacity="ON_DEMAND",
                least=args.least,
                most=args.most,
                tags={**args.tags, **LABELS},
                labels=LABELS,
                after=args.after,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
