"""Costs of environments on AWS: sums, and what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.catalog.aws import HOURS_PER_MONTH, instances
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


def test_prices_that_are_not_known_are_counted_and_not_guessed() -> None:
    found = items(plan_of(load_stack(ROOT, "staging")))
    most, least = total(found, most=True), total(found, most=False)
    assert most.unknown == 2, "two pools of spot"
    assert least.unknown == 0, "what may be scaled to nothing costs nothing"
    assert most.hourly == pytest.approx(0.10 + 4 * 0.4032 + 2 * 41.528)


def test_a_block_is_paid_for_whatever_runs() -> None:
    p5 = next(i for i in items(plan_of(load_stack(ROOT, "staging"))) if i.name == "p5")
    assert (p5.purchase, p5.least, p5.most) == ("capacity-block", 2, 2)
    assert p5.hourly(p5.least) == pytest.approx(2 * 41.528)


def test_the_source_of_prices_is_named() -> None:
    assert instances().prices.where
    assert instances().prices.control_plane.where
