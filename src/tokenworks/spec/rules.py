"""What must hold between the documents of one environment, one small function a rule.

Each rule yields problems and raises nothing. A reference to a document that could not
be read is not reported a second time: `Known` holds the names of the files as well.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from tokenworks.spec.common import Document, duration_seconds, quantity_value
from tokenworks.spec.environment import Environment, NodePool
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath, Flaw, Problem
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.yamlsource import Node, line_of

D = TypeVar("D", bound=Document)

SYSTEM_NAMESPACES: Final = (
    "default",
    "istio-system",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "kueue-system",
    "local-path-storage",
    "lws-system",
)
"""Namespaces of Kubernetes and of what the environment installs."""

_SECRET_NAME: Final = re.compile(r"(^|_)(TOKEN|KEY|CREDENTIALS?)$|PASSWORD|PASSWD|SECRET")
_NAMES_A_PLACE: Final = re.compile(r"_(FILE|PATH|DIR|NAME)$")
_SECRET_FLAGS: Final = frozenset({"api-key", "hf-token"})
_OUR_LABELS: Final = ("app.kubernetes.io/", "kueue.x-k8s.io/", "pod-security.kubernetes.io/")


class EngineFacts(Protocol):
    """What loading asks about one engine."""

    def reserved_flags(self) -> Set[str]:
        """Flags that are derived from the document."""
        ...


class EngineCatalog(Protocol):
    """What loading asks the catalog of engines."""

    def engine(self, name: str) -> EngineFacts:
        """The engine of that name; `UsageError` when there is none."""
        ...

    def versions(self, engine: str) -> Collection[str]:
        """Versions of the engine that are known; empty when the engine is not."""
        ...


@dataclass(frozen=True)
class Sourced(Generic[D]):
    """A document and where it came from."""

    document: D
    file: Path
    """Relative to the root of the repository."""
    node: Node

    def problem(
        self, path: FieldPath, found: str, allowed: str | None = None, remedy: str | None = None
    ) -> Problem:
        """A problem with the field, at its line."""
        return Problem.of(self.file, Flaw(line_of(self.node, path), path, found, allowed, remedy))

    def place(self, path: FieldPath) -> str:
        """`file:line` of the field."""
        return f"{self.file.as_posix()}:{line_of(self.node, path)}"


@dataclass(frozen=True)
class Documents:
    """The documents that could be read, and the names of those that could not."""

    environment: Sourced[Environment] | None
    models: tuple[Sourced[ModelRelease], ...]
    tenants: tuple[Sourced[Tenant], ...]
    unread_tenants: frozenset[str]

    @property
    def pools(self) -> dict[str, NodePool]:
        """Node pools by name; empty when the environment could not be read."""
        return self.environment.document.spec.node_pools if self.environment else {}

    def tenant(self, name: str) -> Tenant | None:
        """The tenant of that name, if it could be read."""
        found = [item.document for item in self.tenants if item.document.metadata.name == name]
        return found[0] if found else None


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
        yield from _model(model, documents, catalog)
    yield from _same_served_name(documents)
    yield from _picker_names(documents)
    yield from _gpus_of_tenants(documents)
    if documents.environment is not None:
        yield from _labels(documents.environment)
        yield from _gateway_namespace(documents.environment)
        yield from _pools(documents.environment)


def _known(names: Iterable[str], none: str) -> str:
    return ", ".join(sorted(names)) or none


# Environment


def _gateway_namespace(environment: Sourced[Environment]) -> Iterator[Problem]:
    namespace = environment.document.spec.gateway.namespace
    if namespace in SYSTEM_NAMESPACES:
        yield environment.problem(
            ("spec", "gateway", "namespace"),
            f"found {namespace}, which is a system namespace",
            "a namespace of its own",
            "remove it for the default, tokenworks-gateway",
        )


def _pools(environment: Sourced[Environment]) -> Iterator[Problem]:
    provider = environment.document.spec.cluster.provider
    pools = environment.document.spec.node_pools
    for name, pool in pools.items():
        if pool.simulated and provider == "existing":
            yield environment.problem(
                ("spec", "nodePools", name, "simulated"),
                "found true, but provider existing makes no nodes",
                "false",
                "remove it; simulated nodes exist with provider local only",
            )
    real = {name: pool.nodes for name, pool in pools.items() if not pool.simulated}
    if provider == "local" and sum(real.values()) > 1:
        last = [name for name, nodes in real.items() if nodes][-1]
        yield environment.problem(
            ("spec", "nodePools", last, "nodes"),
            f"found {sum(real.values())} real nodes, but provider local has this one machine",
            "one real node in all",
            "lower nodes, or write simulated: true",
        )


# Tenants


def _labels(item: Sourced[D]) -> Iterator[Problem]:
    metadata = getattr(item.document, "metadata")  # noqa: B009 - every kind of document has it
    paths: list[FieldPath] = [("metadata", "labels", key) for key in metadata.labels]
    if isinstance(item.document, Tenant):
        paths += [("spec", "costLabels", key) for key in item.document.spec.cost_labels]
    for path in paths:
        if str(path[-1]).startswith(_OUR_LABELS):
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
    if namespace in SYSTEM_NAMESPACES or namespace.startswith("kube-"):
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
                _known(documents.pools, "none: the environment has no node pools"),
                "name a pool of environment.yaml, or add it there",
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


def _model(
    model: Sourced[ModelRelease], documents: Documents, catalog: EngineCatalog
) -> Iterator[Problem]:
    yield from _tenant_of(model, documents)
    yield from _engine(model, catalog)
    yield from _flags(model, catalog)
    yield from _secrets(model)
    yield from _sizes(model)
    if documents.environment is not None:
        yield from _pinned(model, documents.environment.document.spec.cluster.provider)
        yield from _pool_of(model, documents)
        yield from _start_in_time(model, documents.environment.document)


def _tenant_of(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    name = model.document.spec.tenant
    if documents.tenant(name) is None and name not in documents.unread_tenants:
        names = [tenant.document.metadata.name for tenant in documents.tenants]
        yield model.problem(
            ("spec", "tenant"),
            f"unknown tenant {name}",
            _known(names, "none: tenants/ has no documents"),
            f"name one of these, or write tenants/{name}.yaml",
        )


def _engine(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    engine, uri = model.document.spec.engine, model.document.spec.model.uri
    known = catalog.versions(engine.name)
    if engine.version not in known:
        yield model.problem(
            ("spec", "engine", "version"),
            f"unknown version {engine.version} of {engine.name}",
            _known(known, "none"),
            "name one of these; newer ones are added to the catalog first",
        )
    dummy = uri.startswith("dummy://")
    if dummy and engine.name != "simulator":
        yield model.problem(
            ("spec", "model", "uri"),
            f"found {uri}, but engine {engine.name} needs real weights",
            "hf://, s3://, gs:// or pvc://",
            "name the weights, or choose engine simulator",
        )
    if not dummy and engine.name == "simulator":
        yield model.problem(
            ("spec", "model", "uri"),
            f"found {uri}, but engine simulator loads no weights",
            "dummy://name",
            f"write dummy://{uri.split('://')[1]}",
        )


def _flags(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    engine = model.document.spec.engine
    reserved = catalog.engine(engine.name).reserved_flags()
    for flag in sorted(reserved & engine.flags.keys()):
        yield model.problem(
            ("spec", "engine", "flags", flag),
            "is derived from the document's other fields",
            "flags that no field stands for",
            "remove it, and set the field instead",
        )


def _secrets(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    engine = model.document.spec.engine
    paths: list[FieldPath] = [
        ("spec", "engine", "env", name)
        for name, value in engine.env.items()
        if value and _SECRET_NAME.search(name) and not _NAMES_A_PLACE.search(name)
    ]
    paths += [("spec", "engine", "flags", name) for name in engine.flags if name in _SECRET_FLAGS]
    for path in paths:
        yield model.problem(
            path,
            "holds a secret in plain text",
            None,
            "remove it, and revoke it if it was real; put the hub's token into a Secret and name "
            "that in spec.model.tokenSecret",
        )


def _sizes(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    spec = model.document.spec
    cache = spec.caches.weights
    if cache.size is not None and quantity_value(cache.size) < quantity_value(spec.model.size):
        yield model.problem(
            ("spec", "caches", "weights", "size"),
            f"found {cache.size}, but the weights are {spec.model.size}",
            f"at least {spec.model.size}",
            "raise it, or remove it for weights and a fifth",
        )


def _pinned(model: Sourced[ModelRelease], provider: str) -> Iterator[Problem]:
    spec = model.document.spec
    image = spec.engine.image
    if image is not None and image.digest is None and provider == "existing":
        yield model.problem(
            ("spec", "engine", "image", "digest"),
            "is missing",
            "sha256:<64 hexadecimal digits>, or `unresolved`",
            "add the digest that the registry gives for the tag",
        )
    if spec.model.uri.startswith("hf://") and spec.model.revision is None and provider != "local":
        yield model.problem(
            ("spec", "model", "revision"),
            "is missing",
            "a commit of 40 hexadecimal digits, or `unresolved`",
            "add the commit that the hub shows for the branch",
        )


def _pool_of(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    spec = model.document.spec
    if spec.pool is None:
        return
    pool = documents.pools.get(spec.pool)
    if pool is None:
        yield model.problem(
            ("spec", "pool"),
            f"unknown node pool {spec.pool}",
            _known(documents.pools, "none: the environment has no node pools"),
            "name a pool of environment.yaml, or add it there",
        )
        return
    if pool.simulated and spec.replicas > 0:
        real = [name for name, other in documents.pools.items() if not other.simulated]
        yield model.problem(
            ("spec", "pool"),
            f"pool {spec.pool} is simulated: its nodes run no container",
            _known(real, "a pool that is not simulated"),
            "choose a real pool, or replicas: 0",
        )
    for path, count in (
        (("spec", "resources", "gpus"), spec.resources.gpus),
        (("spec", "topology", "tensorParallel"), spec.topology.tensor_parallel),
    ):
        if count > pool.gpus_per_node:
            yield model.problem(
                path,
                f"found {count}, but nodes of pool {spec.pool} have {pool.gpus_per_node} GPUs",
                f"at most {pool.gpus_per_node}",
                "lower it, or choose a pool of larger nodes",
            )
            return


def _start_in_time(model: Sourced[ModelRelease], environment: Environment) -> Iterator[Problem]:
    kueue, spec = environment.spec.platform.kueue, model.document.spec
    if not kueue.enabled:
        return
    rate = quantity_value(spec.startup.download_bytes_per_second)
    start = quantity_value(spec.model.size) / rate + duration_seconds(spec.startup.load)
    limit = duration_seconds(kueue.pods_ready_timeout)
    if start >= limit:
        yield model.problem(
            ("spec", "startup"),
            f"a start takes {start:.0f}s ({spec.model.size} at "
            f"{spec.startup.download_bytes_per_second} a second, then {spec.startup.load}), but "
            f"Kueue evicts after {limit:.0f}s",
            f"less than {limit:.0f}s",
            "raise the environment's spec.platform.kueue.podsReadyTimeout",
        )


def _same_served_name(documents: Documents) -> Iterator[Problem]:
    first: dict[str, Sourced[ModelRelease]] = {}
    for model in documents.models:
        name = model.document.served_name
        other = first.setdefault(name, model)
        if other is not model:
            path: FieldPath = ("metadata", "name")
            if model.document.spec.model.served_name is not None:
                path = ("spec", "model", "servedName")
            yield model.problem(
                path,
                f"found {name}, which {other.file.as_posix()} serves too",
                "each served name once: requests are routed by it",
                "choose another servedName",
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
    used: dict[tuple[str, str], list[Sourced[ModelRelease]]] = defaultdict(list)
    in_pool: Counter[str] = Counter()
    for model in documents.models:
        spec = model.document.spec
        if spec.pool in documents.pools and spec.replicas * spec.resources.gpus > 0:
            used[spec.tenant, spec.pool].append(model)
            in_pool[spec.pool] += spec.replicas * spec.resources.gpus
    for (tenant_name, pool), models in sorted(used.items()):
        tenant = documents.tenant(tenant_name)
        if tenant is None:
            continue
        quota = tenant.spec.quota.get(pool)
        own = 0 if quota is None else quota.gpus
        wanted = sum(m.document.spec.replicas * m.document.spec.resources.gpus for m in models)
        node_pool = documents.pools[pool]
        there = node_pool.nodes * node_pool.gpus_per_node
        if quota is not None and quota.borrow:
            if in_pool[pool] > there:
                yield _too_many(
                    models, f"all models of pool {pool} want {in_pool[pool]} of its {there}"
                )
        elif wanted > own:
            yield _too_many(models, f"its quota on pool {pool} is {own}")


def _too_many(models: list[Sourced[ModelRelease]], limit: str) -> Problem:
    specs = [(model.document.metadata.name, model.document.spec) for model in models]
    wanted = sum(spec.replicas * spec.resources.gpus for _, spec in specs)
    parts = ", ".join(f"{name} {spec.replicas} × {spec.resources.gpus}" for name, spec in specs)
    return models[-1].problem(
        ("spec", "replicas"),
        f"the models of tenant {specs[0][1].tenant} want {wanted} GPUs ({parts}), but {limit}",
        None,
        "lower replicas, or raise the quota",
    )
