"""Facts about AWS: instance types, their prices, regions and their zones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, field_validator

from tokenworks.catalog.reading import read
from tokenworks.spec.common import Document, Quantity, quantity_value

HERE: Final = Path(__file__).parent
_Date = Annotated[str, BeforeValidator(str)]
Purchase = Literal["on-demand", "spot", "reservation", "capacity-block"]
"""How capacity is bought. A reservation is an on-demand capacity reservation."""
HOURS_PER_MONTH: Final = 730
"""What AWS's own calculator takes for a month."""


class Source(Document):
    """Where facts were read, and when."""

    where: str
    date: _Date


class Accelerator(Document):
    """The accelerators of an instance; all are alike."""

    type: str
    """A name of `gpus.yaml`, or a kind that is not NVIDIA's."""
    count: int
    memory_mib: int | None = Field(description="Of one, as the API reports it; None: not known.")


class LocalDisks(Document):
    """NVMe instance store."""

    disks: int
    gigabytes: int = Field(description="Of one disk.")


class Instance(Document):
    """What every instance type has."""

    vcpus: int
    memory_mib: int
    architecture: Literal["x86_64", "arm64"]
    dollars_per_hour: float | None = Field(
        description="On demand, Linux, in the region of the prices; None: not known."
    )


class Accelerated(Instance):
    """An instance type with accelerators."""

    accelerator: Accelerator
    network_cards: int | None = Field(description="None: not known.")
    efa_cards: tuple[int, ...] = Field(description="Cards that can carry an EFA interface.")
    nvme: LocalDisks | None = Field(description="None: not known.")
    purchase: tuple[Literal["on-demand", "spot", "capacity-block"], ...]
    source: str = Field(description="A key of `sources`.")

    @field_validator("efa_cards", mode="before")
    @classmethod
    def _cards(cls, value: object) -> tuple[int, ...]:
        return _numbers(str(value))

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of one instance: one a card."""
        return len(self.efa_cards)

    def sold(self) -> tuple[Purchase, ...]:
        """How it can be bought; whatever is sold on demand can be reserved."""
        extra: tuple[Purchase, ...] = ("reservation",) if "on-demand" in self.purchase else ()
        return (*self.purchase, *extra)


@dataclass(frozen=True)
class Quote:
    """A price, and where and when it was read."""

    dollars_per_hour: float
    source: Source
    moves: bool = False
    """It changes by the hour: an estimate, whatever the day."""


class ControlPlane(Source):
    """A cluster without nodes."""

    dollars_per_hour: float


class PriceTable(Source):
    """Prices of one instance by type and region."""

    dollars_per_hour: dict[str, dict[str, float]]

    def quote(self, name: str, region: str, *, moves: bool = False) -> Quote | None:
        """What it says of a type in a region; None: nothing."""
        price = self.dollars_per_hour.get(name, {}).get(region)
        return None if price is None else Quote(price, self, moves)


class Unlisted(Source):
    """Types that have no price on demand in AWS's price list, in no region."""

    types: tuple[str, ...]


class RegionalPrices(Document):
    """`prices.json`, as `hack/prices.py` writes it: on demand in other regions, and spot."""

    on_demand: tuple[PriceTable, ...]
    spot: PriceTable
    unlisted: Unlisted


class Prices(Source):
    """Where the prices hold."""

    region: str
    control_plane: ControlPlane
    blocks: PriceTable = Field(
        description="AWS changes these prices with demand, and holds what was bought."
    )


class Hugepages(Source):
    """Huge pages that a node with EFA interfaces reserves."""

    size: Quantity
    per_vcpu: int = Field(description="Pages for every vCPU.")
    more: int = Field(description="Pages besides.")

    @property
    def resource(self) -> str:
        """What Kubernetes calls them."""
        return f"hugepages-{self.size}"

    def bytes_of(self, vcpus: int) -> int:
        """Bytes of them on a node with so many vCPUs."""
        return (self.per_vcpu * vcpus + self.more) * int(quantity_value(self.size))


class Catalogue(Document):
    """Every instance type."""

    sources: dict[str, Source]
    prices: Prices
    efa_hugepages: Hugepages
    accelerated: dict[str, Accelerated]
    general: dict[str, Instance]

    def price(self, name: str, purchase: Purchase, region: str) -> float | None:
        """Dollars an hour of one instance in a region; None: not known."""
        quote = self.quote(name, purchase, region)
        return None if quote is None else quote.dollars_per_hour

    def sold_in(self, name: str, purchase: Purchase, region: str) -> bool:
        """Whether an accelerated type may be had in a region: True where nothing says otherwise.

        Spot and reservations are of what is sold on demand there. Lists that have no price of the
        type anywhere, or of no type in the region, say nothing.
        """
        if purchase == "capacity-block":
            there = self.prices.blocks.dollars_per_hour.get(name, {})
            return not there or region in there
        if self.quote(name, "on-demand", region) is not None:
            return True
        listed = any(self.quote(other, "on-demand", region) for other in self.accelerated)
        return name in regional_prices().unlisted.types or not listed

    def quote(self, name: str, purchase: Purchase, region: str) -> Quote | None:
        """The price of one instance in a region with its source; None: not known."""
        if purchase == "capacity-block":
            return self.prices.blocks.quote(name, region)
        if purchase == "spot":
            return regional_prices().spot.quote(name, region, moves=True)
        if region == self.prices.region:
            price = (self.accelerated.get(name) or self.general[name]).dollars_per_hour
            return None if price is None else Quote(price, self.prices)
        return _first(table.quote(name, region) for table in regional_prices().on_demand)


class Regions(Source):
    """Zones by region."""

    zones: Annotated[dict[str, tuple[str, ...]], Field(min_length=1)]


def _numbers(text: str) -> tuple[int, ...]:
    """`0-3` or `1,3,5` as numbers; empty text holds none."""
    if not text:
        return ()
    first, dash, last = text.partition("-")
    if dash:
        return tuple(range(int(first), int(last) + 1))
    return tuple(int(part) for part in text.split(","))


@cache
def instances() -> Catalogue:
    """The instance types of this checkout."""
    return Catalogue.model_validate(read(HERE / "instances.yaml"))


def _first(quotes: Iterable[Quote | None]) -> Quote | None:
    return next((quote for quote in quotes if quote is not None), None)


@cache
def regional_prices() -> RegionalPrices:
    """Prices on demand outside the region of `instances`, and of spot; read when asked for."""
    return RegionalPrices.model_validate(json.loads((HERE / "prices.json").read_text("utf-8")))


@cache
def zones_by_region() -> dict[str, tuple[str, ...]]:
    """The zones of each region."""
    return Regions.model_validate(read(HERE / "regions.yaml")).zones
