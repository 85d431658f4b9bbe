"""Engines that a RayService starts: what its text says is judged like flags of the engine."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies import Context, Unknown, check
from policies.inventory import Inventory
from tests.policies.builders import DIGEST, Object, found, named
from tokenworks.check.run import check_paths

HOME = "spec.serveConfigV2.applications[0].args.llm_configs[0]"
COMMIT = "9216db5781bf21249d130ec9da846c4624c16137"
HUB = {"model_id": "qwen", "model_source": "Qwen/Qwen3-32B"}
LOCAL = {"model_id": "qwen", "model_source": "/models/qwen"}


def ray(config: Any, *, gpus: int = 4, group: Object | None = None, **container: Any) -> Object:
    """A RayService with one worker group; `config` is one engine, or the arguments as a whole."""
    args = config if "model_loading_config" not in config else {"llm_configs": [config]}
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    worker = {"name": "worker", "image": f"rayproject/ray-llm:2.50.0@{DIGEST}",
              "resources": limits, **container}  # fmt: skip
    head = {"name": "head", "image": f"rayproject/ray-llm:2.50.0@{DIGEST}"}
    workers = {"groupName": "gpus", "replicas": 1, "maxReplicas": 1, "rayStartParams": {},
               "template": {"spec": {"containers": [worker]}}, **(group or {})}  # fmt: skip
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [head]}}},
        "workerGroupSpecs": [workers],
    }
    text = yaml.safe_dump({"applications": [{"name": "llms", "args": args}]})
    return named("ray.io/v1", "RayService",
                 spec={"serveConfigV2": text, "rayClusterConfig": cluster})  # fmt: skip


def model(loading: Object = LOCAL, **kwargs: Any) -> Object:
    return {"model_loading_config": loading, "engine_kwargs": kwargs}


@pytest.mark.parametrize(
    ("rule", "config", "message", "field"),
    [
        ("world-size", model(tensor_parallel_size=8), "wants 8 GPUs (tensor 8) and the cluster "
         "has 4 at most", "engine_kwargs.tensor_parallel_size"),
        ("world-size", model(tensor_parallel_size=4, pipeline_parallel_size=2),
         "wants 8 GPUs (tensor 4 x pipeline 2)", "engine_kwargs.pipeline_parallel_size"),
        ("remote-code", model(HUB, trust_remote_code=True), "runs code of Qwen/Qwen3-32B",
         "engine_kwargs.trust_remote_code"),
        ("model-revision", model(HUB), "serves Qwen/Qwen3-32B without a revision",
         "model_loading_config.model_source"),
        ("model-revision", model({"model_id": "a/b"}), "serves a/b without a revision",
         "model_loading_config.model_id"),
        ("model-revision", model(HUB, revision="main"), "serves a branch of Qwen/Qwen3-32B: main",
         "engine_kwargs.revision"),
        ("weights-download", model(HUB), "mounted at /home/ray/.cache/huggingface/hub",
         "model_loading_config.model_source"),
        ("unknown-flag", model(max_modle_len=8192), "a flag engine_kwargs.max_modle_len",
         "engine_kwargs.max_modle_len"),
        ("flag-value", model(gpu_memory_utilization=90), "an engine_kwargs.gpu_memory_utilization "
         "that is not a number above 0", "engine_kwargs.gpu_memory_utilization"),
        ("flag-value", model(max_num_seqs="many"), "is not a whole number",
         "engine_kwargs.max_num_seqs"),
        ("argument-json", model(compilation_config="{mode: 3}"), "that is no JSON",
         "engine_kwargs.compilation_config"),
    ],
)  # fmt: skip
def test_what_the_text_says_is_judged(rule: str, config: Object, message: str, field: str) -> None:
    (finding,) = found(rule, ray(config))
    assert message in finding.message
    assert 'model "qwen" (vllm)' in finding.message or 'model "a/b" (vllm)' in finding.message
    assert "--" not in finding.message and "--" not in finding.remedy
    assert finding.field == f"{HOME}.{field}"


@pytest.mark.parametrize("key", ["llm_config", "prefill_config", "decode_config"])
def test_every_place_of_a_configuration_is_read(key: str) -> None:
    (finding,) = found("world-size", ray({key: model(tensor_parallel_size=8)}))
    assert finding.field.endswith(f".args.{key}.engine_kwargs.tensor_parallel_size")


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        (ray(model(tensor_parallel_size=4)), None),
        (ray(model(tensor_parallel_size=4, pipeline_parallel_size=2), group={"maxReplicas": 2}),
         None),
        (ray(model(tensor_parallel_size=8), group={"maxReplicas": 2}), "warning"),
        (ray(model(tensor_parallel_size=8), group={"numOfHosts": 2}), "warning"),
        (ray(model(tensor_parallel_size=8), group={"rayStartParams": {"num-gpus": "8"}}), None),
        (ray({**model(tensor_parallel_size=8), "placement_group_config": {"bundles": []}}), None),
        (ray({**model(tensor_parallel_size=8), "llm_engine": "other"}), None),
        (ray(model(tensor_parallel_size=8), gpus=0), None),
    ],
)  # fmt: skip
def test_ranks_are_placed_on_the_workers_of_the_cluster(made: Object, severity: str | None) -> None:
    findings = found("world-size", made)
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_weights_fit_the_workers_gpus() -> None:
    config = model({"model_id": "big", "model_source": "/models/llama-70b"}, dtype="bfloat16")
    where = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}
    made = ray(config)
    pod = made["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    pod.update(where)
    (finding,) = found("model-memory", made)
    assert finding.field == f"{HOME}.model_loading_config.model_source"
    config["engine_kwargs"].update(quantization="awq", tensor_parallel_size=2)
    quantized = ray(config)
    pod = quantized["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    pod.update(where)
    assert found("model-memory", quantized) == []


def test_a_pinned_and_mounted_model_has_no_finding_of_its_own() -> None:
    mounts = [{"name": "hub", "mountPath": "/home/ray/.cache/huggingface"}]
    config = {**model(HUB, revision=COMMIT, trust_remote_code=True, tensor_parallel_size=4,
                      limit_mm_per_prompt={"image": 2}, enable_chunked_prefill=False),
              "runtime_env": {"env_vars": {"HF_HUB_OFFLINE": "1"}}}  # fmt: skip
    made = ray(config, volumeMounts=mounts)
    pod = made["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["volumes"] = [{"name": "hub", "persistentVolumeClaim": {"claimName": "hub"}}]
    assert [f for f in check([made], Context()) if "serveConfigV2" in f.field] == []


def test_the_hub_is_asked_although_the_weights_are_there() -> None:
    mounts = [{"name": "hub", "mountPath": "/home/ray/.cache/huggingface"}]
    made = ray(model(HUB, revision=COMMIT), volumeMounts=mounts)
    pod = made["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["volumes"] = [{"name": "hub", "persistentVolumeClaim": {"claimName": "hub"}}]
    strict = Context(profile="strict")
    (finding,) = found("hub-offline", made, context=strict)
    assert finding.field == f"{HOME}.runtime_env"
    pod["containers"][0]["env"] = [{"name": "HF_HUB_OFFLINE", "value": "1"}]
    assert found("hub-offline", made, context=strict) == []


@pytest.mark.parametrize(
    "text",
    [
        "", "- a", "{", "applications: 3", "applications: [{args: {llm_configs: [x.yaml]}}]",
        "[" * 5000, "a: &a [1, 2]\nb: " + "[" + "*a, " * 30000 + "]", "applications: !!python/x {}",
        Unknown("later"), 7, None,
    ],
)  # fmt: skip
def test_a_text_that_says_nothing_is_left_alone(text: Any) -> None:
    made = ray(model())
    made["spec"]["serveConfigV2"] = text
    assert Inventory.of([made]).served == ()
    assert [f for f in check([made], Context()) if "serveConfigV2" in f.field] == []


def test_a_finding_stands_on_its_line_of_the_text(tmp_path: Path) -> None:
    made = ray(model(tensor_parallel_size=8))
    lines = made["spec"].pop("serveConfigV2").splitlines()
    inner = "\n".join(f"    {line}" for line in lines)
    text = yaml.safe_dump(made).rstrip() + f"\n  serveConfigV2: |\n{inner}\n"
    file = tmp_path / "ray.yaml"
    file.write_text(f"# first\n---\n{text}")
    report = check_paths([str(file)], io.BytesIO(), Context())
    (finding,) = [f for f in report.findings if f.rule == "world-size"]
    said = file.read_text().splitlines()[(finding.line or 0) - 1]
    assert said.strip() == "tensor_parallel_size: 8"
    assert said[(finding.column or 0) - 1 :] == "tensor_parallel_size: 8"


@pytest.mark.parametrize(
    ("image", "option", "unknown"),
    [
        # 0.17.1 was the last with --swap-space, 0.10.0 that with --num-scheduler-steps.
        ("rayproject/ray-llm:2.56.0-py312-cu130", "swap_space", True),
        ("rayproject/ray-llm:2.55.1-py311-cu128", "swap_space", True),
        ("rayproject/ray-llm:2.53.0-py311-cu128", "swap_space", False),
        ("docker.io/rayproject/ray-llm:2.50.0", "num_scheduler_steps", True),
        ("rayproject/ray:2.52.0", "num_scheduler_steps", True),
        ("rayproject/ray-llm:2.44.0", "num_scheduler_steps", False),
        ("rayproject/ray-llm:2.40.0", "swap_space", False),
        ("rayproject/ray-llm:99.0.0", "swap_space", True),
        ("rayproject/ray-llm:nightly", "swap_space", False),
        ("example.com/ray-llm:2.56.0", "swap_space", False),
        ("rayproject/ray-llm:2.56.0", "max_model_len", False),
    ],
)
def test_options_that_the_vllm_of_ray_dropped(image: str, option: str, unknown: bool) -> None:
    made = ray(model(**{option: 4}), image=f"{image}@{DIGEST}")
    findings = found("unknown-flag", made)
    assert bool(findings) is unknown
    if findings:
        assert findings[0].field == f"{HOME}.engine_kwargs.{option}"


def test_options_that_came_later_are_told_where_the_version_is_known() -> None:
    """Of a Ray that wants vLLM 0.18 at least, a newer one may be in the image."""
    later = model(watermark=0.02)
    assert found("unknown-flag", ray(later, image="rayproject/ray-llm:2.55.0")) == []
