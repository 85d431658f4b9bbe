"""KV beyond the GPU: a release's offload and distributed caches as flags, variables and files.

What each engine calls a thing is the catalog's knowledge; how much of the pod's memory each of
its ranks may take is worked out here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from tokenworks.catalog.engines import Engine
from tokenworks.catalog.options import CacheTier
from tokenworks.spec.caches import Distributed, Offload
from tokenworks.spec.common import FlagValue, quantity_value
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.values import KvValues, StoreNetwork

FILES: Final = "/etc/engine"
"""Where the chart mounts the engine's files."""
KV: Final = "/kv"
_UNITS: Final = {"GiB": 2.0**30, "GB": 1e9, "MiB": 2.0**20, "bytes": 1.0}
_FOLDER_ENV: Final = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
_BOUND_ENV: Final = "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"
_BUFFER_GB: Final = 1
"""Part of what a rank gives to Mooncake that it sends from and receives into."""


@dataclass(frozen=True)
class Tiers:
    """What the engine is told."""

    flags: Mapping[str, FlagValue] = field(default_factory=dict[str, FlagValue])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])

    def plus(self, other: Tiers) -> Tiers:
        """Both."""
        return Tiers(
            {**self.flags, **other.flags},
            {**self.env, **other.env},
            {**self.files, **other.files},
        )


def tiers(model: ModelRelease, engine: Engine, version: str) -> Tiers:
    """Flags, variables and files of every place that KV may go to."""
    caches, known = model.spec.caches, engine.tiers_in(version)
    role = layout(model.spec)[0]
    found = _config_file(model, engine, role)
    if caches.offload is not None and engine.config_file is None:
        found = found.plus(_offload(model, caches.offload, known, role))
    if caches.distributed is not None:
        store = caches.distributed
        found = found.plus(_distributed(model, store, known[store.kind]))
    if model.spec.topology.kind == "disaggregated":
        # Flags are each role's own: they say how KV is handed over too.
        return Tiers({}, found.env, found.files)
    return found


def connector(
    model: ModelRelease, engine: Engine, version: str, role: RoleLayout
) -> dict[str, Any] | None:
    """vLLM's connector that keeps KV of a role, to stand beside the one that hands it over."""
    caches, known = model.spec.caches, engine.tiers_in(version)
    if caches.distributed is not None:
        return _config(known[caches.distributed.kind])
    if caches.offload is None:
        return None
    if caches.offload.nvme is not None:
        return _tiered(str(caches.offload.cpu), known["nvme"], role)
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        # What vLLM itself makes of kv-offloading-size.
        "kv_connector_extra_config": {
            "cpu_bytes_to_use": _all_ranks(str(caches.offload.cpu), role)
        },
    }


def _config(tier: CacheTier) -> dict[str, Any]:
    return json.loads(json.dumps(tier.flags["kv-transfer-config"]))


def _all_ranks(size: str, role: RoleLayout) -> int:
    """Bytes of all ranks of a replica together."""
    return int(quantity_value(size) * role.nodes)


# Memory


def share(size: str, tier: CacheTier, role: RoleLayout) -> int | float:
    """A pod's size in the tier's unit: of each rank, or of all ranks together."""
    unit = _UNITS[tier.size_unit or "bytes"]
    per_pod = max(1, role.ranks // role.nodes)
    times = 1 / per_pod if tier.size_of == "rank" else role.nodes
    found = quantity_value(size) * times / unit
    # Rounded down: a rank that takes less than its share does no harm.
    return round(found, 3) if tier.size_unit == "GiB" else int(found)


def shared_memory(model: ModelRelease, engine: Engine, version: str) -> float:
    """Bytes of /dev/shm that offloaded KV takes in each pod."""
    offload = model.spec.caches.offload
    if offload is None or offload.cpu is None:
        return 0
    tier = engine.tiers_in(version).get("cpu")
    return quantity_value(offload.cpu) if tier is not None and tier.shared_memory else 0


# Places


def _offload(
    model: ModelRelease, offload: Offload, known: Mapping[str, CacheTier], role: RoleLayout
) -> Tiers:
    memory, disk = known["cpu"], known.get("nvme")
    size = share(str(offload.cpu), memory, role)
    if offload.nvme is None or disk is None:
        flag = {memory.size_flag: size} if memory.size_flag else {}
        return Tiers({**_plain(memory), **flag}, memory.env)
    if model.spec.engine.name == "vllm":
        return Tiers({"kv-transfer-config": _tiered(str(offload.cpu), disk, role)}, disk.env)
    flag = {memory.size_flag: size} if memory.size_flag else {}
    return Tiers({**_plain(memory), **_plain(disk), **flag}, {**memory.env, **disk.env})


def _plain(tier: CacheTier) -> dict[str, FlagValue]:
    flags: dict[str, Any] = dict(tier.flags)
    return flags


def _tiered(size: str, disk: CacheTier, role: RoleLayout) -> dict[str, Any]:
    """vLLM's disk tier lies behind its memory tier, in one connector."""
    config = _config(disk)
    config["kv_connector_extra_config"] |= {"cpu_bytes_to_use": _all_ranks(size, role)}
    config["kv_connector_extra_config"].pop("block_size", None)
    return config


def _distributed(model: ModelRelease, store: Distributed, tier: CacheTier) -> Tiers:
    # One setting for all roles: as much as the pod with the most ranks can give each.
    size = min(int(share(store.memory, tier, each)) for each in layout(model.spec))
    sglang = model.spec.engine.name == "sglang"
    if store.kind == "lmcache":
        return _lmcache(store, tier, size, sglang)
    if store.kind == "hicache":
        return _files(model, store, tier, size)
    if sglang:
        env = {
            **tier.env,
            "MOONCAKE_MASTER": str(store.address),
            "MOONCAKE_PROTOCOL": store.transport,
        }
        return Tiers({**_plain(tier), "hicache-size": size}, env)
    return Tiers(_plain(tier), tier.env, {"mooncake.json": _mooncake(store, size)})


def _lmcache(store: Distributed, tier: CacheTier, size: int, sglang: bool) -> Tiers:
    url = f"lm://{store.address}"
    if sglang:
        settings = {
            "local_cpu": True,
            "max_local_cpu_size": size,
            "remote_url": url,
            "remote_serde": "naive",
        }
        return Tiers(_plain(tier), tier.env, {"lmcache.yaml": _yaml(settings)})
    env = {
        **tier.env,
        "LMCACHE_MAX_LOCAL_CPU_SIZE": str(size),
        "LMCACHE_REMOTE_URL": url,
    }
    return Tiers(_plain(tier), env)


def _files(model: ModelRelease, store: Distributed, tier: CacheTier, size: int) -> Tiers:
    """HiCache's files. Each rank keeps to a part of `size`, by what it has seen of the folder."""
    ranks = max(role.ranks for role in layout(model.spec))
    env = {
        **tier.env,
        _FOLDER_ENV: f"{KV}/{_folder(model)}",
        _BOUND_ENV: str(int(quantity_value(str(store.size)) / ranks)),
    }
    return Tiers({**_plain(tier), "hicache-size": size}, env)


def _folder(model: ModelRelease) -> str:
    """A folder for blocks that fit each other. Files are named by tokens, model and rank, and not
    by what else decides what is in them (sglang 0.5.23, srt/mem_cache/hicache_storage.py)."""
    spec = model.spec
    said = [
        spec.tenant, spec.model.uri, spec.model.revision, spec.engine.version, spec.engine.image,
        spec.caches.kv.dtype, spec.caches.kv.block_size, spec.engine.flags,
    ]  # fmt: skip
    text = json.dumps(said, sort_keys=True, default=str)
    return f"{model.metadata.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _mooncake(store: Distributed, size: int) -> str:
    settings = {
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": str(store.address),
        "global_segment_size": f"{size - _BUFFER_GB}GB",
        "local_buffer_size": f"{_BUFFER_GB}GB",
        "protocol": store.transport,
        "device_name": "",
    }
    return json.dumps(settings, indent=2) + "\n"


# TensorRT-LLM's file


def _config_file(model: ModelRelease, engine: Engine, role: RoleLayout) -> Tiers:
    """Settings that the engine reads from a file alone."""
    file, caches = engine.config_file, model.spec.caches
    if file is None:
        return Tiers()
    settings: dict[str, Any] = dict(file.always)
    offload = caches.offload
    memory = share(str(offload.cpu), engine.offload["cpu"], role) if offload else None
    for keys, value in (
        (file.prefix, caches.prefix),
        (file.kv_dtype, caches.kv.dtype),
        (file.block_size, caches.kv.block_size),
        (file.host_memory, memory),
    ):
        if value is not None:
            _put(settings, keys, value)
    return Tiers({file.flag: f"{FILES}/engine.yaml"}, {}, {"engine.yaml": _yaml(settings)})


def _put(settings: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    *parents, last = keys
    for key in parents:
        settings = settings.setdefault(key, {})
    settings[last] = value


def _yaml(settings: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(settings), default_flow_style=False)  # pyright: ignore[reportUnknownMemberType]


# Around the engine


def volume(model: ModelRelease) -> KvValues | None:
    """The disk for KV, if there is one."""
    offload, store = model.spec.caches.offload, model.spec.caches.distributed
    if store is not None and store.claim is not None:
        return KvValues(claim=store.claim, path=KV)
    if offload is None or offload.nvme is None:
        return None
    disk = offload.nvme
    return KvValues(size=disk.size, storage_class=disk.storage_class, path=KV)


def reached(model: ModelRelease) -> StoreNetwork | None:
    """The store that pods ask. Mooncake moves blocks over ports that its members choose."""
    store = model.spec.caches.distributed
    if store is None or store.address is None or store.namespace is None:
        return None
    port = int(store.address.rpartition(":")[2]) if store.kind == "lmcache" else None
    return StoreNetwork(namespace=store.namespace, port=port)


def among_themselves(model: ModelRelease) -> bool:
    """Whether the release's pods hold blocks for each other."""
    store = model.spec.caches.distributed
    return store is not None and store.kind == "mooncake" and model.spec.engine.name == "vllm"
