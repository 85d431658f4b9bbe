"""One ModelRelease in, values of the chart `model` out.

The arithmetic that spans documents is here: how long a start takes, how much disk a pod
needs. What is a plain sum of values (rollout deadline, grace period) the chart adds up, so
that it also holds for those who install it by hand.
"""

from __future__ import annotations

import math
from typing import Final

from tokenworks.catalog.adapters import adapter_facts
from tokenworks.catalog.engines import Engine, load_routing
from tokenworks.render.adapters import downloads_adapters, lora_values
from tokenworks.render.command import engine_of, engine_values, played, version_of
from tokenworks.render.kv import reached, volume
from tokenworks.render.picking import picker, router
from tokenworks.render.roles import Release, roles
from tokenworks.render.weights import downloads, fetch_seconds, start_seconds, weights_values
from tokenworks.spec.common import duration_seconds
from tokenworks.spec.layout import layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.values import (
    ApiServer,
    LivenessProbe,
    ModelNetwork,
    ModelValues,
    ParentGateway,
    Probes,
    ReadinessProbe,
    RouteValues,
    ScratchValues,
    StartupProbe,
    Timing,
)

GATEWAY: Final = "gateway"
"""Name of the Gateway; Istio calls its Service `gateway-istio`."""
LISTENER: Final = "http"
TENANT_LABEL: Final = "tokenworks.dev/tenant"
"""On a tenant's namespace; its value is the tenant. The gateway takes routes from there only."""
PRE_STOP_SECONDS: Final = 10
BUFFER_SECONDS: Final = 30
DNS: Final = "kube-system"
MONITORING: Final = "monitoring"
DOMAIN: Final = "cluster.local"
_API_SERVER: Final = ApiServer(cidr="0.0.0.0/0", ports=(443, 6443))


def timing(model: ModelRelease) -> Timing:
    """The budget of one pod's start and stop."""
    engine = engine_of(model)
    return Timing(
        fetch_seconds=fetch_seconds(model),
        start_seconds=start_seconds(model),
        image_pull_seconds=max(1, math.ceil(duration_seconds(engine.image_pull))),
        pre_stop_seconds=PRE_STOP_SECONDS,
        drain_seconds=math.ceil(duration_seconds(model.spec.startup.drain)),
        buffer_seconds=BUFFER_SECONDS,
    )


def model_ready_seconds(model: ModelRelease) -> float:
    """How long a rollout may take. Pods are replaced one after another, the old one first;
    decode starts after prefill."""
    time, parts = timing(model), layout(model.spec)
    start = time.image_pull_seconds + time.fetch_seconds + time.start_seconds + time.buffer_seconds
    stop = time.pre_stop_seconds + time.drain_seconds + time.buffer_seconds
    return float((start + stop) * sum(max(1, role.replicas) for role in parts))


def _probes(engine: Engine, start: int) -> Probes:
    # A short start is noticed quickly; a long one is not asked after hundreds of times.
    period = 2 if start <= 120 else 10
    timeout = max(5, math.ceil(duration_seconds(engine.probe_timeout)))
    paths = engine.paths
    return Probes(
        startup=StartupProbe(path=paths.startup, period_seconds=period, timeout_seconds=timeout),
        readiness=ReadinessProbe(
            path=paths.readiness, period_seconds=5, timeout_seconds=timeout, failure_threshold=3
        ),
        liveness=LivenessProbe(
            path=paths.liveness,
            period_seconds=20,
            timeout_seconds=max(10, timeout),
            failure_threshold=5,
        ),
    )


def _route(stack: Stack, model: ModelRelease) -> RouteValues:
    gateway, engine = stack.environment.spec.gateway, engine_of(model)
    named = engine.api == "openai"
    return RouteValues(
        gateway=ParentGateway(name=GATEWAY, namespace=gateway.namespace, listener=LISTENER),
        header=load_routing().model_header,
        model=model.served_name,
        paths=_paths(model) if named else (f"/v2/models/{model.served_name}",),
        by_model=named,
        timeout=model.spec.route.timeout or gateway.request_timeout,
    )


def _paths(model: ModelRelease) -> tuple[str, ...]:
    """Where engines load adapters on request, the way to tell them so lies below /v1 too."""
    lora = model.spec.lora
    return adapter_facts().paths if lora and lora.load == "sidecar" else ("/v1",)


def tenant_of(stack: Stack, model: ModelRelease) -> Tenant:
    """The tenant that owns a release."""
    return next(t for t in stack.tenants if t.metadata.name == model.spec.tenant)


def model_values(stack: Stack, model: ModelRelease) -> ModelValues:
    """Values of the chart `model` for one release.

    Raises:
        UsageError: the document repeats a flag or variable that is derived, or names an
            engine version that has no image.
    """
    engine, tenant = engine_of(model), tenant_of(stack, model)
    weights, time = weights_values(stack, model), timing(model)
    scratch = ScratchValues(tmp=engine.scratch.tmp, cache=engine.scratch.cache)
    route = _route(stack, model)
    release = Release(stack, model, weights, scratch)
    return ModelValues(
        labels={**model.metadata.labels, TENANT_LABEL: tenant.metadata.name},
        pod_labels=tenant.spec.cost_labels,
        engine=engine_values(stack, model, weights, release.networks),
        probes=_probes(engine, time.start_seconds),
        timing=time,
        weights=weights,
        kv=volume(model),
        scratch=scratch,
        roles=roles(release),
        expressed_as=model.spec.topology.expressed_as or "native",
        route=route,
        lora=lora_values(model, engine, version_of(model), played=played(model)),
        picker=picker(release),
        router=router(release, route.timeout, time.drain_seconds),
        network=ModelNetwork(
            dns_namespace=DNS,
            monitoring_namespace=MONITORING,
            cluster_domain=DOMAIN,
            api_server=_API_SERVER,
            download=downloads(model, weights)
            or (downloads_adapters(model.spec.lora) and not played(model)),
            store=reached(model),
        ),
    )
