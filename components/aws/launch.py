"""How a node starts: disks, network interfaces per card, metadata, tags."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, named
from tokenworks.render.aws.interfaces import interfaces

_ROOT_DISK: Final = "/dev/xvda"


@dataclass(frozen=True)
class LaunchArgs:
    """What a node is made of."""

    instance_type: str
    security_groups: Sequence[pulumi.Input[str]]
    root_gigabytes: int
    key_arn: pulumi.Input[str]
    user_data: str
    """As text."""
    tags: Tags
    efa_cards: Sequence[int] = ()
    placement_group: pulumi.Input[str] | None = None
    reservation: str | None = None
    block: bool = False
    """The reservation is a capacity block."""


def launch_template(name: str, args: LaunchArgs, parent: pulumi.Resource) -> aws.ec2.LaunchTemplate:
    """A template; each change is a new version, and the newest is the default."""
    tags = named(args.tags, name)
    with_efa = bool(args.efa_cards)
    return aws.ec2.LaunchTemplate(
        f"{name}-template",
        instance_type=args.instance_type,
        update_default_version=True,
        user_data=base64.b64encode(args.user_data.encode()).decode(),
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            # One hop ends at the node: pods get credentials of their own, never the node's.
            http_endpoint="enabled",
            http_tokens="required",
            http_put_response_hop_limit=1,
        ),
        block_device_mappings=[_root_disk(args)],
        # Interfaces name their groups themselves; the two exclude each other.
        network_interfaces=_network(args) if with_efa else None,
        vpc_security_group_ids=None if with_efa else list(args.security_groups),
        placement=None
        if args.placement_group is None
        else aws.ec2.LaunchTemplatePlacementArgs(group_name=args.placement_group),
        capacity_reservation_specification=_reserved(args),
        instance_market_options=aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(
            market_type="capacity-block"
        )
        if args.block
        else None,
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags)
            for kind in ("instance", "volume", "network-interface")
        ],
        tags=tags,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _root_disk(args: LaunchArgs) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=_ROOT_DISK,
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_type="gp3",
            volume_size=args.root_gigabytes,
            encrypted="true",
            kms_key_id=args.key_arn,
            delete_on_termination="true",
        ),
    )


def _network(args: LaunchArgs) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]:
    return [
        aws.ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=interface.card,
            device_index=interface.device,
            interface_type=interface.kind,
            security_groups=list(args.security_groups),
            delete_on_termination="true",
        )
        for interface in interfaces(args.efa_cards)
    ]


def _reserved(
    args: LaunchArgs,
) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if args.reservation is None:
        return None
    target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=args.reservation
    )
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_preference="capacity-reservations-only",
        capacity_reservation_target=target,
    )
