"""What must hold for one release: within its document, and against its environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.secrets import secret_flags
from tokenworks.spec.common import duration_seconds, quantity_value
from tokenworks.spec.environment import Environment, NodePool
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.secrets import IN_CLEAR, REMEDY, hides
from tokenworks.spec.sourced import Documents, EngineCatalog, Sourced, listed

_NAMED: Final = f"{REMEDY}; the hub's token is named in spec.model.tokenSecret"
_LONGEST_START: Final = 7 * 86400.0
"""Seconds a start may take at all: longer ones are units mistaken for others."""
_KEPT_NOWHERE: Final = {
    "s3": "are streamed to the GPU",
    "gs": "are streamed to the GPU",
    "pvc": "lie in their claim already",
    "dummy": "are none",
}
"""Schemes whose weights have no cache, and why."""


def check_model(
    model: Sourced[ModelRelease], documents: Documents, catalog: EngineCatalog
) -> Iterator[Problem]:
    """Every problem of one release in its environment."""
    yield from _tenant_of(model, documents)
    yield from _engine(model, catalog)
    yield from _flags(model, catalog)
    yield from _secrets(model)
    yield from _weights(model)
    if documents.environment is not None:
        yield from _pinned(model, documents.environment.document.spec.cluster.provider)
        yield from _pool_of(model, documents)
        pull = catalog.engine(model.document.spec.engine.name).image_pull
        yield from _start_in_time(model, documents.environment.document, pull)


def _tenant_of(model: Sourced[ModelRelease], documents: Documents) -> Iterator[Problem]:
    name = model.document.spec.tenant
    if documents.tenant(name) is None and name not in documents.unread_tenants:
        names = [tenant.document.metadata.name for tenant in documents.tenants]
        yield model.problem(
            ("spec", "tenant"),
            f"unknown tenant {name}",
            listed(names, "none: tenants/ has no documents"),
            f"name one of these, or write tenants/{name}.yaml",
        )


def _engine(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    engine, uri = model.document.spec.engine, model.document.spec.model.uri
    known = catalog.versions(engine.name)
    if engine.version not in known:
        yield model.problem(
            ("spec", "engine", "version"),
            f"unknown version {engine.version} of {engine.name}",
            listed(known, "none"),
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
    engine, facts = model.document.spec.engine, catalog.engine(model.document.spec.engine.name)
    reserved = facts.reserved_flags()
    paths: list[FieldPath] = [
        ("spec", "engine", "flags", flag)
        for flag in engine.flags
        if flag.removeprefix("no-") in reserved
    ]
    paths += [
        ("spec", "engine", "env", name) for name in engine.env if name in facts.reserved_env()
    ]
    for path in paths:
        yield model.problem(
            path,
            "is derived from the document's other fields",
            "what no field stands for",
            "remove it, and set the field instead",
        )
    for flag in engine.flags:
        positive = flag.removeprefix("no-")
        if flag != positive and positive not in reserved:
            yield model.problem(
                ("spec", "engine", "flags", flag),
                "found a flag and its no in one word",
                "flags as they are called without no-",
                f"write {positive}: false",
            )


def _secrets(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    engine = model.document.spec.engine
    paths: list[FieldPath] = [("spec", "engine", "env", name) for name in engine.env]
    paths += [("spec", "engine", "flags", name) for name in engine.flags if name in secret_flags()]
    for path in paths:
        if hides(path) and engine.env.get(str(path[-1]), "set"):
            yield model.problem(path, IN_CLEAR, None, _NAMED)


def _weights(model: Sourced[ModelRelease]) -> Iterator[Problem]:
    """Fields that mean nothing for where the weights are."""
    spec = model.document.spec
    scheme = spec.model.uri.partition("://")[0]
    for name, value in (
        ("revision", spec.model.revision),
        ("tokenSecret", spec.model.token_secret),
    ):
        if value is not None and scheme != "hf":
            yield model.problem(
                ("spec", "model", name),
                f"has no meaning with {scheme}:// weights",
                "hf:// weights",
                "remove it",
            )
    cache, stated = spec.caches.weights, "weights" in spec.caches.model_fields_set
    if stated and cache.kind != "none" and scheme in _KEPT_NOWHERE:
        yield model.problem(
            ("spec", "caches", "weights"),
            f"has no meaning: {scheme}:// weights {_KEPT_NOWHERE[scheme]}",
            "kind none",
            "remove it",
        )
    elif cache.size is not None and quantity_value(cache.size) < quantity_value(spec.model.size):
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
            listed(documents.pools, "none: the environment has no node pools"),
            "name a pool of environment.yaml, or add it there",
        )
        return
    if pool.simulated and spec.replicas > 0:
        real = [name for name, other in documents.pools.items() if not other.simulated]
        yield model.problem(
            ("spec", "pool"),
            f"pool {spec.pool} is simulated: its nodes run no container",
            listed(real, "a pool that is not simulated"),
            "choose a real pool, or replicas: 0",
        )
    yield from _fits(model, spec.pool, pool)


def _fits(model: Sourced[ModelRelease], name: str, pool: NodePool) -> Iterator[Problem]:
    """GPUs of one pod on one node, then pods on the pool: a pod does not span nodes."""
    spec, node = model.document.spec, pool.gpus_per_node
    for path, count in (
        (("spec", "resources", "gpus"), spec.resources.gpus),
        (("spec", "topology", "tensorParallel"), spec.topology.tensor_parallel),
    ):
        if count > node:
            yield model.problem(
                path,
                f"found {count}, but nodes of pool {name} have {node} GPUs",
                f"at most {node}",
                "lower it, or choose a pool of larger nodes",
            )
            return
    gpus = spec.resources.gpus
    if gpus and spec.replicas > pool.nodes * (node // gpus):
        room = pool.nodes * (node // gpus)
        yield model.problem(
            ("spec", "replicas"),
            f"found {spec.replicas}, but pool {name} has room for {room}: {node // gpus} of "
            f"{gpus} GPUs on each of its nodes ({pool.nodes} × {node} GPUs)",
            f"at most {room}",
            "lower it, or add nodes",
        )


def _start_in_time(
    model: Sourced[ModelRelease], environment: Environment, pull: str
) -> Iterator[Problem]:
    kueue, spec = environment.spec.platform.kueue, model.document.spec
    rate = quantity_value(spec.startup.download_bytes_per_second)
    fetch = quantity_value(spec.model.size) / rate
    start = duration_seconds(pull) + fetch + duration_seconds(spec.startup.load)
    limit = duration_seconds(kueue.pods_ready_timeout) if kueue.enabled else _LONGEST_START
    remedy = "raise the environment's spec.platform.kueue.podsReadyTimeout"
    if start >= limit:
        yield model.problem(
            ("spec", "startup"),
            f"a start takes {start:.0f}s ({pull} to pull the image, {fetch:.0f}s for "
            f"{spec.model.size} at {spec.startup.download_bytes_per_second} a second, "
            f"{spec.startup.load} to load), but "
            + (f"Kueue evicts after {limit:.0f}s" if kueue.enabled else "nothing waits as long"),
            f"less than {limit:.0f}s",
            remedy if kueue.enabled else "correct size and downloadBytesPerSecond",
        )
