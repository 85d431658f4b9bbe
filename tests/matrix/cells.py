"""The matrix: every engine, topology, network and cache, and what is said of each combination.

A new engine comes from the catalog by itself; a new topology, network or cache is one line below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tests.charts.documents import laid
from tokenworks.catalog.engines import load_engines

Overlay = dict[str, Any]

PLAYED: Final = "played"
SAID_NOTHING: Final = "-"
"""The column in which the document leaves the matter to defaults."""

_EIGHT: Final = {"resources": {"gpus": 8}}
_SPLIT: Final = {"kind": "disaggregated", "tensorParallel": 2}
_GROUPS: Final = {
    **_SPLIT, "tensorParallel": 8, "prefill": {"nodes": 2}, "decode": {"nodes": 2},
}  # fmt: skip

TOPOLOGIES: Final[dict[str, Overlay]] = {
    "single": {"topology": {"tensorParallel": 2}},
    "single-cpu": {"resources": {"gpus": 0}, "pool": None},
    "single-stages": {
        "topology": {"tensorParallel": 2, "pipelineParallel": 2}, "resources": {"gpus": 4},
    },
    "single-data": {
        "topology": {"tensorParallel": 2, "dataParallel": 2}, "resources": {"gpus": 4},
    },
    "group": {"topology": {"kind": "multi-node", "tensorParallel": 8}, **_EIGHT},
    "group-ray": {
        "topology": {"kind": "multi-node", "tensorParallel": 8, "launcher": "ray"}, **_EIGHT,
    },
    "wide-ep": {
        "topology": {"kind": "wide-ep", "tensorParallel": 2}, "model": {"experts": 256}, **_EIGHT,
    },
    "split": {"topology": _SPLIT},
    "split-0.4.0": {"topology": _SPLIT},
    "split-router": {"topology": {**_SPLIT, "router": "engine"}},
    "split-mooncake": {"topology": {**_SPLIT, "router": "engine", "transfer": "mooncake"}},
    "split-groups": {"topology": _GROUPS, **_EIGHT},
    "split-rbg": {"topology": {**_SPLIT, "expressedAs": "RoleBasedGroup"}},
    "split-rbg-router": {
        "topology": {**_SPLIT, "expressedAs": "RoleBasedGroup", "router": "engine"},
    },
    "split-rbg-groups": {
        "topology": {**_GROUPS, "expressedAs": "RoleBasedGroup", "router": "engine"}, **_EIGHT,
    },
}  # fmt: skip
"""What `spec` says, on pods of two GPUs with two tensor ranks."""

LLM_D: Final = {"split-0.4.0": "0.4.0"}
"""Release of llm-d's router, where it is not the default."""

NETWORKS: Final[dict[str, Overlay]] = {
    SAID_NOTHING: {},
    "efa": {"topology": {"network": "efa"}},
    "roce": {"topology": {"network": "roce"}, "pool": "roce"},
    "tcp": {"topology": {"network": "tcp"}, "pool": "plain"},
}

_UNNAMED: Final = {"revision": None, "tokenSecret": None}
_IMAGE: Final = "oci://ghcr.io/org/weights:v1@sha256:" + "ef" * 32
_COMMIT: Final = {"model": {"revision": "01" * 20}}
_STORE: Final = {"address": "store.kv:50051", "namespace": "kv", "memory": "16G"}

CACHES: Final[dict[str, Overlay]] = {
    SAID_NOTHING: {},
    "none": {"caches": {"weights": {"kind": "none"}}},
    "ephemeral": {"caches": {"weights": {"kind": "ephemeral"}}},
    "claim": {"caches": {"weights": {"kind": "pvc", "claim": "weights"}}},
    "hf": {"model": {"uri": "hf://Qwen/Qwen3-32B", "revision": "01" * 20}},
    "s3": {"model": {"uri": "s3://models/qwen3", **_UNNAMED}},
    "pvc": {"model": {"uri": "pvc://weights/qwen3", **_UNNAMED}},
    "oci": {"model": {"uri": _IMAGE, **_UNNAMED}},
    "no-prefix": {"caches": {"prefix": False}},
    "kv-memory": {"caches": {"kv": {"memoryFraction": 0.8}}},
    "kv-type": {"caches": {"kv": {"dtype": "fp8_e5m2"}}},
    "kv-block": {"caches": {"kv": {"blockSize": 32}}},
    "prefetch": {
        **_COMMIT, "caches": {"weights": {"kind": "pvc", "prefetch": True, "storageClass": "efs"}},
    },
    "node": {**_COMMIT, "caches": {"weights": {"kind": "node"}}},
    "offload": {"caches": {"offload": {"cpu": "16Gi"}}},
    "offload-nvme": {
        "caches": {"offload": {"cpu": "16Gi", "nvme": {"size": "1Ti", "storageClass": "local"}}},
    },
    "lmcache": {"caches": {"distributed": {**_STORE, "kind": "lmcache"}}},
    "mooncake": {"caches": {"distributed": {**_STORE, "kind": "mooncake"}}},
    "hicache": {
        "caches": {
            "distributed": {"kind": "hicache", "claim": "kv", "size": "10Ti", "memory": "16G"}
        },
    },
}  # fmt: skip
"""Where weights are and stay, reuse of prefixes, KV on the GPU and beyond it."""

_BASE: Final[Overlay] = {
    "tenant": "research",
    "model": {"uri": "", "size": "66G", "servedName": "qwen3", "maxContext": 32768},
    "pool": "efa",
    "replicas": 2,
    "resources": {"gpus": 2, "cpu": "16", "memory": "96Gi", "ephemeralStorage": "120Gi"},
}
_WEIGHTS: Final = {
    "hf": {"uri": "hf://Qwen/Qwen3-32B", "revision": "01" * 20},
    "s3": {"uri": "s3://models/qwen3"},
    "pvc": {"uri": "pvc://weights/qwen3"},
    "oci": {"uri": _IMAGE},
    "dummy": {"uri": "dummy://qwen3", "size": "1Mi"},
}


@dataclass(frozen=True)
class Cell:
    """One combination."""

    engine: str
    played: bool
    topology: str
    network: str
    cache: str

    @property
    def program(self) -> str:
        """What runs, in a word."""
        return f"{self.engine} {PLAYED}" if self.played else self.engine

    @property
    def column(self) -> str:
        """Network and cache, and whether it is played: what tells cells of one file apart."""
        words = [
            *([PLAYED] if self.played else []),
            *(w for w in (self.network, self.cache) if w != SAID_NOTHING),
        ]
        return " ".join(words) or "as it comes"

    @property
    def llm_d(self) -> str:
        """Release of llm-d's router in the environment."""
        return LLM_D.get(self.topology, "0.10.0")

    def spec(self) -> Overlay:
        """The release's `spec`."""
        engine: Overlay = {"name": self.engine}
        if self.played:
            engine["simulation"] = {}
        base = laid(_BASE, {"engine": engine, "model": _weights(self.engine, self.played)})
        for table, name in (
            (TOPOLOGIES, self.topology), (NETWORKS, self.network), (CACHES, self.cache),
        ):  # fmt: skip
            base = laid(base, table[name])
        return base

    def document(self, name: str) -> Overlay:
        """The ModelRelease."""
        return {
            "apiVersion": "tokenworks.dev/v1alpha1",
            "kind": "ModelRelease",
            "metadata": {"name": name},
            "spec": self.spec(),
        }


def _weights(engine: str, played: bool) -> Overlay:
    """Weights that the engine can read, if possible from the hub."""
    schemes = load_engines().engine(engine).weights_from
    if played and "hf" not in schemes:
        return _WEIGHTS["dummy"]
    return _WEIGHTS[next(s for s in _WEIGHTS if s in schemes)]


@cache
def cells() -> tuple[Cell, ...]:
    """Every network with caches as they come, and every cache on the network as it comes."""
    return tuple(_cells(crossed=False))


@cache
def crossed() -> tuple[Cell, ...]:
    """Every network with every cache, neither as it comes."""
    return tuple(_cells(crossed=True))


def _cells(crossed: bool) -> Iterator[Cell]:
    for engine in load_engines().engines:
        for topology in TOPOLOGIES:
            for played in (False, True):
                for network in NETWORKS:
                    for kept in CACHES:
                        both = SAID_NOTHING not in (network, kept)
                        if both == crossed:
                            yield Cell(engine, played, topology, network, kept)


ENVIRONMENT: Final[Overlay] = {
    "apiVersion": "tokenworks.dev/v1alpha1",
    "kind": "Environment",
    "metadata": {"name": "lab"},
    "spec": {
        "cluster": {"provider": "existing", "context": "lab"},
        "nodePools": {
            name: {
                "gpu": "nvidia-h100-80gb",
                "gpusPerNode": 8,
                "nodes": 10000,
                "labels": {"tokenworks.dev/pool": name},
                "taints": [{"key": "nvidia.com/gpu", "value": "present"}],
                "localStorage": {"path": "/mnt/nvme/weights"},
                **({"rdma": {"resource": rdma, "perNode": each}} if rdma else {}),
            }
            for name, rdma, each in (
                ("efa", "vpc.amazonaws.com/efa", 32), ("roce", "rdma/hca", 8), ("plain", None, 0),
            )
        },
        "gateway": {"hostname": "llm.example.com", "requestTimeout": "200s"},
    },
}  # fmt: skip
TENANT: Final[Overlay] = {
    "apiVersion": "tokenworks.dev/v1alpha1",
    "kind": "Tenant",
    "metadata": {"name": "research"},
    "spec": {"quota": {name: {"gpus": 80000} for name in ("efa", "roce", "plain")}},
}


def environment(llm_d: str) -> Overlay:
    """The environment whose llm-d router is of that release."""
    return laid(ENVIRONMENT, {"spec": {"platform": {"llmD": {"router": llm_d}}}})
