"""Weights that custom resources name, and that their controllers fetch from the hub.

Where a kind names them, and how it says a revision, is data (`servers.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.model import Manifest, Path
from policies.servers import data, descend, homes, parent
from policies.tree import is_mapping, mapping, written


@dataclass(frozen=True)
class Weights:
    """One name of weights, and what pins it."""

    path: Path
    model: str
    """OWNER/NAME on the hub."""
    revision: str
    """Empty where none is said."""
    remedy: str


_NAME = r"[A-Za-z0-9][\w.-]*/[\w.-]+"
_ADDRESS = re.compile(rf"https://huggingface\.co/(?P<model>{_NAME})/resolve/(?P<revision>[^/]+)/.+")


def named_weights(manifest: Manifest) -> Iterator[Weights]:
    """The weights that an object names and does not keep itself."""
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    for facts in data()["weights"]:
        if facts["group"] != group or manifest.get("kind") not in facts["kinds"]:
            continue
        for pattern in facts["at"]:
            *above, last = pattern.split(".")
            for home in homes(manifest, above, ()):
                found = _named(manifest, (*home, last), facts)
                if found is not None:
                    yield found


def _named(manifest: Manifest, path: Path, facts: Mapping[str, Any]) -> Weights | None:
    holder = mapping(descend(manifest, parent(manifest, path)))
    value = holder.get(str(path[-1]))
    if not written(value) or not _applies(holder, facts):
        return None
    match = _read(value, facts)
    if match is None:
        return None
    model, revision = match
    if "owner" in facts:
        model = f"{holder.get(facts['owner'])}/{model}"
    if "revision" in facts:
        given = holder.get(facts["revision"])
        if given is not None and not written(given):
            return None
        revision = given or ""
    return Weights(path, model, revision, facts["remedy"].replace("{model}", model))


def _applies(holder: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    if any(holder.get(name) for name in facts.get("unless", ())):
        return False
    for name, values in mapping(facts.get("when")).items():
        given = descend(holder, tuple(name.split(".")))
        if values is None:
            if not is_mapping(given):
                return False
        elif str(given or "").lower() not in values:
            return False
    return True


def _read(value: str, facts: Mapping[str, Any]) -> tuple[str, str] | None:
    """The model and its revision; None for what is no name on the hub."""
    begins, parts = facts.get("begins", ""), facts.get("parts")
    address = _ADDRESS.fullmatch(value) if facts.get("address") else None
    if address is not None:
        return address["model"], address["revision"]
    if not value.startswith(begins) and not facts.get("short"):
        return None
    name, _, revision = value.removeprefix(begins).partition(parts or "\0")
    pattern = r"[\w.-]+" if "owner" in facts else _NAME
    return (name, revision) if re.fullmatch(pattern, name) else None
