"""Documents and values that the chart tests share."""

from __future__ import annotations

from typing import Any

from tokenworks.render.defaults import default_values, helm_values
from tokenworks.render.model import model_values
from tokenworks.render.values import gateway_values, queues_values, tenant_values
from tokenworks.spec.environment import Environment
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant

ENVIRONMENT: dict[str, Any] = {
    "metadata": {"name": "lab", "labels": {"team": "platform"}},
    "spec": {
        "cluster": {"provider": "existing", "context": "lab"},
        "nodePools": {
            "h100": {
                "gpu": "nvidia-h100-80gb",
                "gpusPerNode": 8,
                "nodes": 2,
                "rdma": {"resource": "vpc.amazonaws.com/efa", "perNode": 32},
                "labels": {"tokenworks.dev/pool": "h100"},
                "localStorage": {"path": "/mnt/nvme/weights"},
                "taints": [{"key": "nvidia.com/gpu", "value": "present"}],
            },
            "l4": {
                "gpu": "nvidia-l4-24gb",
                "gpusPerNode": 4,
                "nodes": 3,
                "labels": {"tokenworks.dev/pool": "l4"},
                "taints": [{"key": "spot"}],
            },
            "racks": {
                "gpu": "nvidia-h100-80gb",
                "gpusPerNode": 8,
                "nodes": 16,
                "rdma": {"resource": "vpc.amazonaws.com/efa", "perNode": 32},
                "labels": {"tokenworks.dev/pool": "racks"},
                "topology": [
                    "topology.k8s.aws/network-node-layer-2",
                    "topology.k8s.aws/network-node-layer-3",
                    "kubernetes.io/hostname",
                ],
            },
        },
        "gateway": {"hostname": "llm.example.com", "requestTimeout": "200s"},
    },
}
TENANT: dict[str, Any] = {
    "metadata": {"name": "research", "labels": {"floor": "3"}},
    "spec": {
        "quota": {"h100": {"gpus": 6}, "l4": {"gpus": 4, "borrow": True}},
        "costLabels": {"cost-center": "r1"},
    },
}
MODEL: dict[str, Any] = {
    "metadata": {"name": "demo", "labels": {"line": "chat"}},
    "spec": {
        "tenant": "research",
        "model": {
            "uri": "hf://Qwen/Qwen3-32B",
            "revision": "0123456789abcdef0123456789abcdef01234567",
            "size": "66G",
            "servedName": "Qwen/Qwen3-32B",
            "maxContext": 32768,
            "tokenSecret": "hub-token",
        },
        "engine": {
            "name": "vllm",
            "version": "0.26.0",
            "image": {
                "repository": "docker.io/vllm/vllm-openai",
                "tag": "v0.26.0",
                "digest": "sha256:" + "ab" * 32,
            },
            "flags": {
                "gpu-memory-utilization": 0.92,
                "enable-chunked-prefill": False,
                "cudagraph-capture-sizes": ["1", "8"],
            },
        },
        "topology": {"tensorParallel": 2},
        "pool": "h100",
        "replicas": 2,
        "resources": {"gpus": 2, "cpu": "16", "memory": "96Gi", "ephemeralStorage": "120Gi"},
        "startup": {"downloadBytesPerSecond": "200M", "load": "300s", "drain": "120s"},
    },
}
LORA: dict[str, Any] = {
    "maxSize": "500M",
    "adapters": {
        "billing": {
            "uri": "hf://org/billing-lora",
            "revision": "89abcdef0123456789abcdef0123456789abcdef",
            "digest": "sha256:" + "5a" * 32,
            "size": "120M",
            "rank": 16,
        },
        "sql-2": {
            "uri": "pvc://adapters/sql/2",
            "digest": "sha256:" + "c3" * 32,
            "size": "60M",
            "rank": 8,
        },
    },
}


def laid(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid onto a copy of `base`, map by map; None removes."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            result[key] = laid(base[key], value)
        else:
            result[key] = value
    return result


def model(**spec: Any) -> ModelRelease:
    """The model above, parts of its spec replaced."""
    return ModelRelease.model_validate(laid(MODEL, {"spec": spec}))


def simulator(**spec: Any) -> ModelRelease:
    """A simulator on the same GPUs."""
    over: dict[str, Any] = {
        "model": {"uri": "dummy://demo", "revision": None, "tokenSecret": None, "size": "1Mi"},
        "engine": {"name": "simulator", "version": "0.1.0", "image": None, "flags": None},
    }
    return ModelRelease.model_validate(laid(laid(MODEL, {"spec": over}), {"spec": spec}))


def stack(*models: ModelRelease, environment: dict[str, Any] | None = None) -> Stack:
    """An environment with one tenant and these models."""
    return Stack(
        environment=Environment.model_validate(laid(ENVIRONMENT, environment or {})),
        models=models,
        tenants=(Tenant.model_validate(TENANT),),
    )


def values_of(release: ModelRelease) -> dict[str, Any]:
    """Values of the chart `model` for a release."""
    return helm_values("model", model_values(stack(release), release))


def variants() -> dict[str, ModelRelease]:
    """Releases that, taken together, use everything the chart can do."""
    none = {"flags": None, "image": None, "version": None}
    sglang = {"name": "sglang", **none}
    eight = {"resources": {"gpus": 8}, "replicas": 1}
    store = {"address": "store.kv:50051", "namespace": "kv", "memory": "32G"}
    split = {"kind": "disaggregated", "tensorParallel": 2}
    return {
        "vllm": model(),
        "claim": model(caches={"weights": {"kind": "pvc", "claim": "weights"}}),
        "shared": model(
            caches={"weights": {"kind": "pvc", "prefetch": True, "storageClass": "efs"}}
        ),
        "node": model(caches={"weights": {"kind": "node"}}),
        "image": model(
            model={
                "uri": "oci://ghcr.io/org/weights:v1@sha256:" + "ef" * 32,
                "revision": None,
                "tokenSecret": None,
            }
        ),
        "group": model(topology={"kind": "multi-node", "tensorParallel": 8}, **eight),
        "ray": model(
            topology={"kind": "multi-node", "tensorParallel": 8, "launcher": "ray"}, **eight
        ),
        "experts": model(
            model={"experts": 64}, topology={"kind": "wide-ep", "tensorParallel": 2}, **eight
        ),
        "group-within": model(
            pool="racks",
            topology={
                "kind": "multi-node",
                "tensorParallel": 8,
                "within": "topology.k8s.aws/network-node-layer-3",
            },
            **eight,
        ),
        "split": model(topology=split),
        "split-near": model(
            pool="racks",
            topology={
                "kind": "disaggregated",
                "tensorParallel": 8,
                "prefill": {"nodes": 2, "tensorParallel": 8},
            },
            **eight,
        ),
        "split-router": model(engine=sglang, topology={**split, "router": "engine"}),
        "split-group": model(engine=sglang, topology={**split, "expressedAs": "RoleBasedGroup"}),
        "tiered": model(
            caches={"offload": {"cpu": "32Gi", "nvme": {"size": "1Ti", "storageClass": "local"}}}
        ),
        "hicache": model(engine=sglang, caches={"offload": {"cpu": "32Gi"}}),
        "mooncake": model(caches={"distributed": {"kind": "mooncake", **store}}),
        "kv-claim": model(
            engine=sglang,
            caches={
                "distributed": {"kind": "hicache", "claim": "kv", "size": "10Ti", "memory": "32G"}
            },
        ),
        "lmcache": model(engine=sglang, caches={"distributed": {"kind": "lmcache", **store}}),
        "trtllm": model(
            engine={"name": "trtllm", **none},
            caches={"offload": {"cpu": "32Gi"}, "kv": {"dtype": "fp8"}},
        ),
        "plain": model(engine={"name": "llamacpp", **none}),
        "adapters": model(lora=LORA),
        "adapters-sidecar": model(
            lora={**LORA, "load": "sidecar", "maxLoaded": 2, "maxKept": 8, "maxRank": 32}
        ),
        "adapters-rewritten": model(engine=sglang, lora=LORA),
    }


def full_values() -> dict[str, tuple[dict[str, Any], ...]]:
    """For each chart, values under which, taken together, every field matters."""
    release = model()
    environment = stack(release)
    made = {
        "model": (
            *(model_values(stack(one), one) for one in variants().values()),
            default_values()["model"],
        ),
        "gateway": (gateway_values(environment),),
        "queues": (queues_values(environment),),
        "tenant": (tenant_values(environment, environment.tenants[0]),),
    }
    return {
        chart: tuple(v.model_dump(by_alias=True, mode="json", exclude_none=True) for v in values)
        for chart, values in made.items()
    }
