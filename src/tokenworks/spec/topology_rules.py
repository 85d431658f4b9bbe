"""What must hold for a release's topology: ranks against GPUs, engine, pool and network."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tokenworks.catalog.network import load_networks
from tokenworks.spec.environment import NodePool
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.sourced import Documents, EngineCatalog, Sourced, listed

MOST_PORTS: Final = 8
"""Target ports of an InferencePool (its CRD, inference.networking.k8s.io/v1)."""
NETWORKS: Final = {"vpc.amazonaws.com/efa": "efa", "rdma/hca": "roce"}
"""Device plugin's resource: what travels over it."""


def check_topology(
    model: Sourced[ModelRelease], documents: Documents, catalog: EngineCatalog
) -> Iterator[Problem]:
    """Every problem of the topology of one release."""
    yield from _engine_can(model, catalog)
    yield from _experts(model)
    for role in layout(model.document.spec):
        yield from _ranks(model, role)
        yield from _ports(model, role)
    yield from _roles(model)
    if documents.environment is not None:
        yield from _network(model, documents)


def gpus_path(role: RoleLayout, model: ModelRelease) -> FieldPath:
    """The field that says how many GPUs a pod of the role gets."""
    topology = model.spec.topology
    stated = {"prefill": topology.prefill, "decode": topology.decode}.get(role.name)
    own = stated is not None and stated.resources is not None
    return (*role.path, "resources", "gpus") if own else ("spec", "resources", "gpus")


def role_field(role: RoleLayout, model: ModelRelease, field: str, python: str) -> FieldPath:
    """A field that a role may state itself, where it is stated."""
    topology = model.spec.topology
    stated = {"prefill": topology.prefill, "decode": topology.decode}.get(role.name)
    if stated is not None and getattr(stated, python) is not None:
        return (*role.path, field)
    shared = {"tensorParallel": ("spec", "topology"), "pool": ("spec",), "replicas": ("spec",)}
    return (*shared[field], field)


def _engine_can(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    spec = model.document.spec
    engine = catalog.engine(spec.engine.name)
    if spec.topology.kind not in engine.topologies:
        yield model.problem(
            ("spec", "topology", "kind"),
            f"found {spec.topology.kind}, which is not supported for engine {spec.engine.name}",
            ", ".join(engine.topologies),
            f"choose one of these, or an engine that can: "
            f"{listed(catalog.engines_for(spec.topology.kind), 'none')}",
        )
    yield from _divided(model, engine.divides)
    if spec.topology.launcher == "ray" and spec.engine.name != "vllm":
        yield model.problem(
            ("spec", "topology", "launcher"),
            f"found ray, which engine {spec.engine.name} does not use",
            "native",
            "remove it, or choose engine vllm",
        )
    elif spec.topology.launcher == "ray" and spec.engine.simulation is not None:
        yield model.problem(
            ("spec", "topology", "launcher"),
            "found ray, which the simulator does not play",
            "native",
            "remove it, or remove engine.simulation",
        )
    if spec.topology.transfer == "mooncake" and spec.topology.router != "engine":
        yield model.problem(
            ("spec", "topology", "transfer"),
            "found mooncake, which llm-d's sidecar cannot announce",
            "nixl",
            "remove it, or write router: engine",
        )


def _divided(model: Sourced[ModelRelease], fields: Collection[str]) -> Iterator[Problem]:
    """Counts of ranks that the engine has no flag for."""
    topology, name = model.document.spec.topology, model.document.spec.engine.name
    counts = {
        "pipelineParallel": topology.pipeline_parallel,
        "dataParallel": topology.data_parallel,
    }
    for field, count in counts.items():
        if count is not None and count > 1 and field not in fields and topology.kind == "single":
            yield model.problem(
                ("spec", "topology", field),
                f"found {count}, but engine {name} has no flag for it",
                "1",
                "remove it; tensorParallel is the number of GPUs",
            )


def _experts(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    spec = model.document.spec
    if spec.topology.kind != "wide-ep":
        return
    if spec.model.experts is None:
        yield model.problem(
            ("spec", "topology", "kind"),
            "found wide-ep, but the model is not said to have experts",
            "a model of experts",
            "write spec.model.experts, the experts of one layer, or choose another kind",
        )
        return
    (role,) = layout(spec)
    if spec.model.experts < role.ranks:
        yield model.problem(
            ("spec", "model", "experts"),
            f"found {spec.model.experts}, fewer than the {role.ranks} ranks they are spread over",
            f"at least {role.ranks}",
            "correct it, or lower topology.nodes or dataParallel",
        )


def _ranks(model: Sourced[ModelRelease], role: RoleLayout) -> Iterator[Problem]:
    """GPUs of a replica are its ranks: too few do not start, too many are paid for nothing."""
    spec, gpus = model.document.spec, role.resources.gpus
    if gpus == 0:
        return
    path = gpus_path(role, model.document)
    if gpus % role.local_tensor:
        yield model.problem(
            path,
            f"found {gpus}, but topology.tensorParallel is {role.local_tensor}"
            + (": tensor ranks stay within a pod" if role.local_tensor > gpus else ""),
            "the same number in both" if spec.topology.kind == "single" else "a multiple of it",
            f"write {role.local_tensor}, or tensorParallel: {gpus}",
        )
    elif role.nodes * gpus != role.ranks:
        yield _unlike(model, role, path)


def _unlike(model: Sourced[ModelRelease], role: RoleLayout, path: FieldPath) -> Problem:
    gpus, nodes, kind = role.resources.gpus, role.nodes, model.document.spec.topology.kind
    if kind == "single" and role.pipeline == role.data == 1:
        return model.problem(
            path,
            f"found {gpus}, but topology.tensorParallel is {role.local_tensor}",
            "the same number in both",
            f"write {role.local_tensor}, or tensorParallel: {gpus}",
        )
    factors = {"tensorParallel": role.local_tensor, "pipelineParallel": role.pipeline}
    if kind in ("single", "wide-ep"):
        factors["dataParallel"] = role.data
    product = " × ".join(f"{name} {n}" for name, n in factors.items() if n > 1)
    pods = f"{nodes} pods of {gpus} GPUs" if nodes > 1 else f"{gpus} GPUs"
    return model.problem(
        path,
        f"found {pods}, but {product or 'the topology'} is {role.ranks} ranks",
        "as many GPUs as ranks",
        f"write {role.ranks // nodes}, or change the topology"
        if role.ranks % nodes == 0
        else "change the topology",
    )


def _ports(model: Sourced[ModelRelease], role: RoleLayout) -> Iterator[Problem]:
    if not role.all_serve:
        return
    path: FieldPath = ("spec", "topology", "dataParallel")
    if role.data % role.nodes:
        yield model.problem(
            path,
            f"found {role.data}, which {role.nodes} pods cannot share evenly",
            f"a multiple of {role.nodes}",
            "change dataParallel or nodes",
        )
    elif not 2 <= role.local_data <= MOST_PORTS:
        yield model.problem(
            path,
            f"is {role.data}, that is {role.local_data} for each of {role.nodes} pods, and each "
            "has a port of its own",
            f"2 to {MOST_PORTS} a pod",
            "change tensorParallel, dataParallel or nodes",
        )


def engine_name(model: Sourced[ModelRelease]) -> str:
    """The engine's name."""
    return model.document.spec.engine.name


def _roles(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    topology = model.document.spec.topology
    if topology.kind != "disaggregated":
        return
    prefill, decode = layout(model.document.spec)
    path = role_field(decode, model.document, "tensorParallel", "tensor_parallel")
    if decode.tensor < prefill.tensor:
        yield model.problem(
            path,
            f"divides layers by {decode.tensor} for decode and by {prefill.tensor} for prefill: a "
            "decode rank cannot take in the KV of several prefill ranks",
            f"at least {prefill.tensor} for decode",
            "raise decode.tensorParallel or lower prefill.tensorParallel",
        )
    elif topology.transfer == "mooncake" and decode.tensor != prefill.tensor:
        yield model.problem(
            path,
            f"divides layers by {decode.tensor} for decode and by {prefill.tensor} for prefill, "
            "and mooncake wants the same",
            f"{prefill.tensor} for both",
            "write the same tensorParallel, or transfer: nixl",
        )
    own_router = topology.router == "engine"
    grouped = [role.name for role in (prefill, decode) if role.grouped]
    if topology.expressed_as == "RoleBasedGroup" and grouped and engine_name(model) == "vllm":
        yield model.problem(
            ("spec", "topology", "expressedAs"),
            f"found RoleBasedGroup, whose pods of one replica have one template, but vllm's "
            f"workers of {grouped[0]} run another command",
            "native",
            f"remove it, or write {grouped[0]}.nodes: 1",
        )
    elif topology.expressed_as == "RoleBasedGroup" and decode.grouped and not own_router:
        yield model.problem(
            ("spec", "topology", "expressedAs"),
            "found RoleBasedGroup, whose pods of one replica have one template, but llm-d's "
            "sidecar belongs to the first pod of decode alone",
            "native, or router: engine",
            "remove it, or write router: engine",
        )
    for role, other in ((prefill, decode), (decode, prefill)):
        if role.replicas == 0 < other.replicas:
            yield model.problem(
                role_field(role, model.document, "replicas", "replicas"),
                f"is 0 for {role.name} and {other.replicas} for {other.name}: neither answers "
                "alone",
                "both 0, or both at least 1",
                f"raise {role.name}.replicas",
            )


def pool_network(pool: NodePool) -> str | None:
    """What RDMA devices of the pool speak; None without any."""
    return NETWORKS[pool.rdma.resource] if pool.rdma else None


def _network(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    spec = model.document.spec
    if spec.topology.kind == "single":
        return
    there = {
        role.pool: pool_network(documents.pools[role.pool])
        for role in layout(spec)
        if role.pool in documents.pools
    }
    path: FieldPath = ("spec", "topology", "network")
    stated = spec.topology.network
    if stated is None and (not there or None in there.values()):
        where = f"pool {next(p for p, n in there.items() if n is None)}" if there else "the release"
        yield model.problem(
            path,
            f"is missing, and {where} has no RDMA devices: pods of one model would talk TCP",
            "tcp, said aloud, or a pool with rdma",
            "write network: tcp if slow is meant",
        )
    elif stated is None and len(set(there.values())) > 1:
        yield model.problem(
            path,
            f"pools {', '.join(sorted(str(p) for p in there))} speak different networks",
            "one network for all roles",
            "choose pools with the same devices, or write network: tcp",
        )
    yield from _all_to_all(model, {stated} if stated else {*there.values()} - {None})
    for pool, network in sorted(there.items(), key=str):
        if stated not in (None, "tcp", network):
            yield model.problem(
                path,
                f"found {stated}, but pool {pool} has "
                + (f"{network} devices" if network else "no RDMA devices"),
                network or "tcp",
                f"write {network or 'tcp'}, or choose another pool",
            )


def _all_to_all(
    model: Sourced[ModelRelease], networks: Collection[str | None]
) -> Iterator[Problem]:
    """Kernels that send from the GPU need devices that can."""
    asked = model.document.spec.topology.all_to_all
    for name in sorted(str(network) for network in networks):
        known = load_networks()[name].all_to_all
        if asked is not None and asked not in known:
            yield model.problem(
                ("spec", "topology", "allToAll"),
                f"found {asked}, whose kernels cannot send over {name}",
                ", ".join(known),
                f"remove it for {known[0]}, or choose a pool with other devices",
            )
