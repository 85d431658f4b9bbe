"""Ranks and GPUs agree: in a pod, and in a group of pods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import Pod, descend
from policies.rules.shared import about, flag_path, pods_of_group
from policies.tree import integer, mapping
from tokenworks.catalog.commandline import Size, World

_DOCS = "https://docs.vllm.ai/en/stable/serving/parallelism_scaling/"
_FLAGS = (
    "tensor-parallel-size", "tp-size", "pipeline-parallel-size", "pp-size", "data-parallel-size",
    "dp-size", "data-parallel-size-local", "nnodes", "num-shard",
)  # fmt: skip
_ELSEWHERE = ("config", "extra-llm-api-options", "config-file")
_RAY = re.compile(r"\bray\s+start\b|multi-node-serving\.sh|run_cluster\.sh|\bmpirun\b|\bsrun\b")
_FEWER = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def _judged(inventory: Inventory) -> Iterator[tuple[Program, World, int]]:
    """Engines whose ranks and GPUs are both written down."""
    for program in inventory.programs:
        if program.engine is None or program.mode == "none" or not program.needs_gpu:
            continue
        world, gpus = program.world, program.gpus
        if world is None or not gpus or program.line.engine is None:
            continue
        if any(name in program.line.flags for name in _ELSEWHERE):
            continue
        if any(name in program.container.env for name in _FEWER) or _several(program):
            continue
        yield program, world, gpus


def _several(program: Program) -> bool:
    """Whether one container starts several engines, that share its GPUs."""
    engine, words = program.engine, " ".join(program.line.words).lower()
    return engine is not None and len(engine.command.findall(words)) > 1


def _here(program: Program, world: World) -> Size | None:
    """GPUs that the ranks of one pod use; None where something else places them."""
    if _RAY.search(" ".join(program.line.words)) or world.spread:
        return None
    several = (pods_of_group(program.container.pod) or 1) > 1
    # In a group without --nnodes, data ranks or Ray decide how many are here.
    if several and world.nodes == 1 and "data-parallel-size-local" not in program.line.flags:
        return None
    return world.ranks_per_pod


def _product(world: World) -> str:
    parts = [("tensor", world.tp), ("pipeline", world.pp), ("context", world.cp)]
    data = world.dp_local if isinstance(world.nodes, int) and world.nodes <= 1 else world.dp
    if not world.shared:
        parts.append(("data", data))
    shown = [f"{name} {size}" for name, size in parts if size != 1]
    per_node = f", over {world.nodes} nodes" if world.nodes != 1 else ""
    return (" x ".join(shown) or "tensor 1") + per_node


@rule(
    "world-size",
    "error",
    "Ranks fit the GPUs of their pod",
    "An engine that wants more ranks than its container has GPUs stops when it starts, or puts two "
    "ranks on one GPU.",
    "Make tensor x pipeline x local data parallelism equal to the container's GPU limit.",
    _DOCS,
)
def world_size(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, world, gpus in _judged(inventory):
        ranks = _here(program, world)
        if isinstance(ranks, int) and ranks > gpus:
            yield about(
                program,
                flag_path(program, *_FLAGS),
                f"wants {ranks} GPUs ({_product(world)}) and its container has {gpus}",
                f"ask for {ranks} GPUs, or lower the parallelism to {gpus}",
            )
    for program in inventory.served:
        yield from _over_workers(inventory, program)


def _over_workers(inventory: Inventory, program: Program) -> Iterator[Violation]:
    """Ranks that Ray places on the workers of a cluster, wherever GPUs are free."""
    world, pod = program.world, program.container.pod
    if world is None or not program.gpus or not isinstance(world.tp, int):
        return
    groups = [_gpus(inventory, other) for other in inventory.pods if other.index == pod.index]
    if not isinstance(world.pp, int) or None in groups:
        return
    known = [group for group in groups if group is not None]
    ranks, total = world.tp * world.pp, sum(gpus * most for gpus, most in known)
    largest = max((gpus for gpus, _ in known), default=0)
    sizes = f"tensor {world.tp}{f' x pipeline {world.pp}' if world.pp > 1 else ''}"
    if ranks > total:
        yield about(
            program,
            flag_path(program, *_FLAGS),
            f"wants {ranks} GPUs ({sizes}) and the cluster has {total} at most: it is never placed",
            f"give the workers {ranks} GPUs, or lower the parallelism to {total}",
        )
    elif world.tp > largest:
        yield about(
            program,
            flag_path(program, *_FLAGS),
            f"spreads {world.tp} tensor ranks over workers with {largest} GPUs each: every layer "
            "waits for the network between them",
            f"set --tensor-parallel-size to {largest} and --pipeline-parallel-size to "
            f"{-(-ranks // largest)}, or use workers with {world.tp} GPUs",
            "warning",
        )


def _gpus(inventory: Inventory, pod: Pod) -> tuple[int, int] | None:
    """GPUs of one pod of a Ray cluster, and how many of it there may be; None: not known."""
    group = mapping(descend(pod.object, pod.path[:-2]))
    found = [program.gpus for program in inventory.of_pod(pod)]
    if "num-gpus" in mapping(group.get("rayStartParams")) or None in found:
        return None
    counts = [integer(group.get(key), 1) for key in ("replicas", "maxReplicas", "numOfHosts")]
    if None in counts:
        return None
    replicas, most, hosts = (count or 0 for count in counts)
    return sum(gpus or 0 for gpus in found), max(replicas, most) * max(hosts, 1)


@rule(
    "idle-gpus",
    "warning",
    "No GPU of a pod is idle",
    "GPUs that no rank uses are paid for and kept from others.",
    "Raise the parallelism to the number of GPUs, or ask for fewer.",
    _DOCS,
)
def idle_gpus(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, world, gpus in _judged(inventory):
        ranks = _here(program, world)
        unsure = any("may hold more flags" in note for note in program.line.notes)
        if not isinstance(ranks, int) or ranks >= gpus or unsure or program.container.completed:
            continue
        if program.line.unknown and ranks == 1:
            continue
        yield about(
            program,
            ("resources", "limits"),
            f"uses {ranks} of its {gpus} GPUs ({_product(world)})",
            f"set the tensor parallelism to {gpus}, or ask for {ranks}",
        )
    for program in inventory.programs:
        routes = program.engine is None and _ROUTES.search(program.command.text)
        if routes and program.accelerators and program.container.kind == "container":
            yield about(
                program,
                ("resources", "limits"),
                f"holds {program.accelerators[0]} and runs {routes[0]}, which computes nothing",
                "ask for no GPU",
            )


_ROUTES = re.compile(r"\bdynamo\.(frontend|planner|router)\b|\bsglang_router\.launch_router\b")
"""Programs that lead requests to engines, or count them."""


@rule(
    "group-size",
    "error",
    "Ranks fit the GPUs of their group",
    "A group that is smaller than its ranks waits for the missing ones for ever; a larger one "
    "keeps GPUs that nobody uses.",
    "Make the ranks of a replica equal to the group's size times the GPUs of its pods.",
    "https://lws.sigs.k8s.io/docs/concepts/",
)
def group_size(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, world, gpus in _judged(inventory):
        pod = program.container.pod
        size = pods_of_group(pod)
        if size is None:
            continue
        if isinstance(world.nodes, int) and world.nodes > 1 and world.nodes != size:
            yield about(
                program,
                flag_path(program, "nnodes"),
                f"expects {world.nodes} nodes in a group of {size} pods",
                f"set --nnodes to {size}, or the group's size to {world.nodes}",
            )
            continue
        total = _total(inventory, pod, gpus, size)
        if total is None or not isinstance(world.ranks, int) or program.mode == "member":
            continue
        yield from _compared(program, world, world.ranks, total, size)


def _compared(
    program: Program, world: World, ranks: int, total: int, size: int
) -> Iterator[Violation]:
    if size == 1 and _here(program, world) is not None:
        return
    if ranks > total:
        yield about(
            program,
            flag_path(program, *_FLAGS),
            f"spreads {ranks} ranks ({_product(world)}) over a group of {size} pods with {total} "
            "GPUs in all",
            f"give the group {ranks} GPUs, or lower the parallelism to {total}",
        )
    elif ranks < total and size > 1 and any(name in program.line.flags for name in _FLAGS):
        yield about(
            program,
            flag_path(program, *_FLAGS),
            f"uses {ranks} ranks ({_product(world)}) of a group of {size} pods with {total} GPUs "
            "in all",
            f"raise the parallelism to {total}, or make the group smaller",
            "warning",
        )


def _total(inventory: Inventory, pod: Pod, own: int, size: int) -> int | None:
    """GPUs of the whole group: one leader, and workers."""
    others = [
        other
        for other in inventory.of_object(pod.index)
        if other.container.pod.role == "worker"
        and other.container.pod.path[:-2] == pod.path[:-2]
        and other.accelerators
    ]
    if pod.role == "worker" or not others:
        return None if pod.role == "leader" and size > 1 else own * size
    workers = others[0].gpus
    return None if workers is None else own + workers * (size - 1)


ALL = (world_size, idle_gpus, group_size)
