"""Rendering: an environment's documents in, Kubernetes objects out.

Pulumi, Argo CD, policies and tests all see the releases that `render` returns.
Nothing here reads a clock, a cluster or a random number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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

__all__ = ["Layer", "Release", "RenderTools", "pulumis_share", "render"]

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
    mine = (m for m in stack.models if m.spec.tenant == tenant.metadata.name)
    on_nodes = any(m.spec.caches.weights.kind == "node" for m in mine)
    said = ("warn", "audit") if on_nodes else ()
    return {
        "pod-security.kubernetes.io/enforce": "privileged" if on_nodes else "restricted",
        **{f"pod-security.kubernetes.io/{mode}": "restricted" for mode in said},
    }


def _tenant(stack: Stack, tenant: Tenant, tools: RenderTools) -> list[Release]:
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


def _model(stack: Stack, model: ModelRelease, tools: RenderTools) -> list[Release]:
    tenant = next(t for t in stack.tenants if t.metadata.name == model.spec.tenant)
    name, namespace = model.metadata.name, tenant_namespace(tenant)
    objects = _ours(tools, "model", name, namespace, model_values(stack, model))
    needs = (f"tenant-{tenant.metadata.name}", "gateway")
    seconds = model_ready_seconds(model)
    return [Release(f"model-{name}", "models", namespace, objects, needs, seconds)]


def _manifests(stack: Stack) -> list[Release]:
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


def _work(stack: Stack, tools: RenderTools) -> list[Callable[[], list[Release]]]:
    enabled = stack.environment.spec.platform
    work: list[Callable[[], list[Release]]] = [
        lambda: platform.gateway_api(tools),
        lambda: platform.istio(stack, tools),
        lambda: _gateway(stack, tools),
        lambda: network_operator(stack),
        lambda: _manifests(stack),
    ]
    if enabled.kueue.enabled:
        work += [lambda: platform.kueue(stack, tools), lambda: _queues(stack, tools)]
    if enabled.leader_worker_set.enabled:
        work.append(lambda: platform.leader_worker_set(stack, tools))
    if _on_aws(stack):
        work += [
            lambda: karpenter(stack, tools),
            lambda: load_balancer(stack, tools),
            lambda: cluster_autoscaler(stack),
            lambda: disks(stack),
            lambda: node_software(stack, tools),
            lambda: gpu_operator(stack),
        ]
    work += [lambda t=t: _tenant(stack, t, tools) for t in stack.tenants]
    work += [lambda m=m: _model(stack, m, tools) for m in stack.models]
    return work


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
    parts = _all_of(tools, lambda ready: _work(stack, ready))
    if tools.kept is not None:
        tools.kept.trim()
    releases = [replace(release, objects=with_waves(release)) for part in parts for release in part]
    return ordered([*releases, *_delivery(stack, tools, releases)])


def _delivery(stack: Stack, tools: RenderTools, releases: list[Release]) -> list[Release]:
    """Argo CD and what it is told, where it delivers."""
    if stack.environment.spec.delivery != "argocd":
        return []
    own = argocd(stack, tools, seconds_of(releases))
    return [*own, *applications(stack, ordered([*releases, *own]))]


def _all_of(
    tools: RenderTools, work: Callable[[RenderTools], list[Callable[[], list[Release]]]]
) -> list[list[Release]]:
    """What each piece of work made, in their order; one program renders the charts of all.

    There are no more charts under way than threads, so that memory does not grow with releases.
    """
    pool = ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) + 2)
    running = Renderer(tools.charts)
    try:
        pieces = [pool.submit(piece) for piece in work(replace(tools, running=running))]
        return [piece.result() for piece in pieces]
    finally:
        running.close()  # first: a piece that waits for the program would be waited for
        pool.shutdown(cancel_futures=True)
