"""Topology: how one replica of a model is laid out over GPUs, pods and roles.

Fields that mean nothing for a kind are refused rather than ignored, so switching is a change
of `kind` alone, and what was written for another kind is named.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from tokenworks.spec.common import Document, FlagName, FlagValue, Name, NodeLabel, refused
from tokenworks.spec.resources import Resources

Kind = Literal["single", "multi-node", "disaggregated", "wide-ep"]
Network = Literal["efa", "roce", "tcp"]
Ranks = Annotated[int, Field(ge=1, le=1024)]
GROUPS: Final = ("multi-node", "wide-ep")
"""Kinds whose replica is one group of pods."""


class Role(Document):
    """Prefill or decode of a disaggregated model; what is absent is as for the release."""

    replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None, description="Replicas of this role; default: the release's."
    )
    tensor_parallel: Annotated[int, Field(ge=1, le=16)] | None = Field(
        default=None, description="GPUs of one pod that share each layer; default: the topology's."
    )
    nodes: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None,
        description="Pods of one replica; more than one makes it a group, over all of whose GPUs "
        "each layer is divided. Default: the topology's.",
    )
    pool: Name | None = Field(default=None, description="Node pool; default: the release's.")
    resources: Resources | None = Field(
        default=None, description="What one pod asks for; default: the release's."
    )
    flags: dict[FlagName, FlagValue] = Field(
        default_factory=dict[str, FlagValue],
        description="Engine flags of this role, laid onto engine.flags.",
    )


class Topology(Document):
    """How one replica is laid out."""

    kind: Kind = Field(
        default="single",
        description="single: one pod a replica; multi-node: one model over a group of pods; "
        "disaggregated: prefill and decode as roles of their own; wide-ep: experts over all "
        "GPUs of a group of pods.",
    )
    tensor_parallel: Annotated[int, Field(ge=1, le=16)] | None = Field(
        default=None,
        description="GPUs of one pod that share each layer; default: those that other fields "
        "leave, in wide-ep 1.",
    )
    pipeline_parallel: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None,
        description="Stages of layers; default: all that the GPUs of a multi-node group give, "
        "else 1.",
    )
    data_parallel: Ranks | None = Field(
        default=None,
        description="Copies of the model that share a front end (single: in one pod; wide-ep: "
        "of the whole group, default: all its GPUs / tensorParallel).",
    )
    nodes: Annotated[int, Field(ge=2, le=64)] | None = Field(
        default=None,
        description="Pods of one group. multi-node and wide-ep: default 2; disaggregated: of both "
        "roles, default 1.",
    )
    launcher: Literal["native", "ray"] | None = Field(
        default=None,
        description="multi-node: who starts the ranks; native (default): the engine itself.",
    )
    all_to_all: (
        Literal["allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency"] | None
    ) = Field(
        default=None,
        description="wide-ep: how tokens travel to experts; default deepep_low_latency over "
        "roce, else allgather_reducescatter.",
    )
    network: Network | None = Field(
        default=None,
        description="What pods of one model talk over; default: the pool's RDMA devices. "
        "Without them `tcp` must be said aloud.",
    )
    within: NodeLabel | None = Field(
        default=None,
        description="Groups of pods: level of the pool's topology that all pods of a group share, "
        "or the group waits, such as a rack's label; default: as close together as there is room.",
    )
    prefill: Role | None = Field(default=None, description="disaggregated: who reads prompts.")
    decode: Role | None = Field(default=None, description="disaggregated: who writes answers.")
    transfer: Literal["nixl", "mooncake"] | None = Field(
        default=None, description="disaggregated: how KV travels; default nixl."
    )
    router: Literal["llm-d", "engine"] | None = Field(
        default=None,
        description="disaggregated: who pairs prefill and decode: llm-d's picker and sidecar "
        "(default), or the engine's own router.",
    )
    expressed_as: Literal["native", "RoleBasedGroup"] | None = Field(
        default=None,
        description="disaggregated: Deployments and LeaderWorkerSets (default), or one "
        "RoleBasedGroup.",
    )

    @model_validator(mode="after")
    def _only_what_the_kind_reads(self) -> Topology:
        for name, kinds in _READ_BY.items():
            if getattr(self, name) is not None and self.kind not in kinds:
                raise refused(
                    f"has no meaning with kind {self.kind}",
                    allowed=f"kind {' or '.join(kinds)}",
                    remedy="remove it, or choose that kind",
                    field=type(self).model_fields[name].alias or name,
                )
        return self

    @model_validator(mode="after")
    def _roles_agree(self) -> Topology:
        for name in ("prefill", "decode"):
            role: Role | None = getattr(self, name)
            shared = sorted(_SAME_IN_BOTH & role.flags.keys()) if role else []
            if shared:
                raise refused(
                    "must be the same in prefill and decode, or the KV of one cannot be read "
                    "by the other",
                    remedy="set it in engine.flags",
                    field=f"{name}.flags.{shared[0]}",
                )
        return self


_READ_BY: Final[dict[str, tuple[Kind, ...]]] = {
    "pipeline_parallel": ("single", "multi-node"),
    "data_parallel": ("single", "wide-ep"),
    "nodes": (*GROUPS, "disaggregated"),
    "launcher": ("multi-node",),
    "all_to_all": ("wide-ep",),
    "network": ("multi-node", "wide-ep", "disaggregated"),
    "within": ("multi-node", "wide-ep", "disaggregated"),
    "prefill": ("disaggregated",),
    "decode": ("disaggregated",),
    "transfer": ("disaggregated",),
    "router": ("disaggregated",),
    "expressed_as": ("disaggregated",),
}
_SAME_IN_BOTH: Final = frozenset(
    {
        "block-size",
        "page-size",
        "dtype",
        "kv-cache-dtype",
        "quantization",
        "hf-overrides",
        "trust-remote-code",
        "kv-transfer-config",
        "pipeline-parallel-size",
        "enable-lora",
    }
)
"""Flags that decide the layout of the KV cache, or who may send it."""
