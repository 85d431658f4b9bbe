"""Instance types as data: complete, consistent with the GPU types, sources named."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from pydantic import ValidationError

from tokenworks.catalog.aws import (
    Accelerated,
    PriceTable,
    Purchase,
    instances,
    regional_prices,
    zones_by_region,
)
from tokenworks.catalog.aws.addons import ADDONS, Addon, AddonCatalogue, addon_catalogue
from tokenworks.catalog.aws.images import node_images
from tokenworks.catalog.aws.registries import regional, registries
from tokenworks.catalog.gpus import gpu_types
from tokenworks.spec.aws import KubernetesVersion
from tokenworks.spec.common import Image

FAMILIES = {
    "g5", "g6", "g6e", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200",
    "trn2",
}  # fmt: skip
TYPES = instances().accelerated


def test_every_family_is_there() -> None:
    assert {name.split(".")[0] for name in TYPES} == FAMILIES


@pytest.mark.parametrize("name", TYPES)
def test_a_type_names_its_source_and_a_known_gpu(name: str) -> None:
    item = TYPES[name]
    assert item.source in instances().sources
    assert item.accelerator.type in gpu_types() or item.accelerator.type == "aws-trainium2"
    assert item.accelerator.count > 0
    assert item.vcpus > 0
    assert item.memory_mib > 0


@pytest.mark.parametrize("name", TYPES)
def test_interfaces_sit_on_cards_that_are_there(name: str) -> None:
    item = TYPES[name]
    assert len(set(item.efa_cards)) == len(item.efa_cards)
    if item.network_cards is not None:
        assert all(0 <= card < item.network_cards for card in item.efa_cards)


@pytest.mark.parametrize(
    ("name", "interfaces", "first"),
    [
        ("p5.48xlarge", 32, 0), ("p5e.48xlarge", 32, 0), ("p5en.48xlarge", 16, 0),
        ("p4d.24xlarge", 4, 0), ("g6e.48xlarge", 4, 0), ("g6e.24xlarge", 2, 0),
        ("p6-b200.48xlarge", 8, 0), ("p6-b300.48xlarge", 16, 1), ("g5.48xlarge", 1, 0),
    ],
)  # fmt: skip
def test_efa_interfaces_by_type(name: str, interfaces: int, first: int) -> None:
    assert TYPES[name].efa_interfaces == interfaces
    assert TYPES[name].efa_cards[0] == first


def test_small_sizes_have_no_efa() -> None:
    assert TYPES["g6e.2xlarge"].efa_cards == ()


def test_what_is_not_known_is_none_and_not_a_number() -> None:
    catalogue = instances()
    assert catalogue.price("p5e.48xlarge", "on-demand", "us-east-1") is None
    assert catalogue.price("p5e.48xlarge", "on-demand", "us-east-2") is None
    assert catalogue.price("p5.48xlarge", "spot", "eu-west-2") is None
    assert catalogue.price("p5e.48xlarge", "capacity-block", "us-east-1") is None
    assert catalogue.price("p6e-gb200.36xlarge", "capacity-block", "us-east-2") is None
    assert catalogue.price("p6e-gb200.36xlarge", "spot", "us-east-1") is None
    assert catalogue.price("m7i.2xlarge", "capacity-block", "us-east-1") is None
    assert catalogue.price("p5.48xlarge", "on-demand", "eu-west-1") is None


@pytest.mark.parametrize(
    ("name", "mebibytes"), [("p5.48xlarge", 42242), ("p4d.24xlarge", 21122), ("p5.4xlarge", 3522)]
)
def test_huge_pages_are_as_many_as_nodes_show(name: str, mebibytes: int) -> None:
    pages = instances().efa_hugepages
    assert pages.resource == "hugepages-2Mi"
    assert pages.bytes_of(TYPES[name].vcpus) == mebibytes * 2**20


def test_a_reservation_costs_what_on_demand_does() -> None:
    catalogue = instances()
    price = catalogue.price("p5.48xlarge", "reservation", "us-east-1")
    assert price == catalogue.price("p5.48xlarge", "on-demand", "us-east-1") == 55.04
    assert catalogue.price("m7i.2xlarge", "on-demand", "us-east-1") == 0.4032
    assert catalogue.price("m7i.2xlarge", "spot", "us-east-1") is None


def test_a_block_has_a_price_of_its_own_in_each_region() -> None:
    catalogue = instances()
    blocks = catalogue.prices.blocks
    assert catalogue.price("p5.48xlarge", "capacity-block", "us-east-1") == 41.528
    assert catalogue.price("p5.48xlarge", "capacity-block", "eu-west-2") == 37.76
    assert catalogue.price("p5e.48xlarge", "capacity-block", "us-east-2") == 47.76
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", blocks.date)
    for name, regions in blocks.dollars_per_hour.items():
        assert "capacity-block" in TYPES[name].sold()
        assert set(regions) <= set(zones_by_region())
        assert all(price > 0 for price in regions.values())


def test_an_ultraserver_is_priced_by_its_instances() -> None:
    price = instances().price("p6e-gb200.36xlarge", "capacity-block", "us-east-1")
    assert price is not None
    assert price * 18 == pytest.approx(761.904)
    assert price * 9 == pytest.approx(380.952)


# Prices by region


@pytest.mark.parametrize(
    ("name", "purchase", "region", "price", "date"),
    [
        ("g5.xlarge", "on-demand", "eu-west-1", 1.12, "2026-09-14"),
        ("p5en.48xlarge", "reservation", "ap-northeast-1", 79.12, "2026-09-14"),
        ("p6-b300.48xlarge", "on-demand", "us-east-1", 142.416, "2026-07-20"),
        ("p6-b300.48xlarge", "on-demand", "us-west-2", 142.42, "2026-09-14"),
        ("m7i.2xlarge", "on-demand", "eu-central-1", 0.483, "before 2026-07-22"),
        ("p5.48xlarge", "spot", "us-east-1", 19.4933, "2026-08-10"),
        ("p5e.48xlarge", "spot", "us-east-2", 25.1918, "2026-08-10"),
        ("trn2.48xlarge", "spot", "us-east-2", 8.5964, "2026-08-10"),
        ("g6e.12xlarge", "spot", "us-west-2", 4.5144, "2026-08-10"),
        ("p6-b300.48xlarge", "capacity-block", "ap-northeast-2", 112.32, "2026-09-14"),
    ],
)
def test_a_price_has_a_day_and_a_source(
    name: str, purchase: Purchase, region: str, price: float, date: str
) -> None:
    quote = instances().quote(name, purchase, region)
    assert quote is not None
    assert (quote.dollars_per_hour, quote.source.date) == (price, date)
    assert quote.source.where
    assert quote.moves == (purchase == "spot")


TABLES: list[tuple[Purchase, PriceTable]] = [
    *(("on-demand", table) for table in regional_prices().on_demand),
    ("spot", regional_prices().spot),
]


@pytest.mark.parametrize(("purchase", "table"), TABLES)
def test_prices_are_of_what_is_sold_where_there_are_zones(
    purchase: Purchase, table: PriceTable
) -> None:
    catalogue = instances()
    assert table.dollars_per_hour
    for name, regions in table.dollars_per_hour.items():
        assert name in catalogue.general or purchase in TYPES[name].sold()
        assert set(regions) <= set(zones_by_region())
        assert all(price > 0 for price in regions.values())
        assert purchase == "spot" or catalogue.prices.region not in regions, "it would not be read"


@pytest.mark.parametrize(
    ("region", "without"),
    [
        ("us-east-1", {"p5e", "trn2"}),
        ("us-east-2", {"p4de", "p6-b300"}),
        ("us-west-2", {"trn2"}),
    ],
)
def test_every_family_that_a_large_region_has_as_spot_has_a_price(
    region: str, without: set[str]
) -> None:
    spot = regional_prices().spot.dollars_per_hour
    found = {name.split(".")[0] for name, prices in spot.items() if region in prices}
    assert found == FAMILIES - without - {"p6e-gb200"}


def test_spot_costs_no_more_than_on_demand() -> None:
    catalogue = instances()
    compared = [
        (spot, on_demand)
        for name, regions in regional_prices().spot.dollars_per_hour.items()
        for region, spot in regions.items()
        if (on_demand := catalogue.price(name, "on-demand", region)) is not None
    ]
    assert len(compared) > 80
    assert all(spot <= on_demand for spot, on_demand in compared)


def test_sizes_of_a_family_cost_as_much_more_in_a_region() -> None:
    """AWS's lists keep step within a family, so that a figure out of step was read wrongly."""
    catalogue = instances()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for table in regional_prices().on_demand:
        for name, regions in table.dollars_per_hour.items():
            home = catalogue.price(name, "on-demand", catalogue.prices.region)
            assert home is not None
            for region, price in regions.items():
                # Some are recorded to the cent.
                span = ((price - 0.0051) / home, (price + 0.0051) / home)
                found.setdefault((name.split(".")[0], region), []).append(span)
    for key, spans in found.items():
        assert max(low for low, _ in spans) <= min(high for _, high in spans), key


def test_what_has_no_price_on_demand_is_said_to_have_none() -> None:
    catalogue, unlisted = instances(), regional_prices().unlisted
    assert unlisted.where
    without = {
        name
        for name in TYPES
        if all(catalogue.price(name, "on-demand", r) is None for r in zones_by_region())
    }
    assert without == {*unlisted.types, "p6e-gb200.36xlarge"}


def test_what_only_comes_in_blocks_cannot_be_reserved() -> None:
    item: Accelerated = TYPES["p6e-gb200.36xlarge"]
    assert item.sold() == ("capacity-block",)
    assert "reservation" in TYPES["p5.48xlarge"].sold()


def test_zones_are_named_after_their_region() -> None:
    assert len(zones_by_region()) >= 30
    for region, zones in zones_by_region().items():
        assert zones
        assert all(zone[:-1] == region for zone in zones)


# Add-ons

MINORS = get_args(KubernetesVersion)


@pytest.mark.parametrize("addon", ADDONS)
def test_an_add_on_has_a_version_or_is_said_to_have_none(addon: Addon) -> None:
    assert set(addon_catalogue().addons[addon]) == set(MINORS)


@pytest.mark.parametrize("minor", MINORS)
def test_the_proxy_is_of_the_clusters_own_version(minor: str) -> None:
    version = addon_catalogue().version("kube-proxy", minor)
    assert version is not None
    assert version.startswith(f"v{minor}.")


def test_a_version_that_no_source_names_is_none() -> None:
    assert addon_catalogue().version("aws-fsx-csi-driver", "1.36") is None
    assert addon_catalogue().version("coredns", "1.20") is None


def test_every_version_is_exact_and_names_its_source() -> None:
    catalogue = addon_catalogue()
    versions = [v for each in catalogue.addons.values() for v in each.values() if v.known]
    assert len(versions) > 10
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", v.version) for v in versions)
    assert {v.source for v in versions} == set(catalogue.sources)


def test_a_version_without_a_source_is_refused() -> None:
    data = addon_catalogue().model_dump(by_alias=True)
    data["addons"]["coredns"]["1.35"]["source"] = None
    with pytest.raises(ValidationError):
        AddonCatalogue.model_validate(data)


# Releases of node images


@pytest.mark.parametrize(
    ("release", "there"),
    [
        ("1.35 6 20260714", True),
        ("1.35 6 20260728", True),
        ("1.35 5 20260714", False),
        ("1.35 7 20260714", False),
        ("1.35 6 20260715", False),  # between two days, both of which have one
        ("1.35 5 20260520", True),  # of that day only the day is known; 4 and 5 are around it
        ("1.35 6 20260520", False),
        ("1.34 9 20260728", True),  # not said of that version, and 9 was the last that is
        ("1.34 8 20260728", False),
        ("1.35 12 20270101", True),  # later than what is known
        ("1.34 1 20251112", True),  # earlier
    ],
)
def test_what_is_known_of_releases_refuses_only_what_was_not(release: str, there: bool) -> None:
    minor, patch, day = release.split()
    assert node_images().released(minor, int(patch), day) is there


def test_every_minor_version_that_a_document_may_name_has_a_release() -> None:
    for minor in get_args(KubernetesVersion):
        newest = node_images().newest(minor, 3)
        assert len(newest) == 3
        assert newest == sorted(newest, key=lambda text: text.partition("-")[2], reverse=True)


# Registries


def test_only_regions_that_are_known_have_a_registry_of_another_account() -> None:
    assert set(registries().accounts) <= set(zones_by_region())
    assert registries().account not in registries().accounts.values()


def test_only_eks_own_images_are_another_regions() -> None:
    theirs = Image(repository="602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/x", tag="v1")
    assert regional(theirs, "me-south-1") == Image(
        repository="558608220178.dkr.ecr.me-south-1.amazonaws.com/eks/x", tag="v1"
    )
    other = Image(repository="public.ecr.aws/eks/x", tag="v1")
    assert regional(other, "me-south-1") == other
