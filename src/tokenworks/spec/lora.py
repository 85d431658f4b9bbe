"""LoRA adapters of a release: the approved list, what may be on it, and how it is loaded.

Nothing else is ever served: an adapter is named here with the digest of its weights, or
requests for it find no model.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from tokenworks.spec.common import Commit, Digest, Document, Form, Size, quantity_value, refused

AdapterName = Annotated[
    str,
    Form(
        r"[A-Za-z0-9][A-Za-z0-9._-]*",
        "letters, digits and ._-, alphanumeric first, at most 63",
        max_length=63,
    ),
]
"""The `model` field of requests. No slash: it is a folder's name too. No colon: SGLang splits
names there."""
Rank = Annotated[int, Field(ge=1, le=512)]
Count = Annotated[int, Field(ge=1, le=512)]
MOST_AT_ONCE: Final = 4
"""Adapters of one batch where the document does not say; each takes GPU memory from KV."""


class Adapter(Document):
    """One adapter, exactly."""

    uri: Annotated[
        str,
        Form(
            r"hf://[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*"
            r"|pvc://[a-z0-9][-a-z0-9.]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*"
            r"|dummy://[A-Za-z0-9][A-Za-z0-9._-]*",
            "hf://org/name, pvc://claim/path or, where the engine is played, dummy://name",
            max_length=300,
        ),
    ] = Field(
        description="hf://org/name, pvc://claim/path; dummy://name where our simulator plays the "
        "engine."
    )
    revision: Commit | None = Field(default=None, description="hf://: the commit.")
    digest: Digest | None = Field(
        default=None,
        description="SHA-256 of `adapter_model.safetensors`. `unresolved`: nobody has computed it; "
        "previews warn and `up` refuses.",
    )
    size: Size = Field(description="All its files together have at most this many bytes.")
    rank: Rank = Field(description="`r` of its adapter_config.json, or more.")

    @property
    def scheme(self) -> str:
        """hf, pvc or dummy."""
        return self.uri.partition("://")[0]

    @model_validator(mode="after")
    def _exactly_one(self) -> Adapter:
        for field, value, schemes in (
            ("revision", self.revision, ("hf",)),
            ("digest", self.digest, ("hf", "pvc")),
        ):
            if value is None and self.scheme in schemes:
                raise refused(
                    "is missing",
                    allowed=_FORMS[field],
                    remedy="add it: only what was looked at is served",
                    field=field,
                )
            if value is not None and self.scheme not in schemes:
                raise refused(
                    f"has no meaning with {self.scheme}:// adapters",
                    allowed=" or ".join(f"{scheme}:// adapters" for scheme in schemes),
                    remedy="remove it",
                    field=field,
                )
        return self


_FORMS: Final = {
    "revision": "a commit of 40 hexadecimal digits, or `unresolved`",
    "digest": "sha256:<64 hexadecimal digits>, or `unresolved`",
}


class Lora(Document):
    """Adapters of one release."""

    adapters: dict[AdapterName, Adapter] = Field(
        description="Name that requests use: the adapter. Nothing else is served."
    )
    load: Literal["start", "sidecar"] = Field(
        default="start",
        description="start: before the engine starts, so that a change of the list replaces the "
        "pods; sidecar: while it runs, without a restart.",
    )
    max_loaded: Count | None = Field(
        default=None,
        description="Adapters of one batch, each a place in GPU memory; default: all, at most "
        f"{MOST_AT_ONCE}. Required by load sidecar.",
    )
    max_kept: Count | None = Field(
        default=None,
        description="Adapters in the pod's memory, and so the longest list; default: all. "
        "Required by load sidecar.",
    )
    max_rank: Rank | None = Field(
        default=None,
        description="Largest rank, for which every place is made; default: the largest of the "
        "list. Required by load sidecar.",
    )
    max_size: Size = Field(default="2G", description="Larger adapters are refused.")
    base: (
        Annotated[str, Form(r"[!-~]+", "a model's name without blanks", max_length=200)] | None
    ) = Field(
        default=None,
        description="Model that adapters must say they were trained for, if they name one of a "
        "hub; default: the release's hf:// weights.",
    )

    @property
    def loaded(self) -> int:
        """Adapters of one batch."""
        return self.max_loaded or min(self.kept, MOST_AT_ONCE)

    @property
    def kept(self) -> int:
        """Adapters in the pod's memory."""
        return self.max_kept or len(self.adapters)

    @property
    def rank(self) -> int:
        """The largest rank."""
        return self.max_rank or max(adapter.rank for adapter in self.adapters.values())

    @property
    def storage(self) -> float:
        """Bytes of disk: in a list that may change, any adapter may be the largest."""
        if self.load == "sidecar":
            return self.kept * quantity_value(self.max_size)
        return sum(quantity_value(adapter.size) for adapter in self.adapters.values())

    @model_validator(mode="after")
    def _at_least_one(self) -> Lora:
        if not self.adapters:
            raise refused(
                "is empty",
                allowed="at least one adapter",
                remedy="list one, or remove spec.lora",
                field="adapters",
            )
        return self

    @model_validator(mode="after")
    def _sidecars_know_the_limits(self) -> Lora:
        if self.load != "sidecar":
            return self
        for field, value in (
            ("maxLoaded", self.max_loaded),
            ("maxKept", self.max_kept),
            ("maxRank", self.max_rank),
        ):
            if value is None:
                raise refused(
                    "is missing, and load sidecar needs it: engines are told before the list "
                    "changes",
                    allowed="a number that the list will not outgrow",
                    remedy="add it, or choose load start",
                    field=field,
                )
        return self

    @model_validator(mode="after")
    def _room_for_all(self) -> Lora:
        if len(self.adapters) > self.kept:
            raise refused(
                f"found {self.kept}, but the list has {len(self.adapters)} adapters",
                allowed=f"at least {len(self.adapters)}",
                remedy="raise it, or shorten the list",
                field="maxKept",
            )
        if self.loaded > self.kept:
            raise refused(
                f"found {self.loaded}, but only {self.kept} are kept in memory",
                allowed=f"at most {self.kept}",
                remedy="lower it, or raise maxKept",
                field="maxLoaded",
            )
        return self
