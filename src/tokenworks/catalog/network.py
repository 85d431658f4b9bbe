"""Networks (`network.yaml`) between pods of one model: devices and settings, typed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from tokenworks.catalog.reading import read
from tokenworks.spec.common import Document, Quantity

HERE = Path(__file__).parent
_Text = Annotated[str, BeforeValidator(str)]


class Nixl(Document):
    """Settings of NIXL, which carries KV between prefill and decode."""

    env: dict[str, str]
    backends: tuple[str, ...]


class NetworkFacts(Document):
    """One network."""

    source: str
    date: _Text
    env: dict[str, str] = Field(description="For NCCL, so that it uses this network or fails.")
    nixl: Nixl
    all_to_all: tuple[str, ...] = Field(
        min_length=1, description="How tokens may travel to experts; the first by default."
    )
    hugepages: dict[str, Quantity] = Field(
        description="What a pod with all devices of a node asks for too; others ask for a share."
    )
    rdma: bool = Field(description="Needs devices and locked memory.")


@cache
def load_networks() -> dict[str, NetworkFacts]:
    """The networks of this checkout, by name."""
    data = read(HERE / "network.yaml")
    return {name: NetworkFacts.model_validate(facts) for name, facts in data.items()}
