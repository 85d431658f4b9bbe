"""Engines that Ray Serve starts on a RayService's workers, as if each were one of their containers.

`spec.serveConfigV2` holds a YAML text; its applications are given `llm_configs`, whose
`engine_kwargs` are the engine's flags with underscores. So the rules about flags, weights and
code of models read them like any command line, and say where in the text something stands.
What Ray makes of them: ray-project/ray, python/ray/llm/_internal/serve/engines/vllm/
vllm_models.py, read 2026-11-30.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as File
from typing import Any

from policies.model import Path
from policies.pods import Container, Pod
from policies.tree import at, is_mapping, is_sequence, mapping, sequence
from policies.yamltext import data_of

TEXT: Path = ("spec", "serveConfigV2")
_HOME = "/home/ray"
"""Home of Ray's images: https://docs.ray.io/en/latest/ray-overview/installation.html."""


@dataclass(frozen=True)
class Brought:
    """The vLLM that an image of Ray has."""

    image: str
    """An image of vLLM's own of the same version."""
    exact: bool
    """It is that version, and not only no older one."""


_IMAGE = re.compile(r"(?:^|/)rayproject/ray(?:-llm|-ml)?:(\d+)\.(\d+)\.\d+(?:[.-]|$)")


def brought(image: str) -> Brought | None:
    """What is known of the vLLM in an image of Ray; None where nothing is."""
    match = _IMAGE.search(image.partition("@")[0])
    if match is None:
        return None
    release = int(match[1]), int(match[2])
    facts = _facts()
    older = [known for known in facts["vllm"] if _numbers(known) <= release]
    newest = max(map(_numbers, facts["vllm"]))
    if not older:
        return None
    version = facts["vllm"][max(older, key=_numbers)]
    exact = _numbers(facts["exactFrom"]) <= release <= newest
    return Brought(f"vllm/vllm-openai:v{version}", exact)


def _numbers(version: str) -> tuple[int, int]:
    first, _, second = version.partition(".")
    return int(first), int(second)


@cache
def _facts() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(File(__file__).with_name("ray.json").read_text())
    return data


def served(pods: Sequence[Pod]) -> Iterator[Container]:
    """What Ray Serve starts, in the worker with the most accelerators."""
    hosts: dict[int, list[Container]] = {}
    for pod in pods:
        if pod.kind == "RayService" and pod.containers:
            main = next((c for c in pod.containers if c.kind == "container"), None)
            hosts.setdefault(pod.index, []).extend([main] if main else [])
    for candidates in hosts.values():
        workers = [c for c in candidates if c.pod.role == "worker"] or candidates
        if workers:
            host = max(workers, key=_accelerators)
            text = at(host.pod.object, *map(str, TEXT))
            for path, config in _configs(data_of(text)):
                yield from _engine(host, (*TEXT, *path), config)


def _accelerators(container: Container) -> int:
    limits = mapping(mapping(container.spec.get("resources")).get("limits"))
    return max(
        (int(v) for k, v in limits.items() if "gpu" in str(k) and str(v).isdigit()), default=0
    )


_ONE = ("llm_config", "prefill_config", "decode_config")
"""Arguments of an application that are one configuration; `llm_configs` lists several."""


def _configs(data: object) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The configurations of engines, and where they stand in the text."""
    for position, application in enumerate(sequence(mapping(data).get("applications"))):
        args = mapping(mapping(application).get("args"))
        home: Path = ("applications", position, "args")
        for key in _ONE:
            if is_mapping(args.get(key)):
                yield (*home, key), args[key]
        for number, config in enumerate(sequence(args.get("llm_configs"))):
            if is_mapping(config):
                yield (*home, "llm_configs", number), config


def _engine(host: Container, home: Path, config: Mapping[str, Any]) -> Iterator[Container]:
    loading = mapping(config.get("model_loading_config"))
    if str(config.get("llm_engine") or "vLLM") != "vLLM" or not loading.get("model_id"):
        return
    source = "model_source" if loading.get("model_source") else "model_id"
    words = [(("model_loading_config", source), _source(loading[source]))]
    for key, value in mapping(config.get("engine_kwargs")).items():
        words += [(("engine_kwargs", str(key)), word) for word in _words(str(key), value)]
    own = mapping(mapping(config.get("runtime_env")).get("env_vars"))
    env: list[tuple[Path, Mapping[str, Any]]] = [((), {"name": "HOME", "value": _HOME})]
    env += [
        ((*host.path, "env", n), mapping(entry))
        for n, entry in enumerate(sequence(host.spec.get("env")))
    ]
    env += [
        ((*home, "runtime_env", "env_vars", str(name)), {"name": str(name), "value": str(value)})
        for name, value in own.items()
    ]
    elsewhere: dict[Path, Path] = {
        **{("args", n): (*home, *place) for n, (place, _) in enumerate(words)},
        **{("env", n): place or home for n, (place, _) in enumerate(env)},
        ("args",): (*home, "engine_kwargs"),
        ("env",): (*home, "runtime_env"),
        ("volumeMounts",): (*host.path, "volumeMounts"),
        ("resources",): (*host.path, "resources"),
    }
    # What `placement_group_config` asks for has nothing to do with one worker's GPUs.
    kept = {"image", "volumeMounts", "envFrom"}
    if not config.get("placement_group_config"):
        kept.add("resources")
    spec = {
        **{key: host.spec[key] for key in sorted(kept) if key in host.spec},
        "name": str(loading["model_id"]),
        "command": ["vllm", "serve"],
        "args": [word for _, word in words],
        "env": [entry for _, entry in env],
    }  # fmt: skip
    yield Container(host.pod, "model", home, spec, elsewhere=elsewhere)


def _source(value: object) -> str:
    """Weights as a command line names them; those of a bucket are no name on a hub."""
    return str(mapping(value).get("bucket_uri") or "/") if is_mapping(value) else str(value)


def _words(key: str, value: object) -> Iterator[str]:
    name = key.replace("_", "-")
    if str(value).lower() in ("true", "false"):
        yield f"--{name}" if str(value).lower() == "true" else f"--no-{name}"
    elif is_sequence(value):
        yield f"--{name}"
        yield from (_text(item) for item in value)
    elif value is not None:
        yield f"--{name}={_text(value)}"


def _text(value: object) -> str:
    return json.dumps(value, default=str) if is_mapping(value) or is_sequence(value) else str(value)
