"""What must hold for an environment on AWS, one small function a rule.

What a type can refuse by itself stands in `tokenworks.spec.aws`; here is what needs the catalog,
several parts of the document, or the models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tokenworks.catalog.aws import Accelerated, instances, zones_by_region
from tokenworks.catalog.aws.addons import ADDONS, addon_catalogue
from tokenworks.catalog.aws.images import node_images
from tokenworks.catalog.gpus import gpu_types
from tokenworks.errors import did_you_mean
from tokenworks.spec.aws import NODE_DISKS, AwsCluster, AwsPool
from tokenworks.spec.aws_account_rules import check_account
from tokenworks.spec.common import duration_seconds
from tokenworks.spec.environment import Environment, NodePool
from tokenworks.spec.layout import layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.sourced import Documents, Sourced, listed
from tokenworks.spec.topology_rules import role_field

EFA: Final = "vpc.amazonaws.com/efa"
TLS_PORT: Final = 443
TLS_IDLE_SECONDS: Final = 350
"""Of a TLS listener of a network load balancer (Elastic Load Balancing user guide, "Update the TCP
idle timeout", read 2026-11-30)."""
_CLUSTER: Final[FieldPath] = ("spec", "cluster", "aws")


@dataclass(frozen=True)
class _Pool:
    """One pool, and what its problems need."""

    environment: Sourced[Environment]
    name: str
    pool: NodePool
    aws: AwsPool
    cluster: AwsCluster
    instance: Accelerated

    @property
    def has_efa(self) -> bool:
        return self.pool.rdma is not None and self.instance.efa_interfaces > 0

    @property
    def zones(self) -> tuple[str, ...]:
        return self.aws.zones or self.cluster.zones

    def problem(self, path: FieldPath, found: str, allowed: str | None, remedy: str) -> Problem:
        return self.environment.problem(
            ("spec", "nodePools", self.name, *path), found, allowed, remedy
        )


def check_aws(environment: Sourced[Environment]) -> Iterator[Problem]:
    """Every problem of an environment that has to do with AWS."""
    spec = environment.document.spec
    yield from _pools_fit_provider(environment)
    if spec.cluster.aws is None:
        return
    yield from _region(environment, spec.cluster.aws)
    yield from _release(environment, spec.cluster.aws)
    yield from _addons(environment, spec.cluster.aws)
    yield from _system_pool(environment, spec.cluster.aws)
    yield from _software(environment, spec.cluster.aws)
    yield from _hostname(environment, spec.cluster.aws)
    yield from _certificate(environment, spec.cluster.aws)
    yield from check_account(environment, spec.cluster.aws)
    for name, pool in spec.node_pools.items():
        if pool.aws is not None:
            yield from _pool(environment, name, pool, pool.aws, spec.cluster.aws)


def check_aws_models(documents: Documents) -> Iterator[Problem]:
    """Releases that their pools' capacity cannot carry."""
    for model in documents.models:
        yield from _groups_on_spot(model, documents)


def _pools_fit_provider(environment: Sourced[Environment]) -> Iterator[Problem]:
    on_aws = environment.document.spec.cluster.provider == "aws"
    for name, pool in environment.document.spec.node_pools.items():
        path: FieldPath = ("spec", "nodePools", name, "aws")
        if on_aws and pool.aws is None:
            yield environment.problem(
                path,
                "is missing, and provider aws makes the pool's nodes",
                "a map with instanceType and more",
                "add it",
            )
        if not on_aws and pool.aws is not None:
            yield environment.problem(
                path, "has no meaning: provider is not aws", None, "remove it"
            )
        if on_aws and pool.simulated:
            yield environment.problem(
                (*path[:-1], "simulated"),
                "found true, but provider aws makes real nodes",
                "false",
                "remove it; simulated nodes exist with provider local only",
            )


# Cluster


def _region(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    regions = zones_by_region()
    if cluster.region not in regions:
        yield environment.problem(
            (*_CLUSTER, "region"),
            f"unknown region {cluster.region}",
            listed(regions, "none"),
            did_you_mean(cluster.region, regions),
        )
        return
    yield from _zones(environment, (*_CLUSTER, "zones"), cluster.zones, cluster.region)


def _zones(
    environment: Sourced[Environment], path: FieldPath, zones: tuple[str, ...], region: str
) -> Iterator[Problem]:
    there = zones_by_region()[region]
    for place, zone in enumerate(zones):
        if zone not in there:
            yield environment.problem(
                (*path, place),
                f"found {zone}, which is no zone of region {region}",
                ", ".join(there),
                _of_other_region(zone, region) or did_you_mean(zone, {*there} - {*zones}),
            )
        elif zone in zones[:place]:
            yield environment.problem(
                (*path, place), f"found {zone} twice", "each zone once", "remove one"
            )


def _of_other_region(zone: str, region: str) -> str | None:
    """The remedy for a zone that another region has: no other name of it is the same place."""
    homes = [home for home, zones in zones_by_region().items() if zone in zones and home != region]
    if not homes:
        return None
    return f"it is in {homes[0]}: name one of these, or correct spec.cluster.aws.region"


def _release(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    version, release = cluster.kubernetes_version, cluster.node_release
    if release == "unresolved":
        return
    path: FieldPath = (*_CLUSTER, "nodeRelease")
    whole, _, day = release.partition("-")
    minor, _, patch = whole.rpartition(".")
    if minor != version:
        yield environment.problem(
            path,
            f"found {release}, but kubernetesVersion is {version}",
            f"a release of {version}",
            "raise both together",
        )
    elif not _is_day(day):
        yield environment.problem(
            path,
            f"found {release}, and {day} is no day",
            "a release such as 1.35.6-20260728",
            "it ends in year, month and day",
        )
    elif not node_images().released(minor, int(patch), day):
        yield environment.problem(
            path,
            f"found {release}, and there was no such release",
            f"the newest that are known: {', '.join(node_images().newest(minor, 3))}",
            "name one of the releases of awslabs/amazon-eks-ami; later ones are taken as they are",
        )


def _is_day(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y%m%d")
    except ValueError:
        return False
    return True


def _addons(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """Every add-on has a version that goes with the cluster's."""
    path: FieldPath = (*_CLUSTER, "addonVersions")
    minor, known = cluster.kubernetes_version, addon_catalogue()
    listing = f"aws eks describe-addon-versions --kubernetes-version {minor} --addon-name"
    lustre = cluster.weights is not None and cluster.weights.lustre is not None
    for addon in ADDONS:
        said = cluster.addon_versions.get(addon)
        used = addon != "aws-fsx-csi-driver" or lustre
        if said is None and used and known.version(addon, minor) is None:
            yield environment.problem(
                (*path, addon),
                f"is missing, and the catalog knows no version for Kubernetes {minor}",
                "a version such as v1.35.3-eksbuild.17",
                f"`{listing} {addon}` lists them",
            )
        elif said is not None and not used:
            yield environment.problem(
                (*path, addon),
                "has no meaning: weights.lustre is not there, which the driver mounts",
                None,
                "remove it",
            )
    proxy = cluster.addon_versions.get("kube-proxy")
    if proxy is not None and not proxy.startswith(f"v{minor}."):
        yield environment.problem(
            (*path, "kube-proxy"),
            f"found {proxy}, but kubernetesVersion is {minor}",
            f"a version of {minor}",
            f"`{listing} kube-proxy` lists them",
        )


def _system_pool(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    name, known = cluster.system_pool.instance_type, instances().general
    if name not in known:
        yield environment.problem(
            (*_CLUSTER, "systemPool", "instanceType"),
            f"unknown instance type {name}",
            listed(known, "none"),
            did_you_mean(name, known),
        )
    elif known[name].architecture != "x86_64":
        yield environment.problem(
            (*_CLUSTER, "systemPool", "instanceType"),
            f"found {name}, which is {known[name].architecture}, and some images are not",
            listed((n for n, i in known.items() if i.architecture == "x86_64"), "none"),
            "name one of these",
        )


def _software(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """Mixes of node software that cannot work: two owners of one part, or none."""
    yield from _image(environment, cluster)
    yield from _operands(environment, cluster)
    yield from _dynamic_resources(environment, cluster)


def _image(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """Driver and toolkit come with the image: NVIDIA makes none for the Linux of EKS's images
    (GPU operator with Amazon EKS, docs.nvidia.com, read 2026-11-30)."""
    software, path = cluster.node_software, (*_CLUSTER, "nodeSoftware")
    if software.image == "plain":
        yield environment.problem(
            (*path, "image"),
            "found plain, which has no driver, and the GPU operator has none for Amazon Linux, "
            "which EKS's images are",
            "accelerated",
            "write accelerated, or remove it",
        )
        return
    for field in ("driver", "toolkit"):
        if getattr(software, field) == "gpu-operator":
            yield environment.problem(
                (*path, field),
                f"found gpu-operator, but the accelerated image brings its own {field}",
                "image",
                "write image, or remove it",
            )


def _operands(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    software = cluster.node_software
    operator = {f for f in ("gpus", "metrics", "labels") if getattr(software, f) == "gpu-operator"}
    if 0 < len(operator) < 3:
        odd = next(f for f in ("gpus", "metrics", "labels") if f not in operator)
        yield environment.problem(
            (*_CLUSTER, "nodeSoftware", odd),
            f"found {getattr(software, odd)}, but the GPU operator installs "
            f"{' and '.join(sorted(operator))}, and {odd} with them",
            "gpu-operator",
            "let one owner install all three",
        )


def _dynamic_resources(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """Devices as resource claims: our pods ask for extended resources."""
    pools = environment.document.spec.node_pools
    software = cluster.node_software
    with_efa = [name for name, pool in pools.items() if pool.rdma is not None]
    karpenter = [n for n in with_efa if (a := pools[n].aws) and a.manager == "karpenter"]
    path = (*_CLUSTER, "nodeSoftware")
    if software.efa == "dra" and karpenter:
        yield environment.problem(
            (*path, "efa"),
            f"found dra, but Karpenter makes the nodes of pool {karpenter[0]}, and the EFA driver "
            "for dynamic resource allocation does not work with Karpenter",
            "device-plugin",
            f"write device-plugin, or choose manager node-group for {karpenter[0]}",
        )
    elif software.efa == "dra" and with_efa:
        yield environment.problem(
            (*path, "efa"),
            f"found dra, but pods of pool {with_efa[0]} ask for {EFA}, which the device plugin "
            "alone offers",
            "device-plugin",
            "write device-plugin",
        )
    if software.gpus == "dra":
        yield from _gpu_claims(environment, cluster)


_CLAIMS_SINCE: Final = (1, 36)
"""The Kubernetes that serves requests for nvidia.com/gpu by a DeviceClass (KEP-5004, on by default:
pkg/features/kube_features.go of Kubernetes v1.37.0, read 2026-12-01)."""


def _gpu_claims(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """GPUs through dynamic resource allocation: nodes then offer no number of them, which is what
    Karpenter, the cluster autoscaler and Kueue's topologies count."""
    version = cluster.kubernetes_version
    if tuple(map(int, version.split("."))) < _CLAIMS_SINCE:
        yield environment.problem(
            (*_CLUSTER, "nodeSoftware", "gpus"),
            f"found dra, but engines ask for nvidia.com/gpu, which in Kubernetes {version} a "
            "device plugin alone offers",
            "device-plugin, gpu-operator",
            'name one of these, or write kubernetesVersion: "1.36"',
        )
    for name, pool in sorted(environment.document.spec.node_pools.items()):
        path: FieldPath = ("spec", "nodePools", name)
        if pool.aws is not None and pool.aws.manager == "karpenter":
            yield environment.problem(
                (*path, "aws", "manager"),
                "found karpenter, which waits for the number of GPUs that a node offers, and with "
                "nodeSoftware.gpus: dra none offers one",
                "node-group",
                "write node-group, or gpus: device-plugin",
            )
        elif pool.aws is not None and pool.aws.min_nodes != pool.nodes:
            yield environment.problem(
                (*path, "aws", "minNodes"),
                f"found {pool.aws.min_nodes}, but the cluster autoscaler counts the GPUs that "
                "nodes offer, and with nodeSoftware.gpus: dra none offers a number",
                f"{pool.nodes}, as many as `nodes`",
                f"write minNodes: {pool.nodes}, or gpus: device-plugin",
            )
        if pool.topology:
            yield environment.problem(
                (*path, "topology"),
                "found levels, but Kueue counts the GPUs that nodes offer when it looks for a "
                "place in them, and with nodeSoftware.gpus: dra none offers a number",
                None,
                "remove topology, or write gpus: device-plugin",
            )


def _hostname(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    gateway = environment.document.spec.gateway
    if cluster.dns is None:
        return
    path: FieldPath = ("spec", "gateway", "hostname")
    zone = cluster.dns.zone
    if gateway.hostname is None:
        yield environment.problem(
            path, "is missing, and dns makes a record of it", f"a name in {zone}", "add it"
        )
    elif not gateway.hostname.endswith(f".{zone}"):
        yield environment.problem(
            path,
            f"found {gateway.hostname}, which is not in {zone}",
            f"a name that ends in .{zone}",
            "correct the name, or dns.zone",
        )


def _certificate(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """TLS ends at a load balancer, which has its own limits."""
    gateway = environment.document.spec.gateway
    if cluster.dns is None:
        return
    path: FieldPath = ("spec", "gateway")
    if gateway.service_type != "LoadBalancer":
        yield environment.problem(
            (*path, "serviceType"),
            f"found {gateway.service_type}, but dns gives a certificate and a name to a load "
            "balancer",
            "LoadBalancer",
            "write it, or remove dns",
        )
    if gateway.port != TLS_PORT:
        yield environment.problem(
            (*path, "port"),
            f"found {gateway.port}, but dns gives the gateway a certificate, and clients speak TLS "
            f"at {TLS_PORT}",
            str(TLS_PORT),
            f"write {TLS_PORT}: the load balancer ends TLS there, and has no other listener",
        )
    if duration_seconds(gateway.idle_timeout) > TLS_IDLE_SECONDS:
        yield environment.problem(
            (*path, "idleTimeout"),
            f"found {gateway.idle_timeout}, but load balancers with a certificate cut what is "
            f"silent for {TLS_IDLE_SECONDS}s, and nothing changes that",
            f"at most {TLS_IDLE_SECONDS}s",
            "lower it; answers that take longer must be streamed",
        )


# Pools


def _pool(
    environment: Sourced[Environment], name: str, pool: NodePool, aws: AwsPool, cluster: AwsCluster
) -> Iterator[Problem]:
    known = instances().accelerated
    path: FieldPath = ("spec", "nodePools", name, "aws", "instanceType")
    if aws.instance_type not in known:
        yield environment.problem(
            path,
            f"unknown instance type {aws.instance_type}",
            listed(known, "none"),
            did_you_mean(aws.instance_type, known),
        )
        return
    item = _Pool(environment, name, pool, aws, cluster, known[aws.instance_type])
    if item.instance.accelerator.type not in gpu_types():
        yield environment.problem(
            path,
            f"found {aws.instance_type}, whose accelerators ({item.instance.accelerator.type}) no "
            "engine of the catalog runs on",
            "types with NVIDIA GPUs",
            "choose one of the g or p families",
        )
        return
    yield from _shape(item)
    yield from _efa(item)
    yield from _pool_zones(item)
    yield from _capacity(item)
    yield from _placement(item)
    yield from _local_disks(item)


def _shape(item: _Pool) -> Iterator[Problem]:
    """What the document says of a node is what the instance type has."""
    has, instance = item.instance.accelerator, item.aws.instance_type
    if item.pool.gpu != has.type:
        found = f"found {item.pool.gpu}, but {instance} has {has.type}"
        yield item.problem(("gpu",), found, has.type, "correct gpu, or the instance type")
    if item.pool.gpus_per_node != has.count:
        found = f"found {item.pool.gpus_per_node}, but {instance} has {has.count}"
        yield item.problem(
            ("gpusPerNode",), found, str(has.count), "correct it, or the instance type"
        )
    if item.aws.min_nodes > item.pool.nodes:
        yield item.problem(
            ("aws", "minNodes"),
            f"found {item.aws.min_nodes}, but the pool has at most {item.pool.nodes} nodes",
            f"at most {item.pool.nodes}",
            "lower it, or raise nodes",
        )


def _efa(item: _Pool) -> Iterator[Problem]:
    rdma, interfaces = item.pool.rdma, item.instance.efa_interfaces
    if rdma is None:
        return
    if rdma.resource != EFA:
        yield item.problem(
            ("rdma", "resource"), f"found {rdma.resource}, but AWS has EFA", EFA, f"write {EFA}"
        )
    elif interfaces == 0:
        able = (n for n, i in instances().accelerated.items() if i.efa_interfaces)
        yield item.problem(
            ("rdma",),
            f"found EFA, but {item.aws.instance_type} has none",
            listed(able, "none"),
            "choose one of these instance types, or remove rdma",
        )
    elif rdma.per_node != interfaces:
        yield item.problem(
            ("rdma", "perNode"),
            f"found {rdma.per_node}, but {item.aws.instance_type} has {interfaces} EFA interfaces",
            str(interfaces),
            "correct it",
        )


def _pool_zones(item: _Pool) -> Iterator[Problem]:
    for place, zone in enumerate(item.aws.zones):
        if zone not in item.cluster.zones:
            yield item.problem(
                ("aws", "zones", place),
                f"found {zone}, where the cluster has no subnet",
                ", ".join(item.cluster.zones),
                _of_other_region(zone, item.cluster.region)
                or "name one of these, or add it to the cluster's zones",
            )
        elif zone in item.aws.zones[:place]:
            yield item.problem(
                ("aws", "zones", place), f"found {zone} twice", "each zone once", "remove one"
            )
    if item.has_efa and len(set(item.zones)) > 1:
        yield item.problem(
            ("aws", "zones"),
            f"EFA over {len(set(item.zones))} zones ({', '.join(item.zones)}): its traffic stays "
            "in one",
            "one zone",
            f"write zones: [{item.zones[0]}], or the one that has the capacity",
        )


def _capacity(item: _Pool) -> Iterator[Problem]:
    sold = item.instance.sold()
    if item.aws.purchase not in sold:
        yield item.problem(
            ("aws", "purchase"),
            f"found {item.aws.purchase}, but {item.aws.instance_type} is not sold so",
            listed(sold, "none"),
            "name one of these",
        )
    if item.aws.reserved and not item.has_efa and len(set(item.zones)) > 1:
        yield item.problem(
            ("aws", "zones"),
            f"a {item.aws.purchase} lies in one zone, found {', '.join(item.zones)}",
            "one zone",
            "write the zone of the reservation",
        )


def _placement(item: _Pool) -> Iterator[Problem]:
    if not item.aws.placement_group:
        return
    path: FieldPath = ("aws", "placementGroup")
    if item.aws.purchase == "capacity-block":
        found = "found true, but the nodes of a capacity block lie close together anyway"
        yield item.problem(path, found, "false", "remove it")
    elif not item.has_efa and len(set(item.zones)) > 1:
        yield item.problem(
            path,
            f"found true, but a cluster placement group lies in one zone, and the pool has "
            f"{', '.join(item.zones)}",
            "false, or one zone",
            f"write zones: [{item.zones[0]}]",
        )


def _local_disks(item: _Pool) -> Iterator[Problem]:
    storage = item.pool.local_storage
    if storage is None:
        return
    if item.instance.nvme is None or item.instance.nvme.disks == 0:
        found = f"no local disk of {item.aws.instance_type} is known"
        yield item.problem(("localStorage",), found, None, "remove it")
    if not storage.path.startswith(f"{NODE_DISKS}/"):
        yield item.problem(
            ("localStorage", "path"),
            f"found {storage.path}, but the nodes' disks are mounted at {NODE_DISKS}",
            f"a folder below {NODE_DISKS}",
            f"write {NODE_DISKS}/weights",
        )


# Models


def _groups_on_spot(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    for role in layout(model.document.spec):
        pool = documents.pools.get(role.pool or "")
        if role.grouped and pool and pool.aws and pool.aws.purchase == "spot":
            yield model.problem(
                role_field(role, model.document, "pool", "pool"),
                f"a replica is {role.nodes} pods, and pool {role.pool} is spot capacity: taking "
                "one node away stops them all",
                "a pool with purchase on-demand, reservation or capacity-block",
                "name another pool, or change its purchase",
            )
