"""A GPU pool as a managed node group: capacity, EFA on every card, one zone, close together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.aws.common import Tags
from components.aws.launch import LaunchArgs
from components.aws.node_group import NodeGroup, NodeGroupArgs, Taint
from tokenworks.render.aws import PoolPlan
from tokenworks.render.aws.user_data import user_data


@dataclass(frozen=True)
class GpuPoolArgs:
    """The pool, and what it stands on."""

    pool: PoolPlan
    cluster: pulumi.Input[str]
    version: str
    release: str | None
    role_arn: pulumi.Input[str]
    subnets: Mapping[str, pulumi.Input[str]]
    """Zone: its private subnet."""
    cluster_group: pulumi.Input[str]
    """Security group of control plane and nodes."""
    efa_group: pulumi.Input[str] | None
    placement_group: pulumi.Input[str] | None
    key_arn: pulumi.Input[str]
    user: int
    """Numeric user of engines, who owns the folder for weights."""
    tags: Tags
    after: Sequence[pulumi.Resource] = ()


def launch_of(args: GpuPoolArgs) -> LaunchArgs:
    """How a node of the pool starts."""
    pool = args.pool
    groups = [args.cluster_group]
    if pool.efa_cards and args.efa_group is not None:
        groups.append(args.efa_group)
    return LaunchArgs(
        instance_type=pool.instance_type,
        security_groups=groups,
        root_gigabytes=pool.root_gigabytes,
        key_arn=args.key_arn,
        user_data=user_data(pool.raid, pool.folder, args.user),
        tags={**args.tags, "tokenworks.dev/pool": pool.name},
        efa_cards=pool.efa_cards,
        placement_group=args.placement_group,
        reservation=pool.reservation,
        block=pool.block,
    )


class GpuPool(pulumi.ComponentResource):
    """Nodes with GPUs, from none to as many as quota counts on."""

    group: NodeGroup

    def __init__(
        self, name: str, args: GpuPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:GpuPool", name, None, opts)
        pool = args.pool
        self.group = NodeGroup(
            f"{name}-nodes",
            NodeGroupArgs(
                cluster=args.cluster,
                group=pool.name,
                role_arn=args.role_arn,
                subnets=[args.subnets[zone] for zone in pool.zones],
                launch=launch_of(args),
                image=pool.image,
                version=args.version,
                release=args.release,
                capacity=pool.capacity,
                least=pool.least,
                most=pool.most,
                tags={**args.tags, "tokenworks.dev/pool": pool.name},
                labels=pool.labels,
                taints=[Taint(t.key, t.value, t.effect) for t in pool.taints],
                resources=pool.resources,
                after=args.after,
                # There may be no more such nodes, or none that are paid for: an update would wait
                # for ever, as a Deployment does whose new pod waits for the old one's GPU.
                surge=False,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"pool": pool.name})
