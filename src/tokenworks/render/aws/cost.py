"""What an environment on AWS costs an hour, as far as prices are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tokenworks.catalog.aws import HOURS_PER_MONTH, Purchase, instances
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
    each: float | None
    """Dollars an hour of one; None: not known."""

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

    @property
    def monthly(self) -> float:
        """Dollars of a month in which it runs all the time."""
        return self.hourly * HOURS_PER_MONTH


def items(plan: AwsPlan) -> list[Item]:
    """Everything that is counted, by name; the control plane and the system pool first."""
    catalogue, region = instances(), plan.spec.region
    known = region == catalogue.prices.region
    cluster = catalogue.prices.control_plane.dollars_per_hour if known else None
    system = plan.spec.system_pool
    price = catalogue.price(system.instance_type, "on-demand", region)
    found = [
        Item("control plane", "EKS", "on-demand", 1, 1, cluster),
        Item(
            "system", system.instance_type, "on-demand", system.min_nodes, system.max_nodes, price
        ),
    ]
    for pool in plan.pools:
        each = catalogue.price(pool.instance_type, pool.purchase, region)
        # A reservation is paid for whether nodes run in it or not.
        least = pool.most if pool.purchase in ("reservation", "capacity-block") else pool.least
        found.append(Item(pool.name, pool.instance_type, pool.purchase, least, pool.most, each))
    return found


def total(items: Iterable[Item], *, most: bool) -> Total:
    """The sum when as few or as many nodes run as may."""
    prices = [item.hourly(item.most if most else item.least) for item in items]
    known = [price for price in prices if price is not None]
    return Total(sum(known), len(prices) - len(known))


def by_purchase(items: Sequence[Item]) -> dict[str, Total]:
    """Purchase kind: the sum when as many nodes run as may."""
    kinds = sorted({item.purchase for item in items})
    return {k: total((i for i in items if i.purchase == k), most=True) for k in kinds}
