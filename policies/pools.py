"""InferencePools, of the stable API and of the one before it: pods, ports, picker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.model import Path
from policies.tree import integer, mapping, sequence, string_map


def labels_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """The labels that the pool's pods carry."""
    selector = mapping(spec.get("selector"))
    return string_map(selector.get("matchLabels", selector))


def ports_of(spec: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    """The ports that the pool sends to, and where they are written."""
    for position, port in enumerate(sequence(spec.get("targetPorts"))):
        yield ("spec", "targetPorts", position, "number"), mapping(port).get("number")
    if "targetPortNumber" in spec:
        yield ("spec", "targetPortNumber"), spec["targetPortNumber"]


def numbers_of(spec: Mapping[str, Any]) -> Iterator[int]:
    """The ports that are numbers."""
    for _, port in ports_of(spec):
        if isinstance(port, int | float) and (number := integer(port, 0)) is not None:
            yield number


def picker_of(spec: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The field that names the picker, and what it says."""
    key = "extensionRef" if "endpointPickerRef" not in spec else "endpointPickerRef"
    return key, mapping(spec.get(key))
