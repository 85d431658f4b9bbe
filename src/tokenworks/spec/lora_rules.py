"""What must hold for a release's adapters, within its document and against its engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenworks.catalog.adapters import adapter_facts
from tokenworks.spec.caches_rules import PLACES, tiers_asked
from tokenworks.spec.common import quantity_value
from tokenworks.spec.lora import Lora
from tokenworks.spec.model import ModelRelease, ModelReleaseSpec
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.sourced import EngineCatalog, Sourced, listed

_TOPOLOGIES: Final = ("single", "multi-node")
_PATH: Final = ("spec", "lora")


def adapter_bytes(spec: ModelReleaseSpec) -> float:
    """Bytes that a starting pod may fetch for its adapters. Probes and deadlines follow from it,
    so a list that may change counts with its limits: another list must not make other pods."""
    return spec.lora.storage if spec.lora else 0.0


def check_lora(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    """Every problem of a release's adapters."""
    lora = model.document.spec.lora
    if lora is None:
        return
    yield from _engine(model, lora, catalog)
    yield from _topology(model, lora)
    yield from _sources(model, lora)
    yield from _limits(model, lora)
    yield from _matches(model, lora)
    yield from _kept_apart(model, catalog)
    yield from _one_process(model, lora, catalog)


def _engine(model: Sourced[ModelRelease], lora: Lora, catalog: EngineCatalog) -> Iterator[Problem]:
    engine = model.document.spec.engine
    loading = catalog.engine(engine.name).adapter_loading
    if not loading:
        yield model.problem(
            _PATH,
            f"found with engine {engine.name}, which does not serve adapters by their names",
            "engine vllm or sglang",
            "remove it, or choose one of these; engine.simulation: {} plays them without GPUs",
        )
    elif lora.load not in loading:
        yield model.problem(
            (*_PATH, "load"),
            f"found {lora.load}, but engine {engine.name} fixes rank and layers of adapters when "
            "it starts",
            " or ".join(loading),
            f"write {loading[0]}, or choose engine vllm",
        )
    yield from _room(model, lora, catalog)


def _room(model: Sourced[ModelRelease], lora: Lora, catalog: EngineCatalog) -> Iterator[Problem]:
    """Engines make room for some ranks only."""
    engine = model.document.spec.engine
    facts = catalog.engine(engine.name)
    ranks = facts.adapter_ranks(engine.version or facts.default)
    if ranks and lora.rank > ranks[-1]:
        yield model.problem(
            (*_PATH, "maxRank") if lora.max_rank else (*_PATH, "adapters"),
            f"found rank {lora.rank}, but engine {engine.name} has room for at most {ranks[-1]}",
            f"at most {ranks[-1]}",
            "take larger adapters off the list",
        )


def _topology(model: Sourced[ModelRelease], lora: Lora) -> Iterator[Problem]:
    topology = model.document.spec.topology
    kind, copies = topology.kind, topology.data_parallel or 1
    if kind not in _TOPOLOGIES:
        yield model.problem(
            _PATH,
            f"found with kind {kind}, where it has not been shown that all ranks use the adapter "
            "that a request names",
            f"kind {' or '.join(_TOPOLOGIES)}",
            "remove it, or choose one of these kinds",
        )
    elif lora.load == "sidecar" and (kind != "single" or copies > 1):
        found = f"kind {kind}" if kind != "single" else f"dataParallel {copies}"
        yield model.problem(
            (*_PATH, "load"),
            f"found sidecar with {found}: only the engine in the sidecar's own pod would load "
            "adapters, and only as one server",
            "start",
            "write start, or choose kind single without dataParallel",
        )


def _kept_apart(model: Sourced[ModelRelease], catalog: EngineCatalog) -> Iterator[Problem]:
    """What was computed with one adapter is wrong for every other, and nobody would notice."""
    engine = model.document.spec.engine
    facts = catalog.engine(engine.name)
    version = engine.version or facts.default
    apart = facts.adapter_tiers(version)
    for path, tier in tiers_asked(model.document):
        if tier not in apart:
            yield model.problem(
                path,
                f"found {PLACES.get(tier, tier)} beside spec.lora, where engine {engine.name} "
                f"{version} has not been seen to keep the KV of two adapters apart",
                listed({PLACES.get(name, name) for name in apart}, "none"),
                "remove it, or choose another version",
            )


def _one_process(
    model: Sourced[ModelRelease], lora: Lora, catalog: EngineCatalog
) -> Iterator[Problem]:
    engine = model.document.spec.engine
    flag = catalog.engine(engine.name).adapter_servers
    asked = engine.flags.get(flag) if flag and lora.load == "sidecar" else None
    if asked is not None and str(asked) != "1":
        yield model.problem(
            ("spec", "engine", "flags", flag or ""),
            f"found {asked} with load sidecar, which reaches a single process that answers",
            "1",
            "remove it, or write load start",
        )


def _sources(model: Sourced[ModelRelease], lora: Lora) -> Iterator[Problem]:
    if model.document.spec.engine.simulation is not None:
        return
    for name, adapter in lora.adapters.items():
        if adapter.scheme == "dummy":
            yield model.problem(
                (*_PATH, "adapters", name, "uri"),
                f"found {adapter.uri}, but only a played engine loads adapters that do not exist",
                "hf:// or pvc://",
                "name the adapter, or add engine.simulation: {}",
            )


def _limits(model: Sourced[ModelRelease], lora: Lora) -> Iterator[Problem]:
    for name, adapter in lora.adapters.items():
        path: FieldPath = (*_PATH, "adapters", name)
        if quantity_value(adapter.size) > quantity_value(lora.max_size):
            yield model.problem(
                (*path, "size"),
                f"found {adapter.size}, but maxSize is {lora.max_size}",
                f"at most {lora.max_size}",
                "take it off the list, or raise spec.lora.maxSize",
            )
        if adapter.rank > lora.rank:
            yield model.problem(
                (*path, "rank"),
                f"found {adapter.rank}, but maxRank is {lora.rank}",
                f"at most {lora.rank}",
                "take it off the list, or raise spec.lora.maxRank",
            )


def _matches(model: Sourced[ModelRelease], lora: Lora) -> Iterator[Problem]:
    """A route matches each name, and with load sidecar each name on each path."""
    facts = adapter_facts()
    paths = len(facts.paths) if lora.load == "sidecar" else 1
    most = facts.most_matches // paths - 1
    if len(lora.adapters) > most:
        yield model.problem(
            (*_PATH, "adapters"),
            f"found {len(lora.adapters)}, but one route has room for {most} names beside the "
            "model's own",
            f"at most {most} with load {lora.load}",
            "serve the others with another release",
        )
