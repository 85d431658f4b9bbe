"""ModelRelease: one served model. One file is one atomic release and one revert."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tokenworks.spec.caches import Caches
from tokenworks.spec.common import (
    API_VERSION,
    Between,
    Commit,
    Document,
    Duration,
    FlagName,
    FlagValue,
    Form,
    Image,
    Metadata,
    Name,
    Size,
    Timeout,
    duration_seconds,
    refused,
)
from tokenworks.spec.lora import Lora
from tokenworks.spec.resources import Resources
from tokenworks.spec.shape import Shape
from tokenworks.spec.topology import Topology

EngineName = Literal[
    "vllm", "sglang", "trtllm", "triton", "llamacpp", "ollama", "llmd-sim", "simulator"
]
RoutingProfile = Literal["balanced", "latency", "throughput"]


class Weights(Document):
    """Which weights, exactly, and how large they are."""

    uri: Annotated[
        str,
        Form(
            r"hf://[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*"
            r"|(s3|gs)://[a-z0-9][a-z0-9._-]*(/[!-~]+)?"
            r"|pvc://[a-z0-9][-a-z0-9.]*(/[!-~]+)?"
            r"|oci://[a-z0-9][-a-z0-9.]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+"
            r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
            r"|dummy://[A-Za-z0-9][A-Za-z0-9._/-]*",
            "hf://org/name, s3://bucket/prefix, gs://bucket/prefix, pvc://claim/path, "
            "oci://registry/image:tag@sha256:… or dummy://name",
            max_length=500,
        ),
    ] = Field(
        description="hf://org/name, s3://bucket/prefix, gs://…, pvc://claim/path, "
        "oci://registry/image@sha256:… (an image volume); dummy:// for simulators."
    )
    revision: Commit | None = Field(
        default=None, description="Immutable commit of the hub; required for hf:// outside local."
    )
    size: Size = Field(description="Bytes of the weights on disk; sizes start-up and storage.")
    served_name: (
        Annotated[
            str,
            Form(
                r"[A-Za-z0-9][A-Za-z0-9._/-]*",
                "letters, digits and ._/-, alphanumeric first, at most 63",
                max_length=63,
            ),
        ]
        | None
    ) = Field(
        default=None, description="The `model` field of requests (default: the release's name)."
    )
    max_context: Annotated[int, Field(ge=16, le=100_000_000)] | None = Field(
        default=None,
        description="Tokens of prompt and answer; default: the model's own maximum, for which "
        "config has to be there.",
    )
    experts: Annotated[int, Field(ge=2, le=4096)] | None = Field(
        default=None, description="Experts of each layer; required by topology wide-ep."
    )
    config: Shape | None = Field(
        default=None,
        description="Numbers of the model's config.json; with them `check` says whether a sequence "
        "of maxContext fits beside the weights.",
    )
    token_secret: Name | None = Field(
        default=None,
        description="Secret in the tenant's namespace with the hub token in key `token`.",
    )

    @model_validator(mode="after")
    def _some_context(self) -> Weights:
        if self.max_context is None and self.config is None:
            raise refused(
                "is missing, and without config nobody knows the model's own maximum",
                allowed="tokens of prompt and answer, such as 8192",
                remedy="add it, or add config",
                field="maxContext",
            )
        return self

    @property
    def context(self) -> int:
        """Tokens of prompt and answer: stated, or as many as the model can."""
        own = self.config.max_position_embeddings if self.config else 0
        return own if self.max_context is None else self.max_context


class Engine(Document):
    """The server program. Flags are typed; ours are derived and may not be repeated here."""

    name: EngineName = Field(description="The program.")
    version: (
        Annotated[
            str,
            Form(
                r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}(rc[0-9]{1,3})?",
                "three numbers with dots, such as 0.26.0",
                "write all three numbers, without v",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Release of the program; default: the catalog's. "
        "`./tokenworks engines` lists those we know.",
    )
    image: Image | None = Field(default=None, description="Default: the catalog's for the version.")
    flags: dict[FlagName, FlagValue] = Field(
        default_factory=dict[str, FlagValue], description="Flag name without dashes: value."
    )
    env: dict[
        Annotated[str, Form(r"[A-Z_][A-Z0-9_]*", "upper-case letters, digits and _")], str
    ] = Field(default_factory=dict[str, str], description="Literal values; never secrets.")
    simulation: dict[FlagName, str | int | float | bool] | None = Field(
        default=None,
        description="Our simulator plays the engine, with the engine's own command line: no "
        "weights, no GPU. Its options, such as decode-tokens-per-second: 50; {} for its defaults.",
    )


class Startup(Document):
    """How long a pod may take to load; probes and deadlines are computed from it."""

    download_bytes_per_second: Size = Field(
        default="100M",
        description="Bandwidth to the weights; start-up budget = size / this + load.",
    )
    load: Annotated[Duration, Between(duration_seconds, "0s", "168h")] = Field(
        default="300s", description="From weights on disk to healthy."
    )
    drain: Annotated[Duration, Between(duration_seconds, "0s", "24h")] = Field(
        default="120s", description="Longest answer to wait for at shutdown."
    )


class Route(Document):
    """How requests reach the release."""

    timeout: Timeout | None = Field(default=None, description="Default: the gateway's.")
    profile: RoutingProfile = Field(
        default="balanced", description="Weights of the picker's scorers; see the catalog."
    )


class ModelReleaseSpec(Document):
    """Body of a ModelRelease."""

    tenant: Name = Field(description="Tenant that owns it: namespace and queue.")
    model: Weights = Field(description="Which weights are served.")
    engine: Engine = Field(description="Which program serves them.")
    topology: Topology = Field(default=Topology(), description="How one replica is laid out.")
    pool: Name | None = Field(default=None, description="Node pool; required when gpus > 0.")
    resources: Resources = Field(description="What one replica asks for.")
    replicas: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=1, description="Pods that serve at once; 0 keeps the release without pods."
    )
    caches: Caches = Field(default=Caches(), description="What is kept, and where.")
    lora: Lora | None = Field(default=None, description="Adapters; default: none are served.")
    startup: Startup = Field(default=Startup(), description="How long a start may take.")
    route: Route = Field(default=Route(), description="How requests reach the release.")

    @model_validator(mode="after")
    def _a_pool_for_gpus(self) -> ModelReleaseSpec:
        roles = (self.topology.prefill, self.topology.decode)
        pools = [role.pool for role in roles if role]
        everywhere = len(pools) == len(roles) and all(pools)
        if self.resources.gpus > 0 and self.pool is None and not everywhere:
            raise refused(
                "is missing",
                allowed="the node pool that has the GPUs",
                remedy="add it",
                field="pool",
            )
        return self


class ModelRelease(Document):
    """One served model: `stacks/<env>/models/<name>.yaml`."""

    api_version: Literal["tokenworks.dev/v1alpha1"] = Field(
        default=API_VERSION, description="Version of this document's form."
    )
    kind: Literal["ModelRelease"] = Field(default="ModelRelease", description="Kind of document.")
    metadata: Metadata = Field(description="Name of the release, and labels for its objects.")
    spec: ModelReleaseSpec = Field(description="What is served, by what, how large.")

    @property
    def served_name(self) -> str:
        """The `model` field of requests that this release answers."""
        return self.spec.model.served_name or self.metadata.name

    @property
    def names(self) -> tuple[str, ...]:
        """Every `model` field of requests that this release answers: its own, its adapters'."""
        adapters = self.spec.lora.adapters if self.spec.lora else {}
        return (self.served_name, *adapters)
