"""KV beyond the GPU: what each engine is told, and what the pod is given for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.charts.documents import model, stack, values_of
from tests.charts.rendering import Helm, Objects
from tokenworks.render.model import model_values
from tokenworks.spec.common import quantity_value
from tokenworks.spec.values import ModelValues

SGLANG: dict[str, Any] = {"name": "sglang", "flags": None, "image": None, "version": None}
TRTLLM: dict[str, Any] = {**SGLANG, "name": "trtllm"}
CPU: dict[str, Any] = {"offload": {"cpu": "32Gi"}}
DISK: dict[str, Any] = {
    "offload": {"cpu": "32Gi", "nvme": {"size": "1Ti", "storageClass": "local"}}
}


def store(kind: str, **more: str) -> dict[str, Any]:
    place = {"address": "store.kv:50051", "namespace": "kv", "memory": "32G"}
    return {"distributed": {"kind": kind, **place, **more}}


def values(**spec: Any) -> ModelValues:
    release = model(**spec)
    return model_values(stack(release), release)


def of(charts: Helm, **spec: Any) -> Objects:
    return charts.objects("model", values_of(model(**spec)))


def test_vllm_is_told_the_memory_of_all_ranks_together() -> None:
    flags = values(caches=CPU).engine.flags
    assert (flags["kv-offloading-backend"], flags["kv-offloading-size"]) == ("native", 32.0)
    group = {"kind": "multi-node", "tensorParallel": 8}
    two = values(caches=CPU, topology=group, resources={"gpus": 8}, replicas=1)
    assert two.engine.flags["kv-offloading-size"] == 64.0


def test_vllms_memory_for_kv_is_shared_memory() -> None:
    """Otherwise /dev/shm is too small for it, and the engine does not start."""
    shared = values(caches=CPU).roles["engine"].resources.shared_memory
    assert quantity_value(shared or "0") == 40 * 2**30
    other = values(caches=CPU, engine=SGLANG).roles["engine"].resources.shared_memory
    assert other == "8Gi"


def test_sglang_is_told_the_memory_of_one_rank() -> None:
    flags = values(caches=CPU, engine=SGLANG).engine.flags
    # Two ranks share 32 GiB, which are 34 GB.
    assert (flags["enable-hierarchical-cache"], flags["hicache-size"]) == (True, 17)


@pytest.mark.parametrize("engine", [{}, SGLANG])
@pytest.mark.helm
def test_a_disk_is_a_volume_with_a_size(charts: Helm, engine: dict[str, Any]) -> None:
    pod = of(charts, caches=DISK, engine=engine).pod()
    (volume,) = (v for v in pod["volumes"] if v["name"] == "kv")
    claim = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert claim["resources"]["requests"]["storage"] == "1Ti"
    assert claim["storageClassName"] == "local"
    (mount,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "kv")
    text = json.dumps([pod["containers"][0]["args"], pod["containers"][0]["env"]])
    assert mount["mountPath"] == "/kv" and "/kv" in text


def test_vllms_disk_lies_behind_its_memory() -> None:
    config: Any = values(caches=DISK).engine.flags["kv-transfer-config"]
    assert config["kv_connector"] == "OffloadingConnector"
    more = config["kv_connector_extra_config"]
    assert more["cpu_bytes_to_use"] == 32 * 2**30
    assert more["secondary_tiers"] == [{"type": "fs", "root_dir": "/kv"}]


def test_vllm_finds_the_mooncake_store_in_a_file() -> None:
    engine = values(caches=store("mooncake")).engine
    assert engine.env["MOONCAKE_CONFIG_PATH"] == "/etc/engine/mooncake.json"
    # Of 32 GB two ranks give 16 each.
    assert json.loads(engine.files["mooncake.json"]) == {
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": "store.kv:50051",
        "global_segment_size": "15GB",
        "local_buffer_size": "1GB",
        "protocol": "tcp",
        "device_name": "",
    }


def test_sglang_finds_the_mooncake_store_by_variables() -> None:
    engine = values(caches=store("mooncake"), engine=SGLANG).engine
    assert engine.flags["hicache-storage-backend"] == "mooncake"
    assert engine.env["MOONCAKE_MASTER"] == "store.kv:50051"
    assert (engine.env["MOONCAKE_LOCAL_HOSTNAME"], engine.files) == ("$(POD_IP)", {})


def test_lmcache_is_reached_by_variables_or_a_file() -> None:
    vllm = values(caches=store("lmcache")).engine
    assert vllm.env["LMCACHE_REMOTE_URL"] == "lm://store.kv:50051"
    assert vllm.env["LMCACHE_MAX_LOCAL_CPU_SIZE"] == "16"
    sglang = values(caches=store("lmcache"), engine=SGLANG).engine
    assert sglang.flags["lmcache-config-file"] == "/etc/engine/lmcache.yaml"
    settings = yaml.safe_load(sglang.files["lmcache.yaml"])
    assert (settings["remote_url"], settings["max_local_cpu_size"]) == ("lm://store.kv:50051", 16)


def test_keys_of_shared_blocks_are_the_same_everywhere() -> None:
    for kind in ("lmcache", "mooncake"):
        assert values(caches=store(kind)).engine.env["PYTHONHASHSEED"] == "0"


@pytest.mark.helm
def test_pods_reach_the_store_and_nothing_else(charts: Helm) -> None:
    def rules(kind: str) -> list[Any]:
        egress = of(charts, caches=store(kind)).one("NetworkPolicy")["spec"]["egress"]
        return [r for r in egress if "'kv'" in str(r.get("to"))]

    (lmcache,), (mooncake,) = rules("lmcache"), rules("mooncake")
    assert lmcache["ports"] == [{"protocol": "TCP", "port": 50051}]
    # Blocks move over ports that the store's members choose.
    assert "ports" not in mooncake
    assert values(caches=store("mooncake")).roles["engine"].open_to == "release"


# TensorRT-LLM's file


def settings(**spec: Any) -> Any:
    return yaml.safe_load(values(engine=TRTLLM, **spec).engine.files["engine.yaml"])


def test_tensorrt_llm_always_has_metrics() -> None:
    assert settings()["return_perf_metrics"] is True
    assert values(engine=TRTLLM).engine.flags["config"] == "/etc/engine/engine.yaml"


def test_tensorrt_llm_reads_caches_from_its_file() -> None:
    kv = settings(caches={"prefix": False, "kv": {"dtype": "fp8", "blockSize": 64}})
    assert kv["kv_cache_config"] == {
        "enable_block_reuse": False,
        "dtype": "fp8",
        "tokens_per_block": 64,
    }
    assert settings(caches=CPU)["kv_cache_config"]["host_cache_size"] == 16 * 2**30


@pytest.mark.helm
def test_another_file_is_another_pod(charts: Helm) -> None:
    def checksum(**kv: Any) -> tuple[str, str]:
        objects = of(charts, engine=TRTLLM, caches={"kv": kv})
        template = objects.one("Deployment")["spec"]["template"]
        files = objects.one("ConfigMap", "demo-engine-files")["data"]["engine.yaml"]
        return template["metadata"]["annotations"]["checksum/files"], files

    (one, text), (other, changed) = checksum(), checksum(dtype="fp8")
    assert one != other and text != changed
