"""What must hold for `topology.within`: Kueue can keep the groups of a release that close."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenworks.spec.environment import HOSTNAME, NodePool
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.sourced import Documents, Sourced

_PATH: Final[FieldPath] = ("spec", "topology", "within")


def check_placement(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    """Every problem of where a release's groups have to be."""
    topology = model.document.spec.topology
    if topology.within is None or topology.kind == "single":
        return
    groups = [role for role in layout(model.document.spec) if role.grouped]
    if not groups:
        yield model.problem(
            _PATH,
            "has no meaning: a replica of prefill or decode is one pod, on one node",
            "roles of several pods",
            "remove it, or write prefill.nodes or decode.nodes",
        )
    elif topology.expressed_as == "RoleBasedGroup":
        yield model.problem(
            _PATH,
            "found a level, but Kueue does not know RoleBasedGroups: it admits their pods one by "
            "one, each wherever there is room",
            "expressedAs native",
            "remove it, or remove expressedAs",
        )
    elif _no_kueue(documents):
        yield model.problem(
            _PATH,
            "found a level, but the environment's spec.platform.kueue.enabled is false: nobody "
            "places groups",
            None,
            "remove it, or enable Kueue",
        )
    else:
        found = (p for role in groups for p in _kept(model, role, topology.within, documents))
        # Two roles may be wrong in the same words.
        yield from dict.fromkeys(found)


def _no_kueue(documents: Documents) -> bool:
    environment = documents.environment
    return environment is not None and not environment.document.spec.platform.kueue.enabled


def _kept(
    model: Sourced[ModelRelease], role: RoleLayout, level: str, documents: Documents
) -> Iterator[Problem]:
    """Whether Kueue places the pods of the role, by that level."""
    pool = documents.pools.get(role.pool or "")
    if role.resources.gpus == 0:
        yield model.problem(
            _PATH,
            f"found a level, but pods of role {role.name} have no GPUs, and only pods with GPUs "
            "are queued",
            None,
            "remove it",
        )
    elif pool is not None and role.pool is not None:
        yield from _level(model, role, level, pool, role.pool)


def _level(
    model: Sourced[ModelRelease], role: RoleLayout, level: str, pool: NodePool, name: str
) -> Iterator[Problem]:
    if not pool.topology:
        yield model.problem(
            _PATH,
            f"found {level}, but pool {name} has no topology",
            None,
            f"remove it, or write nodePools.{name}.topology in environment.yaml",
        )
    elif level not in pool.topology:
        yield model.problem(
            _PATH,
            f"found {level}, which is no level of pool {name}",
            ", ".join(pool.topology),
            "name one of these",
        )
    # How many nodes a rack has is nowhere written; a node's GPUs are.
    elif level == HOSTNAME and role.nodes * role.resources.gpus > pool.gpus_per_node:
        yield model.problem(
            _PATH,
            f"found {level}, but a group of {role.nodes} pods × {role.resources.gpus} GPUs does "
            f"not fit one node of pool {name}, which has {pool.gpus_per_node}",
            ", ".join(pool.topology[:-1]) or None,
            "name a wider level" if pool.topology[:-1] else "remove it",
        )
