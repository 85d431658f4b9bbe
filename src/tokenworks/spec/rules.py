"""What must hold between the documents of one environment, one small function a rule.

Each rule yields problems and raises nothing. A reference to a document that could not be
read is not reported a second time.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from tokenworks.catalog.gpus import gpu_types
from tokenworks.errors import did_you_mean
from tokenworks.spec.aws_rules import check_aws, check_aws_models
from tokenworks.spec.environment import Environment
from tokenworks.spec.fields import names_at
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.model_rules import check_model
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.rdma_rules import check_rdma
from tokenworks.spec.sourced import D, Documents, EngineCatalog, Sourced, listed
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.topology_rules import role_field

SYSTEM_NAMESPACES: Final = (
    "argocd",
    "default",
    "gpu-operator",
    "istio-system",
    "karpenter",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "kueue-system",
    "local-path-storage",
    "lws-system",
    "node-software",
    "nvidia-network-operator",
)
"""Namespaces of Kubernetes and of what the environment installs."""

_ADD_POOL: Final = "name a pool of environment.yaml, or add it there"
_OUR_LABELS: Final = re.compile(
    r"(.+\.)?(kubernetes\.io|k8s\.io|istio\.io|tokenworks\.dev)/.*|istio-injection|pod-template-hash"
)
"""Labels by which Kubernetes, its operators, Istio and we decide: on objects they are never the
user's to set."""


def check(documents: Documents, catalog: EngineCatalog) -> Iterator[Problem]:
    """Every problem between the documents."""
    for tenant in documents.tenants:
        yield from _labels(tenant)
        yield from _tenant_namespace(tenant, documents)
        yield from _quota_pools(tenant, documents)
    yield from _same_namespace(documents)
    yield from _quota_sums(documents)
    for model in documents.models:
        yield from _labels(model)
        yield from check_model(model, documents, catalog)
    yield from _same_served_name(documents)
    yield from _picker_names(documents)
    yield from _gpus_of_tenants(documents)
    yield from check_aws_models(documents)
    if documents.environment is not None:
        yield from _labels(documents.environment)
        yield from _gateway_namespace(documents.environment)
        yield from _pools(documents.environment)
        yield from _kept_fields(documents.environment)
        yield from check_aws(documents.environment)
        yield from check_rdma(documents.environment)


def _is_system(namespace: str) -> bool:
    return namespace in SYSTEM_NAMESPACES or namespace.startswith("kube-")


# Environment


def _gateway_namespace(environment: Sourced[Environment]) -> Iterator[Problem]:
    namespace = environment.document.spec.gateway.namespace
    if _is_system(namespace):
        yield environment.problem(
            ("spec", "gateway", "namespace"),
            f"found {namespace}, which is a system namespace",
            "a namespace of its own",
            "remove it for the default, tokenworks-gateway",
        )


def _kept_fields(environment: Sourced[Environment]) -> Iterator[Problem]:
    for number, field in enumerate(environment.document.spec.promotion.keep):
        parts = field.split(".")
        known = names_at(ModelRelease, ("spec", *parts[:-1]))
        if parts[-1] not in known:
            yield environment.problem(
                ("spec", "promotion", "keep", number),
                f"found {field}, which is no field of a ModelRelease's spec",
                listed(known, "a field such as resources"),
                did_you_mean(parts[-1], known),
            )


def _pools(environment: Sourced[Environment]) -> Iterator[Problem]:
    provider = environment.document.spec.cluster.provider
    pools = environment.document.spec.node_pools
    for name, pool in pools.items():
        if pool.gpu not in gpu_types():
            yield environment.problem(
                ("spec", "nodePools", name, "gpu"),
                f"unknown GPU type {pool.gpu}",
                listed(gpu_types(), "none"),
                did_you_mean(pool.gpu, gpu_types()),
            )
        if pool.simulated and provider == "existing":
            yield environment.problem(
                ("spec", "nodePools", name, "simulated"),
                "found true, but provider existing makes no nodes",
                "false",
                "remove it; simulated nodes exist with provider local only",
            )
    yield from _told_apart(environment)
    yield from _levels_are_read(environment)
    real = {name: pool.nodes for name, pool in pools.items() if not pool.simulated}
    if provider == "local" and sum(real.values()) > 1:
        last = [name for name, nodes in real.items() if nodes][-1]
        yield environment.problem(
            ("spec", "nodePools", last, "nodes"),
            f"found {sum(real.values())} real nodes, but provider local has this one machine",
            "one real node in all",
            "lower nodes, or write simulated: true",
        )


def _told_apart(environment: Sourced[Environment]) -> Iterator[Problem]:
    """Pods and queues find a pool by its labels: none has all the labels of another."""
    labels = {n: p.labels.items() for n, p in environment.document.spec.node_pools.items()}
    for place, (name, mine) in enumerate(labels.items()):
        others = [
            other
            for before, (other, its) in enumerate(labels.items())
            if other != name and mine <= its and (mine != its or before < place)
        ]
        if others:
            yield environment.problem(
                ("spec", "nodePools", name, "labels"),
                f"are those of pool {others[0]} too",
                "labels that only this pool's nodes have",
                f"write one such as tokenworks.dev/pool: {name}",
            )


def _levels_are_read(environment: Sourced[Environment]) -> Iterator[Problem]:
    """Kueue alone looks at a topology."""
    spec = environment.document.spec
    for name, pool in spec.node_pools.items():
        if pool.topology and not spec.platform.kueue.enabled:
            yield environment.problem(
                ("spec", "nodePools", name, "topology"),
                "has no meaning while platform.kueue.enabled is false: Kueue places pods by it",
                None,
                "remove it, or enable Kueue",
            )


# Tenants


def _labels(item: Sourced[D]) -> Iterator[Problem]:
    metadata = getattr(item.document, "metadata")  # noqa: B009 - every kind of document has it
    paths: list[FieldPath] = [("metadata", "labels", key) for key in metadata.labels]
    if isinstance(item.document, Tenant):
        paths += [("spec", "costLabels", key) for key in item.document.spec.cost_labels]
    for path in paths:
        if _OUR_LABELS.fullmatch(str(path[-1])):
            yield item.problem(
                path,
                "found a label that the platform sets itself",
                "labels of your own",
                "use a domain of your own before the `/`",
            )


def _tenant_namespace(tenant: Sourced[Tenant], documents: Documents) -> Iterator[Problem]:
    namespace = tenant.document.namespace
    path: FieldPath = ("spec", "namespace")
    if tenant.document.spec.namespace is None:
        path = ("metadata", "name")
    if _is_system(namespace):
        yield tenant.problem(
            path,
            f"found {namespace}, which is a system namespace",
            "a namespace of its own",
            "choose another namespace",
        )
    environment = documents.environment
    if environment and namespace == environment.document.spec.gateway.namespace:
        yield tenant.problem(
            path,
            f"found {namespace}, which is the gateway's namespace",
            "a namespace of its own",
            "choose another namespace",
        )


def _same_namespace(documents: Documents) -> Iterator[Problem]:
    first: dict[str, Sourced[Tenant]] = {}
    for tenant in documents.tenants:
        namespace = tenant.document.namespace
        other = first.setdefault(namespace, tenant)
        if other is not tenant:
            path = ("spec", "namespace") if tenant.document.spec.namespace else ("metadata", "name")
            yield tenant.problem(
                path,
                f"found {namespace}, which is the namespace of tenant "
                f"{other.document.metadata.name} ({other.file.as_posix()}) too",
                "one namespace for each tenant",
                "choose another namespace",
            )


def _quota_pools(tenant: Sourced[Tenant], documents: Documents) -> Iterator[Problem]:
    if documents.environment is None:
        return
    for name in tenant.document.spec.quota:
        if name not in documents.pools:
            yield tenant.problem(
                ("spec", "quota", name),
                f"unknown node pool {name}",
                listed(documents.pools, "none: the environment has no node pools"),
                did_you_mean(name, documents.pools, _ADD_POOL),
            )


def _quota_sums(documents: Documents) -> Iterator[Problem]:
    for name, pool in documents.pools.items():
        shares = [
            (tenant, tenant.document.spec.quota[name].gpus)
            for tenant in documents.tenants
            if name in tenant.document.spec.quota
        ]
        given, there = sum(gpus for _, gpus in shares), pool.nodes * pool.gpus_per_node
        if given <= there:
            continue
        parts = ", ".join(f"{tenant.document.metadata.name} {gpus}" for tenant, gpus in shares)
        yield shares[-1][0].problem(
            ("spec", "quota", name, "gpus"),
            f"quotas for pool {name} add up to {given} GPUs ({parts}), but it has {there} "
            f"({pool.nodes} nodes × {pool.gpus_per_node})",
            f"at most {there} in all",
            "lower a quota, or add nodes",
        )


# Models


def _same_served_name(documents: Documents) -> Iterator[Problem]:
    first: dict[str, Sourced[ModelRelease]] = {}
    for model in documents.models:
        for name in model.document.names:
            other = first.get(name)
            if other is not None:
                yield _served_twice(model, name, other)
            first.setdefault(name, model)


def _served_twice(model: Sourced[ModelRelease], name: str, other: Sourced[ModelRelease]) -> Problem:
    """A name of the release is another's, or an adapter has the name of its own release."""
    path: FieldPath = ("metadata", "name")
    remedy = "choose another servedName"
    if other is model or name != model.document.served_name:
        path, remedy = ("spec", "lora", "adapters", name), "choose another name for the adapter"
    elif model.document.spec.model.served_name is not None:
        path = ("spec", "model", "servedName")
    return model.problem(
        path,
        f"found {name}, which {other.file.as_posix()} serves too"
        if other is not model
        else f"found {name}, which is the release's own name",
        "each served name once: requests are routed by it",
        remedy,
    )


def _picker_names(documents: Documents) -> Iterator[Problem]:
    names = {model.document.metadata.name for model in documents.models}
    for model in documents.models:
        name = model.document.metadata.name
        if name.endswith("-epp") and name.removesuffix("-epp") in names:
            yield model.problem(
                ("metadata", "name"),
                f"found {name}, which is the name of the endpoint picker of "
                f"{name.removesuffix('-epp')}",
                "a name that no other release's objects have",
                "choose another name",
            )


def _gpus_of_tenants(documents: Documents) -> Iterator[Problem]:
    """Replicas times GPUs against quota, or against the pool where the tenant may borrow."""
    used: dict[tuple[str, str], list[tuple[Sourced[ModelRelease], RoleLayout]]] = defaultdict(list)
    in_pool: Counter[str] = Counter()
    for model in documents.models:
        for role in layout(model.document.spec):
            if role.pool in documents.pools and role.gpus > 0:
                used[model.document.spec.tenant, role.pool].append((model, role))
                in_pool[role.pool] += role.gpus
    for (tenant_name, pool), roles in sorted(used.items(), key=lambda item: item[0]):
        tenant = documents.tenant(tenant_name)
        if tenant is None:
            continue
        quota = tenant.spec.quota.get(pool)
        own = 0 if quota is None else quota.gpus
        wanted = sum(role.gpus for _, role in roles)
        node_pool = documents.pools[pool]
        there = node_pool.nodes * node_pool.gpus_per_node
        if quota is not None and quota.borrow:
            if in_pool[pool] > there:
                yield _too_many(
                    roles,
                    f"pool {pool} has {there}, and models of all tenants want {in_pool[pool]}",
                )
        elif wanted > own:
            yield _too_many(roles, f"its quota on pool {pool} is {own}")


def _too_many(roles: list[tuple[Sourced[ModelRelease], RoleLayout]], limit: str) -> Problem:
    wanted = sum(role.gpus for _, role in roles)
    parts = ", ".join(_share(model.document.metadata.name, role) for model, role in roles)
    last, role = roles[-1]
    return last.problem(
        role_field(role, last.document, "replicas", "replicas"),
        f"the models of tenant {last.document.spec.tenant} want {wanted} GPUs ({parts}), but "
        f"{limit}",
        None,
        "lower replicas, or raise the quota",
    )


def _share(name: str, role: RoleLayout) -> str:
    part = "" if role.name == "engine" else f" {role.name}"
    nodes = f" × {role.nodes} pods" if role.grouped else ""
    return f"{name}{part} {role.replicas}{nodes} × {role.resources.gpus}"
