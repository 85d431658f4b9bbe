"""What must hold for a release's caches: within its document, and against pools and engines."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from tokenworks.spec.common import quantity_value
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.sourced import Documents, EngineFacts, Sourced, listed

_KEPT_NOWHERE: Final = {
    "s3": "are streamed to the GPU",
    "gs": "are streamed to the GPU",
    "pvc": "lie in their claim already",
    "oci": "are mounted from their image",
    "dummy": "are none",
}
"""Schemes whose weights have no cache, and why."""
PLACES: Final = {"cpu": "memory", "nvme": "files", "hicache": "files of a claim"}
_WEIGHTS: Final[FieldPath] = ("spec", "caches", "weights")


def check_caches(
    model: Sourced[ModelRelease], documents: Documents, facts: EngineFacts
) -> Iterator[Problem]:
    """Every problem of a release's caches."""
    yield from _told(model, facts)
    yield from _beyond_the_gpu(model, documents, facts)
    scheme = model.document.spec.model.uri.partition("://")[0]
    if scheme in _KEPT_NOWHERE:
        yield from _of_nothing(model, scheme)
        return
    yield from _nowhere(model)
    yield from _size(model)
    yield from _brought(model, facts)
    yield from _one_node(model)
    if documents.environment is not None:
        yield from _local_disk(model, documents)


def _told(model: Sourced[ModelRelease], facts: EngineFacts) -> Iterator[Problem]:
    """What the engine has no flag for would be read here and nowhere else."""
    caches, name = model.document.spec.caches, model.document.spec.engine.name
    asked = {
        "prefix": None if caches.prefix else "false",
        "kv.memoryFraction": caches.kv.memory_fraction,
        "kv.dtype": caches.kv.dtype,
        "kv.blockSize": caches.kv.block_size,
    }
    for field, value in asked.items():
        if value is not None and field not in facts.cache_fields:
            yield model.problem(
                ("spec", "caches", *field.split(".")),
                f"found {value}, but engine {name} has no flag for it",
                "true" if field == "prefix" else "what the engine chooses",
                "remove it, or choose another engine",
            )
    kind = caches.kv.dtype
    if kind is not None and facts.kv_types and kind not in facts.kv_types:
        yield model.problem(
            ("spec", "caches", "kv", "dtype"),
            f"found {kind}, in which engine {name} cannot keep KV",
            listed(facts.kv_types, "none"),
            "choose one of these",
        )


def _of_nothing(model: Sourced[ModelRelease], scheme: str) -> Iterator[Problem]:
    caches = model.document.spec.caches
    if "weights" in caches.model_fields_set and caches.weights.kind != "none":
        yield model.problem(
            _WEIGHTS,
            f"has no meaning: {scheme}:// weights {_KEPT_NOWHERE[scheme]}",
            "kind none",
            "remove it",
        )


def _nowhere(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    """An engine that downloads its weights has to keep them somewhere."""
    spec = model.document.spec
    if spec.caches.weights.kind == "none" and spec.engine.simulation is None:
        yield model.problem(
            (*_WEIGHTS, "kind"),
            f"found none, but {spec.model.uri} is downloaded, which takes a place",
            "ephemeral, pvc, node",
            "write kind: ephemeral, or remove it: that is the default",
        )


def _size(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    spec = model.document.spec
    size = spec.caches.weights.size
    if size is not None and quantity_value(size) < quantity_value(spec.model.size):
        yield model.problem(
            (*_WEIGHTS, "size"),
            f"found {size}, but the weights are {spec.model.size}",
            f"at least {spec.model.size}",
            "raise it, or remove it for weights and a fifth",
        )


def _brought(model: Sourced[ModelRelease], facts: EngineFacts) -> Iterator[Problem]:
    """Weights that come before the engine starts lie in a folder named by their commit."""
    spec, cache = model.document.spec, model.document.spec.caches.weights
    if cache.kind != "node" and not cache.prefetch:
        return
    field: FieldPath = (*_WEIGHTS, "prefetch" if cache.prefetch else "kind")
    if spec.model.revision is None:
        yield model.problem(
            ("spec", "model", "revision"),
            "is missing: the weights' folder is named by it",
            "a commit of 40 hexadecimal digits, or `unresolved`",
            "add the commit that the hub shows for the branch",
        )
    if facts.python is None:
        yield model.problem(
            field,
            f"the image of engine {spec.engine.name} has no Python, which downloads the weights",
            "kind ephemeral, or pvc with a filled claim",
            "let the engine download, fill a claim, or choose another engine",
        )


def _one_node(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    """A claim for one node holds up every pod on another one."""
    cache = model.document.spec.caches.weights
    pods = sum(role.pods for role in layout(model.document.spec))
    if cache.access_mode == "ReadWriteOnce" and pods > 1:
        yield model.problem(
            (*_WEIGHTS, "accessMode"),
            f"found ReadWriteOnce, but {pods} pods mount the claim, on nodes of their own",
            "ReadWriteMany, ReadOnlyMany",
            "choose a claim that many nodes may mount, or kind node",
        )


def _local_disk(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    if model.document.spec.caches.weights.kind != "node":
        return
    pools, folders = documents.pools, set[str]()
    for role in layout(model.document.spec):
        pool = pools.get(role.pool or "")
        if pool is not None and pool.local_storage is not None:
            folders.add(pool.local_storage.path)
        elif pool is not None or role.pool is None:
            yield _no_disk(model, role, documents)
    if len(folders) > 1:
        yield model.problem(
            (*_WEIGHTS, "kind"),
            f"the pools of its roles keep weights in different folders: {listed(folders, '')}",
            "one folder",
            "give the pools the same localStorage.path",
        )


def _no_disk(model: Sourced[ModelRelease], role: RoleLayout, documents: Documents) -> Problem:
    having = [name for name, pool in documents.pools.items() if pool.local_storage is not None]
    return model.problem(
        (*_WEIGHTS, "kind"),
        f"found node, but pool {role.pool} has no localStorage"
        if role.pool
        else "found node, but no pool says which nodes have a disk",
        f"pools with localStorage: {listed(having, 'none')}",
        "add localStorage to the pool, or choose kind ephemeral",
    )


# KV beyond the GPU


def _beyond_the_gpu(
    model: Sourced[ModelRelease], documents: Documents, facts: EngineFacts
) -> Iterator[Problem]:
    caches, engine = model.document.spec.caches, model.document.spec.engine
    asked = tiers_asked(model.document)
    if not asked:
        return
    known = facts.tier_names(engine.version or facts.default)
    for path, tier in asked:
        if tier not in known:
            yield _unknown_tier(model, path, tier, known)
    yield from _alone(model, facts)
    yield from _fits(model)
    if caches.distributed is not None and caches.distributed.transport == "rdma":
        yield from _rdma(model, documents)


def tiers_asked(model: ModelRelease) -> list[tuple[FieldPath, str]]:
    """Places for KV that the document asks for, and where it does."""
    caches, found = model.spec.caches, list[tuple[FieldPath, str]]()
    if caches.offload is not None:
        found.append((("spec", "caches", "offload", "cpu"), "cpu"))
        if caches.offload.nvme is not None:
            found.append((("spec", "caches", "offload", "nvme"), "nvme"))
    if caches.distributed is not None:
        found.append((("spec", "caches", "distributed", "kind"), caches.distributed.kind))
    return found


def _unknown_tier(
    model: Sourced[ModelRelease], path: FieldPath, tier: str, known: Set[str]
) -> Problem:
    engine = model.document.spec.engine
    version = f" {engine.version}" if engine.version else ""
    return model.problem(
        path,
        f"engine {engine.name}{version} cannot keep KV in {PLACES.get(tier, tier)}",
        listed({PLACES.get(name, name) for name in known}, "none"),
        "remove it, or choose another engine or version",
    )


def _alone(model: Sourced[ModelRelease], facts: EngineFacts) -> Iterator[Problem]:
    """Engines move KV in one way at a time."""
    spec = model.document.spec
    caches = spec.caches
    first: FieldPath = ("spec", "caches", "offload" if caches.offload else "distributed")
    if spec.topology.kind == "disaggregated":
        yield from _beside_transfer(model, facts)
    if caches.offload is not None and caches.distributed is not None:
        yield model.problem(
            ("spec", "caches", "distributed"),
            "found it beside offload, and an engine takes one way of moving KV",
            "distributed, whose memory comes before the store, or offload",
            "remove one of them",
        )
    if not caches.prefix:
        yield model.problem(
            first,
            "has no meaning without prefix, which is what finds kept blocks",
            "prefix: true",
            "remove it, or set prefix: true",
        )
    for name in sorted({*spec.engine.flags, *spec.engine.env} & facts.tier_settings()):
        field = "flags" if name in spec.engine.flags else "env"
        yield model.problem(
            ("spec", "engine", field, name),
            f"is derived from spec.caches.{first[-1]}",
            None,
            "remove it",
        )


def _beside_transfer(model: Sourced[ModelRelease], facts: EngineFacts) -> Iterator[Problem]:
    """Prefill and decode hand over KV; what else an engine may do with it at once is few."""
    engine, transfer = model.document.spec.engine, model.document.spec.topology.transfer or "nixl"
    can = facts.tiers_beside_transfer(engine.version or facts.default)
    places = {PLACES.get(tier, tier) for tier in can} if transfer == "nixl" else set[str]()
    for path, tier in tiers_asked(model.document):
        place = PLACES.get(tier, tier)
        if place not in places:
            yield model.problem(
                path,
                f"prefill and decode hand over KV by {transfer}, and beside that engine "
                f"{engine.name} cannot keep it in {place}",
                listed(places, "no place beside it"),
                "remove it, or choose another topology",
            )


def _fits(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    """What KV takes of a pod's memory is not there for the engine."""
    caches = model.document.spec.caches
    kv = caches.offload.cpu if caches.offload else None
    field: FieldPath = ("spec", "caches", "offload", "cpu")
    if caches.distributed is not None:
        kv, field = caches.distributed.memory, ("spec", "caches", "distributed", "memory")
    for role in layout(model.document.spec):
        shared = role.resources.shared_memory or ("8Gi" if role.ranks > role.nodes else "1Gi")
        taken = quantity_value(kv or "1") + quantity_value(shared)
        if taken >= quantity_value(role.resources.memory):
            yield model.problem(
                field,
                f"found {kv}, which with {shared} of /dev/shm leaves nothing of the pod's "
                f"{role.resources.memory} of memory",
                "less than memory",
                "raise resources.memory, or lower it",
            )
        elif caches.distributed is not None:
            yield from _enough(model, role)


def _enough(model: Sourced[ModelRelease], role: RoleLayout) -> Iterator[Problem]:
    """Stores count in whole gigabytes a rank, one of them for what is under way."""
    store = model.document.spec.caches.distributed
    ranks = max(1, role.ranks // role.nodes)
    if store is not None and quantity_value(store.memory) < 2e9 * ranks:
        yield model.problem(
            ("spec", "caches", "distributed", "memory"),
            f"found {store.memory} for {ranks} ranks of a pod, which take whole gigabytes",
            f"at least {2 * ranks}G",
            "raise it",
        )


def _rdma(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    for role in layout(model.document.spec):
        pool = documents.pools.get(role.pool or "")
        if pool is None or pool.rdma is None or model.document.spec.topology.kind == "single":
            yield model.problem(
                ("spec", "caches", "distributed", "transport"),
                "found rdma, but the pods get no RDMA devices",
                "tcp; rdma for groups on a pool with rdma",
                "write tcp",
            )
            return
