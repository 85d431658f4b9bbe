"""A release that the real engine can serve here: one made for GPUs, minus what needs a GPU.

Everything else of it, and all that the renderer derives from it, stays as it is on GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from local.engine import IMAGE, Installed

ON_GPUS = "stacks/dev/models/qwen3-32b.yaml"
NAMESPACE = "research"
NAME = "tiny-llama"
CLAIM = "real-engine"
CONTEXT = 16384
DRAIN_SECONDS = 120
VERSION = IMAGE.rpartition(":v")[2]
"""Release whose CPU build is installed; without GPUs the catalog's image for it is that build."""

GPU_FLAGS = {
    "gpu-memory-utilization": "a share of a GPU's memory; VLLM_CPU_KVCACHE_SPACE stands for it",
}
"""Flags that a CPU has no use for, each with the reason."""

CPU_FLAGS = {
    # Kernels for bfloat16 want instructions that not every machine has.
    "dtype": "float32",
    # Compiling wants a C++ compiler in the image and minutes of time.
    "enforce-eager": True,
}
"""Flags that a CPU, or an engine that has to start soon, needs."""

CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1"}
"""GiB for the KV cache."""


def on_cpu(release: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The ModelRelease for the CPU build of vLLM, from one for GPUs.

    Args:
        release: the document for GPUs.
        model: folder of the weights in the volume.
    """
    spec = release["spec"]
    engine = spec["engine"]
    kept = {name: value for name, value in engine.get("flags", {}).items() if name not in GPU_FLAGS}
    return {
        **release,
        "metadata": {"name": NAME},
        "spec": {
            **{key: value for key, value in spec.items() if key not in ("topology", "pool")},
            "model": {
                "uri": f"pvc://{CLAIM}/{model}",
                "size": "1Mi",
                "servedName": NAME,
                "maxContext": CONTEXT,
            },
            "engine": {
                **{key: value for key, value in engine.items() if key != "image"},
                "version": VERSION,
                "flags": {**kept, **CPU_FLAGS},
                "env": {**engine.get("env", {}), **CPU_ENVIRONMENT},
            },
            "replicas": 1,
            "resources": {
                "gpus": 0,
                "cpu": "1",
                "memory": "8Gi",
                "ephemeralStorage": "10Gi",
            },
            "caches": {"weights": {"kind": "none"}},
            "startup": {"load": "900s", "drain": f"{DRAIN_SECONDS}s"},
        },
    }


def volume(engine: Installed, namespace: str) -> list[dict[str, Any]]:
    """The claim that holds engine and weights, and its volume: a folder of this machine."""
    common = {
        "storageClassName": "",
        "accessModes": ["ReadOnlyMany"],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": CLAIM},
            "spec": {
                **common,
                "capacity": {"storage": "10Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"name": CLAIM, "namespace": namespace},
                "hostPath": {"path": str(engine.root), "type": "Directory"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": namespace},
            "spec": {
                **common,
                "volumeName": CLAIM,
                "resources": {"requests": {"storage": "10Gi"}},
            },
        },
    ]


def prepare(tree: Path, engine: Installed) -> None:
    """Let `stacks/local` of a copy of the tree serve the real engine, and nothing else."""
    local = tree / "stacks" / "local"
    for simulated in (local / "models").glob("*.yaml"):
        simulated.unlink()
    release = on_cpu(yaml.safe_load((tree / ON_GPUS).read_text()), engine.model.name)
    (local / "models" / f"{NAME}.yaml").write_text(yaml.safe_dump(release))
    (local / "manifests").mkdir()
    objects = volume(engine, NAMESPACE)
    (local / "manifests" / f"{CLAIM}.yaml").write_text(yaml.safe_dump_all(objects))
