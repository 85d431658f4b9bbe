"""GPUs are asked for by their right name, as whole numbers, as limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from policies.engines import Program, is_accelerator
from policies.inventory import Inventory
from policies.model import Context, Path, Rule, Violation
from policies.tree import mapping, quantity

_LINK = "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
_RIGHT = ("nvidia.com/gpu", "amd.com/gpu")
_WRONG = frozenset({"alpha.kubernetes.io/nvidia-gpu", "gpu", "gpus"})
_SIDES = ("limits", "requests")


def _find(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        resources = mapping(program.container.spec.get("resources"))
        misspelt = list(_misspelt(program, resources))
        yield from misspelt
        yield from _amounts(program, resources)
        if not misspelt:
            yield from _absent(program)
        yield from _helps_itself(program)
        yield from _names_others(program)


def _violation(program: Program, path: Path, message: str, remedy: str) -> Violation:
    container = program.container
    return Violation(
        container.pod.index, container.place(path), f"{program.title} {message}", remedy
    )


def _absent(program: Program) -> Iterator[Violation]:
    container = program.container
    if not program.needs_gpu or program.accelerators:
        return
    if container.completed and not container.asked:
        return
    engine = program.engine.name if program.engine else "engine"
    yield _violation(
        program,
        ("resources", "limits"),
        "has no GPU limit: it lands on a node without a GPU, or shares one unseen",
        f'set resources.limits["nvidia.com/gpu"] to the GPUs {engine} uses; a CPU build says so '
        "with --device cpu or an image called …-cpu",
    )


def _misspelt(program: Program, resources: Mapping[str, Any]) -> Iterator[Violation]:
    for name in {str(n): None for side in _SIDES for n in mapping(resources.get(side))}:
        right = _meant(name)
        if right:
            side = next(s for s in _SIDES if name in mapping(resources.get(s)))
            yield _violation(
                program,
                ("resources", side, name),
                f"asks for {name}, which no node offers",
                f"write {right}",
            )


@cache
def _meant(name: str) -> str | None:
    """The resource a misspelt name stands for, or None."""
    if is_accelerator(name):
        return None
    lower = name.lower()
    if lower in _WRONG:
        return _RIGHT[0]
    plain = "".join(c for c in lower if c.isalnum())
    for right in _RIGHT:
        if _distance(lower, right) <= 2 or plain in (
            right.replace(".com/", ""),
            right.replace(".com/", "") + "s",
        ):
            return right
    return None


def _distance(a: str, b: str) -> int:
    """Edits between two words."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def _amounts(program: Program, resources: Mapping[str, Any]) -> Iterator[Violation]:
    limits, requests = (mapping(resources.get(side)) for side in _SIDES)
    names = [n for n in {**limits, **requests} if is_accelerator(str(n))]
    for name in names:
        yield from _fractions(program, resources, str(name))
        limit, request = limits.get(name), requests.get(name)
        if limit is None:
            yield _violation(
                program,
                ("resources", "requests", str(name)),
                f"requests {name} without a limit, which the API server refuses",
                f"move {name} to resources.limits; the request follows",
            )
        elif request is not None and quantity(limit) != quantity(request):
            yield _violation(
                program,
                ("resources", "requests", str(name)),
                f"requests {request} {name} with a limit of {limit}: GPUs cannot be overcommitted",
                "make them equal, or keep the limit alone",
            )


def _fractions(program: Program, resources: Mapping[str, Any], name: str) -> Iterator[Violation]:
    for side in _SIDES:
        value = mapping(resources.get(side)).get(name)
        if value is None:
            continue
        amount = quantity(value)
        if amount is None or amount.denominator != 1 or amount < 0:
            yield _violation(
                program,
                ("resources", side, name),
                f"asks for {value} {name}: GPUs come whole",
                "ask for a whole number; to share a GPU, use MIG or time slicing on the node",
            )
            return


_INDICES = re.compile(r"\b((?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)=[\"']?(\d{1,2}(?:,\d{1,2})*)\b")


def _names_others(program: Program) -> Iterator[Violation]:
    """Indices count a container's own GPUs from 0, whichever of the node's they are."""
    gpus, env = program.gpus, program.container.env
    if not gpus or not program.needs_gpu:
        return
    given = [f"{name}={value}" for name, value in env.items() if value is not None]
    for name, value in _INDICES.findall(" ".join([*given, program.line.script or ""])):
        most = max(map(int, value.split(",")))
        if most >= gpus:
            has = "one GPU, which is 0" if gpus == 1 else f"{gpus} GPUs, 0 to {gpus - 1}"
            yield _violation(
                program,
                ("env",)
                if name in env
                else ("args" if program.container.spec.get("args") else "command",),
                f"sets {name} to {value}, and has {has}: it sees none behind them",
                f"remove {name}; the device plugin shows what was allotted",
            )
            return


def _helps_itself(program: Program) -> Iterator[Violation]:
    """NVIDIA_VISIBLE_DEVICES as a literal shows every GPU of the node, allotted or not."""
    value = program.container.env.get("NVIDIA_VISIBLE_DEVICES")
    if not program.needs_gpu or value is None or value.lower() in ("", "void", "none"):
        return
    yield _violation(
        program,
        ("env",),
        f"sets NVIDIA_VISIBLE_DEVICES to {value}: it sees GPUs it was not allotted",
        "remove the variable; the device plugin sets it",
    )


RULE = Rule(
    id="gpu-limits",
    severity="error",
    title="GPU engines have GPU limits",
    reason="An engine without a GPU limit lands on a node without one, or takes another pod's. A "
    "misspelt resource is never scheduled, and a request without an equal limit is refused.",
    remedy='Set resources.limits["nvidia.com/gpu"] (or the vendor\'s resource) to a whole number; '
    "requests may be left out or must be equal.",
    find=_find,
    link=_LINK,
)
