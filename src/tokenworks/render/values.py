"""Documents in, chart values out. Pure: the same stack gives the same values.

The arithmetic that spans documents is here: how long a start takes, how much disk and
shared memory a pod needs, what a quota is in every resource that Kueue counts. What is a
plain sum of values (rollout deadline, grace period) the chart adds up, so that it also
holds for those who install it by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import Engine, load_engines, load_routing
from tokenworks.errors import UsageError
from tokenworks.spec.common import Image, Toleration, duration_seconds, quantity_value
from tokenworks.spec.environment import NodePool, Taint
from tokenworks.spec.model import FlagValue, ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Quota, Tenant
from tokenworks.spec.values import (
    ApiServer,
    EngineValues,
    FilledFlags,
    FlavorValues,
    GatewayNetwork,
    GatewayValues,
    Limits,
    Listener,
    LivenessProbe,
    ModelNetwork,
    ModelResources,
    ModelValues,
    ParentGateway,
    PickerValues,
    PoolQuota,
    Probes,
    QueueOfTenant,
    QueuesValues,
    QueueValues,
    ReadinessProbe,
    RouterValues,
    RouteValues,
    Scheduling,
    ScratchValues,
    SecretKey,
    SmallResources,
    StartupProbe,
    TenantValues,
    Timing,
    WeightsValues,
)

GATEWAY: Final = "gateway"
"""Name of the Gateway; Istio calls its Service `gateway-istio`."""
LISTENER: Final = "http"
TENANT_LABEL: Final = "tokenworks.dev/tenant"
"""On a tenant's namespace; its value is the tenant. The gateway takes routes from there only."""
GPU: Final = "nvidia.com/gpu"
SERVING: Final = "serving"
PRIORITIES: Final = {SERVING: 1000, "batch": 0}
COHORT: Final = "tokenworks"

PRE_STOP_SECONDS: Final = 10
BUFFER_SECONDS: Final = 30
WEIGHTS_PATH: Final = "/weights"
LOGS: Final = "64Mi"
"""Disk for the container's log, beside its volumes."""
_UNCOUNTED: Final = {"cpu": "1M", "memory": "1Pi", "ephemeral-storage": "1Pi"}
"""Quota of what is not rationed. A resource without quota would admit no pod at all."""
_HELPER: Final = SmallResources(cpu="50m", memory="128Mi")
_STREAMED: Final = ("s3", "gs")
_DNS: Final = "kube-system"
_MONITORING: Final = "monitoring"
_DOMAIN: Final = "cluster.local"
_API_SERVER: Final = ApiServer(cidr="0.0.0.0/0", ports=(443, 6443))


def tenant_namespace(tenant: Tenant) -> str:
    """The namespace the tenant's models run in."""
    return tenant.namespace


# Models


@dataclass(frozen=True)
class _Source:
    """Where weights come from, taken apart."""

    scheme: str
    rest: str

    @property
    def downloads(self) -> bool:
        """Whether pods fetch them over HTTPS."""
        return self.scheme in ("hf", *_STREAMED)


def _source(model: ModelRelease) -> _Source:
    scheme, _, rest = model.spec.model.uri.partition("://")
    return _Source(scheme, rest)


def start_seconds(model: ModelRelease) -> int:
    """From container start to healthy: size / bandwidth, then load. Every deadline builds on it."""
    startup = model.spec.startup
    fetch = quantity_value(model.spec.model.size) / quantity_value(
        startup.download_bytes_per_second
    )
    return max(1, math.ceil(fetch + duration_seconds(startup.load)))


def timing(model: ModelRelease) -> Timing:
    """The budget of one pod's start and stop."""
    engine = load_engines().engine(model.spec.engine.name)
    return Timing(
        start_seconds=start_seconds(model),
        image_pull_seconds=max(1, math.ceil(duration_seconds(engine.image_pull))),
        pre_stop_seconds=PRE_STOP_SECONDS,
        drain_seconds=math.ceil(duration_seconds(model.spec.startup.drain)),
        buffer_seconds=BUFFER_SECONDS,
    )


def model_ready_seconds(model: ModelRelease) -> float:
    """How long a rollout may take. Pods are replaced one after another, the old one first."""
    time = timing(model)
    start = time.image_pull_seconds + time.start_seconds + time.buffer_seconds
    stop = time.pre_stop_seconds + time.drain_seconds + time.buffer_seconds
    return float((start + stop) * max(1, model.spec.replicas))


def _mebibytes(size: float) -> str:
    return f"{math.ceil(size / 2**20)}Mi"


def _weights(model: ModelRelease) -> WeightsValues:
    source, cache = _source(model), model.spec.caches.weights
    if source.scheme == "pvc":
        claim = source.rest.partition("/")[0]
        return WeightsValues(kind="pvc", claim=claim, path=WEIGHTS_PATH)
    # Streamed weights go to GPU memory and never touch the disk.
    if cache.kind == "none" or source.scheme in (*_STREAMED, "dummy"):
        return WeightsValues(kind="none", path=WEIGHTS_PATH)
    if cache.kind == "pvc":
        return WeightsValues(kind="pvc", claim=cache.claim, path=WEIGHTS_PATH)
    fifth_more = _mebibytes(quantity_value(model.spec.model.size) * 1.2)
    return WeightsValues(kind="ephemeral", size=cache.size or fifth_more, path=WEIGHTS_PATH)


def _scratch(model: ModelRelease, engine: Engine, weights: WeightsValues) -> ScratchValues:
    cache = engine.scratch.cache
    if weights.kind == "none" and _source(model).scheme == "hf":
        # Without a volume of their own the weights are downloaded into the cache.
        cache = _mebibytes(quantity_value(cache) + quantity_value(model.spec.model.size) * 1.2)
    return ScratchValues(tmp=engine.scratch.tmp, cache=cache)


def _disk(stated: str, weights: WeightsValues, scratch: ScratchValues) -> str:
    """What was stated, or what the volumes may fill if that is more: a full one evicts the pod."""
    volumes = sum(
        quantity_value(size) for size in (scratch.tmp, scratch.cache, LOGS, weights.size) if size
    )
    return stated if quantity_value(stated) >= volumes else _mebibytes(volumes)


def _model_resources(
    model: ModelRelease, weights: WeightsValues, scratch: ScratchValues
) -> ModelResources:
    asked = model.spec.resources
    several = model.spec.topology.tensor_parallel > 1
    return ModelResources(
        gpus=asked.gpus,
        gpu_resource=GPU,
        cpu=asked.cpu,
        memory=asked.memory,
        ephemeral_storage=_disk(asked.ephemeral_storage, weights, scratch),
        shared_memory=asked.shared_memory or ("8Gi" if several else None),
    )


def _arguments(model: ModelRelease, engine: Engine) -> tuple[str, ...]:
    if engine.weights == "none":
        return ()
    source = _source(model)
    if source.scheme == "pvc":
        path = source.rest.partition("/")[2]
        return (f"{WEIGHTS_PATH}/{path}".rstrip("/"),)
    return (source.rest if source.scheme == "hf" else model.spec.model.uri,)


def _derived_flags(model: ModelRelease, engine: Engine) -> dict[str, FlagValue]:
    spec, names = model.spec, engine.flags
    streams = _source(model).scheme in _STREAMED
    revision = None if spec.model.revision == "unresolved" else spec.model.revision
    candidates: list[tuple[str | None, FlagValue | None]] = [
        (names.max_context, spec.model.max_context),
        (names.prefix_cache, spec.caches.prefix),
        (names.tensor_parallel, spec.topology.tensor_parallel),
        (names.revision, revision),
        (names.load_format, engine.stream_format if streams else None),
    ]
    return {name: value for name, value in candidates if name and value is not None}


def _filled_flags(model: ModelRelease, engine: Engine) -> FilledFlags:
    return FilledFlags(
        served_name=engine.flags.served_name,
        port=engine.flags.port,
        drain=engine.drain_flag(model.spec.engine.version),
    )


def _derived_env(model: ModelRelease, engine: Engine, weights: WeightsValues) -> dict[str, str]:
    env = {**engine.env, "TMPDIR": "/tmp"}
    env |= {name: f"/cache/{folder}" for name, folder in engine.caches.items()}
    if engine.hub_cache and weights.kind != "none" and _source(model).scheme == "hf":
        env[engine.hub_cache] = weights.path
    if weights.kind == "pvc":
        env |= engine.offline
    return env


def _refuse_repeated(
    stack: Stack, model: ModelRelease, field: str, given: Iterable[str], ours: Iterable[str]
) -> None:
    repeated = sorted(set(given) & set(ours))
    if not repeated:
        return
    file = stack.sources.get(f"ModelRelease/{model.metadata.name}", model.metadata.name)
    raise UsageError(
        f"{file}: spec.engine.{field}.{repeated[0]}: is derived from the rest of the document; "
        "remove it"
    )


def _engine_values(
    stack: Stack, model: ModelRelease, engine: Engine, weights: WeightsValues
) -> EngineValues:
    given = model.spec.engine
    flags, env = _derived_flags(model, engine), _derived_env(model, engine, weights)
    _refuse_repeated(stack, model, "flags", given.flags, engine.reserved_flags())
    _refuse_repeated(stack, model, "env", given.env, (*env, engine.hub_token or ""))
    secret = model.spec.model.token_secret
    return EngineValues(
        image=given.image or _known_image(model, engine),
        command=engine.command,
        arguments=_arguments(model, engine),
        flags={**given.flags, **flags},
        filled_flags=_filled_flags(model, engine),
        env={**given.env, **env},
        secret_env={engine.hub_token: SecretKey(secret=secret, key="token")}
        if secret and engine.hub_token
        else {},
        port=engine.port,
        user=engine.user,
        metrics_path=engine.paths.metrics,
        metrics=engine.metrics,
    )


def _known_image(model: ModelRelease, engine: Engine) -> Image:
    version = model.spec.engine.version
    if version not in engine.versions:
        known = ", ".join(engine.versions)
        raise UsageError(
            f"{model.metadata.name}: spec.engine.version: unknown version {version} of "
            f"{model.spec.engine.name}; the catalog knows {known}; name one, or give its image"
        )
    return engine.versions[version].image


def _probes(engine: Engine, start: int) -> Probes:
    # A short start is noticed quickly; a long one is not asked after hundreds of times.
    period = 2 if start <= 120 else 10
    return Probes(
        startup=StartupProbe(path=engine.paths.startup, period_seconds=period, timeout_seconds=5),
        readiness=ReadinessProbe(
            path=engine.paths.readiness, period_seconds=5, timeout_seconds=5, failure_threshold=3
        ),
        liveness=LivenessProbe(
            path=engine.paths.liveness, period_seconds=20, timeout_seconds=10, failure_threshold=5
        ),
    )


def _tolerations(taints: Iterable[Taint]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=taint.key,
            operator="Exists" if taint.value is None else "Equal",
            value=taint.value,
            effect=taint.effect,
        )
        for taint in taints
    )


def _scheduling(stack: Stack, model: ModelRelease) -> Scheduling:
    if model.spec.pool is None:
        return Scheduling(node_selector={}, tolerations=())
    pool = stack.environment.spec.node_pools[model.spec.pool]
    return Scheduling(node_selector=pool.labels, tolerations=_tolerations(pool.taints))


def _tenant(stack: Stack, model: ModelRelease) -> Tenant:
    return next(t for t in stack.tenants if t.metadata.name == model.spec.tenant)


def _queue(stack: Stack, model: ModelRelease) -> QueueValues | None:
    """GPUs are rationed, so pods with GPUs are queued."""
    if not stack.environment.spec.platform.kueue.enabled or model.spec.resources.gpus == 0:
        return None
    return QueueValues(name=_tenant(stack, model).metadata.name, priority_class=SERVING)


def _picker(model: ModelRelease) -> PickerValues:
    routing = load_routing()
    scorers = routing.profiles[model.spec.route.profile]
    if not model.spec.caches.prefix:
        scorers = scorers.model_copy(update={"prefix": 0})
    return PickerValues(
        image=bill().image("inference-extension", "epp"),
        verbosity=routing.picker_verbosity,
        scrape_milliseconds=routing.scrape_milliseconds,
        scorers=scorers,
        failure_mode="FailClose",
        resources=_HELPER,
    )


def model_values(stack: Stack, model: ModelRelease) -> ModelValues:
    """Values of the chart `model` for one release.

    Raises:
        UsageError: the document repeats a flag or variable that is derived, or names an
            engine version that has no image.
    """
    engine = load_engines().engine(model.spec.engine.name)
    gateway, tenant = stack.environment.spec.gateway, _tenant(stack, model)
    weights = _weights(model)
    scratch, time = _scratch(model, engine, weights), timing(model)
    return ModelValues(
        labels={**model.metadata.labels, TENANT_LABEL: tenant.metadata.name},
        pod_labels=tenant.spec.cost_labels,
        replicas=model.spec.replicas,
        engine=_engine_values(stack, model, engine, weights),
        probes=_probes(engine, time.start_seconds),
        timing=time,
        resources=_model_resources(model, weights, scratch),
        weights=weights,
        scratch=scratch,
        scheduling=_scheduling(stack, model),
        queue=_queue(stack, model),
        route=RouteValues(
            gateway=ParentGateway(name=GATEWAY, namespace=gateway.namespace, listener=LISTENER),
            header=load_routing().model_header,
            model=model.served_name,
            timeout=model.spec.route.timeout or gateway.request_timeout,
        ),
        picker=_picker(model),
        network=ModelNetwork(
            dns_namespace=_DNS,
            monitoring_namespace=_MONITORING,
            cluster_domain=_DOMAIN,
            api_server=_API_SERVER,
            download=_source(model).downloads and weights.kind != "pvc",
        ),
    )


# Gateway


def _router_resources(max_body: str) -> SmallResources:
    """The router holds whole bodies: room for sixteen of the largest, parsed or not."""
    memory = quantity_value("128Mi") + 16 * quantity_value(max_body)
    return SmallResources(cpu="100m", memory=_mebibytes(memory))


def gateway_values(stack: Stack) -> GatewayValues:
    """Values of the chart `gateway`."""
    gateway, routing = stack.environment.spec.gateway, load_routing()
    return GatewayValues(
        labels=stack.environment.metadata.labels,
        name=GATEWAY,
        class_name=gateway.implementation,
        service_type=gateway.service_type,
        listener=Listener(name=LISTENER, port=gateway.port, hostname=gateway.hostname),
        models={m.served_name: m.spec.tenant for m in stack.models if m.spec.replicas > 0},
        limits=Limits(
            idle_timeout=gateway.idle_timeout,
            max_request_bytes=int(quantity_value(gateway.max_request_body)),
            max_connections=gateway.max_connections,
            max_streams=100,
        ),
        router=RouterValues(
            image=bill().image("inference-extension", "bbr"),
            replicas=1,
            header=routing.model_header,
            timeout="10s",
            verbosity=routing.router_verbosity,
            resources=_router_resources(gateway.max_request_body),
        ),
        network=GatewayNetwork(
            dns_namespace=_DNS,
            monitoring_namespace=_MONITORING,
            cluster_domain=_DOMAIN,
            controller_namespace="istio-system",
        ),
    )


# Queues


def _rdma_resources(pools: Mapping[str, NodePool]) -> list[str]:
    return sorted({pool.rdma.resource for pool in pools.values() if pool.rdma})


def _nominal(pool: NodePool, quota: Quota, rdma: Iterable[str]) -> dict[str, str]:
    devices = dict.fromkeys(rdma, "0")
    if pool.rdma:
        share = math.ceil(quota.gpus * pool.rdma.per_node / pool.gpus_per_node)
        devices[pool.rdma.resource] = str(share)
    return {**_UNCOUNTED, GPU: str(quota.gpus), **devices}


def queues_values(stack: Stack) -> QueuesValues:
    """Values of the chart `queues`: one flavor a node pool, one queue a tenant, one cohort."""
    pools = stack.environment.spec.node_pools
    rdma = _rdma_resources(pools)
    tenants = {
        tenant.metadata.name: QueueOfTenant(
            pools={
                name: PoolQuota(nominal=_nominal(pools[name], quota, rdma), borrow=quota.borrow)
                for name, quota in tenant.spec.quota.items()
            }
        )
        for tenant in stack.tenants
        if tenant.spec.quota
    }
    return QueuesValues(
        labels=stack.environment.metadata.labels,
        cohort=COHORT,
        resources=(*_UNCOUNTED, GPU, *rdma),
        flavors={
            name: FlavorValues(node_labels=pool.labels, taints=pool.taints)
            for name, pool in pools.items()
        },
        tenants=tenants,
        priorities=dict(PRIORITIES),
    )


# Tenants


def tenant_values(stack: Stack, tenant: Tenant) -> TenantValues:
    """Values of the chart `tenant`."""
    queued = stack.environment.spec.platform.kueue.enabled and bool(tenant.spec.quota)
    return TenantValues(
        labels={
            **tenant.metadata.labels,
            **tenant.spec.cost_labels,
            TENANT_LABEL: tenant.metadata.name,
        },
        queue=tenant.metadata.name if queued else None,
    )
