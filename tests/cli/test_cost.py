"""`cost`: a table for people and for reviews, data for programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tokenworks.catalog.aws import regional_prices
from tokenworks.cli import context
from tokenworks.cli.main import build
from tokenworks.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


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


def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, str]) -> None:
    """Staging as it would be with something else in it, read by the commands that follow."""
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    file = tmp_path / "stacks/staging/environment.yaml"
    text = file.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    monkeypatch.setattr(context, "root", lambda: tmp_path)


def test_what_is_not_known_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(tmp_path, monkeypatch, ("us-east-1", "eu-west-2"))
    text = said("staging")
    assert "+ 2 not known" in text
    assert (
        next(line for line in text.splitlines() if line.startswith("g6 ")).count("not known") == 3
    )
    assert "~" not in text, "there is no spot price in it"
    assert "On demand in eu-west-2: before" in text


def test_the_day_of_prices_is_said_of_blocks_too_where_there_are_any() -> None:
    assert "Capacity blocks: 2026-09-14, from aws.amazon.com" in said("staging")
    assert "Capacity blocks:" not in said("prod")
    assert said("prod").count("On demand in us-east-1: 2026-07-20, from AWS price list") == 1


def test_spot_is_an_estimate_of_a_day() -> None:
    day = regional_prices().spot.date
    lines = said("staging").splitlines()
    pool = next(line for line in lines if line.startswith("g6e "))
    assert pool.split()[-4:] == ["~3.15", "0.00", "~6.30", "~4,595.93"]
    assert next(line for line in lines if line.startswith("all  ")).count("~") == 2
    assert any(line.startswith("p5 ") and "~" not in line for line in lines)
    notes = [line for line in lines if line.startswith("~ Spot in us-east-1")]
    assert len(notes) == 1
    assert f"as of {day}, from " in notes[0]
    assert "~" not in said("prod")
    assert f"as of {day}, from " in said("staging", "--format", "markdown")


def test_programs_are_told_what_is_an_estimate() -> None:
    day = regional_prices().spot.date
    data = json.loads(said("staging", "--format", "json"))
    pools = {pool["name"]: pool for pool in data["pools"]}
    assert pools["g6e"]["estimateAsOf"] == pools["g6e"]["priceDate"] == day
    assert pools["p5"]["estimateAsOf"] is None
    assert pools["p5"]["priceSource"].startswith("aws.amazon.com")
    assert (data["most"]["estimateAsOf"], data["least"]["estimateAsOf"]) == (day, None)


def test_why_a_type_has_no_price_on_demand_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(
        tmp_path, monkeypatch,
        ("us-east-1", "us-east-2"), ("nvidia-h100-80gb", "nvidia-h200-141gb"),
        ("p5.48xlarge", "p5e.48xlarge"), ("purchase: capacity-block", "purchase: reservation"),
    )  # fmt: skip
    text = said("staging")
    assert "p5e.48xlarge: no price on demand in any region, " in text
    assert "+ 1 not known" in text


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
