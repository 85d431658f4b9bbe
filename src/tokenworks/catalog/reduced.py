"""Schemas of kinds whose CRDs no pinned module brings: reduced to what we render, our own text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tokenworks.catalog.reading import read

FOLDER = Path(__file__).parent / "reduced"


@cache
def reduced_crds() -> tuple[dict[str, Any], ...]:
    """A CustomResourceDefinition for each of these kinds."""
    return tuple(read(file) for file in sorted(FOLDER.glob("*.yaml")))
