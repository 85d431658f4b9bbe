"""The page of caches: every kind in every engine that can be told of it, as the renderer does it.

Risks are written by hand, in caches.yaml; all else follows from one release rendered with and
without the cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tokenworks.catalog.engines import Engine, load_engines
from tokenworks.render.model import model_values
from tokenworks.spec import rules
from tokenworks.spec.environment import Environment
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.sourced import D, Documents, Sourced
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.values import ModelValues
from tokenworks.spec.yamlsource import read_yaml

Overlay = dict[str, Any]

_INTRO: Final = """# Caches

Every kind of cache in every engine that can be told of it. The release is one of 66 GB on two GPUs
and 96Gi of memory, 16Gi of them `/dev/shm`; a cell shows what the cache adds to it. A pair that is
not here is refused when documents are loaded. [caches.md](../caches.md) explains them.

"""
_PLAYED: Final = ("simulator", "llmd-sim")
_SPEC: Final[Overlay] = {
    "tenant": "research",
    "model": {
        "uri": "hf://Qwen/Qwen3-32B", "revision": "01" * 20, "size": "66G", "maxContext": 8192,
    },
    "pool": "h100",
    "replicas": 1,
    "resources": {
        "gpus": 2, "cpu": "16", "memory": "96Gi", "sharedMemory": "16Gi",
        "ephemeralStorage": "20Gi",
    },
    "caches": {},
}  # fmt: skip
_ENVIRONMENT: Final[Overlay] = {
    "metadata": {"name": "lab"},
    "spec": {
        "cluster": {"provider": "existing", "context": "lab"},
        "nodePools": {
            "h100": {
                "gpu": "nvidia-h100-80gb", "gpusPerNode": 8, "nodes": 8,
                "labels": {"pool": "h100"}, "localStorage": {"path": "/mnt/nvme/weights"},
            },
        },
    },
}  # fmt: skip
_TENANT: Final[Overlay] = {
    "metadata": {"name": "research"}, "spec": {"quota": {"h100": {"gpus": 64}}},
}  # fmt: skip


def laid(base: Mapping[str, Any], over: Mapping[str, Any]) -> Overlay:
    """`over` on a copy of `base`, map by map; null takes away."""
    found: Overlay = dict(base)
    for key, value in over.items():
        below: Any = found.get(key)
        found[key] = laid(below, value) if isinstance(below, dict) and value is not None else value  # pyright: ignore[reportUnknownArgumentType]
    return {key: value for key, value in found.items() if value is not None}


def _sourced(document: D) -> Sourced[D]:
    text = json.dumps(document.model_dump(by_alias=True, mode="json"))
    return Sourced(document, Path("page.yaml"), lambda: read_yaml(text).documents[0])


def values(engine: str, say: Mapping[str, Any], *, to_compare: bool = False) -> ModelValues | None:
    """What the release renders to; None where it is refused.

    `to_compare`: whether anybody may have it does not matter.
    """
    spec = laid(_SPEC, {"engine": {"name": engine}})
    # Engines that do not read the hub are shown with what they read.
    if "hf" not in load_engines().engine(engine).weights_from and "model" not in say:
        return None
    release = {"metadata": {"name": "qwen3"}, "spec": laid(spec, say)}
    model = ModelRelease.model_validate(release)
    environment = Environment.model_validate(_ENVIRONMENT)
    tenant = Tenant.model_validate(_TENANT)
    documents = Documents(
        _sourced(environment), (_sourced(model),), (_sourced(tenant),), frozenset()
    )
    if not to_compare and any(rules.check(documents, load_engines())):
        return None
    return model_values(Stack(environment, (model,), (tenant,)), model)


def kinds(root: Path) -> list[dict[str, Any]]:
    """Kinds of caches, in order."""
    return yaml.safe_load((root / "hack" / "caches.yaml").read_text())


def page(root: Path) -> str:
    """The page's text, without the heading that every generated page has."""
    head = "| cache | the document says | engine | flags, variables, files | volumes "
    head += "| memory and disk | risks |\n|---|---|---|---|---|---|---|\n"
    return _INTRO + head + "".join(line for kind in kinds(root) for line in _lines(kind))


def _lines(kind: Mapping[str, Any]) -> Iterator[str]:
    """A line for each engine; engines for which all is the same share one."""
    same: dict[tuple[str, ...], list[str]] = {}
    for name, engine in load_engines().engines.items():
        say = _filled(kind["say"], engine)
        with_it = values(name, say) if name not in _PLAYED and say is not None else None
        if with_it is None:
            continue
        without = values(name, kind.get("without", {}), to_compare=True)
        cells = (
            _said(say or {}),
            _told(with_it, without, engine),
            _volumes(with_it, without),
            _room(with_it, without, say or {}, kind.get("takes", "")),
        )
        same.setdefault(cells, []).append(engine.title)
    for (said, *cells), titles in same.items():
        row = (kind["cache"], said, ", ".join(titles), *cells, " ".join(kind["risks"].split()))
        yield f"| {' | '.join(row)} |\n"


def _filled(say: Mapping[str, Any], engine: Engine) -> Overlay | None:
    """The document's words; `first` is the first type that the engine can be told. None: it has
    none."""
    kv: dict[str, Any] = say.get("caches", {}).get("kv", {})
    if kv.get("dtype") != "first":
        return dict(say)
    types = [kind for kind in engine.kv_types if kind not in ("auto", "bfloat16", "f32", "float16")]
    return {"caches": {"kv": {"dtype": types[0]}}} if types else None


def _said(say: Mapping[str, Any]) -> str:
    return _code(_flow(say.get("caches") or {"model": {"uri": say["model"]["uri"]}}))


def _flow(value: Any) -> str:
    """YAML on one line, without the outermost braces."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)  # pyright: ignore[reportUnknownMemberType]
    return text.strip().removeprefix("{").removesuffix("}")


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _told(with_it: ModelValues, without: ModelValues | None, engine: Engine) -> str:
    """What the engine is told that it is not told without the cache."""
    mine, base = with_it.engine, without.engine if without else None
    words = [w for w in mine.arguments if base is None or w not in base.arguments]
    flags = {n: v for n, v in mine.flags.items() if base is None or base.flags.get(n) != v}
    words += [_flag(name, value) for name, value in flags.items()]
    env = {n: v for n, v in mine.env.items() if base is None or base.env.get(n) != v}
    words += [f"{name}={value}" for name, value in env.items()]
    if base is None:
        # Nothing to compare with: what is about the weights.
        words = [w for w in words if "/weights" in w or "://" in w or w[:-2] in engine.offline]
    changed = [f for f, t in mine.files.items() if base is None or base.files.get(f) != t]
    settings = [f"{file}: {_flow(yaml.safe_load(mine.files[file]))}" for file in changed]
    return ", ".join(map(_code, [*words, *settings])) or "nothing: it is the engine's default"


def _flag(name: str, value: Any) -> str:
    """As it is typed, nearly: engines differ in what stands between name and value."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return f"--{name}={text}"


def _volumes(found: ModelValues, without: ModelValues | None) -> str:
    """Volumes that are there for it: of the weights, of KV in files, of the engine's file."""
    volumes = [] if without and without.weights == found.weights else [_weights(found)]
    if found.kv is not None:
        volumes.append(
            f"existing claim `{found.kv.claim}` at {found.kv.path}, ReadWriteMany"
            if found.kv.claim
            else f"claim of the pod's own at {found.kv.path}, {found.kv.size} of its class"
        )
    if found.engine.files and not (without and without.engine.files == found.engine.files):
        volumes.append("ConfigMap at /etc/engine")
    return "; ".join(v for v in volumes if v) or "none"


def _weights(found: ModelValues) -> str:
    weights = found.weights
    made = f"; made of {weights.make.size}, and kept" if weights.make else ""
    return {
        "ephemeral": f"`emptyDir` of {weights.size}",
        "pvc": f"claim `{weights.claim}`, read-only for engines{made}",
        "node": f"`hostPath` {weights.folder}, read-only for engines",
        "image": "image volume, read-only",
    }.get(weights.kind, "")


def _room(
    with_it: ModelValues, without: ModelValues | None, say: Mapping[str, Any], takes: str
) -> str:
    """What it takes of the pod's memory and disk."""
    found = [takes] if takes else []
    found += _stated(say.get("caches", {}))
    (mine,) = with_it.roles.values()
    base = next(iter(without.roles.values())).resources if without else mine.resources
    for now, before, what in (
        (mine.resources.shared_memory, base.shared_memory, "/dev/shm"),
        (mine.resources.ephemeral_storage, base.ephemeral_storage, "ephemeral storage"),
    ):
        if now != before:
            found.append(f"{what} {now} in place of {before}")
    if with_it.weights.fetch is not None:
        found.append(f"{with_it.weights.fetch.resources.memory} of memory while it downloads")
    if with_it.timing.fetch_seconds:
        found.append(f"{with_it.timing.fetch_seconds} s at 100 MB/s before the engine starts")
    return "; ".join(found) or "none of the pod's"


def _stated(caches: Mapping[str, Any]) -> Iterator[str]:
    """Memory that the document gives away, as part of what the pod asks for."""
    memory = _SPEC["resources"]["memory"]
    given = (caches.get("offload", {}).get("cpu"), caches.get("distributed", {}).get("memory"))
    yield from (f"{size} of the pod's {memory} of memory" for size in given if size)
