"""Environment: one cluster, its node pools, its platform, and how it is delivered."""

from __future__ import annotations

import ipaddress
import re
from datetime import date
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from tokenworks.spec.aws import AwsCluster, AwsPool
from tokenworks.spec.common import (
    API_VERSION,
    Between,
    Connections,
    Cores,
    Document,
    Duration,
    Form,
    LabelKey,
    Labels,
    LabelValue,
    Metadata,
    Name,
    NodeLabel,
    Size,
    Timeout,
    duration_seconds,
    quantity_value,
    refused,
)

Provider = Literal["local", "kind", "existing", "aws"]
HOSTNAME: Final = "kubernetes.io/hostname"
"""Label of every node with a value of its own: the narrowest level a topology can have."""
MOST_LEVELS: Final = 16
"""Levels of a topology (CRD topologies.kueue.x-k8s.io, v1beta2)."""


class Cluster(Document):
    """Where the environment runs."""

    provider: Provider = Field(
        description="local: a cluster that `./tokenworks local up` makes on this machine; kind: "
        "one that kind makes; existing: one that is there already; aws: one on EKS that is made "
        "from an empty account."
    )
    kubeconfig: (
        Annotated[
            str,
            Form(
                r"(~/|/).+",
                "a path that begins with / or ~/",
                "where commands run differs",
            ),
        ]
        | None
    ) = Field(
        default=None, description="existing: path of the kubeconfig file (default: $KUBECONFIG)."
    )
    context: str | None = Field(
        default=None,
        description="existing and kind: kubeconfig context; aws: the one that `chat` and `picks` "
        "use (default: the environment's name).",
    )
    aws: AwsCluster | None = Field(default=None, description="aws: account, network and cluster.")

    @model_validator(mode="after")
    def _only_what_the_provider_reads(self) -> Cluster:
        for name in ("kubeconfig", "context"):
            if self.provider == "local" and getattr(self, name) is not None:
                raise refused(
                    "has no meaning with provider local, which makes its own kubeconfig",
                    remedy="remove it",
                    field=name,
                )
        if self.provider == "existing" and not self.context:
            raise refused(
                "is missing",
                allowed="the kubeconfig context to deploy to",
                remedy="add it; `kubectl config get-contexts` lists them",
                field="context",
            )
        return self

    @model_validator(mode="after")
    def _aws_only_on_aws(self) -> Cluster:
        if self.provider == "aws" and self.aws is None:
            raise refused(
                "is missing, and provider aws needs it",
                allowed="a map with account, region, zones and more",
                remedy="add it; stacks/staging has a complete one",
                field="aws",
            )
        if self.provider != "aws" and self.aws is not None:
            raise refused(
                f"has no meaning with provider {self.provider}",
                remedy="remove it, or write provider: aws",
                field="aws",
            )
        return self


class Taint(Document):
    """A node taint that the pool's pods tolerate."""

    key: LabelKey = Field(description="Key of the taint.")
    value: LabelValue | None = Field(default=None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="NoSchedule", description="What happens to pods that do not tolerate it."
    )


class Rdma(Document):
    """RDMA devices of one node, as the device plugin names them."""

    resource: Literal["rdma/hca", "vpc.amazonaws.com/efa"] = Field(
        description="Extended resource of the device plugin."
    )
    per_node: Annotated[int, Field(ge=1, le=64)] = Field(description="Devices of one node.")


class LocalStorage(Document):
    """A folder of each node, on a disk of its own."""

    path: Annotated[
        str,
        Form(
            r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+",
            "an absolute path without blanks, such as /mnt/nvme/weights",
            "write the folder that the nodes' start-up script makes",
        ),
    ] = Field(
        description="It exists on every node and belongs to the engines' user (catalog: `user`)."
    )


class NodePool(Document):
    """Nodes of one shape. `nodes` is what quota and checks count on."""

    gpu: Name = Field(
        description="GPU type in the catalog, e.g. nvidia-h100-80gb; local nodes are labelled "
        "with its product."
    )
    gpus_per_node: Annotated[int, Field(ge=1, le=16)] = Field(description="GPUs of one node.")
    nodes: Annotated[int, Field(ge=0, le=10000)] = Field(description="Nodes in the pool.")
    simulated: bool = Field(
        default=False, description="local: KWOK nodes that run no real container."
    )
    rdma: Rdma | None = Field(default=None, description="RDMA devices, where the nodes have them.")
    local_storage: LocalStorage | None = Field(
        default=None, description="Local disk for weights, where the nodes have one prepared."
    )
    labels: Annotated[Labels, Field(max_length=8)] = Field(
        default_factory=dict, description="Node labels that select the pool."
    )
    taints: Annotated[tuple[Taint, ...], Field(max_length=8)] = Field(
        default=(), description="Taints of the pool's nodes."
    )
    aws: AwsPool | None = Field(
        default=None, description="aws: instance type, capacity and limits of the nodes."
    )
    topology: Annotated[tuple[NodeLabel, ...], Field(max_length=MOST_LEVELS)] = Field(
        default=(),
        description="Node labels that say where a node stands, widest first, such as a block's, "
        "a rack's and kubernetes.io/hostname: Kueue keeps groups of pods close together by them. "
        "Nodes that lack one get no pods. It cannot be changed while the pool has this name.",
    )

    @model_validator(mode="after")
    def _levels(self) -> NodePool:
        levels = self.topology
        twice = [level for place, level in enumerate(levels) if level in levels[:place]]
        if twice:
            raise refused(
                f"names {twice[0]} twice",
                allowed="each level once",
                remedy="remove one of them",
                field="topology",
            )
        if HOSTNAME in levels[:-1]:
            raise refused(
                f"has {HOSTNAME} before {levels[-1]}, and nothing is narrower than a node",
                allowed=f"{HOSTNAME} as the last level",
                remedy="move it to the end: levels are listed widest first",
                field="topology",
            )
        if levels and not self.labels:
            raise refused(
                "are missing, and Kueue finds the nodes of a topology by them",
                allowed="labels that only this pool's nodes have",
                remedy="write one such as tokenworks.dev/pool: <name of the pool>",
                field="labels",
            )
        return self


class Requests(Document):
    """What a control-plane pod asks for; its limits stay the chart's."""

    cpu: Cores = Field(description="CPU request, e.g. 100m.")
    memory: Size = Field(description="Memory request, e.g. 256Mi.")


class Component(Document):
    """A platform component; its version comes from the bill of versions."""

    enabled: bool = Field(default=True, description="Whether the environment installs it.")
    requests: Requests | None = Field(
        default=None, description="Default: what the component's chart asks for."
    )


class Kueue(Component):
    """Kueue, and how long a gang may take from admission to ready."""

    pods_ready_timeout: Timeout = Field(
        default="3h", description="waitForPodsReady; must exceed the slowest model's start."
    )


class LlmD(Document):
    """llm-d's router for models whose prompts and answers are computed by different pods."""

    router: Literal["0.4.0", "0.10.0"] = Field(
        default="0.10.0",
        description="Release of picker and sidecar. 0.4.0 is the last that is published as source "
        "module, and so what clusters without an image registry run.",
    )


Interface = Annotated[
    str, Form(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", "a network interface such as ens1f0np0")
]


class NetworkOperator(Document):
    """NVIDIA's network operator, which shares the RDMA adapters of each node among its pods."""

    enabled: bool = Field(
        default=False,
        description="Whether the environment installs it: existing clusters, pools with rdma/hca.",
    )
    interfaces: Annotated[tuple[Interface, ...], Field(max_length=32)] = Field(
        default=(), description="Interfaces that are shared (default: every adapter of NVIDIA's)."
    )

    @model_validator(mode="after")
    def _interfaces_where_installed(self) -> NetworkOperator:
        if self.interfaces and not self.enabled:
            raise refused(
                "have no meaning: the operator is not enabled",
                remedy="write enabled: true, or remove them",
                field="interfaces",
            )
        return self


class Platform(Document):
    """Operators and CRDs the environment installs."""

    kueue: Kueue = Field(default=Kueue(), description="Queues and quota for GPUs.")
    leader_worker_set: Component = Field(
        default=Component(), description="Groups of pods that live and die together."
    )
    llm_d: LlmD = Field(default=LlmD(), description="Router for prefill and decode.")
    network_operator: NetworkOperator = Field(
        default=NetworkOperator(), description="RDMA on clusters that are there already."
    )


def _no_address(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return value
    raise refused("", allowed="a DNS name, not an address", remedy="remove it to accept any name")


Hostname = Annotated[
    str,
    Form(
        r"(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*",
        "a DNS name in lower case, such as llm.example.com or *.example.com",
        "without scheme, port and path",
        max_length=253,
    ),
    AfterValidator(_no_address),
]


class Gateway(Document):
    """The one entry: its implementation and its limits."""

    implementation: Literal["istio"] = Field(
        default="istio", description="Which implementation of the Gateway API serves it."
    )
    controller_requests: Requests | None = Field(
        default=None, description="What the gateway's control plane asks for; default: its chart's."
    )
    namespace: Name = Field(
        default="tokenworks-gateway", description="Namespace of the gateway; no tenant's."
    )
    service_type: Literal["ClusterIP", "LoadBalancer"] = Field(
        default="LoadBalancer", description="ClusterIP where nothing hands out load balancers."
    )
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=80, description="Port of the listener."
    )
    hostname: Hostname | None = Field(
        default=None, description="Host name that is served (default: every name)."
    )
    request_timeout: Timeout = Field(
        default="300s", description="Default for routes that set none; covers a whole answer."
    )
    idle_timeout: Timeout = Field(default="300s", description="A stream may be silent this long.")
    max_request_body: Annotated[Size, Between(quantity_value, "1Ki", "4095Mi")] = Field(
        default="10Mi", description="Larger prompts get a 413."
    )
    max_connections: Connections = Field(
        default=10000,
        description="Connections at once to one gateway pod; more are closed. A connection "
        "of HTTP/2 carries up to 100 requests.",
    )


def _of_calendar(day: str) -> str:
    """The day, if there is one: 2027-02-30 is none."""
    try:
        date.fromisoformat(day)
    except ValueError:
        raise refused("", allowed="a day of the calendar", remedy="correct it") from None
    return day


Day = Annotated[
    str,
    Form(
        r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
        "a day as YYYY-MM-DD",
        "write it as 2027-03-31",
    ),
    AfterValidator(_of_calendar),
]


class Waiver(Document):
    """A finding that somebody answers for, until a day."""

    rule: Name = Field(description="Name of the rule, as findings print it.")
    object: Annotated[str, Field(min_length=3, max_length=400)] = Field(
        description="The object, as findings name it: `Deployment research/llama`."
    )
    reason: Annotated[str, Field(min_length=10, max_length=400)] = Field(
        description="Why the rule does not hold here."
    )
    owner: Annotated[str, Field(min_length=2, max_length=100)] = Field(
        description="Who answers for it: a person or a team."
    )
    expires: Day = Field(description="Last day that it counts; later, it is a finding itself.")


TrustedWeights = Annotated[
    str,
    Form(
        r"[a-z0-9]+://[!-~]*[!-)+-~]|hf://[A-Za-z0-9][A-Za-z0-9_.-]*/\*",
        "weights as in spec.model.uri, or hf://owner/*",
        max_length=500,
    ),
]


class Policies(Document):
    """How strict the rules are here, and what is waived."""

    profile: Literal["local", "dev", "prod", "strict"] | None = Field(
        default=None,
        description="local: one machine; dev: a shared cluster; prod: as the rules say; strict: "
        "every warning is an error (default: local where this machine makes the cluster, else "
        "prod).",
    )
    rules: Annotated[dict[Name, Literal["off", "warning", "error"]], Field(max_length=100)] = Field(
        default_factory=dict[str, Literal["off", "warning", "error"]],
        description="Rules that weigh otherwise here than in the profile.",
    )
    waivers: Annotated[tuple[Waiver, ...], Field(max_length=100)] = Field(
        default=(), description="Findings that somebody answers for."
    )
    remote_code: Annotated[tuple[TrustedWeights, ...], Field(max_length=100)] = Field(
        default=(),
        description="Weights whose own code engines may run (the flag trust-remote-code), each "
        "as in spec.model.uri, or all of an owner: hf://owner/*.",
    )


OWN_FIELDS: Final = (
    "tenant",
    "pool",
    "replicas",
    "topology.network",
    "topology.prefill.pool",
    "topology.prefill.replicas",
    "topology.decode.pool",
    "topology.decode.replicas",
    "caches.weights.claim",
    "caches.weights.storageClass",
    "caches.offload.nvme.storageClass",
    "caches.distributed.address",
    "caches.distributed.namespace",
    "caches.distributed.claim",
)
"""Fields of a release's spec that say where it runs and how large it is there, not what it is."""

OwnField = Annotated[
    str, Form("|".join(map(re.escape, OWN_FIELDS)), ", ".join(OWN_FIELDS), "name one of these")
]


class Promotion(Document):
    """What is this environment's own in releases that come from another."""

    own: dict[OwnField, str | int] = Field(
        default_factory=dict[OwnField, str | int],
        alias="set",
        description="Fields of a release's spec, and what they are here where a release is new.",
    )
    keep: Annotated[tuple[str, ...], Field(max_length=50)] = Field(
        default=(),
        description="Fields of a release's spec that stay as they are here, where they are, such "
        "as resources.",
    )


class SyncWindow(Document):
    """When Argo CD may change the cluster by itself, or may not."""

    kind: Literal["allow", "deny"] = Field(
        description="allow: with one such window, only within one; deny: not while it lasts."
    )
    schedule: Annotated[
        str,
        Form(
            r"[0-9*/,-]{1,60}( [0-9*/,-]{1,60}){2} [0-9A-Za-z*/,-]{1,60} [0-9A-Za-z*/,-]{1,60}",
            "five fields of cron: minute, hour, day of the month, month, day of the week",
            'write it like "0 6 * * 1-5"',
        ),
    ] = Field(description='When it begins, as cron has it: "0 6 * * 1-5".')
    duration: Annotated[Duration, Between(duration_seconds, "1m", "168h")] = Field(
        description="How long it lasts."
    )
    time_zone: Annotated[
        str,
        Form(
            r"[A-Z][A-Za-z0-9_+-]{0,30}(/[A-Z][A-Za-z0-9_+-]{0,30}){0,2}",
            "a time zone of the IANA database, such as Europe/Berlin",
            "write it as the database spells it",
        ),
    ] = Field(default="UTC", description="Time zone of the schedule.")
    applications: Annotated[
        tuple[Annotated[str, Form(r"[a-z0-9*?-]{1,60}", "a release, with * for any letters")], ...],
        Field(min_length=1, max_length=50),
    ] = Field(
        default=("*",), description="Releases that it is about, such as model-* or tenant-search."
    )


class Alerts(Document):
    """Alerts for the Prometheus Operator, which the cluster must have."""

    labels: Annotated[Labels, Field(max_length=8)] = Field(
        default_factory=dict,
        description="Labels by which Prometheus selects its rules and monitors, such as "
        "`release: monitoring`.",
    )


class ArgoCd(Document):
    """Where Argo CD finds the rendered tree, and when it may apply it."""

    repository: Annotated[
        str,
        Form(
            r"(https|ssh|http|git)://([A-Za-z0-9._-]+@)?[A-Za-z0-9.-]+(:[0-9]{1,5})?"
            r"(/[A-Za-z0-9._~-]+)+"
            r"|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[A-Za-z0-9._~/-]+",
            "an address of a Git repository, such as https://github.com/example/platform.git",
            "give it as `git clone` takes it; credentials go into a Secret",
            max_length=250,
        ),
    ] = Field(description="The repository, as `git clone` takes it, without credentials.")
    revision: Annotated[
        str,
        Form(
            r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}", "a branch or a tag", "name the branch that is live"
        ),
    ] = Field(default="main", description="Branch, tag or commit that is live.")
    path: Annotated[
        str,
        Form(
            r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*",
            "a folder of the repository, without a slash at either end",
            "write the folder that `render` wrote into, such as rendered",
            max_length=150,
        ),
    ] = Field(default="rendered", description="Folder of the repository that has <ENV>/.")
    poll: Annotated[Duration, Between(duration_seconds, "5s", "24h")] = Field(
        default="2m", description="How often the repository is looked at."
    )
    windows: Annotated[tuple[SyncWindow, ...], Field(max_length=20)] = Field(
        default=(),
        description="When it may sync by itself; healing what somebody changed by hand is a sync "
        "too (default: always).",
    )
    requests: Requests | None = Field(
        default=None,
        description="What the controller and the repository server ask for, each; default: in "
        "the catalog.",
    )
    alerts: Alerts | None = Field(
        default=None,
        description="Alerts on drift, as a PrometheusRule, and ServiceMonitors of what they read; "
        "`{}` is enough where Prometheus selects all (default: none).",
    )


class EnvironmentSpec(Document):
    """Body of an Environment."""

    cluster: Cluster = Field(description="Where the environment runs.")
    node_pools: dict[Name, NodePool] = Field(
        default_factory=dict[str, NodePool], description="Name of a node pool: its shape and size."
    )
    platform: Platform = Field(
        default=Platform(), description="Operators and CRDs the environment installs."
    )
    gateway: Gateway = Field(default=Gateway(), description="The one entry for requests.")
    policies: Policies = Field(
        default=Policies(), description="How strict the rules are, and what is waived."
    )
    promotion: Promotion = Field(
        default=Promotion(),
        description="What `./tokenworks promote` leaves or makes as it is here.",
    )
    delivery: Literal["pulumi", "argocd"] = Field(
        default="pulumi",
        description="Who applies queues, gateway, tenants and models: Pulumi, or Argo CD from the "
        "rendered tree in Git. All else is always Pulumi's.",
    )
    argocd: ArgoCd | None = Field(
        default=None, description="delivery argocd: the repository, and when it is applied."
    )
    stacks: Literal["one", "split"] = Field(
        default="one",
        description="aws: one Pulumi stack, or three (infrastructure, platform, serving) that "
        "read each other's outputs.",
    )

    @model_validator(mode="after")
    def _repository_where_argocd_delivers(self) -> EnvironmentSpec:
        if self.delivery == "argocd" and self.argocd is None:
            raise refused(
                "is missing, and delivery argocd needs it",
                allowed="a map with repository",
                remedy="write the repository that has the rendered tree, or delivery: pulumi",
                field="argocd",
            )
        if self.delivery != "argocd" and self.argocd is not None:
            raise refused(
                f"has no meaning with delivery {self.delivery}",
                remedy="remove it, or write delivery: argocd",
                field="argocd",
            )
        return self

    @model_validator(mode="after")
    def _repository_nobody_can_change_on_the_way(self) -> EnvironmentSpec:
        found = self.argocd.repository if self.argocd else ""
        plain = found.startswith(("http://", "git://"))
        if plain and self.cluster.provider not in ("local", "kind"):
            raise refused(
                f"found {found}: whoever is on the way could put in objects of their own",
                allowed="https, or ssh",
                remedy="give the address that encrypts",
                field="argocd.repository",
            )
        return self

    @model_validator(mode="after")
    def _split_on_aws(self) -> EnvironmentSpec:
        if self.stacks == "split" and self.cluster.provider != "aws":
            raise refused(
                f"found split, but provider {self.cluster.provider} makes no infrastructure",
                allowed="one",
                remedy="remove it",
                field="stacks",
            )
        return self


class Environment(Document):
    """One environment of the platform: `stacks/<name>/environment.yaml`."""

    api_version: Literal["tokenworks.dev/v1alpha1"] = Field(
        default=API_VERSION, description="Version of this document's form."
    )
    kind: Literal["Environment"] = Field(default="Environment", description="Kind of document.")
    metadata: Metadata = Field(description="Name, and labels for every object of the platform.")
    spec: EnvironmentSpec = Field(description="What the environment consists of.")
