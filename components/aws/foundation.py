"""What the cluster stands on: network, endpoints, flow logs, keys."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.aws.endpoints import Endpoints, EndpointsArgs
from components.aws.flow_logs import FlowLogs, FlowLogsArgs
from components.aws.key import Key, KeyArgs
from components.aws.network import Network, NetworkArgs
from tokenworks.render.aws import AwsPlan


@dataclass(frozen=True)
class FoundationArgs:
    """The environment's plan."""

    plan: AwsPlan


class Foundation(pulumi.ComponentResource):
    """Network and keys, before there is any cluster."""

    network: Network
    cluster_key: Key
    """Secrets of Kubernetes, and logs."""
    volumes_key: Key
    """Disks of nodes and claims."""
    data_key: Key
    """Weights and images."""

    def __init__(
        self, name: str, args: FoundationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Foundation", name, None, opts)
        plan, spec, child = args.plan, args.plan.spec, pulumi.ResourceOptions(parent=self)
        wanted = NetworkArgs(
            spec.network.cidr, spec.zones, spec.network.nat, plan.cluster, plan.tags
        )
        self.network = Network(f"{name}-network", wanted, child)
        self.cluster_key = Key(
            f"{name}-cluster-key",
            KeyArgs(
                f"{plan.cluster}-cluster", "Secrets of Kubernetes, and logs", spec.account,
                plan.tags, spec.region, logs=True,
            ),
            child,
        )  # fmt: skip
        self.volumes_key = Key(
            f"{name}-volumes-key",
            KeyArgs(
                f"{plan.cluster}-volumes", "Disks of nodes and claims", spec.account, plan.tags,
                spec.region, disks=True,
            ),
            child,
        )  # fmt: skip
        self.data_key = Key(
            f"{name}-data-key",
            KeyArgs(
                f"{plan.cluster}-data", "Weights and images", spec.account, plan.tags,
                spec.region, files=True,
            ),
            child,
        )  # fmt: skip
        FlowLogs(
            f"{name}-flow-logs",
            FlowLogsArgs(
                self.network.vpc_id, spec.network.log_days, self.cluster_key.arn, plan.tags
            ),
            child,
        )
        Endpoints(
            f"{name}-endpoints",
            EndpointsArgs(
                self.network.vpc_id, spec.network.cidr,
                list(self.network.private_subnets.values()), self.network.route_tables,
                spec.region, plan.tags,
            ),
            child,
        )  # fmt: skip
        self.register_outputs({"vpcId": self.network.vpc_id})
