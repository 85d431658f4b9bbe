"""GPU types (`gpus.yaml`), typed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenworks.catalog.engines import IsoDate
from tokenworks.catalog.reading import read
from tokenworks.spec.common import Bytes, Document

PRODUCT_LABEL = "nvidia.com/gpu.product"
"""Label that GPU feature discovery puts on nodes."""


class Gpu(Document):
    """What is known of one type."""

    product: str | None
    """Value of `PRODUCT_LABEL` on its nodes; None: not known."""
    memory: Bytes
    """Of one."""


class Gpus(Document):
    """Every type that a node pool may name."""

    source: str
    date: IsoDate
    types: dict[str, Gpu]


@cache
def gpu_types() -> dict[str, Gpu]:
    """The types of this checkout, by the name that documents use."""
    return Gpus.model_validate(read(Path(__file__).with_name("gpus.yaml"))).types
