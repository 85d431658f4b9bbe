"""The infrastructure layer: from an empty account to a cluster with GPU nodes."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.aws.access import kubeconfig
from components.aws.account import provider
from components.aws.addons import Addons, AddonsArgs
from components.aws.controllers import Controllers, ControllersArgs
from components.aws.dns import Certificate, CertificateArgs
from components.aws.eks import ControlPlane, ControlPlaneArgs
from components.aws.foundation import Foundation, FoundationArgs
from components.aws.karpenter import Karpenter, KarpenterArgs
from components.aws.nodes import Nodes, NodesArgs
from components.aws.registry import RegistryCache, RegistryCacheArgs, Upstream
from components.aws.weights import Weights, WeightsArgs
from tokenworks.render.aws import AwsPlan


@dataclass(frozen=True)
class InfrastructureArgs:
    """What is made."""

    plan: AwsPlan
    user: int
    """Numeric user of engines."""


class Infrastructure(pulumi.ComponentResource):
    """Everything on AWS, through one provider that refuses other accounts."""

    kubeconfig: pulumi.Output[str]
    weights: dict[str, pulumi.Output[str]]
    """Where weights are: bucket, and what mounts the file system; empty without."""
    certificate: pulumi.Output[str] | None
    volumes_key: pulumi.Output[str]
    """ARN of the key of disks."""
    ready: list[pulumi.Resource]
    """What anything on the cluster needs, from its first moment to its last: ways in and out, nodes
    of the system, add-ons, and identities, which pods get only if they start after them."""

    def __init__(
        self, name: str, args: InfrastructureArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Infrastructure", name, None, opts)
        plan, spec = args.plan, args.plan.spec
        self.provider = provider(name, plan, self)
        self._opts = pulumi.ResourceOptions(parent=self, providers=[self.provider])
        foundation = Foundation(f"{name}-foundation", FoundationArgs(plan), self._opts)
        control = self._control_plane(name, plan, foundation)
        self.volumes_key = key = foundation.volumes_key.arn
        early = AddonsArgs(control.name, plan.addons(before_nodes=True), plan.tags, key)
        first = Addons(f"{name}-first", early, self._opts)
        nodes = Nodes(
            f"{name}-nodes",
            NodesArgs(plan, foundation, control, args.user, [*first.addons, foundation]),
            self._opts,
        )
        ready = [nodes.system.group.node_group]
        late = AddonsArgs(control.name, plan.addons(before_nodes=False), plan.tags, key, ready)
        added = Addons(f"{name}-addons", late, self._opts)
        identities = self._identities(name, plan, control, key)
        self.ready = [foundation, control, first, *nodes.ready, added, *identities]
        self._registry(name, plan, foundation, nodes)
        self.weights = self._weights(name, plan, foundation, control)
        self.certificate = self._certificate(name, plan)
        self.kubeconfig = pulumi.Output.all(
            control.name, control.endpoint, control.authority
        ).apply(lambda known: kubeconfig(known[0], known[1], known[2], spec.region))
        self.register_outputs({"kubeconfig": self.kubeconfig})

    def _control_plane(self, name: str, plan: AwsPlan, foundation: Foundation) -> ControlPlane:
        access = plan.spec.access
        return ControlPlane(
            f"{name}-control",
            ControlPlaneArgs(
                cluster=plan.cluster,
                account=plan.spec.account,
                version=plan.spec.kubernetes_version,
                subnets=list(foundation.network.private_subnets.values()),
                key_arn=foundation.cluster_key.arn,
                log_days=plan.spec.network.log_days,
                admins=access.admins,
                viewers=access.viewers,
                networks=access.networks,
                tags=plan.tags,
            ),
            self._opts,
        )

    def _identities(
        self, name: str, plan: AwsPlan, control: ControlPlane, key_arn: pulumi.Output[str]
    ) -> list[pulumi.Resource]:
        controllers = ControllersArgs(plan.cluster, control.name, plan.tags)
        made: list[pulumi.Resource] = [Controllers(f"{name}-controllers", controllers, self._opts)]
        if plan.managed_by("karpenter"):
            arn = f"arn:aws:eks:{plan.spec.region}:{plan.spec.account}:cluster/{plan.cluster}"
            wanted = KarpenterArgs(
                plan.cluster,
                control.name,
                arn,
                plan.spec.account,
                plan.node_role,
                key_arn,
                plan.tags,
            )
            made.append(Karpenter(f"{name}-karpenter", wanted, self._opts))
        return made

    def _registry(self, name: str, plan: AwsPlan, foundation: Foundation, nodes: Nodes) -> None:
        cached = plan.spec.registry_cache
        if not cached:
            return
        upstreams = {k: Upstream(v.registry, v.credentials) for k, v in cached.items()}
        args = RegistryCacheArgs(
            upstreams, plan.spec.account, plan.spec.region, nodes.role.name,
            foundation.data_key.arn, plan.tags,
        )  # fmt: skip
        RegistryCache(f"{name}-registry", args, self._opts)

    def _weights(
        self, name: str, plan: AwsPlan, foundation: Foundation, control: ControlPlane
    ) -> dict[str, pulumi.Output[str]]:
        if plan.spec.weights is None:
            return {}
        args = WeightsArgs(plan, plan.spec.weights, foundation, control.name)
        made = Weights(f"{name}-weights", args, self._opts)
        if made.lustre is None:
            return {"bucket": made.bucket}
        return {
            "bucket": made.bucket,
            "fileSystemId": made.lustre.file_system_id,
            "dnsName": made.lustre.dns_name,
            "mountName": made.lustre.mount_name,
        }

    def _certificate(self, name: str, plan: AwsPlan) -> pulumi.Output[str] | None:
        dns = plan.spec.dns
        if dns is None or plan.hostname is None:
            return None
        args = CertificateArgs(plan.hostname, dns.zone_id, plan.tags)
        return Certificate(f"{name}-gateway", args, self._opts).arn
