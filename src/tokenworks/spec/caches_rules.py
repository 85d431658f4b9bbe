"""What must hold for a release's caches: within its document, and against pools and engines."""

from __future__ import annotations

from collections.abc import Iterator
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
_WEIGHTS: Final[FieldPath] = ("spec", "caches", "weights")


def check_caches(
    model: Sourced[ModelRelease], documents: Documents, facts: EngineFacts
) -> Iterator[Problem]:
    """Every problem of a release's caches."""
    scheme = model.document.spec.model.uri.partition("://")[0]
    if scheme in _KEPT_NOWHERE:
        yield from _of_nothing(model, scheme)
        return
    yield from _size(model)
    yield from _brought(model, facts)
    yield from _one_node(model)
    if documents.environment is not None:
        yield from _local_disk(model, documents)


def _of_nothing(model: Sourced[ModelRelease], scheme: str) -> Iterator[Problem]:
    caches = model.document.spec.caches
    if "weights" in caches.model_fields_set and caches.weights.kind != "none":
        yield model.problem(
            _WEIGHTS,
            f"has no meaning: {scheme}:// weights {_KEPT_NOWHERE[scheme]}",
            "kind none",
            "remove it",
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
