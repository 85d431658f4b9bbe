"""ModelRelease: one served model. One file is one atomic release and one revert."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tokenworks.spec.common import (
    API_VERSION,
    Bytes,
    Document,
    Duration,
    Image,
    Metadata,
    Name,
    Quantity,
)

FlagValue = str | int | float | bool | list[str] | dict[str, object]
RoutingProfile = Literal["balanced", "latency", "throughput"]


class Weights(Document):
    """Which weights, exactly, and how large they are."""

    uri: Annotated[str, Field(pattern=r"^(hf|s3|gs|pvc|dummy)://\S+$")] = Field(
        description="hf://org/name, s3://bucket/prefix, gs://…, pvc://claim/path; dummy:// for simulators."
    )
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$|^unresolved$")] | None = Field(
        default=None, description="Immutable commit of the hub; required for hf:// outside local."
    )
    size: Bytes = Field(description="Bytes of the weights on disk; sizes start-up and storage.")
    served_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=63)] | None = Field(
        default=None, description="The `model` field of requests (default: the release's name)."
    )
    max_context: Annotated[int, Field(ge=16)] = Field(description="Tokens of prompt and answer.")
    token_secret: Name | None = Field(
        default=None, description="Secret in the tenant's namespace with the hub token in key `token`."
    )


class Engine(Document):
    """The server program. Flags are typed; ours are derived and may not be repeated here."""

    name: Literal["vllm", "simulator"]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    image: Image | None = Field(default=None, description="Default: the catalog's for the version.")
    flags: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")], FlagValue] = Field(
        default_factory=dict[str, FlagValue], description="Flag name without dashes: value."
    )
    env: dict[Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")], str] = Field(
        default_factory=dict[str, str], description="Literal values; never secrets."
    )


class Topology(Document):
    """How one replica is laid out."""

    kind: Literal["single"] = "single"
    tensor_parallel: Annotated[int, Field(ge=1, le=16)] = 1


class Resources(Document):
    """What one replica asks for; limits equal requests for memory and GPUs."""

    gpus: Annotated[int, Field(ge=0, le=16)] = Field(description="0 only for CPU simulators.")
    cpu: Quantity
    memory: Bytes
    ephemeral_storage: Bytes = "10Gi"
    shared_memory: Bytes | None = Field(
        default=None, description="/dev/shm; default 8Gi when tensorParallel exceeds 1."
    )


class WeightsCache(Document):
    """Where weights live inside the pod."""

    kind: Literal["none", "ephemeral", "pvc"] = "ephemeral"
    size: Bytes | None = Field(default=None, description="Default: weights size plus a fifth.")
    claim: Name | None = Field(default=None, description="pvc: existing claim, ReadWriteMany.")

    @model_validator(mode="after")
    def _claim_only_for_pvc(self) -> WeightsCache:
        if (self.kind == "pvc") != (self.claim is not None):
            raise ValueError("kind pvc needs claim, and claim needs kind pvc")
        return self


class Caches(Document):
    """The caches of this issue: weights and prefix."""

    weights: WeightsCache = WeightsCache()
    prefix: bool = Field(default=True, description="Engine prefix cache, and routing by it.")


class Startup(Document):
    """How long a pod may take to load; probes and deadlines are computed from it."""

    download_bytes_per_second: Bytes = Field(
        default="100M", description="Bandwidth to the weights; start-up budget = size / this + load."
    )
    load: Duration = Field(default="300s", description="From weights on disk to healthy.")
    drain: Duration = Field(default="120s", description="Longest answer to wait for at shutdown.")


class Route(Document):
    """How requests reach the release."""

    timeout: Duration | None = Field(default=None, description="Default: the gateway's.")
    profile: RoutingProfile = Field(
        default="balanced", description="Weights of the picker's scorers; see the catalog."
    )


class ModelReleaseSpec(Document):
    """Body of a ModelRelease."""

    tenant: Name = Field(description="Tenant that owns it: namespace and queue.")
    model: Weights
    engine: Engine
    topology: Topology = Topology()
    pool: Name | None = Field(default=None, description="Node pool; required when gpus > 0.")
    resources: Resources
    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    caches: Caches = Caches()
    startup: Startup = Startup()
    route: Route = Route()

    @model_validator(mode="after")
    def _gpus_fit(self) -> ModelReleaseSpec:
        gpus, ranks = self.resources.gpus, self.topology.tensor_parallel
        if gpus == 0 and self.engine.name != "simulator":
            raise ValueError("resources.gpus is 0: only engine simulator runs without a GPU")
        if gpus > 0 and self.pool is None:
            raise ValueError("pool is missing: name the node pool that has the GPUs")
        if gpus not in (0, ranks):
            raise ValueError(
                f"resources.gpus is {gpus} but topology.tensorParallel is {ranks}: make them equal"
            )
        return self


class ModelRelease(Document):
    """One served model: `stacks/<env>/models/<name>.yaml`."""

    api_version: Literal["tokenworks.dev/v1alpha1"] = API_VERSION
    kind: Literal["ModelRelease"] = "ModelRelease"
    metadata: Metadata
    spec: ModelReleaseSpec
