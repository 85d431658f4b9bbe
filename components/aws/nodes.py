"""Every node of the cluster: who they run as, the system pool, the GPU pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from components.aws.common import aws_managed, role, trust
from components.aws.efa import EfaGroup, EfaGroupArgs
from components.aws.eks import ControlPlane
from components.aws.foundation import Foundation
from components.aws.gpu_pool import GpuPool, GpuPoolArgs
from components.aws.placement import PlacementGroup, PlacementGroupArgs
from components.aws.system_pool import SystemPool, SystemPoolArgs
from tokenworks.render.aws import AwsPlan, PoolPlan
from tokenworks.render.aws.plan import SYSTEM_IMAGE

_POLICIES: Final = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    # A shell without SSH, keys and open ports.
    "AmazonSSMManagedInstanceCore",
)


@dataclass(frozen=True)
class NodesArgs:
    """The plan, and what nodes stand on."""

    plan: AwsPlan
    foundation: Foundation
    control: ControlPlane
    user: int
    """Numeric user of engines."""
    after: Sequence[pulumi.Resource]
    """Add-ons without which no node becomes ready."""


class Nodes(pulumi.ComponentResource):
    """Node role, EFA's group, placement groups, pools."""

    role: aws.iam.Role
    system: SystemPool
    ready: list[pulumi.Resource]
    """What pods of the platform run on, and by which Karpenter's nodes enter the cluster."""

    def __init__(
        self, name: str, args: NodesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Nodes", name, None, opts)
        self._name, self._args = name, args
        plan, child = args.plan, pulumi.ResourceOptions(parent=self)
        self.role, attached = role(
            f"{name}-role", trust("ec2.amazonaws.com"), aws_managed(*_POLICIES), plan.tags, self,
            physical=plan.node_role,
        )  # fmt: skip
        self._after = [*args.after, *attached]
        self._efa = (
            EfaGroup(
                f"{name}-efa",
                EfaGroupArgs(args.foundation.network.vpc_id, plan.cluster, plan.tags),
                child,
            )
            if plan.has_efa
            else None
        )
        self.system = self._system_pool()
        self.ready = [self.system]
        for pool in plan.pools:
            group = self._placement(pool)
            if pool.manager == "node-group":
                self._gpu_pool(pool, group)
        if plan.managed_by("karpenter"):
            # Managed node groups bring their own entry.
            entry = aws.eks.AccessEntry(
                f"{name}-entry", cluster_name=args.control.name, principal_arn=self.role.arn,
                type="EC2_LINUX", tags=dict(plan.tags), opts=child,
            )  # fmt: skip
            self.ready.append(entry)
        self.register_outputs({"role": self.role.name})

    def _system_pool(self) -> SystemPool:
        args, plan = self._args, self._args.plan
        size = plan.spec.system_pool
        return SystemPool(
            f"{self._name}-system",
            SystemPoolArgs(
                cluster=args.control.name,
                instance_type=size.instance_type,
                least=size.min_nodes,
                most=size.max_nodes,
                image=SYSTEM_IMAGE,
                version=plan.spec.kubernetes_version,
                release=plan.release,
                role_arn=self.role.arn,
                subnets=list(args.foundation.network.private_subnets.values()),
                cluster_group=args.control.security_group,
                key_arn=args.foundation.volumes_key.arn,
                tags=plan.tags,
                after=self._after,
            ),
            pulumi.ResourceOptions(parent=self),
        )

    def _placement(self, pool: PoolPlan) -> PlacementGroup | None:
        if pool.placement_group is None:
            return None
        args = PlacementGroupArgs(pool.placement_group, self._args.plan.tags)
        child = pulumi.ResourceOptions(parent=self)
        return PlacementGroup(f"{self._name}-{pool.name}-placement", args, child)

    def _gpu_pool(self, pool: PoolPlan, group: PlacementGroup | None) -> None:
        args, plan = self._args, self._args.plan
        GpuPool(
            f"{self._name}-{pool.name}",
            GpuPoolArgs(
                pool=pool,
                cluster=args.control.name,
                version=plan.spec.kubernetes_version,
                release=plan.release,
                role_arn=self.role.arn,
                subnets=args.foundation.network.private_subnets,
                cluster_group=args.control.security_group,
                efa_group=self._efa.group_id if self._efa else None,
                placement_group=group.name if group else None,
                key_arn=args.foundation.volumes_key.arn,
                user=args.user,
                tags=plan.tags,
                after=self._after,
            ),
            pulumi.ResourceOptions(parent=self),
        )
