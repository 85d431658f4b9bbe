"""Engines (`engines/*.yaml`, `foreign/*.yaml`) and routing (`routing.yaml`): facts about programs,
typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from tokenworks.catalog.flags import grammars, misread
from tokenworks.catalog.options import (
    BesideTransfer,
    CacheTier,
    ConfigFile,
    DrainFlag,
    FlagName,
    ImageStart,
    KvDtypes,
    Lora,
    Metrics,
    MetricsBefore,
    Option,
    ParallelFlags,
    PortFact,
    PrefixCache,
    Range,
    Start,
    Style,
)
from tokenworks.catalog.reading import read
from tokenworks.catalog.routers import LlmDRouter, WorkerRouter
from tokenworks.errors import UsageError, did_you_mean
from tokenworks.spec.common import Bytes, Document, Duration, FlagValue, Image
from tokenworks.spec.model import RoutingProfile
from tokenworks.spec.problems import shown
from tokenworks.spec.values import EnvName, Scorers

HERE = Path(__file__).parent

# YAML reads `2026-11-29` as a date; documents carry text.
IsoDate = Annotated[str, BeforeValidator(str)]
TopologyKind = Literal["single", "multi-node", "disaggregated", "wide-ep"]
WeightsScheme = Literal["hf", "s3", "gs", "pvc", "oci", "dummy"]
Tier = Literal["cpu", "nvme"]
Store = Literal["lmcache", "mooncake", "hicache"]


class Paths(Document):
    """HTTP paths of an engine."""

    startup: str
    readiness: str
    liveness: str
    metrics: str = Field(description="Prometheus text; empty: there is none.")


class Scratch(Document):
    """Size limits of the folders an engine writes to, besides weights."""

    tmp: Bytes
    cache: Bytes


class DerivedFlags(Document):
    """Engine flags that follow from a document, each by our name for it; empty: it has none."""

    served_name: str
    max_context: str
    port: str
    prefix_cache: str
    host: str | None = Field(default=None, description="Address to listen on, where not all.")
    tensor_parallel: str | None = None
    revision: str | None = None
    load_format: str | None = None
    metrics: str | None = Field(default=None, description="Switch without which it has none.")
    memory_fraction: str | None = Field(
        default=None, description="Part of the GPU's memory that the engine may use."
    )
    block_size: str | None = Field(default=None, description="Tokens of one KV block.")


_FIELDS: Final = {
    "served_name": "spec.model.servedName",
    "max_context": "spec.model.maxContext",
    "prefix_cache": "spec.caches.prefix",
    "tensor_parallel": "spec.topology.tensorParallel",
    "revision": "spec.model.revision",
    "load_format": "spec.model.uri",
    "memory_fraction": "spec.caches.kv.memoryFraction",
    "block_size": "spec.caches.kv.blockSize",
}
"""Our names for flags, and the field of a ModelRelease that decides; without one, we do."""
_RANKS: Final = {
    "tensor": "spec.topology.tensorParallel",
    "pipeline": "spec.topology.pipelineParallel",
    "data": "spec.topology.dataParallel",
    "nodes": "spec.topology.nodes",
}
"""Likewise for flags of ranks; of the others topology as a whole."""


class EngineVersion(Document):
    """One release of an engine."""

    image: Image
    cpu: Image | None = Field(default=None, description="The same for machines without a GPU.")
    efa: Image | None = Field(
        default=None, description="The same with the libraries of EFA, where `image` has none."
    )


class CommandFacts(Document):
    """What reading an engine's command lines needs, whoever wrote them."""

    title: str = Field(description="How people call it.")
    source: str = Field(description="Where most of this was read.")
    sources: dict[str, str] = Field(
        default_factory=dict[str, str], description="Field: where it was read, if elsewhere."
    )
    date: IsoDate = Field(description="Day it was read.")
    starts: tuple[Start, ...] = Field(description="Every way a command line may start it.")
    images: tuple[ImageStart, ...] = Field(
        default=(), description="Images, and what they start by themselves."
    )
    image_env: dict[EnvName, str] = Field(
        default_factory=dict[str, str], description="Variables that its images set."
    )
    weights: Literal["argument", "flag", "none"] = Field(
        description="The weights follow the command, are a flag's value, or are not named."
    )
    weights_flag: FlagName | None = Field(default=None, description="That flag.")
    port: int = Field(description="Port of the HTTP endpoints.")
    style: Style
    options: dict[FlagName, Option]
    options_of: str = Field(description="Program, version and files the options were read from.")
    ranges: tuple[Range, ...] = Field(
        default=(), description="Numbers that options take, where not every one of their type."
    )
    switches: tuple[str, ...] = Field(
        description="Flags that have no `--no-` form, where the style has one."
    )
    parallel: ParallelFlags = ParallelFlags()
    spreads: FlagName | None = Field(
        default=None,
        description="Switch for all GPUs of the container, which is on where it is absent and no "
        "number of tensor ranks is given; null: one GPU then.",
    )
    drain: DrainFlag | None = Field(
        default=None, description="null: SIGTERM cannot be made to wait."
    )
    paths: Paths


class ForeignEngine(CommandFacts):
    """An engine that others run: policies read its command lines, our charts do not serve it."""


class Engine(CommandFacts):
    """How an engine is started, asked and stopped."""

    command: tuple[str, ...] = Field(description="Exec form, without weights and flags.")
    hub_flag: FlagName | None = Field(
        default=None, description="Flag for weights of the hub, where it is another one."
    )
    api: Literal["openai", "kserve"] = Field(
        default="openai",
        description="openai: /v1 with the model's name in the body; kserve: /v2/models/NAME.",
    )
    ports: dict[str, PortFact] = Field(default_factory=dict[str, PortFact])
    user: int = Field(description="Uid the container runs as; every cache is writable for it.")
    gpu: Literal["required", "optional"] = Field(description="Whether it runs without one.")
    memory_fraction: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Most of a GPU's memory that a known version takes unasked; 1: not known.",
    )
    playing: dict[FlagName, Literal["integer", "number"]] = Field(
        default_factory=dict[str, Literal["integer", "number"]],
        description="Options of `engine.simulation`, where it plays another engine; 0 or more, "
        "rates above 0.",
    )
    flags: DerivedFlags
    drains_by_itself: bool = Field(
        default=False, description="SIGTERM waits for running requests without any flag."
    )
    probe_timeout: Duration = Field(description="Least timeout that a busy, healthy one needs.")
    metrics: Metrics
    metrics_before: tuple[MetricsBefore, ...] = ()
    topologies: tuple[TopologyKind, ...]
    weights_from: tuple[WeightsScheme, ...]
    prefix_cache: PrefixCache | None = None
    kv_dtypes: KvDtypes | None = None
    offload: dict[Tier, CacheTier] = Field(default_factory=dict[Tier, CacheTier])
    distributed_kv: dict[Store, CacheTier] = Field(default_factory=dict[Store, CacheTier])
    beside_transfer: BesideTransfer | None = Field(
        default=None, description="null: prefill and decode keep KV nowhere else."
    )
    config_file: ConfigFile | None = None
    lora: Lora | None = None
    env: dict[str, str]
    caches: dict[str, str]
    scratch: Scratch
    cpu_shared_memory: Bytes | None = Field(
        default=None, description="/dev/shm that ranks on CPUs want, even a single one."
    )
    image_pull: Duration
    versions: dict[str, EngineVersion]
    default: str = Field(description="Version we pin.")
    stream_format: str | None = None
    offline: dict[str, str] = Field(default_factory=dict[str, str])
    hub_cache: str | None = None
    hub_token: str | None = None
    python: str | None = Field(
        default=None,
        pattern=r"^3\.(9|[1-9][0-9]): .*https://",
        description="Python of the image, `3.12: ` and where that was read, for the chart's own "
        "programs, which need 3.9; null: it has none, or none of them ever runs in it.",
    )

    @property
    def divides(self) -> frozenset[str]:
        """Fields of a topology, besides tensorParallel, for which it has a flag."""
        flags = {"pipelineParallel": self.parallel.pipeline, "dataParallel": self.parallel.data}
        return frozenset(field for field, flag in flags.items() if flag)

    @property
    def cache_fields(self) -> frozenset[str]:
        """Fields of a release's caches that it has a flag for, or a place in its file."""
        names, file = self.flags, self.config_file
        known = {
            "prefix": file or (self.prefix_cache and self.prefix_cache.flag),
            "kv.memoryFraction": names.memory_fraction,
            "kv.dtype": self.kv_types,
            "kv.blockSize": file or names.block_size,
        }
        return frozenset(field for field, flag in known.items() if flag)

    @property
    def cache_flags(self) -> dict[str, str]:
        """Fields of a release's caches whose value is a flag's, and that flag."""
        names = {
            "kv.memoryFraction": self.flags.memory_fraction,
            "kv.blockSize": self.flags.block_size,
        }
        return {field: flag for field, flag in names.items() if flag}

    @property
    def kv_types(self) -> tuple[str, ...]:
        """Types its KV cache can be kept in; empty: it cannot be chosen."""
        if self.kv_dtypes is None:
            return ()
        taken = [self.options[flag].choices for flag in self.kv_dtypes.flags]
        return taken[0] if taken and taken[0] else self.kv_dtypes.values

    def drains(self, version: str) -> bool:
        """Whether that version knows the drain flag."""
        return self.drain is not None and not older(version, self.drain.since)

    def drain_flag(self, version: str) -> str | None:
        """The flag that makes that version drain; None where it has none."""
        return self.drain.flag if self.drain is not None and self.drains(version) else None

    def reserved_flags(self) -> frozenset[str]:
        """Flags that we derive, which documents may therefore not set."""
        # What sizes the KV cache may be given as a flag where its field is left out.
        derived = self.flags.model_dump(
            exclude_none=True, exclude={"memory_fraction", "block_size"}
        )
        drain = self.drain.flag if self.drain is not None else None
        prefix = self.prefix_cache.flag if self.prefix_cache is not None else None
        ranks = self.parallel.model_dump(exclude_none=True).values()
        weights = (self.weights_flag, self.hub_flag)
        file = self.config_file.flag if self.config_file is not None else None
        own = (*derived.values(), drain, prefix, *ranks, *weights, *self._adapter_flags())
        return frozenset(flag for flag in (file, *own) if flag)

    def flag_called(self, name: str) -> str:
        """The flag's own name, for another name of it; the same for what is no flag."""
        called = (flag for flag, option in self.options.items() if name in option.aliases)
        return name if name in self.options else next(called, name)

    def field_of(self, flag: str) -> str | None:
        """The field of a document that a derived flag follows from; None: there is none to set."""
        names = (
            {flag: _FIELDS[ours] for ours, flag in self.flags if flag and ours in _FIELDS}
            | {flag: _RANKS.get(ours, "spec.topology") for ours, flag in self.parallel if flag}
            | {flag: "spec.model.uri" for flag in (self.weights_flag, self.hub_flag) if flag}
            | {flag: "spec.lora" for flag in self._adapter_flags() if flag}
        )
        if self.drain is not None:
            names[self.drain.flag] = "spec.startup.drain"
        if self.prefix_cache is not None and self.prefix_cache.flag:
            names[self.prefix_cache.flag] = "spec.caches.prefix"
        if self.config_file is not None:
            names[self.config_file.flag] = "spec.caches"
        return names.get(flag)

    def _adapter_flags(self) -> tuple[str | None, ...]:
        """Adapters come from the approved list alone."""
        lora = self.lora
        if lora is None:
            return ()
        named = (lora.enable, lora.modules, lora.most, lora.most_cpu, lora.max_rank)
        return (*named, *lora.other_flags)

    @property
    def adapter_loading(self) -> tuple[str, ...]:
        """How adapters that requests name can be loaded; empty: not at all."""
        return self.lora.loading if self.lora else ()

    @property
    def adapter_servers(self) -> str | None:
        """Flag that must not ask for more than one process where a sidecar loads adapters."""
        return self.lora.servers if self.lora else None

    def adapter_ranks(self, version: str) -> tuple[int, ...]:
        """Ranks there can be room for, the smallest first; empty: any."""
        option = self.options_in(version).get(self.lora.max_rank or "") if self.lora else None
        return tuple(sorted(int(rank) for rank in option.choices or ())) if option else ()

    def tells_adapters_apart(self, version: str) -> bool:
        """Whether another adapter may take a loaded one's name: its KV is not reused then."""
        since = self.lora.path_in_prefix if self.lora else None
        return since is not None and not older(version, since)

    def adapter_tiers(self, version: str) -> frozenset[str]:
        """Places for KV beyond the GPU that may be used with adapters."""
        known = self.lora.kv_tiers if self.lora else {}
        return frozenset(tier for tier, since in known.items() if not older(version, since))

    def tiers_in(self, version: str) -> dict[str, CacheTier]:
        """Places for KV beyond the GPU that the version knows, by name."""
        tiers: dict[str, CacheTier] = {**self.offload, **self.distributed_kv}
        return {n: t for n, t in tiers.items() if not (t.since and older(version, t.since))}

    def tier_names(self, version: str) -> frozenset[str]:
        """Names of those places."""
        return frozenset(self.tiers_in(version))

    def tiers_beside_transfer(self, version: str) -> frozenset[str]:
        """Those of them that go together with prefill and decode."""
        known = self.beside_transfer
        if known is None or older(version, known.since):
            return frozenset()
        return frozenset(known.tiers) & self.tier_names(version)

    def tier_settings(self) -> frozenset[str]:
        """Flags and variables that are derived when one of them is asked for."""
        tiers = (*self.offload.values(), *self.distributed_kv.values())
        flags = {flag for tier in tiers for flag in (*tier.flags, tier.size_flag) if flag}
        return frozenset(flags | {name for tier in tiers for name in tier.env})

    def metrics_of(self, version: str) -> Metrics:
        """Metric names of that version."""
        names = self.metrics.model_dump(by_alias=True)
        # The newest change first, so that the oldest names win.
        for change in sorted(self.metrics_before, key=lambda c: numbers(c.before), reverse=True):
            if older(version, change.before):
                names |= change.names
        return Metrics.model_validate(names)

    def unknown_flags(self, flags: Iterable[str], version: str) -> dict[str, tuple[str, ...]]:
        """Flags that the version does not know, each with those it may be meant for."""
        own = self.options
        others = [flag for flag in flags if flag not in own or not _known(own[flag], version)]
        if not others:
            return {}
        known = self.options_in(version)
        names = {*known, *(alias for option in known.values() for alias in option.aliases)}
        return {
            flag: tuple(get_close_matches(flag, sorted(known), n=3))
            for flag in others
            if flag not in names
        }

    def options_in(self, version: str) -> dict[str, Option]:
        """Options that the version knows, as far as versions are recorded."""
        return {name: option for name, option in self.options.items() if _known(option, version)}

    def reserved_env(self) -> frozenset[str]:
        """Variables that we set for one document or another; the hub's token is a secret anyway."""
        hub = () if self.hub_cache is None else (self.hub_cache,)
        lora = (*self.lora.load_env, *self.lora.other_env) if self.lora else ()
        return frozenset({"TMPDIR", *self.env, *self.caches, *self.offline, *hub, *lora})


def _known(option: Option, version: str) -> bool:
    """Whether the version has the option, as far as versions are recorded."""
    early = option.since is not None and older(version, option.since)
    return not early and not (option.until is not None and older(option.until, version))


@dataclass(frozen=True)
class EngineCatalog:
    """Every engine we know how to run."""

    engines: Mapping[str, Engine]

    def engines_for(self, topology: str) -> tuple[str, ...]:
        """Engines that can serve in a topology."""
        return tuple(name for name, e in self.engines.items() if topology in e.topologies)

    def misread_flags(self, engine: str, flags: Mapping[str, FlagValue]) -> dict[str, str]:
        """Flags whose values the engine would not take as they are meant, each with the reason."""
        found = {name: misread(grammars()[engine], name, value) for name, value in flags.items()}
        return {name: why for name, why in found.items() if why}

    def misplayed(self, options: Mapping[str, object]) -> dict[str, tuple[str, str, str]]:
        """Options of a simulation that it would not take: what is wrong, what is allowed, and the
        remedy."""
        known = self.engine("simulator").playing
        found: dict[str, tuple[str, str, str]] = {}
        for name, value in options.items():
            if name not in known:
                remedy = did_you_mean(name, known, "remove it")
                found[name] = ("is no option of the simulator", ", ".join(known), remedy)
                continue
            rate = name.endswith("per-second")
            kinds = int if known[name] == "integer" else (int, float)
            right = isinstance(value, kinds) and not isinstance(value, bool)
            if not right or float(value) < 0 or (rate and value == 0):  # pyright: ignore[reportArgumentType]
                wanted = "a whole number" if known[name] == "integer" else "a number"
                bound = "above 0" if rate else "of at least 0"
                found[name] = (f"found {value}", f"{wanted} {bound}", "correct it")
        return found

    def runs_on_cpu(self, engine: str, version: str) -> bool:
        """Whether there is a build of that version for machines without a GPU."""
        release = self.engine(engine).versions.get(version)
        return release is not None and release.cpu is not None

    def versions(self, engine: str) -> tuple[str, ...]:
        """Versions of the engine that are known; empty when the engine is not."""
        known = self.engines.get(engine)
        return tuple(known.versions) if known is not None else ()

    def engine(self, name: str) -> Engine:
        """The engine called `name`.

        Raises:
            UsageError: the catalog has no such engine.
        """
        if name not in self.engines:
            known = ", ".join(sorted(self.engines))
            raise UsageError(
                f"unknown engine {shown(name)}; the catalog knows {known}; "
                f"{did_you_mean(name, self.engines)}"
            )
        return self.engines[name]


class Routing(Document):
    """Facts about the endpoint picker, the body-based router and routers for prefill and decode."""

    source: str
    date: IsoDate
    model_header: str
    profiles: dict[RoutingProfile, Scorers]
    picker_verbosity: int
    scrape_milliseconds: int
    router_verbosity: int
    llm_d: LlmDRouter
    worker_routers: dict[str, WorkerRouter]


@cache  # every flag of every release asks
def numbers(version: str) -> tuple[int, ...]:
    """`0.26.0` as (0, 26, 0), to compare; a release candidate is before its release."""
    release, _, candidate = version.partition("rc")
    found = tuple(int(part) for part in re.findall(r"\d+", release))
    padded = (*found, 0, 0, 0, 0)[:4]
    return (*padded, int(candidate) - 10_000 if candidate.isdigit() else 0)


def older(version: str, than: str) -> bool:
    """Whether the version came before the other one."""
    return numbers(version) < numbers(than)


@cache
def load_engines() -> EngineCatalog:
    """The catalog of this checkout."""
    files = sorted((HERE / "engines").glob("*.yaml"))
    return EngineCatalog({file.stem: Engine.model_validate(read(file)) for file in files})


@cache
def load_foreign() -> Mapping[str, ForeignEngine]:
    """Engines whose command lines policies read beside those of the catalog, by name."""
    files = sorted((HERE / "foreign").glob("*.yaml"))
    return {file.stem: ForeignEngine.model_validate(read(file)) for file in files}


@cache
def load_routing() -> Routing:
    """The routing facts of this checkout."""
    return Routing.model_validate(read(HERE / "routing.yaml"))
