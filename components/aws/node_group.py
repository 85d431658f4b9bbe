"""A managed node group: nodes of one shape that the cluster autoscaler adds and removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, named
from components.aws.launch import LaunchArgs, launch_template
from tokenworks.spec.aws import NODE_TEMPLATE

_TEMPLATE: Final = NODE_TEMPLATE
_EFFECTS: Final = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


@dataclass(frozen=True)
class Taint:
    """A taint of every node."""

    key: str
    value: str
    effect: str
    """As Kubernetes spells it."""


@dataclass(frozen=True)
class NodeGroupArgs:
    """Nodes, their limits, and what pods see of them."""

    cluster: pulumi.Input[str]
    group: str
    """Its name in the cluster."""
    role_arn: pulumi.Input[str]
    subnets: Sequence[pulumi.Input[str]]
    launch: LaunchArgs
    image: str
    """AMI type, such as AL2023_x86_64_NVIDIA."""
    version: str
    release: str | None
    """Release of the image; None only in previews."""
    capacity: str
    """ON_DEMAND, SPOT or CAPACITY_BLOCK."""
    least: int
    most: int
    tags: Tags
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: Sequence[Taint] = ()
    resources: Mapping[str, str] = field(default_factory=dict[str, str])
    """Extended resources of a node, which an autoscaler cannot see while there is none."""
    after: Sequence[pulumi.Resource] = ()
    surge: bool = True
    """Updates start new nodes before old ones go, two for each zone at once, beyond `most`."""


def template_tags(args: NodeGroupArgs) -> dict[str, str]:
    """Tags by which the autoscaler knows what a node of the empty group would have."""
    labels = {f"{_TEMPLATE}/label/{key}": value for key, value in args.labels.items()}
    taints = {f"{_TEMPLATE}/taint/{t.key}": f"{t.value}:{t.effect}" for t in args.taints}
    resources = {f"{_TEMPLATE}/resources/{k}": v for k, v in args.resources.items()}
    return {**labels, **taints, **resources}


class NodeGroup(pulumi.ComponentResource):
    """The group, its launch template, and the tags that scaling from zero needs."""

    node_group: aws.eks.NodeGroup

    def __init__(
        self, name: str, args: NodeGroupArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:NodeGroup", name, None, opts)
        template = launch_template(name, args.launch, self)
        self.node_group = aws.eks.NodeGroup(
            f"{name}-group",
            cluster_name=args.cluster,
            node_group_name=args.group,
            node_role_arn=args.role_arn,
            subnet_ids=list(args.subnets),
            ami_type=args.image,
            version=args.version,
            release_version=args.release,
            capacity_type=args.capacity,
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                desired_size=args.least, min_size=args.least, max_size=args.most
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(
                max_unavailable=1, update_strategy="DEFAULT" if args.surge else "MINIMAL"
            ),
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            labels=dict(args.labels),
            taints=[
                aws.eks.NodeGroupTaintArgs(key=t.key, value=t.value, effect=_EFFECTS[t.effect])
                for t in args.taints
            ],
            tags=named(args.tags, args.group),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                # The autoscaler decides how many run; resetting it would stop models.
                ignore_changes=["scalingConfig.desiredSize"],
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="3h", delete="60m"),
            ),
        )
        scaling = self.node_group.resources.apply(_autoscaling_group)
        for key, value in sorted(template_tags(args).items()):
            # By its key: by number, one tag more would give each that follows another's key, and
            # deleting the old one of that key would delete the new one too.
            aws.autoscaling.Tag(
                f"{name}-{_slug(key)}",
                autoscaling_group_name=scaling,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({"name": self.node_group.node_group_name})


def _slug(key: str) -> str:
    """What the tag says of a node, as a part of a name."""
    kind, _, what = key.removeprefix(f"{_TEMPLATE}/").partition("/")
    return f"{kind}-{what}"


def _autoscaling_group(resources: Sequence[aws.eks.outputs.NodeGroupResource]) -> str:
    groups = resources[0].autoscaling_groups or []
    return groups[0].name or ""
