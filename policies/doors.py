"""Programs that serve models beside the engines we know, and whether they ask who is there.

Their names, ports and ways to ask are data (`doors.json`). What is not written down, such as a
file of settings that nobody shows, leaves it open: then nothing is said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from policies.engines import Program, repository_of
from policies.graph import Graph
from policies.tree import mapping, sequence, string_map


@dataclass(frozen=True)
class Door:
    """A program that serves models, and how it asks who is there."""

    name: str
    image: re.Pattern[str]
    command: re.Pattern[str]
    port: int
    remedy: str
    variables: tuple[str, ...] | None = None
    """None: it asks by itself."""
    flags: tuple[str, ...] = ()
    config: str | None = None
    open: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    before: tuple[int, int] | None = None


@cache
def _doors() -> tuple[Door, ...]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name("doors.json").read_text())
    return tuple(
        Door(
            item["name"],
            re.compile(item["image"]),
            re.compile(item["command"]),
            item["port"],
            item["remedy"],
            tuple(item["variables"]) if "variables" in item else None,
            tuple(item.get("flags", ())),
            item.get("config"),
            {name: tuple(values) for name, values in item.get("open", {}).items()},
            _version(item["before"]) if "before" in item else None,
        )
        for item in data["programs"]
    )


def _version(text: str) -> tuple[int, int] | None:
    match = re.match(r"v?(\d{1,9})\.(\d{1,9})", text)
    return (int(match[1]), int(match[2])) if match else None


def door_of(program: Program) -> Door | None:
    """The program of the list that a container runs; None for engines, and for what it is not."""
    container = program.container
    if container.kind not in ("container", "sidecar") or program.mode != "none":
        return None
    repository, text = repository_of(container.image).lower(), program.command.text.lower()
    own = not program.command.explicit
    return next(
        (d for d in _doors() if d.command.search(text) or (own and d.image.search(repository))),
        None,
    )


def asks_nobody(program: Program, door: Door, graph: Graph) -> bool:
    """Whether it certainly serves everybody who reaches it."""
    env = program.container.env
    if any((env.get(name) or "").lower() in values for name, values in door.open.items()):
        return True
    return not (_may_be_told(program, door) or _may_be_configured(program, door, graph))


def _may_be_told(program: Program, door: Door) -> bool:
    """Whether a variable, a flag or its version may make it ask."""
    container, variables = program.container, door.variables
    if variables is None or container.spec.get("envFrom") or container.completed:
        return True
    if any(name in container.env for name in variables):
        return True
    version = _version(container.image.partition("@")[0].rpartition(":")[2])
    if door.before is not None and (version is None or version >= door.before):
        return True
    return any(program.command.flag(flag) is not None for flag in door.flags)


def _may_be_configured(program: Program, door: Door, graph: Graph) -> bool:
    """Whether a file of settings may make it ask: one that says so, or that nobody shows."""
    if door.config is None or not sequence(program.container.spec.get("volumeMounts")):
        return False
    texts = list(_configured(program, graph))
    return not texts or any(door.config in text for text in texts)


def _configured(program: Program, graph: Graph) -> Iterator[str]:
    """The texts of ConfigMaps that its pod mounts; nothing where one is not among the objects."""
    pod, found = program.container.pod, list[str]()
    for volume in map(mapping, sequence(pod.spec.get("volumes"))):
        name = mapping(volume.get("configMap")).get("name")
        item = graph.find("ConfigMap", pod.namespace, str(name)) if name else None
        if "secret" in volume or "projected" in volume or (name and item is None):
            return
        found += string_map(item.manifest.get("data")).values() if item else ()
    yield from found
