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


CLAIM: dict[str, Any] = {
    "distributed": {"kind": "hicache", "claim": "kv", "size": "1T", "memory": "32G"}
}


def folder(**spec: Any) -> str:
    return values(engine={**SGLANG, **spec.pop("engine", {})}, **spec).engine.env[
        "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
    ]


@pytest.mark.helm
def test_hicache_keeps_files_on_a_claim_that_pods_share(charts: Helm) -> None:
    engine = values(caches=CLAIM, engine=SGLANG).engine
    assert engine.flags["hicache-storage-backend"] == "file"
    # Of each pod's 32 GB two ranks take 16 each, and of the files half.
    assert engine.flags["hicache-size"] == 16
    assert engine.env["SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"] == str(10**12 // 2)
    found = of(charts, caches=CLAIM, engine=SGLANG)
    pod = found.pod()
    (volume,) = (v for v in pod["volumes"] if v["name"] == "kv")
    assert volume["persistentVolumeClaim"] == {"claimName": "kv"}
    (mount,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "kv")
    assert mount == {"name": "kv", "mountPath": "/kv"}
    assert "'kv'" not in str(found.one("NetworkPolicy")["spec"]["egress"])


def test_blocks_that_do_not_fit_each_other_lie_in_different_folders() -> None:
    """Their names say nothing of revision, type and size of a block."""
    one = folder(caches=CLAIM)
    assert one.startswith("/kv/demo-") and one == folder(caches=CLAIM, replicas=5)
    others = {
        folder(caches={**CLAIM, "kv": {"dtype": "fp8_e5m2"}}),
        folder(caches={**CLAIM, "kv": {"dtype": "fp8_e4m3"}}),
        folder(caches={**CLAIM, "kv": {"blockSize": 64}}),
        folder(caches=CLAIM, engine={"flags": {"attention-backend": "triton"}}),
    }
    assert len(others | {one}) == 5


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


# Beside prefill and decode

SPLIT: dict[str, Any] = {"kind": "disaggregated", "tensorParallel": 2}


def handed(role: str = "decode", **spec: Any) -> dict[str, Any]:
    """How vLLM is told to move KV in a role."""
    found: Any = values(topology=SPLIT, **spec).roles[role].flags["kv-transfer-config"]
    return found


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_nixl_hands_over_and_memory_keeps(role: str) -> None:
    config = handed(role, caches=CPU)
    assert (config["kv_connector"], config["kv_role"]) == ("MultiConnector", "kv_both")
    # The scheduler reads it there, and nowhere else.
    assert config["kv_load_failure_policy"] == "fail"
    nixl, kept = config["kv_connector_extra_config"]["connectors"]
    assert (nixl["kv_connector"], kept["kv_connector"]) == ("NixlConnector", "OffloadingConnector")
    assert nixl["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"]}
    assert "kv_load_failure_policy" not in nixl
    assert kept["kv_connector_extra_config"] == {"cpu_bytes_to_use": 32 * 2**30}


def test_nothing_else_says_how_kv_is_kept() -> None:
    """Its flag for offloading would put the connector of its own in NIXL's place."""
    assert not {"kv-offloading-size", "kv-offloading-backend", "kv-transfer-config"} & (
        values(topology=SPLIT, caches=CPU).engine.flags.keys()
    )
    assert handed()["kv_connector"] == "NixlConnector"


def test_each_role_counts_all_its_ranks() -> None:
    group = {**SPLIT, "tensorParallel": 8, "decode": {"nodes": 2}}
    roles = values(topology=group, caches=CPU, resources={"gpus": 8}, replicas=1).roles
    sizes = {}
    for name, role in roles.items():
        config: Any = role.flags["kv-transfer-config"]
        kept = config["kv_connector_extra_config"]["connectors"][1]
        sizes[name] = kept["kv_connector_extra_config"]["cpu_bytes_to_use"]
        assert quantity_value(role.resources.shared_memory or "0") >= 32 * 2**30
    assert sizes == {"prefill": 32 * 2**30, "decode": 64 * 2**30}


def test_files_and_mooncake_go_beside_nixl_too() -> None:
    _, files = handed(caches=DISK)["kv_connector_extra_config"]["connectors"]
    assert files["kv_connector_extra_config"]["secondary_tiers"] == [
        {"type": "fs", "root_dir": "/kv"}
    ]
    found = values(topology=SPLIT, caches=DISK)
    assert found.kv is not None and found.engine.env["PYTHONHASHSEED"] == "0"
    _, kept = handed(caches=store("mooncake"))["kv_connector_extra_config"]["connectors"]
    assert kept == {"kv_connector": "MooncakeStoreConnector", "kv_role": "kv_both"}
    shared = values(topology=SPLIT, caches=store("mooncake")).engine
    assert json.loads(shared.files["mooncake.json"])["master_server_address"] == "store.kv:50051"


def test_the_narrower_pod_decides_what_each_rank_gives_to_a_store() -> None:
    own = {"gpus": 4, "cpu": "1", "memory": "96Gi"}
    wide = {**SPLIT, "decode": {"tensorParallel": 4, "resources": own}}
    files = values(topology=wide, caches=store("mooncake")).engine.files
    assert json.loads(files["mooncake.json"])["global_segment_size"] == "7GB", "32 GB of 4 ranks"


@pytest.mark.helm
def test_it_arrives_whole(charts: Helm) -> None:
    for item in of(charts, topology=SPLIT, caches=DISK).of("Deployment"):
        pod = item["spec"]["template"]["spec"]
        engines = [c for c in pod["containers"] if c["name"] == "engine"]
        for engine in engines:
            (text,) = [a for a in engine["args"] if a.startswith("--kv-transfer-config=")]
            config = json.loads(text.partition("=")[2])
            assert len(config["kv_connector_extra_config"]["connectors"]) == 2
