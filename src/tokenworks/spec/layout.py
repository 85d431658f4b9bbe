"""Layout: roles, pods and ranks that a release's topology stands for.

Everything that counts GPUs or pods (rules, chart values, quota) reads this one function, so
defaults are worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tokenworks.spec.common import FlagValue
from tokenworks.spec.model import ModelReleaseSpec
from tokenworks.spec.problems import FieldPath
from tokenworks.spec.resources import Resources
from tokenworks.spec.topology import Role

RoleName = Literal["engine", "prefill", "decode"]
DEFAULT_NODES: Final = 2


@dataclass(frozen=True)
class RoleLayout:
    """One role: replicas of a pod, or of a group of pods."""

    name: RoleName
    replicas: int
    nodes: int
    """Pods of one replica."""
    tensor: int
    pipeline: int
    data: int
    """Copies of the model inside one replica."""
    resources: Resources
    """Of one pod."""
    pool: str | None
    all_serve: bool = False
    """Every pod of a group answers requests, not its first alone."""
    spread: bool = False
    """Tensor ranks go over all pods of a group, not over one pod each."""
    flags: Mapping[str, FlagValue] = field(default_factory=dict[str, FlagValue])
    path: FieldPath = ("spec", "topology")
    """Where the document describes it."""

    @property
    def grouped(self) -> bool:
        """Whether a replica is more than one pod."""
        return self.nodes > 1

    @property
    def local_tensor(self) -> int:
        """Ranks of one pod that share each layer."""
        return self.tensor // self.nodes if self.spread else self.tensor

    @property
    def local_data(self) -> int:
        """Copies of the model in one pod, at least one."""
        return max(1, self.data // self.nodes)

    @property
    def ranks(self) -> int:
        """GPUs that one replica's ranks want."""
        return self.tensor * self.pipeline * self.data

    @property
    def pods(self) -> int:
        """Pods of all replicas."""
        return self.replicas * self.nodes

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.pods * self.resources.gpus


def layout(spec: ModelReleaseSpec) -> tuple[RoleLayout, ...]:
    """The roles of a release; one called `engine` unless it is disaggregated."""
    topology = spec.topology
    if topology.kind == "disaggregated":
        prefill = _role(spec, "prefill", topology.prefill or Role())
        return (prefill, _role(spec, "decode", topology.decode or Role()))
    nodes = 1 if topology.kind == "single" else topology.nodes or DEFAULT_NODES
    tensor = _tensor(spec, nodes)
    # Without GPUs the ranks are played: one stage a pod, or two copies of the model.
    played = 2 if topology.kind == "wide-ep" else 1
    stages = _stages(spec.resources.gpus, nodes, tensor, played)
    pipeline, data = topology.pipeline_parallel or 1, topology.data_parallel or 1
    if topology.kind == "multi-node":
        pipeline = topology.pipeline_parallel or stages
    if topology.kind == "wide-ep":
        data = topology.data_parallel or stages
    engine = RoleLayout(
        name="engine",
        replicas=spec.replicas,
        nodes=nodes,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        resources=spec.resources,
        pool=spec.pool,
        all_serve=topology.kind == "wide-ep",
    )
    return (engine,)


def _tensor(spec: ModelReleaseSpec, nodes: int) -> int:
    """Ranks that share each layer: what is stated, or a pod's GPUs as far as other fields leave
    them; experts are spread over ranks of one GPU."""
    topology, gpus = spec.topology, spec.resources.gpus
    if topology.tensor_parallel is not None:
        return topology.tensor_parallel
    if topology.kind == "wide-ep":
        return 1
    taken = (topology.pipeline_parallel or 1) * (topology.data_parallel or 1)
    return max(1, min(gpus, nodes * gpus // taken))


def _stages(gpus: int, nodes: int, tensor: int, played: int = 1) -> int:
    """How often the tensor ranks fit into the group; without GPUs, `played` of them a pod."""
    return max(1, nodes * gpus // tensor) if gpus else played * nodes


def _role(spec: ModelReleaseSpec, name: Literal["prefill", "decode"], role: Role) -> RoleLayout:
    resources = role.resources or spec.resources
    nodes = role.nodes or spec.topology.nodes or 1
    local = role.tensor_parallel or spec.topology.tensor_parallel or max(1, resources.gpus)
    return RoleLayout(
        name=name,
        replicas=spec.replicas if role.replicas is None else role.replicas,
        nodes=nodes,
        # No stages: engines hand over the KV of all layers of a rank at once. vLLM refuses others
        # (0.32.0, kv_connector/v1/nixl/base_worker.py).
        tensor=local * nodes,
        pipeline=1,
        data=1,
        resources=resources,
        pool=role.pool or spec.pool,
        spread=nodes > 1,
        flags=role.flags,
        path=("spec", "topology", name),
    )
