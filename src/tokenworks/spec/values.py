"""Values of our charts, typed: what `values.schema.json` of each chart is generated from.

Every field is required unless null is among its values, so that a misspelt, missing or
nulled value is an error instead of an empty place in an object. The files in `charts/`
are written by `python -m tokenworks.render.chart_files`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tokenworks.spec.common import (
    Bytes,
    Commit,
    Connections,
    Cores,
    Digest,
    Document,
    FlagName,
    FlagValue,
    Form,
    Image,
    LabelKey,
    Labels,
    Name,
    NodeLabel,
    Quantity,
    Timeout,
    Toleration,
)
from tokenworks.spec.environment import MOST_LEVELS, Hostname, Taint
from tokenworks.spec.lora import AdapterName, Rank

Count = Annotated[int, Field(ge=0, le=1000)]
Port = Annotated[int, Field(ge=1, le=65535)]
Annotations = dict[LabelKey, str]
Seconds = Annotated[int, Field(ge=1, le=604_800)]
HttpPath = Annotated[str, Form(r"/[!-~]*", "a path that begins with /")]
Folder = Annotated[str, Form(r"(/[A-Za-z0-9._-]+)+", "an absolute path without blanks")]
FileName = Annotated[str, Form(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a file name")]
HeaderName = Annotated[str, Form(r"[A-Za-z0-9-]{1,64}", "letters, digits and dashes")]
Cidr = Annotated[str, Form(r"[0-9a-fA-F.:]+/[0-9]{1,3}", "an address range such as 10.0.0.0/8")]
DnsName = Annotated[
    str, Form(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", "a DNS name")
]
EnvName = Annotated[str, Form(r"[A-Z_][A-Z0-9_]*", "upper-case letters, digits and _")]
ServedName = Annotated[str, Form(r"[A-Za-z0-9][A-Za-z0-9._/-]*", "a served name", max_length=63)]
ResourceName = Annotated[
    str,
    Form(r"([a-z0-9.-]+/)?[a-z][A-Za-z0-9.-]*", "a Kubernetes resource name"),
]


class Scorers(Document):
    """Weights of the endpoint picker's scorers; 0 leaves a scorer out."""

    queue: Annotated[int, Field(ge=0, le=100)] = Field(description="Prefers short queues.")
    kv_cache: Annotated[int, Field(ge=0, le=100)] = Field(description="Prefers free KV cache.")
    prefix: Annotated[int, Field(ge=0, le=100)] = Field(
        description="Prefers pods that have answered a prompt that begins alike."
    )
    lora: Annotated[int, Field(ge=0, le=100)] = Field(
        description="Prefers pods that have the request's adapter at work; only with adapters."
    )


class EngineMetrics(Document):
    """Names of the gauges the endpoint picker scrapes."""

    queued: str = Field(description="Requests that wait; empty: there is none.")
    running: str = Field(description="Requests that run; empty: there is none.")
    kv_usage: str = Field(description="Part of the KV cache in use, 0 to 1; empty: there is none.")
    lora: str = Field(description="Adapters that are loaded; empty: there is no such gauge.")
    cache_info: str = Field(
        description="Block size and number of KV blocks, as labels; empty: there is none."
    )


class SecretKey(Document):
    """One key of a Secret in the release's namespace."""

    secret: Name = Field(description="Name of the Secret.")
    key: Annotated[str, Form(r"[A-Za-z0-9._-]+", "a key of a Secret")] = Field(
        description="Key in it."
    )


class FilledFlags(Document):
    """Flags of the engine that the chart fills from other values, so that they agree."""

    served_name: FlagName | None = Field(default=None, description="Gets `route.model`.")
    port: FlagName | None = Field(default=None, description="Gets the port the role listens on.")
    drain: FlagName | None = Field(
        default=None,
        description="Gets `timing.drainSeconds`; null: the engine cannot wait at SIGTERM.",
    )


class FlagStyle(Document):
    """How the engine's flags are written."""

    separator: Literal["equals", "space"] = Field(description="`--flag=value`, or two arguments.")
    off: Literal["no-prefix", "omit", "value"] = Field(
        description="A flag that is false: `--no-flag`, left out, or `--flag=false`."
    )
    lists: Literal["items", "repeat", "comma", "joined"] = Field(
        description="Several values: `--f a b`, `--f a --f b`, `--f a,b`, or `--f 'a b'`."
    )
    words: Literal["dashes", "underscores"] = Field(
        description="What stands between the words of a flag."
    )


class EngineValues(Document):
    """The program in the pod; roles lay their own flags and variables onto it."""

    image: Image = Field(description="Image of the engine.")
    command: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Program and subcommand, in exec form: no shell between it and SIGTERM."
    )
    arguments: tuple[str, ...] = Field(description="What follows the command before the flags.")
    flags: dict[FlagName, FlagValue] = Field(
        description="Flag without dashes: value. Objects become JSON; true, false and lists are "
        "written as `style` says."
    )
    filled_flags: FilledFlags = Field(description="Flags that are filled from other values.")
    style: FlagStyle = Field(description="How flags are written.")
    env: dict[EnvName, str] = Field(description="Environment; never secrets.")
    files: dict[FileName, str] = Field(
        description="Files in /etc/engine, which flags or variables name: name and contents."
    )
    secret_env: dict[EnvName, SecretKey] = Field(description="Environment from Secrets.")
    port: Port = Field(description="Port that requests and metrics are asked on.")
    user: Annotated[int, Field(ge=1)] = Field(description="Uid and gid; never root.")


class StartupProbe(Document):
    """Until it succeeds once, the other probes wait. Its limit is `timing.startSeconds`."""

    path: HttpPath = Field(description="HTTP path.")
    period_seconds: Annotated[int, Field(ge=1, le=60)] = Field(description="Between two tries.")
    timeout_seconds: Annotated[int, Field(ge=5, le=60)] = Field(description="Of one try.")


class ReadinessProbe(StartupProbe):
    """Decides whether the pod gets requests."""

    period_seconds: Annotated[int, Field(ge=1, le=10)] = Field(description="Between two tries.")
    failure_threshold: Annotated[int, Field(ge=1, le=5)] = Field(
        description="Failures in a row before the pod gets no more requests."
    )


class LivenessProbe(StartupProbe):
    """Decides whether the container is restarted: at least 60 s, later than readiness."""

    period_seconds: Annotated[int, Field(ge=15, le=60)] = Field(description="Between two tries.")
    failure_threshold: Annotated[int, Field(ge=4, le=20)] = Field(
        description="Failures in a row before a restart."
    )


class Probes(Document):
    """How the pod is asked whether it lives."""

    startup: StartupProbe = Field(description="Loading.")
    readiness: ReadinessProbe = Field(description="Ready for requests.")
    liveness: LivenessProbe = Field(description="Alive.")


class Timing(Document):
    """One budget. Probes, rollout deadline and grace period are sums of these."""

    fetch_seconds: Annotated[int, Field(ge=0, le=604_800)] = Field(
        description="Until the weights are on the disk, before the engine's container starts."
    )
    start_seconds: Seconds = Field(
        description="From container start to healthy: weights / bandwidth, unless they are on the "
        "disk already, + load."
    )
    image_pull_seconds: Seconds = Field(description="For pulling the image on a new node.")
    pre_stop_seconds: Annotated[int, Field(ge=1, le=120)] = Field(
        description="Between leaving the picker's list and SIGTERM."
    )
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        description="Longest answer to wait for after SIGTERM."
    )
    buffer_seconds: Annotated[int, Field(ge=5, le=600)] = Field(
        description="Added to the rollout deadline and to the grace period."
    )


class ModelResources(Document):
    """What one pod asks for; limits equal requests, CPU excepted, which has none."""

    gpus: Annotated[int, Field(ge=0, le=16)] = Field(description="GPUs; 0 only without them.")
    gpu_resource: ResourceName = Field(description="Resource name of the GPUs.")
    cpu: Cores = Field(description="CPU cores.")
    memory: Bytes = Field(description="Memory, /dev/shm included.")
    ephemeral_storage: Bytes = Field(description="Disk, all volumes below included.")
    shared_memory: Bytes | None = Field(
        default=None, description="Size of a memory-backed /dev/shm; null: the runtime's 64 MiB."
    )
    devices: dict[ResourceName, Quantity] = Field(
        description="RDMA devices and huge pages, such as `vpc.amazonaws.com/efa: 32`."
    )


class SmallResources(Document):
    """What a helper pod asks for. The memory limit equals the request; CPU has none."""

    cpu: Cores = Field(description="CPU cores.")
    memory: Bytes = Field(description="Memory.")


class ClaimValues(Document):
    """A claim that is made with the release and stays when it goes."""

    size: Bytes = Field(description="What it asks for.")
    storage_class: Name | None = Field(default=None, description="null: the cluster's default.")


class FetchValues(Document):
    """Weights of a hub that are downloaded and verified before any engine starts."""

    repository: Annotated[str, Form(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+", "org/name")] = Field(
        description="The model; with the revision, its folder in the volume."
    )
    revision: Commit = Field(description="Its commit.")
    token: Name | None = Field(
        default=None, description="Secret with the hub's token in key `token`; null: none."
    )
    resources: SmallResources = Field(description="What downloading asks for.")


class WeightsValues(Document):
    """Where weights live."""

    kind: Literal["none", "ephemeral", "pvc", "node", "image"] = Field(
        description="none: no volume; ephemeral: the node's disk; pvc: a claim, read-only; node: a "
        "folder of the node, read-only; image: an OCI image."
    )
    size: Bytes | None = Field(default=None, description="ephemeral: size limit.")
    claim: Name | None = Field(default=None, description="pvc: the claim.")
    make: ClaimValues | None = Field(
        default=None, description="pvc: makes the claim; null: it exists."
    )
    folder: Folder | None = Field(default=None, description="node: the folder; it has to exist.")
    fetch: FetchValues | None = Field(
        default=None,
        description="pvc: a Job fills the claim, and engines wait for it; node: each pod does, if "
        "its node has not got them yet; null: they are there.",
    )
    image: Image | None = Field(default=None, description="image: the image.")
    path: Folder = Field(description="Where it is mounted.")


class KvValues(Document):
    """A volume for KV that leaves the pod's memory: of each pod, gone with it, or a claim."""

    claim: Name | None = Field(default=None, description="An existing claim that pods share.")
    size: Bytes | None = Field(
        default=None,
        description="Without claim: what it asks for; more is refused, and no reason to evict.",
    )
    storage_class: Name | None = Field(default=None, description="Without claim: its class.")
    path: Folder = Field(description="Where it is mounted.")


class ScratchValues(Document):
    """What else the engine writes to: the root file system is read-only."""

    tmp: Bytes = Field(description="Size limit of /tmp.")
    cache: Bytes = Field(description="Size limit of /cache, where all caches are.")


class Scheduling(Document):
    """Which nodes."""

    node_selector: Labels = Field(description="Labels of the node pool.")
    tolerations: tuple[Toleration, ...] = Field(description="Taints of the node pool.")


class QueueValues(Document):
    """Kueue."""

    name: Name = Field(description="LocalQueue in the release's namespace.")
    priority_class: Name = Field(description="WorkloadPriorityClass.")


class ParentGateway(Document):
    """The Gateway that requests come through."""

    name: Name = Field(description="Name of the Gateway.")
    namespace: Name = Field(description="Its namespace.")
    listener: Name = Field(description="Its listener.")


class RouteValues(Document):
    """From gateway to pods."""

    gateway: ParentGateway = Field(description="The Gateway that requests come through.")
    header: HeaderName = Field(description="Header the body-based router sets.")
    model: ServedName = Field(description="The `model` field of requests this release answers.")
    paths: Annotated[tuple[HttpPath, ...], Field(min_length=1)] = Field(
        description="Beginnings of the paths that are routed."
    )
    by_model: bool = Field(
        description="Whether requests carry the `model` field; otherwise the path decides alone."
    )
    timeout: Timeout = Field(description="Longest answer; for the request and for each try.")


class AdapterValues(Document):
    """One adapter of the approved list."""

    uri: Annotated[str, Form(r"(hf|pvc|dummy)://[!-~]+", "hf://, pvc:// or dummy://")] = Field(
        description="hf://org/name, pvc://claim/path, or dummy://name, which is made up."
    )
    revision: Annotated[str, Form(r"[0-9a-f]{40}", "a commit")] | None = Field(
        default=None, description="hf://: the commit."
    )
    digest: Digest = Field(
        description="SHA-256 of its weights; `unresolved` is never loaded, unless it is made up."
    )
    bytes: Annotated[int, Field(ge=1)] = Field(description="Most that its files may take.")
    rank: Rank = Field(description="Largest rank it may have.")
    path: Folder = Field(description="Folder it is put into, below `lora.folder`.")
    asked: str | None = Field(
        default=None,
        description="`model` field that the engine wants for it, where it is not the name.",
    )


class LoraValues(Document):
    """Adapters: which, and how they reach the engine."""

    load: Literal["start", "sidecar"] = Field(
        description="start: before the engine starts; sidecar: while it runs, from a ConfigMap."
    )
    folder: Folder = Field(description="Where the volume of adapters is mounted.")
    storage: Bytes = Field(description="Size limit of the volume.")
    base: str | None = Field(
        default=None, description="Model that adapters must be trained for, if they name one."
    )
    replace: bool = Field(
        description="sidecar: whether another adapter may take a loaded one's name without a "
        "restart. Engines that tell cached KV apart by name alone would mix them up."
    )
    claims: tuple[Name, ...] = Field(description="Claims that adapters are copied from.")
    token: Name | None = Field(
        default=None, description="Secret with the hub's token in key `token`."
    )
    resources: SmallResources = Field(description="What the container that loads asks for.")
    adapters: Annotated[dict[AdapterName, AdapterValues], Field(min_length=1)] = Field(
        description="Name that requests use: the adapter."
    )


class PickerValues(Document):
    """The endpoint picker: which pod answers which request."""

    image: Image = Field(description="Image of the picker.")
    verbosity: Annotated[int, Field(ge=1, le=5)] = Field(
        description="4: every score of every request; 3: the chosen pod; 2: no decisions."
    )
    scrape_milliseconds: Annotated[int, Field(ge=10, le=1000)] = Field(
        description="Between two looks at each pod's queue and KV use."
    )
    config: dict[str, object] = Field(
        description="Its EndpointPickerConfig: plugins and scheduling profiles, as its release "
        "reads them."
    )
    arguments: tuple[str, ...] = Field(description="Arguments beside the chart's own.")
    objective_group: DnsName = Field(
        description="API group of the objectives it watches where their CRDs are installed."
    )
    failure_mode: Literal["FailClose", "FailOpen"] = Field(
        description="Without a picker: refuse requests, or spread them blindly."
    )
    resources: SmallResources = Field(description="What the picker asks for.")


class ApiServer(Document):
    """Where the Kubernetes API answers, as NetworkPolicies see it."""

    cidr: Cidr = Field(description="Addresses of the API servers.")
    ports: Annotated[tuple[Port, ...], Field(min_length=1)] = Field(
        description="Ports before and after the Service's translation."
    )


class Network(Document):
    """Who may talk to whom; all else is denied."""

    dns_namespace: Name = Field(description="Namespace of the cluster's DNS.")
    monitoring_namespace: Name = Field(description="Namespace that scrapes metrics.")
    cluster_domain: DnsName = Field(description="DNS suffix of Services.")


class StoreNetwork(Document):
    """Where a store of KV answers."""

    namespace: Name = Field(description="Its namespace.")
    port: Port | None = Field(
        default=None, description="Its port; null: it and its memory choose their own."
    )


class ModelNetwork(Network):
    """Who may talk to a model's pods."""

    api_server: ApiServer = Field(description="The picker watches pods there.")
    download: bool = Field(description="Whether the engine fetches weights over HTTPS.")
    store: StoreNetwork | None = Field(
        default=None, description="A store of KV that pods ask; null: none."
    )


class WorkerValues(Document):
    """What the other pods of a group run; all else is the first one's."""

    command: tuple[str, ...] | None = Field(
        default=None, description="Another command, without the engine's flags; null: the same."
    )
    flags: dict[FlagName, FlagValue] = Field(description="Flags beside the first pod's.")
    probe: Literal["http", "leader"] = Field(
        description="http: it answers like the first pod; leader: it answers nothing, and lives "
        "as long as the first pod does."
    )


class GroupValues(Document):
    """A replica of several pods (LeaderWorkerSet) that start, fail and end together."""

    size: Annotated[int, Field(ge=2, le=64)] = Field(description="Pods of one group.")
    all_serve: bool = Field(description="Every pod gets requests, not the first alone.")
    worker: WorkerValues = Field(description="The pods that are not the first.")


class SidecarValues(Document):
    """llm-d's routing sidecar: has the prompt read elsewhere before the engine answers."""

    image: Image = Field(description="Image of the sidecar.")
    arguments: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Its arguments; it listens on `engine.port`."
    )
    env: dict[EnvName, str] = Field(description="Its environment.")
    resources: SmallResources = Field(description="What it asks for.")


class RolePort(Document):
    """A port that pods of one model use among themselves."""

    port: Port = Field(description="Its number.")
    count: Annotated[int, Field(ge=1, le=64)] = Field(description="Ports from there on.")


class RoleValues(Document):
    """One role: replicas of a pod, or of a group of pods."""

    replicas: Count = Field(description="Replicas; null: something else scales them.")
    launch: tuple[str, ...] = Field(
        description="Words before the engine's command, which has to be started by exec."
    )
    flags: dict[FlagName, FlagValue] = Field(description="Laid onto `engine.flags`.")
    env: dict[EnvName, str] = Field(description="Laid onto `engine.env`.")
    labels: Labels = Field(description="Put on its pods.")
    annotations: Annotations = Field(description="Put on its pods.")
    engine_port: Port | None = Field(
        default=None, description="Where the engine listens behind a sidecar; null: `engine.port`."
    )
    endpoints: Annotated[int, Field(ge=1, le=8)] = Field(
        description="Ports from `engine.port` on that answer requests, one for each data rank."
    )
    health_port: Port | None = Field(
        default=None, description="Port of the probes; null: where the engine listens."
    )
    ports: dict[Name, RolePort] = Field(
        description="Ports that its own pods and those of other roles reach."
    )
    open_to: Literal["none", "role", "release"] = Field(
        description="With whom its pods talk over ports of their own choosing (NCCL, Gloo, Ray, "
        "UCX over TCP): nobody, pods of the role, or all engine pods of the release."
    )
    after: Name | None = Field(
        default=None, description="Role that has to answer before this one's engine starts."
    )
    rdma: bool = Field(description="Checked before the start: devices and locked memory.")
    resources: ModelResources = Field(description="What one pod asks for.")
    scheduling: Scheduling = Field(description="Which nodes.")
    queue: QueueValues | None = Field(default=None, description="Kueue; null: not queued.")
    group: GroupValues | None = Field(default=None, description="null: each replica is one pod.")
    sidecar: SidecarValues | None = Field(default=None, description="null: none.")


class RouterPodValues(Document):
    """The engine's own router, which pairs prefill and decode."""

    image: Image = Field(description="Image of the router.")
    command: tuple[str, ...] = Field(description="In exec form; empty: the image's own.")
    arguments: tuple[str, ...] = Field(description="Its arguments.")
    port: Port = Field(description="Port of requests.")
    metrics_port: Port = Field(description="Port of metrics.")
    health: HttpPath = Field(description="Answers while the process lives.")
    ready: HttpPath = Field(description="Answers once prefill and decode are there.")
    user: Annotated[int, Field(ge=1)] = Field(description="Uid and gid; never root.")
    resources: SmallResources = Field(description="What it asks for.")


class ModelValues(Document):
    """Values of the chart `model`: one model, one pool of pods, its picker and its route."""

    labels: Labels = Field(description="Put on every object.")
    pod_labels: Labels = Field(description="Put on every pod, for billing.")
    engine: EngineValues = Field(description="The program in the pod.")
    probes: Probes = Field(description="How the pod is asked whether it lives.")
    timing: Timing = Field(description="How long starting and stopping may take.")
    weights: WeightsValues = Field(description="Where weights live.")
    kv: KvValues | None = Field(default=None, description="A disk for KV; null: none.")
    scratch: ScratchValues = Field(description="What else the engine writes to.")
    roles: Annotated[dict[Name, RoleValues], Field(min_length=1)] = Field(
        description="Role: its pods. One role called `engine`, or `prefill` and `decode`."
    )
    expressed_as: Literal["native", "RoleBasedGroup"] = Field(
        description="native: Deployments and LeaderWorkerSets; or one RoleBasedGroup."
    )
    route: RouteValues = Field(description="From gateway to pods.")
    lora: LoraValues | None = Field(default=None, description="Adapters; null: none.")
    picker: PickerValues | None = Field(
        default=None, description="Which pod answers which request; null: no InferencePool."
    )
    router: RouterPodValues | None = Field(
        default=None, description="The engine's own router; null: none."
    )
    network: ModelNetwork = Field(description="Who may talk to whom.")


class Listener(Document):
    """What the gateway listens on."""

    name: Name = Field(description="Name that routes refer to.")
    port: Port = Field(description="Port.")
    hostname: Hostname | None = Field(default=None, description="Host name; null: every name.")


class Limits(Document):
    """What one gateway pod takes."""

    idle_timeout: Timeout = Field(description="A stream may be silent this long.")
    max_request_bytes: Annotated[int, Field(ge=1024, le=4_294_967_295)] = Field(
        description="Larger request bodies get a 413."
    )
    max_connections: Connections = Field(
        description="Connections at once on its listener; more are closed."
    )
    max_streams: Annotated[int, Field(ge=1, le=10_000)] = Field(
        description="Requests at once in one HTTP/2 connection."
    )


class RouterValues(Document):
    """The body-based router: copies the body's `model` field into a header."""

    image: Image = Field(description="Image of the router.")
    replicas: Annotated[int, Field(ge=1, le=100)] = Field(description="Pods.")
    header: HeaderName = Field(description="The header.")
    timeout: Timeout = Field(description="Longest time for one request's body.")
    verbosity: Annotated[int, Field(ge=1, le=5)] = Field(description="Level of its log.")
    resources: SmallResources = Field(description="What the router asks for.")


class GatewayNetwork(Network):
    """Who may talk to the gateway's namespace."""

    controller_namespace: Name = Field(description="Namespace of istiod.")


class GatewayValues(Document):
    """Values of the chart `gateway`: the one entry for requests."""

    labels: Labels = Field(description="Put on every object.")
    name: Name = Field(description="Name of the Gateway.")
    class_name: Name = Field(description="GatewayClass.")
    service_type: Literal["ClusterIP", "LoadBalancer"] = Field(
        description="ClusterIP where nothing hands out load balancers."
    )
    service_annotations: Annotated[Annotations, Field(max_length=15)] = Field(
        description="Put on its Service; what makes load balancers reads them."
    )
    listener: Listener = Field(description="What the gateway listens on.")
    models: dict[ServedName, Name] = Field(
        description="Served name: its tenant. Answer of GET /v1/models."
    )
    limits: Limits = Field(description="What one gateway pod takes.")
    router: RouterValues = Field(description="Copies the body's `model` field into a header.")
    network: GatewayNetwork = Field(description="Who may talk to whom.")


class FlavorValues(Document):
    """A node pool, as Kueue sees it."""

    node_labels: Annotated[Labels, Field(max_length=8)] = Field(
        description="Labels that select the pool's nodes."
    )
    taints: Annotated[tuple[Taint, ...], Field(max_length=8)] = Field(
        description="Taints that admitted pods tolerate."
    )
    topology: Annotated[tuple[NodeLabel, ...], Field(max_length=MOST_LEVELS)] = Field(
        description="Node labels that say where a node stands, widest first; empty: not known."
    )


class PoolQuota(Document):
    """What a tenant may hold of one pool. Quantities, because Kueue counts in them."""

    nominal: dict[ResourceName, Quantity | Literal["0"]] = Field(
        description="Resource: what is the tenant's own."
    )
    borrow: bool = Field(description="May use what other tenants leave idle.")


class QueueOfTenant(Document):
    """One tenant's share."""

    pools: Annotated[dict[Name, PoolQuota], Field(min_length=1)] = Field(
        description="Node pool: quota."
    )


class QueuesValues(Document):
    """Values of the chart `queues`: who may hold which GPUs."""

    labels: Labels = Field(description="Put on every object.")
    cohort: Name = Field(description="Tenants of one cohort may lend each other.")
    resources: Annotated[tuple[ResourceName, ...], Field(min_length=1)] = Field(
        description="Resources that are counted; a pod that asks for another is never admitted."
    )
    flavors: dict[Name, FlavorValues] = Field(description="Node pool: how its nodes are found.")
    tenants: dict[Name, QueueOfTenant] = Field(description="Tenant: quotas.")
    priorities: dict[Name, Annotated[int, Field(ge=0, le=1_000_000_000)]] = Field(
        description="WorkloadPriorityClass: value. Higher ones go first and may preempt."
    )


class TenantValues(Document):
    """Values of the chart `tenant`: what a tenant's namespace holds before any model."""

    labels: Labels = Field(description="Put on every object.")
    queue: Name | None = Field(
        default=None, description="LocalQueue and the ClusterQueue it feeds; null: none."
    )


CHARTS: dict[str, type[Document]] = {
    "model": ModelValues,
    "gateway": GatewayValues,
    "queues": QueuesValues,
    "tenant": TenantValues,
}
"""Chart: type of its values."""
