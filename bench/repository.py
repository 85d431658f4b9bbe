"""A repository of many releases, as large platforms have: what rendering is measured on.

The same number makes the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

Fields = Mapping[str, Any]

ENVIRONMENTS: Final = ("edge", "lab", "prod-eu", "prod-us", "stage")
_TENANTS: Final = 10
"""Of each environment."""
_SHARED: Final = ("charts", "local", "policies", "src")
"""Folders of the repository that the command line reads; those of the generated one lead there."""
_NODES: Final = 10_000
_COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"
_SHA: Final = "sha256:" + "5a" * 32

_POOLS: Final[Fields] = {
    "h100": {
        "gpu": "nvidia-h100-80gb", "gpusPerNode": 8,
        "rdma": {"resource": "vpc.amazonaws.com/efa", "perNode": 32},
        "localStorage": {"path": "/mnt/nvme/weights"},
    },
    "l4": {"gpu": "nvidia-l4-24gb", "gpusPerNode": 4},
}  # fmt: skip
_LARGE: Final[Fields] = {
    "cpu": "64", "memory": "1000Gi", "ephemeralStorage": "200Gi", "sharedMemory": "32Gi",
}  # fmt: skip
_HUB: Final[Fields] = {
    "model": {"revision": _COMMIT, "tokenSecret": "hub-token"},
    "startup": {"downloadBytesPerSecond": "500M", "load": "600s", "drain": "120s"},
}
_RECIPES: Final[tuple[tuple[str, Fields], ...]] = (
    ("chat", {
        "model": {"uri": "hf://Qwen/Qwen3-32B", "size": "66G", "maxContext": 32768},
        "engine": {"name": "vllm", "flags": {"gpu-memory-utilization": 0.92}},
        "topology": {"tensorParallel": 4}, "pool": "h100", "replicas": 2,
        "resources": {**_LARGE, "gpus": 4},
    }),
    ("embed", {
        "model": {"uri": "hf://Qwen/Qwen3-Embedding-0.6B", "size": "1200M", "maxContext": 8192},
        "engine": {"name": "vllm", "flags": {"runner": "pooling"}},
        "pool": "l4", "replicas": 2,
        "resources": {"gpus": 1, "cpu": "3", "memory": "12Gi", "ephemeralStorage": "20Gi"},
    }),
    ("code", {
        "model": {"uri": "hf://Qwen/Qwen3-32B", "size": "66G", "maxContext": 32768},
        "engine": {"name": "sglang"},
        "topology": {"tensorParallel": 4}, "pool": "h100",
        "resources": {**_LARGE, "gpus": 4},
    }),
    ("split", {
        "model": {"uri": "hf://Qwen/Qwen3-32B", "size": "66G", "maxContext": 32768},
        "engine": {"name": "vllm"},
        "topology": {
            "kind": "disaggregated", "tensorParallel": 4,
            "prefill": {"replicas": 2}, "decode": {"replicas": 2},
        },
        "pool": "h100", "resources": {**_LARGE, "gpus": 4},
    }),
    ("large", {
        "model": {"uri": "hf://deepseek-ai/DeepSeek-R1", "size": "689G", "maxContext": 32768},
        "engine": {"name": "vllm"},
        "topology": {"kind": "multi-node", "nodes": 2, "tensorParallel": 8},
        "pool": "h100", "resources": {**_LARGE, "gpus": 8},
        "caches": {"weights": {"kind": "node"}},
    }),
    ("tuned", {
        "model": {"uri": "hf://Qwen/Qwen3-32B", "size": "66G", "maxContext": 32768},
        "engine": {"name": "vllm"},
        "topology": {"tensorParallel": 4}, "pool": "h100",
        "resources": {**_LARGE, "gpus": 4},
        "lora": {"maxSize": "500M", "adapters": {
            key: {
                "uri": f"hf://org/{key}-lora", "revision": _COMMIT, "digest": _SHA,
                "size": "120M", "rank": 16,
            }
            for key in ("billing", "sql")
        }},
    }),
    ("played", {
        "model": {"uri": "dummy://played", "size": "1Mi", "maxContext": 8192},
        "engine": {"name": "simulator"},
        "resources": {"gpus": 0, "cpu": "50m", "memory": "192Mi", "ephemeralStorage": "256Mi"},
        "caches": {"weights": {"kind": "none"}},
        "startup": {"load": "60s", "drain": "10s"},
    }),
)  # fmt: skip
"""The first half of a name, and the document of the releases that have it."""


def generate(root: Path, releases: int, source: Path) -> None:
    """Write a repository with so many releases, evenly over the environments, beside links to what
    the command line of `source` reads."""
    for name in _SHARED:
        (root / name).symlink_to(source / name)
    for place, name in enumerate(ENVIRONMENTS):
        _environment(root / "stacks" / name, len(range(place, releases, len(ENVIRONMENTS))))


def one_change(root: Path, turn: int) -> None:
    """Change one file of one environment, another way each turn."""
    file = next(iter(sorted((root / "stacks" / ENVIRONMENTS[0] / "models").glob("chat-*.yaml"))))
    document = yaml.safe_load(file.read_text())
    document["spec"]["engine"]["flags"]["max-num-seqs"] = 100 + turn
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def _environment(folder: Path, models: int) -> None:
    _write(folder / "environment.yaml", "Environment", folder.name, _environment_spec())
    for number in range(_TENANTS):
        quota = {pool: {"gpus": 100, "borrow": True} for pool in _POOLS}
        spec = {"quota": quota, "costLabels": {"cost-center": f"c{number}"}}
        _write(folder / "tenants" / f"team-{number}.yaml", "Tenant", f"team-{number}", spec)
    for number in range(models):
        kind, recipe = _RECIPES[number % len(_RECIPES)]
        name = f"{kind}-{number:03}"
        _write(
            folder / "models" / f"{name}.yaml", "ModelRelease", name, _model(name, number, recipe)
        )


def _environment_spec() -> Fields:
    pools = {
        name: {
            **pool,
            "nodes": _NODES,
            "labels": {"tokenworks.dev/pool": name},
            "taints": [{"key": "nvidia.com/gpu"}],
        }
        for name, pool in _POOLS.items()
    }
    return {
        "cluster": {"provider": "existing", "context": "cluster"},
        "nodePools": pools,
        "platform": {"llmD": {"router": "0.10.0"}},
        "gateway": {"hostname": "llm.example.com", "requestTimeout": "300s"},
    }


def _model(name: str, number: int, recipe: Fields) -> Fields:
    hub = _HUB if str(recipe["model"]["uri"]).startswith("hf://") else {}
    made = {"tenant": f"team-{number % _TENANTS}", **hub, **recipe}
    made["model"] = {**recipe["model"], **hub.get("model", {}), "servedName": name}
    if "lora" in made:  # names of adapters are unique in an environment
        adapters = recipe["lora"]["adapters"].items()
        made["lora"] = {**recipe["lora"], "adapters": {f"{k}-{number}": v for k, v in adapters}}
    return made


def _write(file: Path, kind: str, name: str, spec: Fields) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    head = {"apiVersion": "tokenworks.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
    text = yaml.dump({**head, "spec": dict(spec)}, Dumper=_Dumper, sort_keys=False)
    file.write_text(text)


class _Dumper(yaml.SafeDumper):
    """Without anchors, as people write."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True
