"""Caches of a release: weights on disk, prefixes and KV in GPU memory and beyond it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tokenworks.spec.common import Document, Form, Name, Size, quantity_value, refused

Kind = Literal["none", "ephemeral", "pvc", "node"]
AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"]


class WeightsCache(Document):
    """Where weights live inside the pod, and who brings them there."""

    kind: Kind = Field(
        default="ephemeral",
        description="ephemeral: the node's disk, lost with the pod; pvc: a claim that pods share; "
        "node: the pool's local disk, kept for the next pod on the node; none: for weights that "
        "are not downloaded (all but hf://, and engines that are simulated).",
    )
    size: Size | None = Field(default=None, description="Default: weights size plus a fifth.")
    claim: Name | None = Field(
        default=None,
        description="pvc: an existing claim. Without it, and with prefetch, one of `size` is made "
        "and kept when the release goes.",
    )
    access_mode: AccessMode = Field(
        default="ReadWriteMany",
        description="pvc: how the existing claim may be mounted; a made one is ReadWriteMany.",
    )
    storage_class: Name | None = Field(
        default=None,
        description="pvc: class of a claim that is made; default: the cluster's. It has to offer "
        "ReadWriteMany.",
    )
    prefetch: bool = Field(
        default=False,
        description="pvc: a Job downloads and verifies the weights; engines wait for it. Otherwise "
        "the claim is filled already.",
    )

    @property
    def made(self) -> bool:
        """Whether the claim is made with the release."""
        return self.kind == "pvc" and self.prefetch and self.claim is None

    @model_validator(mode="after")
    def _claim_only_for_pvc(self) -> WeightsCache:
        if self.kind == "pvc" and self.claim is None and not self.prefetch:
            raise refused(
                "is missing, and kind pvc needs it",
                allowed="an existing ReadWriteMany claim",
                remedy="add claim, or choose kind ephemeral",
                field="claim",
            )
        if self.kind != "pvc" and self.claim is not None:
            raise refused(
                f"found {self.claim!r} beside kind {self.kind}, which mounts no claim",
                remedy="remove claim, or choose kind pvc",
                field="claim",
            )
        if self.kind in ("none", "node") and self.size is not None:
            why = (
                "which has no size" if self.kind == "none" else "where the node's disk is the limit"
            )
            raise refused(
                f"found {self.size} beside kind {self.kind}, {why}",
                remedy="remove size, or choose kind ephemeral",
                field="size",
            )
        return self

    @model_validator(mode="after")
    def _claim_is_described_once(self) -> WeightsCache:
        stated = self.model_fields_set
        for name, field in (("access_mode", "accessMode"), ("prefetch", "prefetch")):
            if name in stated and self.kind != "pvc":
                raise refused(
                    f"has no meaning with kind {self.kind}",
                    allowed="kind pvc",
                    remedy="remove it, or choose kind pvc",
                    field=field,
                )
        if self.storage_class is not None and not self.made:
            raise refused(
                "has no meaning: no claim is made",
                allowed="kind pvc with prefetch, without claim",
                remedy="remove it, or remove claim",
                field="storageClass",
            )
        if self.access_mode != "ReadWriteMany" and self.prefetch:
            raise refused(
                f"found {self.access_mode}, but the Job writes while engines wait with it mounted",
                allowed="ReadWriteMany",
                remedy="choose a claim that many nodes may mount, or fill it yourself",
                field="accessMode",
            )
        return self


class KvCache(Document):
    """How large the engine's KV cache is, and what a block of it is."""

    memory_fraction: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Part of the GPU's memory that the engine may use."
    )
    dtype: Annotated[str, Form(r"[a-z][a-z0-9_]*", "a type such as fp8")] | None = Field(
        default=None, description="Type of its numbers, such as fp8; default: the model's."
    )
    block_size: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Tokens of one block."
    )


class NvmeOffload(Document):
    """Files for blocks that leave the pod's memory, on a volume of each pod's own.

    Engines do not bound them. A volume that is full refuses more; a folder of the node's disk
    would have its pod evicted.
    """

    size: Size = Field(description="Of each pod's volume.")
    storage_class: Name = Field(description="Class of that volume: a local disk's.")


class Offload(Document):
    """Where blocks go that leave the GPU; they belong to the pod alone."""

    cpu: Size | None = Field(default=None, description="Memory of each pod, part of its memory.")
    nvme: NvmeOffload | None = Field(default=None, description="A disk, behind memory.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Offload:
        if self.cpu is None:
            raise refused(
                "is missing: blocks leave the GPU through memory",
                allowed="a size such as 32Gi",
                remedy="add it, or remove offload",
                field="cpu",
            )
        return self


Host = Annotated[
    str,
    Form(
        r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?:[1-9][0-9]{0,4}",
        "host:port, such as mooncake-master.stores.svc:50051",
        "write the name of the store's Service and its port",
    ),
]


class Distributed(Document):
    """A store of KV blocks that many pods share: a program that is reached, not installed, or the
    files of a claim."""

    kind: Literal["lmcache", "mooncake", "hicache"] = Field(
        description="The store's program; hicache: SGLang's own files on a claim."
    )
    address: Host | None = Field(
        default=None, description="host:port of LMCache's server, or of Mooncake's master."
    )
    namespace: Name | None = Field(
        default=None,
        description="lmcache, mooncake: namespace of the store; pods may reach it there.",
    )
    claim: Name | None = Field(
        default=None,
        description="hicache: an existing ReadWriteMany claim; releases may share it, each has a "
        "folder of its own.",
    )
    size: Size | None = Field(
        default=None,
        description="hicache: size of its files; beyond it a pod deletes those used longest ago.",
    )
    memory: Size = Field(description="Memory that each pod gives to it, part of the pod's memory.")
    transport: Literal["rdma", "tcp"] = Field(
        default="tcp", description="mooncake: how blocks move; rdma needs a pool with rdma."
    )

    @model_validator(mode="after")
    def _reached_or_mounted(self) -> Distributed:
        mounted = self.kind == "hicache"
        needed = ("claim", "size") if mounted else ("address", "namespace")
        stated = self.model_fields_set
        for field in needed:
            if getattr(self, field) is None:
                raise refused(
                    f"is missing, and kind {self.kind} needs it",
                    allowed="claim and size" if mounted else "address and namespace",
                    remedy="add it",
                    field=field,
                )
        others = ("address", "namespace") if mounted else ("claim", "size")
        if self.kind != "mooncake":
            others = (*others, "transport")
        for field in others:
            if field in stated:
                raise refused(
                    f"has no meaning with kind {self.kind}",
                    allowed=", ".join(("kind", *needed, "memory")),
                    remedy="remove it",
                    field=field,
                )
        if self.size is not None and quantity_value(self.size) < quantity_value(self.memory):
            raise refused(
                f"found {self.size}, less than the memory of one pod, which spills into it",
                allowed=f"{self.memory} or more",
                remedy="raise it; all pods of all releases on the claim share it",
                field="size",
            )
        return self


class Caches(Document):
    """What is kept: weights on disk, prefixes and KV in GPU memory and beyond it."""

    weights: WeightsCache = Field(
        default=WeightsCache(), description="Where weights live inside the pod."
    )
    prefix: bool = Field(default=True, description="Engine prefix cache, and routing by it.")
    kv: KvCache = Field(default=KvCache(), description="The engine's KV cache.")
    offload: Offload | None = Field(
        default=None, description="Memory and disk of the pod for KV that leaves the GPU."
    )
    distributed: Distributed | None = Field(
        default=None, description="A store outside the pod for KV that many pods share."
    )
