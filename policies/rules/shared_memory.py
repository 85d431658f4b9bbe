"""Ranks that share a node have shared memory, with a limit that fits the container's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from policies.engines import Program, is_accelerator
from policies.inventory import Inventory
from policies.model import Context, Rule, Severity, Violation
from policies.pods import Container
from policies.tree import at, integer, mapping, quantity, sequence

_LINK = "https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"
_RANKS = (
    ("tensor-parallel-size", "tp", "tp-size", "num-shard"),
    ("pipeline-parallel-size", "pp", "pp-size"),
    ("data-parallel-size", "dp", "dp-size"),
)
_REMEDY = (
    "mount an emptyDir {medium: Memory, sizeLimit: 8Gi} at /dev/shm and count it in "
    "resources.limits.memory"
)


def _find(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        if not _computes(program) or container.pod.spec.get("hostIPC") is True:
            continue
        volume = _shm(container)
        if volume is None:
            shared = program.needs_gpu and _ranks_share(program) and not _by_compiler(program)
            if shared and not container.completed:
                yield Violation(
                    container.pod.index,
                    container.place(("volumeMounts",)),
                    f"{program.title} runs several ranks on {_gpus(program)} GPUs with the "
                    "default /dev/shm of 64 MiB",
                    _REMEDY,
                )
        else:
            yield from _volume(program, *volume)


def _by_compiler(program: Program) -> bool:
    """Whether ranks run on TPUs or Neuron devices, whose collectives a compiler puts on the chips:
    they need no memory of the host for it."""
    return bool(program.accelerators) and all(
        name.startswith(("google.com/tpu", "aws.amazon.com/neuron"))
        for name in program.accelerators
    )


def _computes(program: Program) -> bool:
    """An engine, or whatever holds an accelerator for as long as its pod lives."""
    container, engine = program.container, program.engine
    if engine is not None and engine.name == "simulator":
        return False
    held = bool(program.accelerators) and container.kind in ("container", "sidecar")
    serves = engine is not None and program.mode != "none"
    return serves or (held and container.pod.long_running)


def _shm(container: Container) -> tuple[int, Mapping[str, Any]] | None:
    """The volume mounted at /dev/shm, and its position."""
    for mount in sequence(container.spec.get("volumeMounts")):
        if str(mapping(mount).get("mountPath")).rstrip("/") != "/dev/shm":
            continue
        for position, volume in enumerate(sequence(container.pod.spec.get("volumes"))):
            if mapping(volume).get("name") == mapping(mount).get("name"):
                return position, mapping(volume)
    return None


def _volume(program: Program, position: int, volume: Mapping[str, Any]) -> Iterator[Violation]:
    container = program.container
    # One rank can do without shared memory; then this is advice.
    severity: Severity = "error" if _ranks_share(program) else "warning"
    path = (*container.pod.path, "volumes", position)
    if "emptyDir" not in volume:
        return
    empty = mapping(volume["emptyDir"])
    if empty.get("medium") != "Memory":
        yield Violation(
            container.pod.index,
            (*path, "emptyDir"),
            f"{program.title} has /dev/shm on disk: medium is not Memory",
            _REMEDY,
            severity,
        )
        return
    size, limit = empty.get("sizeLimit"), at(container.spec, "resources", "limits", "memory")
    if size is None:
        yield Violation(
            container.pod.index,
            (*path, "emptyDir"),
            f"{program.title} has /dev/shm without sizeLimit: it may take all of the pod's memory",
            _REMEDY,
            severity,
        )
    elif _exceeds(size, limit):
        yield Violation(
            container.pod.index,
            (*path, "emptyDir", "sizeLimit"),
            f"{program.title} has {size} of /dev/shm within a memory limit of {limit}: what is "
            "written there counts, so it is killed before the volume is full",
            "raise resources.limits.memory above sizeLimit plus what the engine needs",
        )


def _exceeds(size: object, limit: object) -> bool:
    a, b = quantity(size), quantity(limit)
    return a is not None and b is not None and a >= b


def _gpus(program: Program) -> int:
    limits = mapping(at(program.container.spec, "resources", "limits"))
    amounts = (quantity(v) or Fraction(0) for k, v in limits.items() if is_accelerator(str(k)))
    return int(sum(amounts, Fraction(0)))


def _ranks_share(program: Program) -> bool:
    """More than one GPU in the pod, and flags that do not say one rank a GPU process."""
    if _gpus(program) < 2:
        return False
    values = [program.given(*names) for names in _RANKS]
    given = [value for value in values if value is not None]
    return any(not value.isdecimal() or integer(value, 0) != 1 for value in given)


RULE = Rule(
    id="shared-memory",
    severity="error",
    title="Ranks that share a node have shared memory",
    reason="Tensor-parallel ranks talk through /dev/shm. A container has 64 MiB of it, and NCCL "
    "fails or hangs; a memory volume without a limit can take all of the pod's.",
    remedy="Mount an emptyDir with medium Memory and a sizeLimit at /dev/shm; it counts against "
    "the container's memory limit.",
    find=_find,
    link=_LINK,
)
