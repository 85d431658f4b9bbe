"""A release: the objects of one component, and what must be there before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokenworks.spec.stack import Manifest

Layer = Literal["crds", "operators", "platform", "models"]


@dataclass(frozen=True)
class Release:
    """One unit of rendering, delivery and review."""

    name: str
    layer: Layer
    namespace: str
    objects: tuple[Manifest, ...]
    needs: tuple[str, ...] = ()
    """Names of releases that must be applied and ready first."""
    ready_seconds: float = 600.0
    """How long its workloads may take to become ready."""
