"""Weights fit the GPUs that the pod is placed on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import Container
from policies.rules.shared import about, model_flag
from policies.tree import at, mapping, sequence, strings

_BILLIONS = re.compile(r"(?<![\dx.])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z0-9])", re.IGNORECASE)
_GIGABYTES = re.compile(r"(?<!\d)(\d{1,3})gb(?![a-z])", re.IGNORECASE)
_HALF = re.compile(r"awq|gptq|int4|4bit|w4a16|nvfp4|mxfp4|fp4|q4_|bnb|nf4", re.IGNORECASE)
_ONE = re.compile(r"fp8|int8|w8a8|8bit|q8_", re.IGNORECASE)
_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
_QUANTIZED = {
    "fp8": 1.0, "awq": 0.5, "gptq": 0.5, "awq_marlin": 0.5, "gptq_marlin": 0.5,
    "bitsandbytes": 0.5, "mxfp4": 0.5, "modelopt": 1.0, "modelopt_fp4": 0.5,
}  # fmt: skip


def weights(program: Program) -> float | None:
    """Bytes of the weights, by the model's name and its quantization; None where neither says."""
    model = program.line.model
    found = _BILLIONS.search(model.rpartition("/")[2]) if isinstance(model, str) else None
    if found is None or not isinstance(model, str):
        return None
    each = _bytes(program, model)
    return None if each is None else float(found[1]) * 1e9 * each


def _bytes(program: Program, model: str) -> float | None:
    quantization = program.line.value("quantization")
    if quantization is not None:
        return _QUANTIZED.get(str(quantization))
    if _HALF.search(model):
        return 0.5
    if _ONE.search(model):
        return 1.0
    dtype = str(program.line.value("dtype") or "auto")
    return {"auto": 2.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0}.get(dtype)


def memory(container: Container) -> int | None:
    """GiB of one GPU, where labels of the node or the resource name it."""
    named = list(_placed(container.pod.spec))
    limits = mapping(mapping(container.spec.get("resources")).get("limits"))
    slices = [str(name) for name in limits if "nvidia.com/mig-" in str(name)]
    sizes = {int(m[1]) for text in slices or named if (m := _GIGABYTES.search(text))}
    return max(sizes) if sizes else None


def _placed(spec: Mapping[str, Any]) -> Iterator[str]:
    selector = mapping(spec.get("nodeSelector"))
    yield from (str(selector[label]) for label in _LABELS if label in selector)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = at(spec, "affinity", "nodeAffinity", required, "nodeSelectorTerms")
    for term in sequence(terms):
        for entry in sequence(mapping(term).get("matchExpressions")):
            if mapping(entry).get("key") in _LABELS and mapping(entry).get("operator") == "In":
                yield from strings(mapping(entry).get("values"))


@rule(
    "model-memory",
    "error",
    "Weights fit the GPUs",
    "An engine whose weights are larger than the memory of its GPUs ends with out of memory at "
    "every start, after minutes of download.",
    "Use more GPUs (tensor or pipeline parallelism), larger ones, or quantized weights.",
    "https://docs.vllm.ai/en/stable/configuration/conserving_memory/",
)
def model_memory(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        world = program.world
        if program.mode == "none" or world is None or not program.needs_gpu:
            continue
        if "cpu-offload-gb" in program.line.flags or "config" in program.line.flags:
            continue
        size, whole = memory(program.container), weights(program)
        shares = (world.tp, world.pp)
        if size is None or whole is None or program.line.value("load-format") == "dummy":
            continue
        if not all(isinstance(share, int) for share in shares) or program.container.completed:
            continue
        ranks = int(str(world.tp)) * int(str(world.pp))
        part = program.line.value("gpu-memory-utilization")
        usable = size * 2**30 * (part if isinstance(part, float) else 1.0)
        if whole / ranks > usable:
            yield about(
                program,
                model_flag(program),
                f"loads about {whole / ranks / 1e9:.0f} GB of weights ({program.line.model}) into "
                f"each of {ranks} GPUs with {size} GB",
                f"spread it over {-(-int(whole) // int(usable))} GPUs or more, or use quantized "
                "weights",
            )


ALL = (model_memory,)
