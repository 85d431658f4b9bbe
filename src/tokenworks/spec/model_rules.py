"""What must hold for one release: within its document, and against its environment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from policies.secrets import secret_flags
from tokenworks.errors import did_you_mean
from tokenworks.spec.caches_rules import check_caches
from tokenworks.spec.common import FlagValue, duration_seconds, quantity_value
from tokenworks.spec.environment import Environment, NodePool
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.lora_rules import adapter_bytes, check_lora
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.placement_rules import check_placement
from tokenworks.spec.problems import FieldPath, Problem, field_name
from tokenworks.spec.secrets import IN_CLEAR, REMEDY, hides
from tokenworks.spec.sizing_rules import check_sizes
from tokenworks.spec.sourced import Documents, EngineCatalog, EngineFacts, Sourced, listed
from tokenworks.spec.topology_rules import check_topology, gpus_path, role_field
from tokenworks.spec.trust_rules import check_trust

_NAMED: Final = f"{REMEDY}; the hub's token is named in spec.model.tokenSecret"
_LONGEST_START: Final = 7 * 86400.0
"""Seconds a start may take at all: longer ones are units mistaken for others."""


def check_model(
    model: Sourced[ModelRelease], documents: Documents, catalog: EngineCatalog
) -> Iterator[Problem]:
    """Every problem of one release in its environment."""
    yield from _tenant_of(model, documents)
    yield from _engine(model, catalog)
    yield from _flags(model, catalog)
    yield from _cache_values(model, catalog)
    yield from _secrets(model)
    yield from _weights(model)
    yield from check_caches(model, documents, catalog.engine(model.document.spec.engine.name))
    yield from check_topology(model, documents, catalog)
    yield from check_placement(model, documents)
    yield from check_lora(model, catalog)
    yield from check_sizes(model, documents, catalog.engine(model.document.spec.engine.name))
    if documents.environment is not None:
        yield from _pinned(model, documents.environment.document.spec.cluster.provider)
        yield from _pool_of(model, documents)
        yield from check_trust(model, documents.environment.document)
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
            did_you_mean(name, names, f"name one of these, or write tenants/{name}.yaml"),
        )


def _engine(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    engine = model.document.spec.engine
    known = catalog.versions(engine.name)
    if engine.version is not None and engine.version not in known:
        yield model.problem(
            ("spec", "engine", "version"),
            f"unknown version {engine.version} of {engine.name}",
            listed(known, "none"),
            "name one of these; newer ones are added to the catalog first",
        )
    facts = catalog.engine(engine.name)
    yield from _weights_of_engine(model, facts)
    yield from _gpu_or_none(model, facts, catalog)


def _weights_of_engine(model: Sourced[ModelRelease], facts: EngineFacts) -> Iterator[Problem]:
    engine, uri = model.document.spec.engine, model.document.spec.model.uri
    scheme = uri.partition("://")[0]
    played = engine.simulation is not None
    readable = [s for s in facts.weights_from if s != "dummy"]
    if played and engine.name == "simulator":
        yield model.problem(
            ("spec", "engine", "simulation"),
            "has no meaning with engine simulator, which is one",
            None,
            "write its options as engine.flags",
        )
    elif engine.name == "simulator" and scheme != "dummy":
        yield model.problem(
            ("spec", "model", "uri"),
            f"found {uri}, but engine simulator loads no weights",
            "dummy://name",
            f"write dummy://{uri.split('://')[1]}",
        )
    elif scheme == "dummy" and not played and engine.name not in ("simulator", "llmd-sim"):
        yield model.problem(
            ("spec", "model", "uri"),
            f"found {uri}, but engine {engine.name} needs real weights",
            ", ".join(f"{s}://" for s in readable),
            "name the weights, add engine.simulation: {}, or choose engine simulator",
        )
    elif scheme != "dummy" and scheme not in facts.weights_from:
        yield model.problem(
            ("spec", "model", "uri"),
            f"found {uri}, which engine {engine.name} cannot read",
            ", ".join(f"{s}://" for s in readable) or "dummy://",
            "put the weights where it can, or choose another engine"
            if readable
            else f"write dummy://{uri.split('://')[1]}, or choose an engine that loads weights",
        )


def _gpu_or_none(
    model: Sourced[ModelRelease], facts: EngineFacts, catalog: EngineCatalog
) -> Iterator[Problem]:
    engine = model.document.spec.engine
    version = engine.version or facts.default
    if engine.simulation is not None or facts.gpu == "optional":
        return
    if engine.image is not None or catalog.runs_on_cpu(engine.name, version):
        return
    for role in layout(model.document.spec):
        if role.resources.gpus == 0:
            yield model.problem(
                gpus_path(role, model.document),
                f"found 0, and {engine.name} {version} does not run without a GPU",
                "at least 1",
                f"write {role.local_tensor}, or add engine.simulation: {{}}",
            )


def _flags(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    engine, topology = model.document.spec.engine, model.document.spec.topology
    facts = catalog.engine(engine.name)
    yield from _flags_at(model, ("spec", "engine", "flags"), engine.flags, facts)
    yield from _flag_values(model, ("spec", "engine", "flags"), engine.flags, catalog)
    for name, role in (("prefill", topology.prefill), ("decode", topology.decode)):
        if role is not None:
            path = ("spec", "topology", name, "flags")
            yield from _flags_at(model, path, role.flags, facts)
            yield from _flag_values(model, path, role.flags, catalog)
    for name, words in sorted(catalog.misplayed(engine.simulation or {}).items()):
        yield model.problem(("spec", "engine", "simulation", name), *words)
    for name in engine.env:
        if name in facts.reserved_env():
            yield _derived(model, ("spec", "engine", "env", name), None)


def _derived(model: Sourced[ModelRelease], path: FieldPath, field: str | None) -> Problem:
    return model.problem(
        path,
        f"is derived from {field}" if field else "is set by us, and no field changes it",
        "what no field stands for" if field else "what we do not set",
        f"remove it, and set {field} instead" if field else "remove it",
    )


def _flags_at(
    model: Sourced[ModelRelease], path: FieldPath, flags: Collection[str], facts: EngineFacts
) -> Iterator[Problem]:
    engine, reserved = model.document.spec.engine, facts.reserved_flags()
    version = engine.version or facts.default
    derived = {flag for flag in flags if flag.removeprefix("no-") in reserved}
    for flag in sorted(derived):
        yield _derived(model, (*path, flag), facts.field_of(flag.removeprefix("no-")))
    yield from _given_twice(model, path, flags, facts)
    unknown = facts.unknown_flags([f for f in flags if f not in derived], version)
    for flag, near in sorted(unknown.items()):
        positive = flag.removeprefix("no-")
        if flag != positive:
            yield model.problem(
                (*path, flag),
                "found a flag and its no in one word",
                "flags as they are called without no-",
                f"write {positive}: false",
            )
        else:
            yield model.problem(
                (*path, flag),
                f"is no flag of {engine.name} {version}",
                "flags that `./tokenworks engines` lists",
                f"did you mean {' or '.join(near)}?" if near else "remove it",
            )


def _flag_values(
    model: Sourced[ModelRelease],
    path: FieldPath,
    flags: Mapping[str, FlagValue],
    catalog: EngineCatalog,
) -> Iterator[Problem]:
    engine = model.document.spec.engine
    derived = catalog.engine(engine.name).reserved_flags()
    for flag, why in sorted(catalog.misread_flags(engine.name, flags).items()):
        if flag not in derived:
            yield model.problem(
                (*path, flag), f"{engine.name} refuses it: {why}", None, "correct it"
            )


def _given_twice(
    model: Sourced[ModelRelease], path: FieldPath, flags: Collection[str], facts: EngineFacts
) -> Iterator[Problem]:
    """Flags under two names, or beside the field that is written as the same flag."""
    kv = model.document.spec.caches.kv
    given = {"kv.memoryFraction": kv.memory_fraction, "kv.blockSize": kv.block_size}
    of_fields = {
        flag: f"spec.caches.{field}"
        for field, flag in facts.cache_flags.items()
        if given[field] is not None
    }
    first: dict[str, str] = {}
    for flag in flags:
        name = facts.flag_called(flag)
        other = first.setdefault(name, flag)
        where = of_fields.get(name) or (f"{field_name((*path, other))}" if other != flag else None)
        if where:
            yield model.problem(
                (*path, flag),
                f"says what {where} says too, and one of them would be lost",
                "each setting once",
                "remove one of the two",
            )


def _cache_values(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    """Fields of caches whose value is a flag's: the engine has to take it."""
    name, kv = model.document.spec.engine.name, model.document.spec.caches.kv
    given = {"kv.memoryFraction": kv.memory_fraction, "kv.blockSize": kv.block_size}
    for field, flag in catalog.engine(name).cache_flags.items():
        value = given[field]
        why = None if value is None else catalog.misread_flags(name, {flag: value}).get(flag)
        if why:
            yield model.problem(
                ("spec", "caches", *field.split(".")),
                f"{name} refuses it: {why}",
                None,
                "correct it, or remove it for the engine's own choice",
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
    adapters = spec.lora.adapters.values() if spec.lora else ()
    asked = scheme == "hf" or any(adapter.scheme == "hf" for adapter in adapters)
    for name, value, used, allowed in (
        ("revision", spec.model.revision, scheme == "hf", "hf:// weights"),
        ("tokenSecret", spec.model.token_secret, asked, "hf:// weights or adapters"),
    ):
        if value is not None and not used:
            yield model.problem(
                ("spec", "model", name),
                f"has no meaning with {scheme}:// weights",
                allowed,
                "remove it",
            )


def _pinned(model: Sourced[ModelRelease], provider: str) -> Iterator[Problem]:
    spec = model.document.spec
    image = spec.engine.image
    if image is not None and image.digest is None and provider in ("existing", "aws"):
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
    for role in layout(model.document.spec):
        if role.pool is not None:
            yield from _pool_of_role(model, role, role.pool, documents)


def _pool_of_role(
    model: Sourced[ModelRelease], role: RoleLayout, name: str, documents: Documents
) -> Iterator[Problem]:
    path = role_field(role, model.document, "pool", "pool")
    pool = documents.pools.get(name)
    if pool is None:
        yield model.problem(
            path,
            f"unknown node pool {name}",
            listed(documents.pools, "none: the environment has no node pools"),
            did_you_mean(name, documents.pools, "name a pool of environment.yaml, or add it there"),
        )
        return
    if pool.simulated and role.replicas > 0:
        real = [name for name, other in documents.pools.items() if not other.simulated]
        yield model.problem(
            path,
            f"pool {name} is simulated: its nodes run no container",
            listed(real, "a pool that is not simulated"),
            "choose a real pool, or replicas: 0",
        )
    yield from _fits(model, role, name, pool)


def _fits(
    model: Sourced[ModelRelease], role: RoleLayout, name: str, pool: NodePool
) -> Iterator[Problem]:
    """GPUs of one pod on one node, then pods on the pool: a pod does not span nodes."""
    node, gpus = pool.gpus_per_node, role.resources.gpus
    for path, count in (
        (gpus_path(role, model.document), gpus),
        (role_field(role, model.document, "tensorParallel", "tensor_parallel"), role.local_tensor),
    ):
        if count > node:
            yield model.problem(
                path,
                f"found {count}, but nodes of pool {name} have {node} GPUs",
                f"at most {node}",
                "lower it, or choose a pool of larger nodes",
            )
            return
    room = pool.nodes * (node // gpus) if gpus else role.pods
    if role.pods > room:
        group = f" of {role.nodes} pods" if role.grouped else ""
        yield model.problem(
            role_field(role, model.document, "replicas", "replicas"),
            f"found {role.replicas}{group}, but pool {name} has room for {room}"
            f"{' pods' if group else ''}: {node // gpus} of {gpus} GPUs on each of its nodes "
            f"({pool.nodes} × {node} GPUs)",
            f"at most {room // role.nodes}",
            "lower it, or add nodes",
        )


def _start_in_time(
    model: Sourced[ModelRelease], environment: Environment, pull: str
) -> Iterator[Problem]:
    kueue, spec = environment.spec.platform.kueue, model.document.spec
    rate = quantity_value(spec.startup.download_bytes_per_second)
    fetch = (quantity_value(spec.model.size) + adapter_bytes(spec)) / rate
    once = duration_seconds(pull) + fetch + duration_seconds(spec.startup.load)
    # Decode is admitted with prefill, and begins when that is ready.
    turns = 2 if spec.topology.kind == "disaggregated" else 1
    start = turns * once
    limit = duration_seconds(kueue.pods_ready_timeout) if kueue.enabled else _LONGEST_START
    remedy = "raise the environment's spec.platform.kueue.podsReadyTimeout"
    if start >= limit:
        yield model.problem(
            ("spec", "startup"),
            f"a start takes {start:.0f}s ({pull} to pull the image, {fetch:.0f}s for "
            f"{spec.model.size} at {spec.startup.download_bytes_per_second} a second, "
            f"{spec.startup.load} to load{', and decode after prefill' if turns > 1 else ''}), but "
            + (f"Kueue evicts after {limit:.0f}s" if kueue.enabled else "nothing waits as long"),
            f"less than {limit:.0f}s",
            remedy if kueue.enabled else "correct size and downloadBytesPerSecond",
        )
