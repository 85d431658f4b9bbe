"""Environment: one cluster, its node pools, its platform, and how it is delivered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tokenworks.spec.common import API_VERSION, Bytes, Document, Duration, LabelKey, Labels, Metadata, Name

Provider = Literal["local", "kind", "existing"]


class Cluster(Document):
    """Where the environment runs."""

    provider: Provider
    kubeconfig: str | None = Field(
        default=None, description="existing: path of the kubeconfig file (default: $KUBECONFIG)."
    )
    context: str | None = Field(default=None, description="existing and kind: kubeconfig context.")

    @model_validator(mode="after")
    def _only_what_the_provider_reads(self) -> Cluster:
        if self.provider == "local" and (self.kubeconfig or self.context):
            raise ValueError("provider local makes its own kubeconfig: remove kubeconfig and context")
        if self.provider == "existing" and self.context is None:
            raise ValueError("provider existing needs context: the kubeconfig context to deploy to")
        return self


class Taint(Document):
    """A node taint that the pool's pods tolerate."""

    key: LabelKey
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Rdma(Document):
    """RDMA devices of one node, as the device plugin names them."""

    resource: Literal["rdma/hca", "vpc.amazonaws.com/efa"]
    per_node: Annotated[int, Field(ge=1, le=64)]


class NodePool(Document):
    """Nodes of one shape. `nodes` is what quota and checks count on."""

    gpu: Name = Field(description="GPU type in the catalog, e.g. nvidia-h100-80gb.")
    gpus_per_node: Annotated[int, Field(ge=1, le=16)]
    nodes: Annotated[int, Field(ge=0, le=10000)] = Field(description="Nodes in the pool.")
    simulated: bool = Field(
        default=False, description="local: KWOK nodes that run no real container."
    )
    rdma: Rdma | None = None
    labels: Labels = Field(default_factory=dict, description="Node labels that select the pool.")
    taints: tuple[Taint, ...] = ()


class Component(Document):
    """A platform component; its version comes from the bill of versions."""

    enabled: bool = True


class Kueue(Component):
    """Kueue, and how long a gang may take from admission to ready."""

    pods_ready_timeout: Duration = Field(
        default="3h", description="waitForPodsReady; must exceed the slowest model's start."
    )


class Platform(Document):
    """Operators and CRDs the environment installs."""

    kueue: Kueue = Kueue()
    leader_worker_set: Component = Component()


class Gateway(Document):
    """The one entry: its implementation and its limits."""

    implementation: Literal["istio"] = "istio"
    namespace: Name = "tokenworks-gateway"
    service_type: Literal["ClusterIP", "LoadBalancer"] = "LoadBalancer"
    port: Annotated[int, Field(ge=1, le=65535)] = 80
    hostname: Annotated[str, Field(pattern=r"^[a-z0-9*]([-a-z0-9.]*[a-z0-9])?$")] | None = None
    request_timeout: Duration = Field(
        default="300s", description="Default for routes that set none; covers a whole answer."
    )
    idle_timeout: Duration = Field(default="300s", description="A stream may be silent this long.")
    max_request_body: Bytes = Field(default="10Mi", description="Larger prompts get a 413.")
    max_connections: Annotated[int, Field(ge=1)] = Field(
        default=10000, description="Connections and requests at once per gateway pod."
    )


class EnvironmentSpec(Document):
    """Body of an Environment."""

    cluster: Cluster
    node_pools: dict[Name, NodePool] = Field(default_factory=dict[str, NodePool])
    platform: Platform = Platform()
    gateway: Gateway = Gateway()
    delivery: Literal["pulumi"] = "pulumi"


class Environment(Document):
    """One environment of the platform: `stacks/<name>/environment.yaml`."""

    api_version: Literal["tokenworks.dev/v1alpha1"] = API_VERSION
    kind: Literal["Environment"] = "Environment"
    metadata: Metadata
    spec: EnvironmentSpec
