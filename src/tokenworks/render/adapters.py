"""Adapters of a release: the engine's flags and variables for them, and the chart's values."""

from __future__ import annotations

import hashlib
from typing import Final

from tokenworks.catalog.engines import Engine
from tokenworks.catalog.options import Lora as LoraFacts
from tokenworks.render.quantities import mebibytes
from tokenworks.spec.common import FlagValue, quantity_value
from tokenworks.spec.lora import Adapter, Lora
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.values import AdapterValues, LoraValues, SmallResources

FOLDER: Final = "/adapters"
HELPER: Final = SmallResources(cpu="50m", memory="128Mi")
"""What a small program beside the engine asks for."""
_DIGITS: Final = 12


def adapter_storage(lora: Lora) -> str:
    """Size limit of the volume. Beside a running engine, one more comes before an old one goes."""
    coming = quantity_value(lora.max_size) if lora.load == "sidecar" else 0
    return mebibytes(lora.storage + coming)


def _path(name: str, adapter: Adapter) -> str:
    """The folder of an adapter. Another content gets another folder, so nothing is mixed up: the
    digest is of the weights alone, and the same weights may come with another configuration."""
    content = "\n".join((adapter.uri, adapter.revision or "", adapter.digest or ""))
    return f"{FOLDER}/{name}-{hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]}"


def adapter_flags(lora: Lora | None, engine: Engine, version: str) -> dict[str, FlagValue]:
    """Flags that make the engine serve adapters; with load start, which."""
    facts = engine.lora
    if lora is None or facts is None:
        return {}
    flags: list[tuple[str | None, FlagValue]] = [
        (facts.enable, True),
        (facts.most, lora.loaded),
        (facts.most_cpu, lora.kept),
        (facts.max_rank, _max_rank(lora, engine, version)),
    ]
    if lora.load == "start":
        flags.append((facts.modules, _modules(lora, facts)))
    return {name: value for name, value in flags if name}


def _modules(lora: Lora, facts: LoraFacts) -> list[str]:
    form = facts.module_form
    return [
        form.replace("{name}", name).replace("{path}", _path(name, adapter))
        for name, adapter in sorted(lora.adapters.items())
    ]


def _max_rank(lora: Lora, engine: Engine, version: str) -> int:
    """The rank, or the next larger one that the engine has; the rules know that there is one."""
    return next((rank for rank in engine.adapter_ranks(version) if rank >= lora.rank), lora.rank)


def adapter_env(lora: Lora | None, engine: Engine) -> dict[str, str]:
    """What allows loading on request: only where a sidecar does it, and the route keeps it away."""
    if lora is None or engine.lora is None or lora.load != "sidecar":
        return {}
    return engine.lora.load_env


def downloads_adapters(lora: Lora | None) -> bool:
    """Whether pods fetch adapters over HTTPS."""
    return lora is not None and any(a.scheme == "hf" for a in lora.adapters.values())


def lora_values(
    model: ModelRelease, engine: Engine, version: str, *, played: bool
) -> LoraValues | None:
    """Values of the chart for a release's adapters; a played engine gets made-up ones."""
    lora = model.spec.lora
    if lora is None:
        return None
    claims = {a.uri.split("/")[2] for a in lora.adapters.values() if a.scheme == "pvc"}
    hub = model.spec.model.uri.removeprefix("hf://")
    return LoraValues(
        load=lora.load,
        folder=FOLDER,
        storage=adapter_storage(lora),
        base=lora.base or (hub if hub != model.spec.model.uri else None),
        replace=not model.spec.caches.prefix or engine.tells_adapters_apart(version),
        claims=() if played else tuple(sorted(claims)),
        # Whatever is on the list that a sidecar follows: another list must not make other pods.
        token=model.spec.model.token_secret
        if not played and (lora.load == "sidecar" or downloads_adapters(lora))
        else None,
        resources=HELPER,
        adapters={
            name: _adapter(model, name, adapter, engine, played=played)
            for name, adapter in lora.adapters.items()
        },
    )


def _adapter(
    model: ModelRelease, name: str, adapter: Adapter, engine: Engine, *, played: bool
) -> AdapterValues:
    asked = engine.lora.asked if engine.lora else None
    if asked is not None:
        asked = asked.replace("{base}", model.served_name).replace("{name}", name)
    revision = None if adapter.revision == "unresolved" else adapter.revision
    return AdapterValues(
        uri=f"dummy://{name}" if played else adapter.uri,
        revision=None if played else revision,
        digest=adapter.digest or "unresolved",
        bytes=int(quantity_value(adapter.size)),
        rank=adapter.rank,
        path=_path(name, adapter),
        asked=asked,
    )
