"""A release's engine as a command line and environment: what every role of it shares.

Flags are ours to derive or the document's to give, never both. Which flag an engine has for
a thing is the catalog's knowledge; what follows from a document is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tokenworks.catalog.commandline import PLAYS
from tokenworks.catalog.engines import Engine, load_engines
from tokenworks.catalog.flags import grammars, spoken
from tokenworks.errors import UsageError
from tokenworks.render.adapters import adapter_env, adapter_flags
from tokenworks.render.kv import tiers
from tokenworks.spec.common import FlagValue, Image
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.values import EngineValues, FilledFlags, FlagStyle, SecretKey, WeightsValues

WEIGHTS_PATH: Final = "/weights"
STREAMED: Final = ("s3", "gs")
SIMULATOR_OPTIONS: Final = "SIMULATOR_OPTIONS"
"""Variable in which our simulator finds its own options when it plays another engine."""


@dataclass(frozen=True)
class Source:
    """Where weights come from, taken apart."""

    scheme: str
    rest: str

    @property
    def downloads(self) -> bool:
        """Whether pods fetch them over HTTPS."""
        return self.scheme in ("hf", *STREAMED)


def source(model: ModelRelease) -> Source:
    """Where the release's weights come from."""
    scheme, _, rest = model.spec.model.uri.partition("://")
    return Source(scheme, rest)


def engine_of(model: ModelRelease) -> Engine:
    """The catalog's engine of a release."""
    return load_engines().engine(model.spec.engine.name)


def version_of(model: ModelRelease) -> str:
    """The engine's version: the document's, or else the one the catalog pins."""
    return model.spec.engine.version or engine_of(model).default


def played(model: ModelRelease) -> bool:
    """Whether our simulator plays the engine."""
    return model.spec.engine.simulation is not None


def fetched(model: ModelRelease) -> bool:
    """Whether the weights are brought to a disk before the engine starts."""
    cache = model.spec.caches.weights
    brought = cache.kind == "node" or (cache.kind == "pvc" and cache.prefetch)
    return brought and source(model).scheme == "hf" and not played(model)


def image_of(model: ModelRelease, networks: Collection[str] = ()) -> Image:
    """The engine's image: the document's, the simulator's, or the catalog's for the version, for
    CPUs or for the networks that its pods talk over.

    Raises:
        UsageError: the catalog does not know the version.
    """
    engine, version = engine_of(model), version_of(model)
    if played(model):
        simulator = load_engines().engine("simulator")
        return simulator.versions[simulator.default].image
    if model.spec.engine.image is not None:
        return model.spec.engine.image
    if version not in engine.versions:
        known = ", ".join(engine.versions)
        raise UsageError(
            f"{model.metadata.name}: spec.engine.version: unknown version {version} of "
            f"{model.spec.engine.name}; the catalog knows {known}; name one, or give its image"
        )
    release = engine.versions[version]
    if model.spec.resources.gpus == 0 and release.cpu is not None:
        return release.cpu
    return release.efa if "efa" in networks and release.efa is not None else release.image


def _weights_place(model: ModelRelease) -> str:
    """What the engine is told to load."""
    where = source(model)
    if where.scheme == "pvc":
        path = where.rest.partition("/")[2]
        return f"{WEIGHTS_PATH}/{path}".rstrip("/")
    if where.scheme == "oci":
        return WEIGHTS_PATH
    if where.scheme in STREAMED:
        return model.spec.model.uri
    if fetched(model):
        return f"{WEIGHTS_PATH}/{where.rest}/{model.spec.model.revision}"
    return where.rest


def _arguments(model: ModelRelease, engine: Engine) -> tuple[str, ...]:
    return (_weights_place(model),) if engine.weights == "argument" else ()


def shared_flags(model: ModelRelease) -> dict[str, FlagValue]:
    """Flags that follow from the document and hold for every role."""
    spec, engine = model.spec, engine_of(model)
    names, where = engine.flags, source(model)
    # What lies in a folder has no revision.
    nameless = fetched(model) or spec.model.revision == "unresolved"
    revision = None if nameless else spec.model.revision
    weights = _weights_place(model)
    hub = engine.hub_flag if where.scheme == "hf" and not fetched(model) else None
    candidates: list[tuple[str | None, FlagValue | None]] = [
        (engine.weights_flag if engine.weights == "flag" and not hub else None, weights),
        (hub, weights),
        (names.max_context, spec.model.context),
        (names.host, "0.0.0.0"),
        (names.metrics, True),
        (names.revision, revision),
        (names.load_format, engine.stream_format if where.scheme in STREAMED else None),
        (names.memory_fraction, spec.caches.kv.memory_fraction),
        (names.block_size, spec.caches.kv.block_size),
        *((flag, spec.caches.kv.dtype) for flag in _kv_flags(engine)),
        *_prefix(model, engine),
        *adapter_flags(model.spec.lora, engine, version_of(model)).items(),
    ]
    return {name: value for name, value in candidates if name and value is not None}


def _kv_flags(engine: Engine) -> tuple[str, ...]:
    return engine.kv_dtypes.flags if engine.kv_dtypes else ()


def _prefix(model: ModelRelease, engine: Engine) -> list[tuple[str | None, FlagValue | None]]:
    """The flag about reuse of prefixes; only what differs from doing nothing, if it is inverted."""
    cache, wanted = engine.prefix_cache, model.spec.caches.prefix
    if cache is None or cache.flag is None:
        return []
    if cache.inverted:
        return [(cache.flag, None if wanted else True)]
    return [(cache.flag, wanted)]


def settle(
    name: str, flags: Mapping[str, FlagValue]
) -> tuple[dict[str, FlagValue], dict[str, str]]:
    """Flags of the engine called `name` as charts write them, and variables for those that it
    only reads from its environment."""
    grammar = grammars()[name]
    only_env = {n: o.env for n, o in grammar.options.items() if o.only_env and o.env}
    env = {only_env[n]: _text(v) for n, v in flags.items() if n in only_env}
    return spoken(grammar, {n: v for n, v in flags.items() if n not in only_env}), env


def _text(value: FlagValue) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else json.dumps(value)


def _derived_env(model: ModelRelease, engine: Engine, weights: WeightsValues) -> dict[str, str]:
    env = {**engine.env, "TMPDIR": "/tmp"}
    env |= {name: f"/cache/{folder}" for name, folder in engine.caches.items()}
    kept = weights.kind != "none"
    own_store = engine.weights == "none" and kept
    of_hub = source(model).scheme == "hf" and not fetched(model)
    if engine.hub_cache and kept and (of_hub or own_store):
        env[engine.hub_cache] = weights.path
    if weights.kind in ("pvc", "node", "image"):
        env |= engine.offline
    env |= adapter_env(model.spec.lora, engine)
    if played(model):
        env[SIMULATOR_OPTIONS] = json.dumps(model.spec.engine.simulation, sort_keys=True)
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


def _command(model: ModelRelease, engine: Engine) -> tuple[str, ...]:
    """The program; when it is played, the simulator with the engine's name."""
    if not played(model):
        return engine.command
    simulator = load_engines().engine("simulator")
    return (*simulator.command, PLAYS, model.spec.engine.name, "--")


def _secrets(model: ModelRelease, engine: Engine) -> dict[str, SecretKey]:
    """The hub's token, for engines that ask the hub."""
    secret, name = model.spec.model.token_secret, engine.hub_token
    asks = source(model).scheme == "hf" and not fetched(model)
    return {name: SecretKey(secret=secret, key="token")} if asks and secret and name else {}


def engine_values(
    stack: Stack, model: ModelRelease, weights: WeightsValues, networks: Collection[str]
) -> EngineValues:
    """What every role's engine has in common.

    Raises:
        UsageError: the document repeats a flag or variable that is derived, or names an engine
            version that has no image.
    """
    given, engine = model.spec.engine, engine_of(model)
    beyond = tiers(model, engine, version_of(model))
    derived = {**shared_flags(model), **beyond.flags}
    env = {**_derived_env(model, engine, weights), **beyond.env}
    _refuse_repeated(stack, model, "flags", given.flags, {*engine.reserved_flags(), *derived})
    _refuse_repeated(stack, model, "env", given.env, (*env, engine.hub_token or ""))
    flags, set_by_env = settle(given.name, {**given.flags, **derived})
    names = engine.flags
    return EngineValues(
        image=image_of(model, networks),
        command=_command(model, engine),
        arguments=_arguments(model, engine),
        flags=flags,
        filled_flags=FilledFlags(
            served_name=names.served_name or None,
            port=names.port or None,
            drain=engine.drain_flag(version_of(model)),
        ),
        style=FlagStyle(
            separator=engine.style.separator,
            off=engine.style.off,
            lists=engine.style.lists,
            words=engine.style.written,
        ),
        env={**given.env, **set_by_env, **env},
        files=dict(beyond.files),
        secret_env=_secrets(model, engine),
        port=engine.port,
        user=engine.user,
    )
