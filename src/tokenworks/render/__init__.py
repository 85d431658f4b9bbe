"""Rendering: an environment's documents in, Kubernetes objects out.

Pulumi, Argo CD, policies and tests all see the releases that `render` returns.
Nothing here reads a clock, a cluster or a random number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import wraps
from graphlib import TopologicalSorter
from pathlib import Path

from tokenworks.render import platform
from tokenworks.render.applications import applications, seconds_of
from tokenworks.render.argocd import argocd
from tokenworks.render.aws.autoscaler import cluster_autoscaler
from tokenworks.render.aws.gpu_operator import gpu_operator
from tokenworks.render.aws.karpenter import karpenter
from tokenworks.render.aws.load_balancer import load_balancer
from tokenworks.render.aws.node_software import node_software
from tokenworks.render.aws.storage import disks
from tokenworks.render.charts import Renderer
from tokenworks.render.defaults import helm_values
from tokenworks.render.helm import RenderTools, template
from tokenworks.render.model import model_ready_seconds, model_values
from tokenworks.render.rdma import network_operator
from tokenworks.render.release import Layer, Release
from tokenworks.render.values import (
    gateway_values,
    queues_values,
    tenant_namespace,
    tenant_values,
)
from tokenworks.render.waves import pulumis_share, with_waves
from tokenworks.spec.common import Document
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant

__all__ = [
    "Layer", "Part", "Release", "RenderTools", "all_of", "delivery", "parts", "pulumis_share",
    "render",
]  # fmt: skip

CHARTS = Path(__file__).parents[3] / "charts"
LAYERS: tuple[Layer, ...] = (
    "crds", "operators", "platform", "models", "delivery", "applications",
)  # fmt: skip


def _ours(
    tools: RenderTools, chart: str, name: str, namespace: str, values: Document
) -> tuple[platform.Manifest, ...]:
    return template(tools, CHARTS / chart, name, namespace, helm_values(chart, values))


def _queues(stack: Stack, tools: RenderTools) -> list[Release]:
    objects = _ours(tools, "queues", "queues", "kueue-system", queues_values(stack))
    return [Release("queues", "platform", "kueue-system", objects, ("kueue",))]


def _gateway(stack: Stack, tools: RenderTools) -> list[Release]:
    namespace = stack.environment.spec.gateway.namespace
    objects = _ours(tools, "gateway", "gateway", namespace, gateway_values(stack))
    whole = (platform.namespace_object(namespace), *objects)
    # Where nothing makes load balancers, the name stands for nothing and is passed over.
    needs = ("istiod", "aws-load-balancer-controller")
    return [Release("gateway", "platform", namespace, whole, needs)]


def _pod_security(stack: Stack, tenant: Tenant) -> dict[str, str]:
    """Pod Security Standard of a tenant's namespace. No pod of ours needs more than `restricted`,
    and none that anyone adds gets it; but weights on a node's disk are a folder of the host, which
    only `privileged` allows: what breaks the stricter one is then said by warnings.
    """
    on_nodes = any(m.spec.caches.weights.kind == "node" for m in _models_of(stack, tenant))
    said = ("warn", "audit") if on_nodes else ()
    return {
        "pod-security.kubernetes.io/enforce": "privileged" if on_nodes else "restricted",
        **{f"pod-security.kubernetes.io/{mode}": "restricted" for mode in said},
    }


def _tenant(stack: Stack, tools: RenderTools) -> list[Release]:
    (tenant,) = stack.tenants
    namespace = tenant_namespace(tenant)
    labels = {
        **tenant.spec.cost_labels,
        "tokenworks.dev/tenant": tenant.metadata.name,
        **_pod_security(stack, tenant),
    }
    objects = _ours(tools, "tenant", tenant.metadata.name, namespace, tenant_values(stack, tenant))
    whole = (platform.namespace_object(namespace, labels), *objects)
    needs = ("queues",) if stack.environment.spec.platform.kueue.enabled else ()
    return [Release(f"tenant-{tenant.metadata.name}", "platform", namespace, whole, needs)]


def _models_of(stack: Stack, tenant: Tenant) -> tuple[ModelRelease, ...]:
    """The tenant's releases."""
    return tuple(m for m in stack.models if m.spec.tenant == tenant.metadata.name)


def _model(stack: Stack, tools: RenderTools) -> list[Release]:
    (tenant,), (model,) = stack.tenants, stack.models
    name, namespace = model.metadata.name, tenant_namespace(tenant)
    objects = _ours(tools, "model", name, namespace, model_values(stack, model))
    needs = (f"tenant-{tenant.metadata.name}", "gateway")
    seconds = model_ready_seconds(model)
    return [Release(f"model-{name}", "models", namespace, objects, needs, seconds)]


def _gateway_api(_stack: Stack, tools: RenderTools) -> list[Release]:
    return platform.gateway_api(tools)


def _manifests(stack: Stack, _tools: RenderTools) -> list[Release]:
    """Plain objects of the stack: after everything that could define their kinds."""
    if not stack.manifests:
        return []
    needs = ("gateway", *(f"tenant-{t.metadata.name}" for t in stack.tenants))
    platform_spec = stack.environment.spec.platform
    needs += ("lws",) if platform_spec.leader_worker_set.enabled else ()
    return [Release("manifests", "models", "", stack.manifests, needs)]


def _on_aws(stack: Stack) -> bool:
    """Whether the environment's nodes are made on AWS."""
    return stack.environment.spec.cluster.provider == "aws"


Make = Callable[[Stack, RenderTools], list[Release]]


@dataclass(frozen=True)
class Part:
    """What is rendered by itself: `make` sees nothing of the environment but `stack`."""

    make: Make
    stack: Stack

    @property
    def name(self) -> str:
        """Which function it is."""
        return f"{self.make.__module__}.{self.make.__qualname__}"


def parts(stack: Stack) -> tuple[Part, ...]:
    """What makes the environment's releases, each with the documents that it reads."""
    alone = _narrowed(stack)
    enabled = stack.environment.spec.platform
    made = [Part(_gateway_api, alone), Part(platform.istio, alone), Part(_gateway, stack)]
    made += [Part(_without_tools(network_operator), stack), Part(_manifests, stack)]
    if enabled.kueue.enabled:
        made += [Part(platform.kueue, alone), Part(_queues, stack)]
    if enabled.leader_worker_set.enabled:
        made.append(Part(platform.leader_worker_set, alone))
    if _on_aws(stack):
        made += [Part(make, stack) for make in _aws()]
    tenants = {tenant.metadata.name: tenant for tenant in stack.tenants}
    for tenant in tenants.values():
        made.append(Part(_tenant, _narrowed(stack, tenant, *_models_of(stack, tenant))))
    for model in stack.models:
        made.append(Part(_model, _narrowed(stack, tenants[model.spec.tenant], model)))
    return tuple(made)


def _narrowed(stack: Stack, tenant: Tenant | None = None, *models: ModelRelease) -> Stack:
    """The environment as if it had nothing else."""
    tenants = () if tenant is None else (tenant,)
    return replace(stack, models=models, tenants=tenants, manifests=(), manifest_sources=())


def _without_tools(make: Callable[[Stack], list[Release]]) -> Make:
    @wraps(make)
    def made(stack: Stack, _tools: RenderTools) -> list[Release]:
        return make(stack)

    return made


def _aws() -> tuple[Make, ...]:
    without = (cluster_autoscaler, disks, gpu_operator)
    return (karpenter, load_balancer, node_software, *(_without_tools(make) for make in without))


def ordered(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Releases sorted so that each comes after what it needs; by layer and name otherwise."""
    by_name = {r.name: r for r in sorted(releases, key=lambda r: (LAYERS.index(r.layer), r.name))}
    graph = {name: [n for n in r.needs if n in by_name] for name, r in by_name.items()}
    return tuple(by_name[name] for name in TopologicalSorter(graph).static_order())


def render(stack: Stack, tools: RenderTools) -> tuple[Release, ...]:
    """Every release of the environment, in an order in which they can be applied.

    Raises:
        TokenworksError: a chart does not render.
    """
    made = all_of(parts(stack), tools)
    if tools.kept is not None:
        tools.kept.trim()
    releases = [release for releases in made for release in releases]
    return ordered([*releases, *delivery(stack, tools, releases)])


def delivery(stack: Stack, tools: RenderTools, releases: Iterable[Release]) -> list[Release]:
    """Argo CD and what it is told, where it delivers.

    Args:
        stack: the environment's documents, of which no model is read.
        tools: where the module of Argo CD lies.
        releases: all others; their outlines are enough.
    """
    if stack.environment.spec.delivery != "argocd":
        return []
    given = list(releases)
    own = argocd(stack, tools, seconds_of(given))
    return [*own, *applications(stack, ordered([*given, *own]))]


def _waved(release: Release) -> Release:
    """The same, whoever delivers it: a change of delivery changes no object."""
    return replace(release, objects=with_waves(release))


def all_of(wanted: Iterable[Part], tools: RenderTools) -> list[list[Release]]:
    """What each part makes, in their order; one program renders the charts of all.

    There are no more charts under way than threads, so that memory does not grow with releases.

    Raises:
        TokenworksError: a chart does not render.
    """
    pool = ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) + 2)
    running = Renderer(tools.charts)
    ready = replace(tools, running=running)
    try:
        pieces = [pool.submit(part.make, part.stack, ready) for part in wanted]
        return [[_waved(release) for release in piece.result()] for piece in pieces]
    finally:
        running.close()  # first: a piece that waits for the program would be waited for
        pool.shutdown(cancel_futures=True)
