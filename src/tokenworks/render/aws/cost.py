"""What an environment on AWS costs an hour, as far as prices are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tokenworks.catalog.aws import HOURS_PER_MONTH, Purchase, Quote, instances
from tokenworks.render.aws.plan import AwsPlan

NOT_COUNTED: Final = (
    "disks, file systems, buckets, NAT gateways, endpoints, load balancers, logs and traffic"
)


@dataclass(frozen=True)
class Item:
    """One pool, or the control plane."""

    name: str
    what: str
    """Instance type, or what else is paid for."""
    purchase: Purchase
    least: int
    most: int
    quote: Quote | None
    """The price of one; None: not known."""

    @property
    def each(self) -> float | None:
        """Dollars an hour of one; None: not known."""
        return None if self.quote is None else self.quote.dollars_per_hour

    @property
    def as_of(self) -> str | None:
        """The day of a price that moves by the hour, an estimate therefore; None: it does not."""
        return self.quote.source.date if self.quote is not None and self.quote.moves else None

    def hourly(self, count: int) -> float | None:
        """Dollars an hour of so many; what does not run costs nothing at any price."""
        if count == 0:
            return 0.0
        return None if self.each is None else self.each * count


@dataclass(frozen=True)
class Total:
    """A sum of prices, and how many of them are not known."""

    hourly: float
    unknown: int
    as_of: str | None = None
    """The day of the spot prices in it, which make it an estimate; None: there are none."""

    @property
    def monthly(self) -> float:
        """Dollars of a month in which it runs all the time."""
        return self.hourly * HOURS_PER_MONTH


def items(plan: AwsPlan) -> list[Item]:
    """Everything that is counted, by name; the control plane and the system pool first."""
    catalogue, region = instances(), plan.spec.region
    cluster = catalogue.prices.control_plane
    control = Quote(cluster.dollars_per_hour, cluster)
    system = plan.spec.system_pool
    price = catalogue.quote(system.instance_type, "on-demand", region)
    found = [
        Item("control plane", "EKS", "on-demand", 1, 1, control),
        Item(
            "system", system.instance_type, "on-demand", system.min_nodes, system.max_nodes, price
        ),
    ]
    for pool in plan.pools:
        quote = catalogue.quote(pool.instance_type, pool.purchase, region)
        # A reservation is paid for whether nodes run in it or not.
        least = pool.most if pool.purchase in ("reservation", "capacity-block") else pool.least
        found.append(Item(pool.name, pool.instance_type, pool.purchase, least, pool.most, quote))
    return found


def total(items: Iterable[Item], *, most: bool) -> Total:
    """The sum when as few or as many nodes run as may."""
    counted = [(item, item.hourly(item.most if most else item.least)) for item in items]
    known = [(item, price) for item, price in counted if price is not None]
    days = (item.as_of for item, price in known if item.as_of and price)
    return Total(sum(price for _, price in known), len(counted) - len(known), next(days, None))


def by_purchase(items: Sequence[Item]) -> dict[str, Total]:
    """Purchase kind: the sum when as many nodes run as may."""
    kinds = sorted({item.purchase for item in items})
    return {k: total((i for i in items if i.purchase == k), most=True) for k in kinds}
