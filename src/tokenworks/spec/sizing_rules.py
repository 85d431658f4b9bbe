"""What must fit into a GPU: weights, and one sequence as long as the document allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenworks.catalog.architectures import architectures
from tokenworks.catalog.gpus import gpu_types
from tokenworks.spec.common import FlagValue, quantity_value
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import Problem
from tokenworks.spec.shape import Shape
from tokenworks.spec.sizing import UnsizedError, sequence_bytes, weight_bytes
from tokenworks.spec.sourced import Documents, EngineFacts, Sourced

_SHRINKING: Final = ("quantization", "cpu-offload", "offload-")
"""Flags after which the GPU holds less than the files."""
_STRETCHING: Final = frozenset({"hf-overrides", "json-model-override-args"})
"""Flags that may teach the model longer sequences."""
_TYPES: Final = ("kv-cache-dtype", "dtype")
_FRACTIONS: Final = ("gpu-memory-utilization", "mem-fraction-static")


def check_sizes(
    model: Sourced[ModelRelease], documents: Documents, facts: EngineFacts
) -> Iterator[Problem]:
    """Every problem of a release's sizes, as far as its config.json is in the document."""
    shape = model.document.spec.model.config
    if shape is None:
        return
    yield from _within_the_model(model, shape)
    try:
        # Whether it can be worked out does not depend on how long or how divided it is.
        sequence_bytes(shape, layout(model.document.spec)[0], 1, 1)
    except UnsizedError as unsized:
        yield model.problem(
            ("spec", "model", "config", unsized.field),
            unsized.found,
            unsized.allowed,
            unsized.remedy,
        )
        return
    if model.document.spec.engine.simulation is None and facts.gpu == "required":
        for role in layout(model.document.spec):
            yield from _fits(model, role, shape, documents, facts)


def _within_the_model(model: Sourced[ModelRelease], shape: Shape) -> Iterator[Problem]:
    asked = model.document.spec.model.context
    stretched = model.document.spec.engine.flags.keys() & _STRETCHING
    if asked > shape.max_position_embeddings and not stretched:
        yield model.problem(
            ("spec", "model", "maxContext"),
            f"found {asked}, but the model's own longest sequence is "
            f"{shape.max_position_embeddings}",
            f"at most {shape.max_position_embeddings}",
            "lower it",
        )


def _fits(
    model: Sourced[ModelRelease],
    role: RoleLayout,
    shape: Shape,
    documents: Documents,
    facts: EngineFacts,
) -> Iterator[Problem]:
    spec = model.document.spec
    flags: dict[str, FlagValue] = {**spec.engine.flags, **role.flags}
    number = _number(model.document, flags)
    pool = documents.pools.get(role.pool or "")
    gpu = gpu_types().get(pool.gpu) if pool is not None else None
    shrunk = any(flag.startswith(_SHRINKING) for flag in flags)
    if gpu is None or number is None or shrunk or role.resources.gpus == 0:
        return
    room = quantity_value(gpu.memory) * _fraction(model.document, flags, facts)
    weights = weight_bytes(quantity_value(spec.model.size), role)
    sequence = sequence_bytes(shape, role, spec.model.context, number)
    if weights + sequence > room:
        left = max(0.0, room - weights)
        kind = pool.gpu if pool is not None else ""
        yield model.problem(
            ("spec", "model", "maxContext"),
            f"found {spec.model.context}: one such sequence takes {_gb(sequence)} of KV on "
            f"each GPU of {role.name}, and {_gb(weights)} of weights leave {_gb(left)} of the "
            f"{_gb(room)} that may be used of {kind}",
            f"at most {int(left * spec.model.context / sequence)}",
            "lower it, or divide the model over more GPUs",
        )


def _number(model: ModelRelease, flags: dict[str, FlagValue]) -> float | None:
    """Bytes of one number of KV; None where the type is not known."""
    stated = model.spec.caches.kv.dtype
    given = [str(flags[name]) for name in _TYPES if name in flags]
    chosen = next((t for t in (stated, *given) if t not in (None, "auto")), "bfloat16")
    return architectures().kv_bytes.get(str(chosen))


def _fraction(model: ModelRelease, flags: dict[str, FlagValue], facts: EngineFacts) -> float:
    """Part of a GPU that the engine may use: stated, or the most that it takes by itself."""
    stated = model.spec.caches.kv.memory_fraction
    given = [flags[name] for name in _FRACTIONS if name in flags]
    found = [value for value in (stated, *given) if isinstance(value, int | float)]
    return float(found[0]) if found else facts.memory_fraction


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
