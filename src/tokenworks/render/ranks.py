"""Ranks of an engine: flags, ports and variables by which the pods of one model find each other.

One function an engine and topology. Everything here is the engine's own way of doing it; what
holds for all of them (resources, probes, network rules) is in `roles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tokenworks.catalog.engines import Engine
from tokenworks.catalog.network import NetworkFacts, load_networks
from tokenworks.errors import UsageError
from tokenworks.render.kv import connector
from tokenworks.spec.common import FlagValue
from tokenworks.spec.layout import RoleLayout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.values import RolePort, WorkerValues

LEADER: Final = "$(LWS_LEADER_ADDRESS)"
INDEX: Final = "$(LWS_WORKER_INDEX)"
"""Variables that LeaderWorkerSet gives to every container of a group (api v1, v0.9.0)."""
_IN_ROLES: Final = {
    LEADER: "$(RBG_LWP_LEADER_ADDRESS)",
    INDEX: "$(RBG_LWP_WORKER_INDEX)",
}
"""What a RoleBasedGroup calls them (sgl-project/rbg v0.7.0, api/workloads/constants)."""
POD_IP: Final = "$(POD_IP)"
NIXL_PER_RANK: Final = 64
"""Side-channel ports that are opened from the first one on: rank n listens on port + n."""


@dataclass(frozen=True)
class Ranks:
    """What a role's pods get besides what every pod of the release gets."""

    flags: Mapping[str, FlagValue] = field(default_factory=dict[str, FlagValue])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    launch: tuple[str, ...] = ()
    worker: WorkerValues | None = None
    ports: Mapping[str, RolePort] = field(default_factory=dict[str, RolePort])
    endpoints: int = 1
    health_port: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    def plus(self, other: Ranks) -> Ranks:
        """Both together; single values are the other's where it has one."""
        return replace(
            self,
            flags={**self.flags, **other.flags},
            env={**self.env, **other.env},
            ports={**self.ports, **other.ports},
            annotations={**self.annotations, **other.annotations},
            launch=other.launch or self.launch,
            worker=other.worker or self.worker,
            endpoints=max(self.endpoints, other.endpoints),
            health_port=other.health_port or self.health_port,
        )


def ranks(
    model: ModelRelease, role: RoleLayout, engine: Engine, network: NetworkFacts | None
) -> Ranks:
    """Flags, ports and variables of one role.

    Raises:
        UsageError: the engine cannot be laid out this way.
    """
    found = Ranks(flags=_within(role, engine))
    if role.all_serve:
        found = found.plus(_wide(model, role, engine, network))
    elif role.grouped:
        found = found.plus(_named(_group(model, role, engine), model))
    if role.name != "engine":
        found = found.plus(_transfer(model, role, engine, network))
    return found


def _named(found: Ranks, model: ModelRelease) -> Ranks:
    """With the variables of what makes the group."""
    if model.spec.topology.expressed_as != "RoleBasedGroup":
        return found

    def renamed(value: FlagValue) -> FlagValue:
        if isinstance(value, str):
            for old, new in _IN_ROLES.items():
                value = value.replace(old, new)
        return value

    return replace(found, flags={name: renamed(value) for name, value in found.flags.items()})


def _within(role: RoleLayout, engine: Engine) -> dict[str, FlagValue]:
    """Tensor, pipeline and data ranks, as far as the engine has a flag for each."""
    names = engine.parallel
    tensor = engine.flags.tensor_parallel or names.tensor
    counts = [(tensor, role.tensor, 0), (names.pipeline, role.pipeline, 1)]
    if not role.all_serve:
        counts.append((names.data, role.data, 1))
    return {flag: count for flag, count, usual in counts if flag and count > usual}


def _port(engine: Engine, name: str, count: int = 1) -> RolePort:
    return RolePort(port=engine.ports[name].port, count=count)


def _number(engine: Engine, name: str) -> int:
    return engine.ports[name].port


# Groups


def _group(model: ModelRelease, role: RoleLayout, engine: Engine) -> Ranks:
    if model.spec.topology.launcher == "ray":
        return _vllm_ray(engine)
    groups = {"vllm": _vllm_nodes, "sglang": _sglang_nodes}
    if model.spec.engine.name not in groups:
        raise UsageError(f"{model.metadata.name}: engine {model.spec.engine.name} has no groups")
    return groups[model.spec.engine.name](role, engine)


def _vllm_nodes(role: RoleLayout, engine: Engine) -> Ranks:
    """vLLM's own: every pod starts the same command, all but the first without a server."""
    return Ranks(
        flags={
            "nnodes": role.nodes,
            "node-rank": INDEX,
            "master-addr": LEADER,
            "master-port": _number(engine, "master"),
        },
        ports={"master": _port(engine, "master")},
        worker=WorkerValues(flags={"headless": True}, probe="leader"),
    )


def _vllm_ray(engine: Engine) -> Ranks:
    """vLLM over Ray: the first pod is Ray's head, and places ranks in the others."""
    port = _number(engine, "ray")
    start = f'ray start --head --port={port} --disable-usage-stats && exec "$@"'
    return Ranks(
        flags={"distributed-executor-backend": "ray"},
        launch=("sh", "-c", start, "--"),
        ports={"ray": _port(engine, "ray")},
        worker=WorkerValues(
            command=("ray", "start", f"--address={LEADER}:{port}", "--block"),
            flags={},
            probe="leader",
        ),
    )


def _sglang_nodes(role: RoleLayout, engine: Engine) -> Ranks:
    """SGLang's own: the same command everywhere; other pods answer health only."""
    port = _number(engine, "dist-init")
    return Ranks(
        flags={"nnodes": role.nodes, "node-rank": INDEX, "dist-init-addr": f"{LEADER}:{port}"},
        ports={"dist-init": _port(engine, "dist-init")},
        worker=WorkerValues(flags={}, probe="http"),
    )


# Wide expert parallelism


def _wide(
    model: ModelRelease, role: RoleLayout, engine: Engine, network: NetworkFacts | None
) -> Ranks:
    """vLLM: each pod serves its own data ranks, one port each, behind a supervisor."""
    usual = (network or load_networks()["tcp"]).all_to_all[0]
    supervisor = _number(engine, "data-supervisor")
    return Ranks(
        flags={
            "data-parallel-size": role.data,
            "data-parallel-size-local": role.local_data,
            "data-parallel-address": LEADER,
            "data-parallel-rpc-port": _number(engine, "data-rpc"),
            "data-parallel-multi-port-external-lb": True,
            "data-parallel-supervisor-port": supervisor,
            # The first local rank is node-rank × data-parallel-size-local.
            "node-rank": INDEX,
            "enable-expert-parallel": True,
            "all2all-backend": model.spec.topology.all_to_all or usual,
        },
        ports={"data-rpc": _port(engine, "data-rpc")},
        worker=WorkerValues(flags={}, probe="http"),
        endpoints=role.local_data,
        health_port=supervisor,
    )


# Prefill and decode


def _transfer(
    model: ModelRelease, role: RoleLayout, engine: Engine, network: NetworkFacts | None
) -> Ranks:
    name = model.spec.engine.name
    if name == "vllm":
        return _vllm_transfer(model, role, engine, network)
    if name == "sglang":
        return _sglang_transfer(model, role, engine, network)
    raise UsageError(f"{model.metadata.name}: engine {name} has no prefill and decode")


def _vllm_transfer(
    model: ModelRelease, role: RoleLayout, engine: Engine, network: NetworkFacts | None
) -> Ranks:
    """KV connectors of vLLM. The pod's address and the failure policy are always said."""
    if model.spec.topology.transfer == "mooncake":
        side: Literal["kv_producer", "kv_consumer"] = (
            "kv_producer" if role.name == "prefill" else "kv_consumer"
        )
        bootstrap = engine.ports["mooncake"]
        return Ranks(
            flags={"kv-transfer-config": {"kv_connector": "MooncakeConnector", "kv_role": side}},
            env={bootstrap.env or "": str(bootstrap.port)},
            ports={"mooncake": _port(engine, "mooncake")},
        )
    config: dict[str, Any] = {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_both",
        # A KV that does not come is an error, not a prompt that is silently read twice.
        "kv_load_failure_policy": "fail",
    }
    backends = list(network.nixl.backends) if network else []
    if backends and backends != ["UCX"]:
        config["kv_connector_extra_config"] = {"backends": backends}
    nixl = engine.ports["nixl"]
    return Ranks(
        flags={"kv-transfer-config": _together(config, model, role, engine)},
        env={
            "VLLM_NIXL_SIDE_CHANNEL_HOST": POD_IP,
            nixl.env or "": str(nixl.port),
            **(network.nixl.env if network else {}),
        },
        ports={"nixl": _port(engine, "nixl", count=min(NIXL_PER_RANK, role.tensor * role.data))},
    )


def _together(
    nixl: dict[str, Any], model: ModelRelease, role: RoleLayout, engine: Engine
) -> dict[str, Any]:
    """NIXL alone, or first of two connectors: the first that has a prompt's KV loads it, and both
    keep it."""
    kept = connector(model, engine, model.spec.engine.version or engine.default, role)
    if kept is None:
        return nixl
    # The scheduler looks for the policy outside.
    policy = nixl.pop("kv_load_failure_policy")
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": policy,
        "kv_connector_extra_config": {"connectors": [nixl, kept]},
    }


def _sglang_transfer(
    model: ModelRelease, role: RoleLayout, engine: Engine, network: NetworkFacts | None
) -> Ranks:
    """SGLang's modes: decode asks prefill's bootstrap server where the KV is."""
    bootstrap = _number(engine, "bootstrap")
    flags: dict[str, FlagValue] = {
        "disaggregation-mode": role.name,
        "disaggregation-transfer-backend": model.spec.topology.transfer or "nixl",
        "disaggregation-bootstrap-port": bootstrap,
    }
    ports = {"bootstrap": _port(engine, "bootstrap")} if role.name == "prefill" else {}
    return Ranks(flags=flags, env=dict(network.nixl.env) if network else {}, ports=ports)
