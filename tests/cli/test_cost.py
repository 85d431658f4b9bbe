"""`cost`: a table for people and for reviews, data for programs."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tokenworks.cli.main import build
from tokenworks.errors import UsageError


def said(*arguments: str) -> str:
    result = CliRunner().invoke(build(), ["cost", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_people_get_a_line_a_pool_and_the_sums() -> None:
    lines = said("prod").splitlines()
    assert lines[0].split()[:4] == ["pool", "what", "purchase", "nodes"]
    p5 = next(line for line in lines if line.startswith("p5 "))
    assert "p5.48xlarge" in p5
    assert "220.16" in p5
    assert any(line.startswith("all reservation") for line in lines)
    assert "Not counted:" in said("prod")


def test_what_is_not_known_is_said() -> None:
    text = said("staging")
    assert "not known" in text
    assert "+ 2 not known" in text


def test_the_day_of_prices_is_said_of_blocks_too_where_there_are_any() -> None:
    assert "Capacity blocks: 2026-07-22, from aws.amazon.com" in said("staging")
    assert "Capacity blocks:" not in said("prod")


def test_reviews_get_a_table_in_markdown() -> None:
    lines = said("prod", "--format", "markdown").splitlines()
    assert lines[1] == "|---|---|---|---|---|---|---|---|"
    assert all(line.count("|") == 9 for line in lines[:6])


def test_programs_get_numbers() -> None:
    data = json.loads(said("prod", "--format", "json"))
    assert data["most"]["pricesNotKnown"] == 0
    kinds = sum(kind["dollarsPerHour"] for kind in data["byPurchase"].values())
    assert kinds == pytest.approx(data["most"]["dollarsPerHour"], abs=0.01)


def test_an_environment_elsewhere_has_no_price() -> None:
    with pytest.raises(UsageError, match="not on AWS"):
        said("dev")
