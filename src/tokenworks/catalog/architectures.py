"""Model architectures (`architectures.yaml`), typed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from tokenworks.catalog.engines import IsoDate
from tokenworks.catalog.reading import read
from tokenworks.spec.common import Document


class Architecture(Document):
    """How one keeps what it has read."""

    attention: Literal["grouped", "latent"]
    head_dim: Literal["stated", "divided"] = "stated"


class Architectures(Document):
    """Those whose KV can be worked out, and bytes of a number of it by type."""

    source: str
    date: IsoDate
    architectures: dict[str, Architecture]
    kv_bytes: dict[str, float]


@cache
def architectures() -> Architectures:
    """The architectures of this checkout."""
    return Architectures.model_validate(read(Path(__file__).with_name("architectures.yaml")))
