"""The plan: every default worked out once, for components, manifests and costs alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tokenworks.catalog.aws import Accelerated, Purchase, instances
from tokenworks.catalog.aws.addons import Addon, addon_catalogue
from tokenworks.spec.aws import AwsCluster, AwsPool
from tokenworks.spec.common import quantity_value
from tokenworks.spec.environment import NodePool
from tokenworks.spec.stack import Stack

ENVIRONMENT_TAG: Final = "tokenworks.dev/environment"
COST_TAG: Final = "cost-center"
GPU_LABEL: Final = "nvidia.com/gpu.present"
"""Device plugins and exporters select nodes by it."""
EFA_LABEL: Final = "tokenworks.dev/efa"
"""Nodes with EFA interfaces carry it."""
ACCELERATOR_LABEL: Final = "k8s.amazonaws.com/accelerator"
"""The cluster autoscaler takes nodes with it for GPU nodes, and measures their use in GPUs."""
GPU: Final = "nvidia.com/gpu"
_EPHEMERAL_SHARE: Final = 0.8
"""What pods may use of a node's disk, at the least: the kubelet keeps the rest."""
_CAPACITY: Final = {
    "on-demand": "ON_DEMAND",
    "reservation": "ON_DEMAND",
    "spot": "SPOT",
    "capacity-block": "CAPACITY_BLOCK",
}
_IMAGES: Final = {
    ("accelerated", "x86_64"): "AL2023_x86_64_NVIDIA",
    ("accelerated", "arm64"): "AL2023_ARM_64_NVIDIA",
    ("plain", "x86_64"): "AL2023_x86_64_STANDARD",
    ("plain", "arm64"): "AL2023_ARM_64_STANDARD",
}
SYSTEM_IMAGE: Final = "AL2023_x86_64_STANDARD"
ADDONS_BEFORE_NODES: Final[tuple[Addon, ...]] = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""Nodes become ready only with these."""
_AFTER_NODES: Final[tuple[Addon, ...]] = ("coredns", "aws-ebs-csi-driver")


@dataclass(frozen=True)
class TaintPlan:
    """A taint of a pool's nodes."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class PoolPlan:
    """One GPU pool, whoever makes its nodes."""

    name: str
    manager: str
    instance_type: str
    purchase: Purchase
    zones: tuple[str, ...]
    efa_cards: tuple[int, ...]
    """Cards with an EFA interface; empty without EFA."""
    placement_group: str | None
    """Name of the group that is made for it."""
    reservation: str | None
    image: str
    """AMI type of a managed node group."""
    architecture: str
    least: int
    most: int
    root_gigabytes: int
    raid: bool
    """Whether its NVMe disks are joined for containers and weights."""
    folder: str | None
    """Folder for weights on those disks."""
    labels: dict[str, str]
    taints: tuple[TaintPlan, ...]
    resources: dict[str, str]
    """What a node offers that its instance type alone does not tell."""
    gpus: int

    @property
    def capacity(self) -> str:
        """Capacity type of a managed node group."""
        return _CAPACITY[self.purchase]

    @property
    def block(self) -> bool:
        """Whether it runs in a capacity block."""
        return self.purchase == "capacity-block"


@dataclass(frozen=True)
class AwsPlan:
    """Everything that components make on AWS."""

    cluster: str
    spec: AwsCluster
    tags: dict[str, str]
    pools: tuple[PoolPlan, ...]
    hostname: str | None
    namespaces: tuple[str, ...]
    """The tenants', which weights are offered to."""

    @property
    def release(self) -> str | None:
        """Release of the node images; None while nobody has looked it up."""
        return None if self.spec.node_release == "unresolved" else self.spec.node_release

    def addons(self, *, before_nodes: bool) -> dict[str, str]:
        """Add-ons that come before or after nodes: their versions.

        Versions are known: a document that leaves one open is refused when it is loaded.
        """
        names = ADDONS_BEFORE_NODES if before_nodes else addons_after_nodes(self.spec)
        found = {name: addon_version(self.spec, name) for name in names}
        return {name: version for name, version in found.items() if version is not None}

    @property
    def node_role(self) -> str:
        """Name of the role that nodes run as."""
        return f"{self.cluster}-node"

    @property
    def volumes_key(self) -> str:
        """Name of the key of disks, which stands for its number."""
        return f"alias/{self.cluster}-volumes"

    @property
    def has_efa(self) -> bool:
        """Whether any pool has EFA."""
        return any(pool.efa_cards for pool in self.pools)

    @property
    def certified(self) -> bool:
        """Whether the gateway's name gets a certificate."""
        return self.spec.dns is not None and self.hostname is not None

    @property
    def autoscaled(self) -> bool:
        """Whether any node group may have another size."""
        system = self.spec.system_pool
        groups = [(p.least, p.most) for p in self.managed_by("node-group")]
        return any(least < most for least, most in [(system.min_nodes, system.max_nodes), *groups])

    def managed_by(self, manager: str) -> tuple[PoolPlan, ...]:
        """Pools whose nodes it makes."""
        return tuple(pool for pool in self.pools if pool.manager == manager)


def addons_after_nodes(cluster: AwsCluster) -> tuple[Addon, ...]:
    """Add-ons whose pods need nodes."""
    shared = cluster.weights is not None and cluster.weights.lustre is not None
    return (*_AFTER_NODES, *(("aws-fsx-csi-driver",) if shared else ()))


def addon_version(cluster: AwsCluster, addon: Addon) -> str | None:
    """What the document says, else the catalogue; None: neither knows."""
    said = cluster.addon_versions.get(addon)
    return said or addon_catalogue().version(addon, cluster.kubernetes_version)


def plan_of(stack: Stack) -> AwsPlan:
    """The plan of an environment whose provider is aws."""
    spec = stack.environment.spec
    assert spec.cluster.aws is not None
    pools = [
        _pool(stack.name, name, pool, pool.aws, spec.cluster.aws)
        for name, pool in sorted(spec.node_pools.items())
        if pool.aws is not None
    ]
    return AwsPlan(
        cluster=stack.name,
        spec=spec.cluster.aws,
        tags={ENVIRONMENT_TAG: stack.name, COST_TAG: spec.cluster.aws.cost_center},
        pools=tuple(pools),
        hostname=spec.gateway.hostname,
        namespaces=tuple(tenant.namespace for tenant in stack.tenants),
    )


def _pool(
    environment: str, name: str, pool: NodePool, aws: AwsPool, cluster: AwsCluster
) -> PoolPlan:
    instance = instances().accelerated[aws.instance_type]
    efa = instance.efa_cards if pool.rdma is not None else ()
    wanted = aws.placement_group
    close = bool(efa) and aws.purchase != "capacity-block" if wanted is None else wanted
    software = cluster.node_software.image
    return PoolPlan(
        name=name,
        manager=aws.manager,
        instance_type=aws.instance_type,
        purchase=aws.purchase,
        zones=aws.zones or cluster.zones,
        efa_cards=efa,
        placement_group=f"{environment}-{name}" if close else None,
        reservation=aws.reservation,
        image=_IMAGES[software, instance.architecture],
        architecture=instance.architecture,
        least=aws.min_nodes,
        most=pool.nodes,
        root_gigabytes=math.ceil(quantity_value(aws.root_volume) / 2**30),
        raid=instance.nvme is not None and instance.nvme.disks > 0,
        folder=None if pool.local_storage is None else pool.local_storage.path,
        labels={
            **pool.labels,
            GPU_LABEL: "true",
            **({ACCELERATOR_LABEL: pool.gpu} if aws.manager == "node-group" else {}),
            **({EFA_LABEL: "true"} if efa else {}),
        },
        taints=tuple(TaintPlan(t.key, t.value or "", t.effect) for t in pool.taints),
        resources=_resources(pool, aws, instance),
        gpus=instance.accelerator.count,
    )


def _resources(pool: NodePool, aws: AwsPool, instance: Accelerated) -> dict[str, str]:
    found = {
        GPU: str(instance.accelerator.count),
        "ephemeral-storage": f"{_ephemeral_gibibytes(aws, instance)}Gi",
    }
    if pool.rdma is not None:
        pages = instances().efa_hugepages
        found[pool.rdma.resource] = str(pool.rdma.per_node)
        found[pages.resource] = f"{pages.bytes_of(instance.vcpus) // 2**20}Mi"
    return found


def _ephemeral_gibibytes(aws: AwsPool, instance: Accelerated) -> int:
    """Disk for pods: the array of NVMe disks where there is one, else the node's own disk."""
    nvme = instance.nvme
    local = 0 if nvme is None else nvme.disks * nvme.gigabytes * 10**9
    size = local or quantity_value(aws.root_volume)
    return int(float(size) * _EPHEMERAL_SHARE) // 2**30
