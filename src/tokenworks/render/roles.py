"""Roles of a release as chart values: resources, network, queue, group, sidecar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from tokenworks.catalog.aws import instances
from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import Engine, load_routing
from tokenworks.catalog.network import NetworkFacts, load_networks
from tokenworks.catalog.routers import LlmDVersion, WorkerRouter
from tokenworks.render.adapters import HELPER, adapter_storage
from tokenworks.render.command import engine_of, played, settle, version_of
from tokenworks.render.kv import among_themselves, shared_memory
from tokenworks.render.quantities import mebibytes
from tokenworks.render.ranks import Ranks, ranks
from tokenworks.spec.common import Toleration, quantity_value
from tokenworks.spec.environment import NodePool, Taint
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.lora import Lora
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.topology_rules import pool_network
from tokenworks.spec.values import (
    GroupValues,
    ModelResources,
    QueueValues,
    RoleValues,
    Scheduling,
    ScratchValues,
    SidecarValues,
    WeightsValues,
    WorkerValues,
)

GPU: Final = "nvidia.com/gpu"
SERVING: Final = "serving"
KUEUE: Final = "kueue.x-k8s.io"
LOGS: Final = "64Mi"
"""Disk for the container's log, beside its volumes."""


@dataclass(frozen=True)
class Release:
    """What every role of a release is worked out from."""

    stack: Stack
    model: ModelRelease
    weights: WeightsValues
    scratch: ScratchValues

    @property
    def engine(self) -> Engine:
        """The catalog's engine."""
        return engine_of(self.model)

    def pool(self, role: RoleLayout) -> NodePool | None:
        """The node pool of a role; None without GPUs."""
        pools = self.stack.environment.spec.node_pools
        return pools.get(role.pool) if role.pool is not None else None

    def network_name(self, role: RoleLayout) -> str | None:
        """What the role's pods talk over; None where they talk to nobody."""
        topology, pool = self.model.spec.topology, self.pool(role)
        if topology.kind == "single":
            return None
        return topology.network or (pool_network(pool) if pool else None)

    def network(self, role: RoleLayout) -> NetworkFacts | None:
        """The facts of that network."""
        name = self.network_name(role)
        return load_networks()[name] if name else None

    @property
    def networks(self) -> frozenset[str]:
        """What pods of the release talk over."""
        names = {self.network_name(role) for role in layout(self.model.spec)}
        return frozenset(name for name in names if name)

    @property
    def disaggregated(self) -> bool:
        """Whether prompts are read by other pods than answers are written by."""
        return self.model.spec.topology.kind == "disaggregated"

    @property
    def own_router(self) -> WorkerRouter | None:
        """The engine's own router for prefill and decode, if that was chosen."""
        if not self.disaggregated or self.model.spec.topology.router != "engine":
            return None
        found = load_routing().worker_routers.values()
        return next(r for r in found if r.engine == self.model.spec.engine.name)

    @property
    def llm_d(self) -> LlmDVersion | None:
        """llm-d's router, if it pairs prefill and decode."""
        if not self.disaggregated or self.own_router is not None:
            return None
        return load_routing().llm_d.version(self.stack.environment.spec.platform.llm_d.router)


def roles(release: Release) -> dict[str, RoleValues]:
    """Values of every role, by name."""
    return {role.name: _role(release, role) for role in layout(release.model.spec)}


def _role(release: Release, role: RoleLayout) -> RoleValues:
    network = release.network(role)
    found = ranks(release.model, role, release.engine, network)
    flags, env = settle(release.model.spec.engine.name, {**found.flags, **role.flags})
    return RoleValues(
        replicas=role.replicas,
        launch=found.launch,
        flags=flags,
        env={**(network.env if network else {}), **env, **found.env},
        labels=_labels(release, role),
        annotations={**_annotations(release, role, found), **_placement(release, role)},
        engine_port=_engine_port(release, role),
        endpoints=found.endpoints,
        health_port=found.health_port,
        ports=dict(found.ports),
        open_to=_open_to(release, role, network),
        after="prefill" if role.name == "decode" else None,
        rdma=_rdma(release, role, network),
        resources=_resources(release, role, network),
        scheduling=_scheduling(release.pool(role)),
        queue=_queue(release, role),
        group=_group(role, found.worker),
        sidecar=_sidecar(release, role),
    )


def _group(role: RoleLayout, worker: WorkerValues | None) -> GroupValues | None:
    if worker is None:
        return None
    return GroupValues(size=role.nodes, all_serve=role.all_serve, worker=worker)


def _open_to(
    release: Release, role: RoleLayout, network: NetworkFacts | None
) -> Literal["none", "role", "release"]:
    """RDMA leaves the pod network alone; TCP between roles takes ports as they come."""
    if release.disaggregated and network is not None and not network.rdma:
        return "release"
    if release.disaggregated and _meets_on_any_port(release):
        return "release"
    if among_themselves(release.model):
        return "release"
    return "role" if role.grouped else "none"


def _meets_on_any_port(release: Release) -> bool:
    """Whether ranks of both roles talk, beside RDMA, over ports of their own choosing.

    vLLM's NIXL has one for each rank that is known. SGLang and Mooncake meet at a bootstrap
    server, which tells where each rank has opened a port (sglang 0.5.16,
    srt/disaggregation/common/conn.py; vllm 0.32.0, kv_connector/v1/mooncake; read 2026-11-30).
    """
    spec = release.model.spec
    return spec.engine.name == "sglang" or spec.topology.transfer == "mooncake"


def _rdma(release: Release, role: RoleLayout, network: NetworkFacts | None) -> bool:
    return (
        network is not None
        and network.rdma
        and role.resources.gpus > 0
        and not played(release.model)
    )


# Names


def _labels(release: Release, role: RoleLayout) -> dict[str, str]:
    """The role, as llm-d's picker and the engines' own routers look for it."""
    return {load_routing().llm_d.role_label: role.name} if release.disaggregated else {}


def _annotations(release: Release, role: RoleLayout, found: Ranks) -> dict[str, str]:
    router = release.own_router
    notes = dict(found.annotations)
    # SGLang's bootstrap server, or Mooncake's of vLLM: both are on prefill.
    port = found.ports.get("bootstrap") or found.ports.get("mooncake")
    if router is not None and port is not None and role.name == "prefill":
        notes[router.bootstrap_annotation] = str(port.port)
    return notes


def _engine_port(release: Release, role: RoleLayout) -> int | None:
    """Behind the sidecar, decode engines listen on a port of their own."""
    behind = release.llm_d is not None and role.name == "decode"
    return load_routing().llm_d.ports.decode_engine if behind else None


def _sidecar(release: Release, role: RoleLayout) -> SidecarValues | None:
    llm_d, facts = release.llm_d, load_routing().llm_d
    if llm_d is None or role.name != "decode":
        return None
    names, image = llm_d.sidecar.flags, llm_d.sidecar.image
    arguments = (
        f"{names.port}={release.engine.port}",
        f"{names.engine_port}={facts.ports.decode_engine}",
        f"{names.connector}={llm_d.sidecar.connectors[release.model.spec.engine.name]}",
        # Encrypted, it would be with a certificate that nobody checks; the gateway, the picker
        # and the probes would have to be told so. The NetworkPolicy decides who may connect.
        f"{names.secure}=false",
    )
    env: dict[str, str] = {}
    if release.model.spec.engine.name == "sglang":
        env[facts.env["bootstrapPort"]] = str(release.engine.ports["bootstrap"].port)
    return SidecarValues(
        image=bill().image(image.component, image.image),
        arguments=arguments,
        env=env,
        resources=HELPER,
    )


# Resources


def _resources(release: Release, role: RoleLayout, network: NetworkFacts | None) -> ModelResources:
    asked = role.resources
    shared = _shared(release, role)
    return ModelResources(
        gpus=asked.gpus,
        gpu_resource=GPU,
        cpu=asked.cpu,
        memory=asked.memory,
        ephemeral_storage=_disk(
            asked.ephemeral_storage, release.weights, release.scratch, release.model.spec.lora
        ),
        shared_memory=shared,
        devices=_devices(release, role, network),
    )


def _shared(release: Release, role: RoleLayout) -> str | None:
    """/dev/shm: for what ranks tell each other, and for KV that lies there."""
    asked = role.resources
    on_cpu = asked.gpus == 0 and not played(release.model)
    alone = release.engine.cpu_shared_memory if on_cpu else None
    usual = asked.shared_memory or ("8Gi" if role.ranks > role.nodes else alone)
    kv = shared_memory(release.model, release.engine, version_of(release.model))
    return mebibytes(quantity_value(usual or "1Gi") + kv) if kv else usual


def _devices(release: Release, role: RoleLayout, network: NetworkFacts | None) -> dict[str, str]:
    """The pod's share of its node's RDMA devices, as large as its share of the GPUs."""
    pool, gpus = release.pool(role), role.resources.gpus
    if network is None or not network.rdma or pool is None or pool.rdma is None or not gpus:
        return {}
    share = max(1, pool.rdma.per_node * gpus // pool.gpus_per_node)
    return {pool.rdma.resource: str(share), **huge_pages(network, pool, gpus)}


def huge_pages(network: NetworkFacts, pool: NodePool, gpus: int) -> dict[str, str]:
    """Its share of those too, of no more than the node has: pods that ask for what is not there
    wait for ever."""
    asked = {name: quantity_value(size) for name, size in network.hugepages.items()}
    there = _reserved(pool)
    shares = {
        n: min(size, there.get(n, size)) * gpus / pool.gpus_per_node for n, size in asked.items()
    }
    return {
        name: network.hugepages[name] if share == asked[name] else mebibytes(share // 2**21 * 2**21)
        for name, share in shares.items()
    }


def _reserved(pool: NodePool) -> dict[str, int]:
    """Bytes of huge pages of a node, where its instance type tells."""
    if pool.aws is None:
        return {}
    pages, instance = instances().efa_hugepages, instances().accelerated[pool.aws.instance_type]
    return {pages.resource: pages.bytes_of(instance.vcpus)}


def _disk(stated: str, weights: WeightsValues, scratch: ScratchValues, lora: Lora | None) -> str:
    """What was stated, or what the volumes may fill if that is more: a full one evicts the pod."""
    volumes = sum(
        quantity_value(size) for size in (scratch.tmp, scratch.cache, LOGS, weights.size) if size
    )
    volumes += quantity_value(adapter_storage(lora)) if lora else 0
    return stated if quantity_value(stated) >= volumes else mebibytes(volumes)


# Nodes


def tolerations(taints: Iterable[Taint]) -> tuple[Toleration, ...]:
    """What a pod says to get onto nodes with these taints."""
    return tuple(
        Toleration(
            key=taint.key,
            operator="Exists" if taint.value is None else "Equal",
            value=taint.value,
            effect=taint.effect,
        )
        for taint in taints
    )


def _scheduling(pool: NodePool | None) -> Scheduling:
    if pool is None:
        return Scheduling(node_selector={}, tolerations=())
    return Scheduling(node_selector=pool.labels, tolerations=tolerations(pool.taints))


def _queued(release: Release, role: RoleLayout) -> bool:
    """GPUs are rationed, so pods with GPUs are queued."""
    return release.stack.environment.spec.platform.kueue.enabled and role.resources.gpus > 0


def _queue(release: Release, role: RoleLayout) -> QueueValues | None:
    if not _queued(release, role):
        return None
    return QueueValues(name=release.model.spec.tenant, priority_class=SERVING)


def _placement(release: Release, role: RoleLayout) -> dict[str, str]:
    """Annotations by which Kueue chooses nodes in a pool that has a topology.

    Without one of them it admits no pod to such a pool, as long as the queue has other pools.
    """
    pool = release.pool(role)
    if pool is None or not pool.topology or not _queued(release, role):
        return {}
    alone = not role.grouped or release.model.spec.topology.expressed_as == "RoleBasedGroup"
    if alone:
        # What Kueue admits is the pod, and that is on one node wherever it is. Unconstrained, it
        # gets the fullest node with room, which leaves whole ones for groups.
        return {_topology("unconstrained"): "true"}
    # Leader and workers are two templates, which Kueue would place independently of each other.
    group = {f"{KUEUE}/podset-group-name": "group"}
    within = release.model.spec.topology.within
    if within is not None:
        return {_topology("required"): within, **group}
    # Kueue tries the level that is named, then every wider one, then all nodes: beginning with the
    # narrowest gives the closest place there is, and keeps no group waiting that fits at all.
    return {_topology("preferred"): pool.topology[-1], **group}


def _topology(how: Literal["required", "preferred", "unconstrained"]) -> str:
    return f"{KUEUE}/podset-{how}-topology"
