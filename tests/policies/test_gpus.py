"""GPU limits: there, spelt right, whole, equal; and who runs without."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Unknown
from tests.policies.builders import Object, cron_job, deployment, engine, found, job, pod

RULE = "gpu-limits"


def limits(**resources: Any) -> Object:
    return deployment(pod(engine(resources={"limits": resources})))


def one(resources: Any) -> Object:
    return deployment(pod(engine(resources=resources)))


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/gpu": 1}},
        {"limits": {"nvidia.com/gpu": "8"}},
        {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": "1"}},
        {"limits": {"nvidia.com/gpu": "1000m"}},
        {"limits": {"nvidia.com/mig-1g.10gb": 1}},
        {"limits": {"nvidia.com/gpu.shared": 1}},
        {"limits": {"amd.com/gpu": 4}},
        {"limits": {"google.com/tpu": 8}},
        {"limits": {"aws.amazon.com/neuron": 1}},
        {"claims": [{"name": "gpu"}]},
        {"limits": {"nvidia.com/gpu": 8, "rdma/hca": 1, "vpc.amazonaws.com/efa": 32}},
        {"limits": {"nvidia.com/gpu": Unknown()}},
        {"limits": Unknown()},
    ],
    ids=str,
)
def test_compliant(resources: Object) -> None:
    assert found(RULE, one(resources)) == []


@pytest.mark.parametrize(
    "resources", [None, {}, {"limits": {}}, {"limits": {"memory": "64Gi"}}, Unknown()], ids=repr
)
def test_absent(resources: Any) -> None:
    expected = 0 if isinstance(resources, Unknown) else 1
    messages = [f.message for f in found(RULE, one(resources))]
    assert len(messages) == expected
    assert all("no GPU limit" in message for message in messages)


def test_zero_is_absent() -> None:
    assert "no GPU limit" in found(RULE, one({"limits": {"nvidia.com/gpu": 0}}))[0].message


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidia.com/GPU", "nvidia.com/gpu"),
        ("nvidia/gpu", "nvidia.com/gpu"),
        ("nvidia.com.gpu", "nvidia.com/gpu"),
        ("nvdia.com/gpu", "nvidia.com/gpu"),
        ("nvidia-gpu", "nvidia.com/gpu"),
        ("alpha.kubernetes.io/nvidia-gpu", "nvidia.com/gpu"),
        ("gpu", "nvidia.com/gpu"),
        ("gpus", "nvidia.com/gpu"),
        ("amd.com/gpus", "amd.com/gpu"),
    ],
)
@pytest.mark.parametrize("side", ["limits", "requests"])
def test_misspelt(name: str, right: str, side: str) -> None:
    findings = found(RULE, one({side: {name: 1}}))
    assert [f.remedy for f in findings] == [f"write {right}"]
    assert name in findings[0].field


@pytest.mark.parametrize(
    "name", ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "rdma/hca", "example.com/fpga"]
)
def test_other_resources_are_not_misspelt_gpus(name: str) -> None:
    assert found(RULE, one({"limits": {"nvidia.com/gpu": 1, name: 1}})) == []


@pytest.mark.parametrize("value", [0.5, "0.5", "500m", "1500m", "half", -1])
def test_fractions(value: Any) -> None:
    findings = found(RULE, one({"limits": {"nvidia.com/gpu": value}}))
    assert any("GPUs come whole" in f.message for f in findings)


def test_requests_without_limits() -> None:
    findings = found(RULE, one({"requests": {"nvidia.com/gpu": 1}}))
    assert ["without a limit" in f.message for f in findings] == [True]


def test_requests_that_differ() -> None:
    resources = {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}
    assert "overcommitted" in found(RULE, one(resources))[0].message


@pytest.mark.parametrize(
    "container",
    [
        engine(image="ghcr.io/tokenworks/simulator:0.1.0", resources=None),
        engine(image="ghcr.io/llm-d/llm-d-inference-sim:v0.10.2", resources=None),
        engine(image="ghcr.io/ggml-org/llama.cpp:server", resources=None),
        engine(image="ollama/ollama:0.9", resources=None),
        engine(image="vllm/vllm-openai-cpu:v0.26.0", resources=None),
        engine(image="vllm/vllm-openai:v0.26.0-cpu", resources=None),
        engine(args=["--device", "cpu"], resources=None),
        engine(args=["--device=cpu"], resources=None),
        engine(env=[{"name": "VLLM_TARGET_DEVICE", "value": "cpu"}], resources=None),
        engine(env=[{"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"}], resources=None),
        engine(command=["vllm", "bench", "serve"], resources=None),
        engine(image="nginx:1.27", args=None, resources=None),
    ],
    ids=lambda c: " ".join([c["image"], *c.get("command", []), *(c.get("args") or [])]),
)
def test_configured_otherwise(container: Object) -> None:
    assert found(RULE, deployment(pod(container))) == []


def test_headless_ranks_need_gpus_too() -> None:
    rank = engine(args=["serve", "m", "--headless"], resources=None)
    assert found(RULE, deployment(pod(rank)))


@pytest.mark.parametrize("carrier", [job, cron_job])
def test_jobs(carrier: Any) -> None:
    serve = engine(command=["vllm", "serve", "m"], args=None, resources=None)
    download = engine(command=["python3", "download.py"], args=None, resources=None)
    assert found(RULE, carrier(pod(serve)))
    assert found(RULE, carrier(pod(download))) == []


def test_init_containers_from_the_engine_image() -> None:
    fetch = engine(name="fetch", command=["hf", "download", "m"], args=None, resources=None)
    assert found(RULE, deployment(pod(initContainers=[fetch]))) == []
    wrong = engine(name="fetch", image="x", args=None, resources={"limits": {"nvidia.com/gpus": 1}})
    assert found(RULE, deployment(pod(initContainers=[wrong])))


@pytest.mark.parametrize(("value", "count"), [("all", 1), ("0,1", 1), ("void", 0), ("none", 0)])
def test_visible_devices(value: str, count: int) -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    assert len(found(RULE, deployment(pod(engine(env=env))))) == count
