"""Weights fit the GPUs that the pod is placed on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import Container
from policies.rules.shared import about, flag_path, model_flag
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
_QUANTIZED_BY_TGI = {
    **dict.fromkeys(("fp8", "eetq", "bitsandbytes"), 1.0),
    **dict.fromkeys(("awq", "gptq", "marlin", "bitsandbytes-nf4", "bitsandbytes-fp4"), 0.5),
}
"""Its `bitsandbytes` is the one of 8 bits."""


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
    loaded = program.line.value("quantize")
    if loaded is not None:
        return _QUANTIZED_BY_TGI.get(str(loaded))
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
    for load in _loads(inventory):
        if load.share > load.usable:
            yield about(
                load.program,
                model_flag(load.program),
                f"loads about {load.share / 1e9:.0f} GB of weights ({load.program.line.model}) "
                f"into each of {load.ranks} GPUs with {load.size} GB",
                f"spread it over {-(-int(load.whole) // int(load.usable))} GPUs or more, or use "
                "quantized weights",
            )


@dataclass(frozen=True)
class _Load:
    """An engine whose weights, ranks and GPUs are written down."""

    program: Program
    size: int
    """GiB of one GPU."""
    whole: float
    """Bytes of the weights."""
    tp: int
    pp: int

    @property
    def ranks(self) -> int:
        """GPUs that share the weights."""
        return self.tp * self.pp

    @property
    def share(self) -> float:
        """Bytes of the weights on one GPU."""
        return self.whole / self.ranks

    @property
    def usable(self) -> float:
        """Bytes of one GPU that the engine may take; all of them where it does not say."""
        part = self.program.line.value("gpu-memory-utilization")
        return self.size * 2**30 * (part if isinstance(part, float) else 1.0)


def _loads(inventory: Inventory) -> Iterator[_Load]:
    for program in inventory.engines():
        world = program.world
        if world is None or not program.needs_gpu:
            continue
        if "cpu-offload-gb" in program.line.flags or "config" in program.line.flags:
            continue
        if program.line.value("load-format") == "dummy" or program.container.completed:
            continue
        size, whole = memory(program.container), weights(program)
        if size is None or whole is None:
            continue
        if isinstance(world.tp, int) and isinstance(world.pp, int):
            yield _Load(program, size, whole, world.tp, world.pp)


# --- one sequence --------------------------------------------------------------

_NAME = re.compile(
    r"(?:meta-)?(?P<name>[a-z0-9.-]+?)(?:-(?:instruct|it|chat|base))?"
    r"(?:-(?:fp8(?:-dynamic)?|awq|gptq(?:-int[48])?|bnb-4bit|quantized\.w[48]a(?:8|16)))?"
)
_KV = {"auto": None, "bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


@cache
def _models() -> Mapping[str, Mapping[str, Any]]:
    return json.loads((Path(__file__).parents[1] / "models.json").read_text())["models"]


def _shape(program: Program) -> Mapping[str, Any] | None:
    """Layers, KV heads, head dimension and context of a model that is known by its name."""
    name = str(program.line.model).rstrip("/").rpartition("/")[2].lower()
    found = _NAME.fullmatch(name)
    return _models().get(found["name"]) if found else None


def _length(program: Program, shape: Mapping[str, Any]) -> int | None:
    """Tokens of the longest sequence; without a flag the model's own maximum."""
    given = program.line.value("max-model-len")
    if given is None:
        changed = {"hf-overrides", "rope-scaling"} & program.line.flags.keys()
        return None if changed else shape["context"]
    return given if isinstance(given, int) and given > 0 else None


def _token(load: _Load, shape: Mapping[str, Any]) -> float | None:
    """Bytes of one token's keys and values on one GPU; None where their type is not written."""
    line = load.program.line
    kind = str(line.value("kv-cache-dtype") or "auto")
    width = _KV.get(kind, 0)
    if width is None:
        width = 4 if line.value("dtype") == "float32" else 2
    # Fewer heads than ranks are copied: each rank has at least one.
    heads = -(-int(shape["kvHeads"]) // load.tp)
    layers = shape["layers"] / load.pp
    return 2 * layers * heads * shape["headDim"] * width or None


@rule(
    "model-context",
    "error",
    "One sequence fits beside the weights",
    "vLLM does not start where the keys and values of one sequence of the greatest length do not "
    "fit into what the weights leave; without --max-model-len that is the model's own maximum.",
    "Lower --max-model-len, keep KV in fp8, or use more or larger GPUs.",
    "https://docs.vllm.ai/en/stable/configuration/conserving_memory/#context-length-and-batch-size",
)
def model_context(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for load in _loads(inventory):
        program = load.program
        shape = _shape(program)
        shared = {"decode-context-parallel-size", "kv-cache-memory-bytes"} & {*program.line.flags}
        left = load.usable - load.share
        if program.line.engine != "vllm" or shape is None or shared or left <= 0:
            continue
        tokens, each = _length(program, shape), _token(load, shape)
        if tokens is None or each is None or tokens * each <= left:
            continue
        given = "max-model-len" in program.line.flags
        yield about(
            program,
            flag_path(program, "max-model-len") if given else model_flag(program),
            f"needs {tokens * each / 1e9:.0f} GB for the KV of one sequence of {tokens} tokens"
            f"{'' if given else ' (the model knows no shorter one by itself)'}, and the weights "
            f"leave {left / 1e9:.0f} GB of each GPU with {load.size} GB",
            f"set --max-model-len to {max(int(left / each) // 1024, 1) * 1024} or less, or spread "
            "it over more GPUs",
        )


ALL = (model_memory, model_context)
