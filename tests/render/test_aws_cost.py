"""Costs of environments on AWS: sums, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tokenworks.catalog.aws import HOURS_PER_MONTH, instances, regional_prices
from tokenworks.render.aws import AwsPlan, plan_of
from tokenworks.render.aws.cost import by_purchase, items, total
from tokenworks.spec.load import load_stack

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prod() -> AwsPlan:
    return plan_of(load_stack(ROOT, "prod"))


def test_every_pool_is_counted_once(prod: AwsPlan) -> None:
    names = [item.name for item in items(prod)]
    assert names == ["control plane", "system", "g6", "g6e", "p5"]


def test_a_reservation_costs_its_whole_size_whatever_runs(prod: AwsPlan) -> None:
    p5 = next(item for item in items(prod) if item.name == "p5")
    assert (p5.least, p5.most) == (4, 4)
    assert p5.hourly(p5.least) == pytest.approx(4 * 55.04)


def test_a_pool_that_scales_from_zero_costs_nothing_at_least(prod: AwsPlan) -> None:
    g6 = next(item for item in items(prod) if item.name == "g6")
    assert g6.hourly(g6.least) == 0
    assert g6.hourly(g6.most) == pytest.approx(4 * 0.8048)


def test_sums_are_those_of_the_parts(prod: AwsPlan) -> None:
    found = items(prod)
    most = total(found, most=True)
    assert most.unknown == 0
    assert most.hourly == pytest.approx(0.10 + 9 * 0.8064 + 4 * 0.8048 + 6 * 10.49264 + 4 * 55.04)
    assert most.monthly == pytest.approx(most.hourly * HOURS_PER_MONTH)
    assert sum(t.hourly for t in by_purchase(found).values()) == pytest.approx(most.hourly)


@pytest.fixture(scope="module")
def staging() -> AwsPlan:
    return plan_of(load_stack(ROOT, "staging"))


def in_region(plan: AwsPlan, region: str) -> AwsPlan:
    return replace(plan, spec=plan.spec.model_copy(update={"region": region}))


def test_prices_that_are_not_known_are_counted_and_not_guessed(staging: AwsPlan) -> None:
    found = items(in_region(staging, "eu-west-2"))
    most, least = total(found, most=True), total(found, most=False)
    assert most.unknown == 2, "two pools of spot"
    assert least.unknown == 0, "what may be scaled to nothing costs nothing"
    assert most.as_of is None, "nothing of the sum is of a spot price"
    assert most.hourly == pytest.approx(0.10 + 4 * 0.4662 + 2 * 37.76)


def test_spot_makes_a_sum_an_estimate_of_its_day(staging: AwsPlan) -> None:
    found = items(staging)
    day = regional_prices().spot.date
    most, least = total(found, most=True), total(found, most=False)
    assert most.unknown == 0
    assert most.hourly == pytest.approx(0.10 + 4 * 0.4032 + 2 * 41.528 + 2 * 3.1479 + 2 * 0.5375)
    assert (most.as_of, least.as_of) == (day, None), "no spot node runs at least"
    assert {item.name for item in found if item.as_of} == {"g6", "g6e"}
    days = {kind: sum_.as_of for kind, sum_ in by_purchase(found).items()}
    assert days == {"capacity-block": None, "on-demand": None, "spot": day}


def test_an_environment_elsewhere_costs_what_its_region_does(prod: AwsPlan) -> None:
    most = total(items(in_region(prod, "us-west-2")), most=True)
    assert most.unknown == 0
    assert most.hourly == pytest.approx(0.10 + 9 * 0.8064 + 4 * 0.8 + 6 * 10.49 + 4 * 55.04)
    ireland = total(items(in_region(prod, "eu-west-1")), most=True)
    assert ireland.unknown == 3, "no g6, g6e and p5 in Ireland"
    assert ireland.hourly == pytest.approx(0.10 + 9 * 0.8988)


def test_a_block_is_paid_for_whatever_runs(staging: AwsPlan) -> None:
    p5 = next(i for i in items(staging) if i.name == "p5")
    assert (p5.purchase, p5.least, p5.most) == ("capacity-block", 2, 2)
    assert p5.hourly(p5.least) == pytest.approx(2 * 41.528)


def test_the_source_of_every_price_is_named(staging: AwsPlan) -> None:
    prices = instances().prices
    sources = {item.name: item.quote.source for item in items(staging) if item.quote}
    assert sources == {
        "control plane": prices.control_plane, "system": prices, "p5": prices.blocks,
        "g6": regional_prices().spot, "g6e": regional_prices().spot,
    }  # fmt: skip
    assert all(source.where and source.date for source in sources.values())
