"""Engines (`engines.yaml`) and routing (`routing.yaml`): facts about programs, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BeforeValidator, Field

from tokenworks.errors import UsageError
from tokenworks.spec.common import Bytes, Document, Duration, Image
from tokenworks.spec.model import RoutingProfile
from tokenworks.spec.values import EngineMetrics, Scorers

HERE = Path(__file__).parent

# YAML reads `2026-11-29` as a date; documents carry text.
IsoDate = Annotated[str, BeforeValidator(str)]


class DrainFlag(Document):
    """The flag that makes SIGTERM wait for running requests."""

    flag: str
    since: str = Field(description="First version that knows it.")
    source: str


class Paths(Document):
    """HTTP paths of an engine."""

    startup: str
    readiness: str
    liveness: str
    metrics: str


class Scratch(Document):
    """Size limits of the folders an engine writes to, besides weights."""

    tmp: Bytes
    cache: Bytes


class DerivedFlags(Document):
    """Engine flags that follow from a document, each by our name for it."""

    served_name: str
    max_context: str
    port: str
    prefix_cache: str
    tensor_parallel: str | None = None
    revision: str | None = None
    load_format: str | None = None


class EngineVersion(Document):
    """One release of an engine."""

    image: Image


class Engine(Document):
    """How an engine is started, asked and stopped."""

    source: str
    date: IsoDate
    command: tuple[str, ...]
    weights: Literal["argument", "none"]
    port: int
    user: int
    flags: DerivedFlags
    switches: tuple[str, ...]
    drain: DrainFlag
    paths: Paths
    metrics: EngineMetrics
    env: dict[str, str]
    caches: dict[str, str]
    scratch: Scratch
    image_pull: Duration
    versions: dict[str, EngineVersion]
    stream_format: str | None = None
    offline: dict[str, str] = Field(default_factory=dict[str, str])
    hub_cache: str | None = None
    hub_token: str | None = None

    def drains(self, version: str) -> bool:
        """Whether that version knows the drain flag."""
        return _numbers(version) >= _numbers(self.drain.since)

    def reserved_flags(self) -> frozenset[str]:
        """Flags that we derive, which documents may therefore not set."""
        derived = self.flags.model_dump(exclude_none=True)
        return frozenset({*derived.values(), self.drain.flag})

    def reserved_env(self) -> frozenset[str]:
        """Variables that we set for one document or another; the hub's token is a secret anyway."""
        hub = () if self.hub_cache is None else (self.hub_cache,)
        return frozenset({"TMPDIR", *self.env, *self.caches, *self.offline, *hub})


@dataclass(frozen=True)
class EngineCatalog:
    """Every engine we know how to run."""

    engines: Mapping[str, Engine]

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
            raise UsageError(f"unknown engine {name}; the catalog knows {known}")
        return self.engines[name]


class Routing(Document):
    """Facts about the endpoint picker and the body-based router."""

    source: str
    date: IsoDate
    model_header: str
    profiles: dict[RoutingProfile, Scorers]
    picker_verbosity: int
    scrape_milliseconds: int
    router_verbosity: int


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@cache
def load_engines() -> EngineCatalog:
    """The catalog of this checkout."""
    data = yaml.safe_load((HERE / "engines.yaml").read_text())
    return EngineCatalog({name: Engine.model_validate(engine) for name, engine in data.items()})


@cache
def load_routing() -> Routing:
    """The routing facts of this checkout."""
    return Routing.model_validate(yaml.safe_load((HERE / "routing.yaml").read_text()))
