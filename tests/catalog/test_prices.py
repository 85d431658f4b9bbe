"""The reader of price records: what it takes from each, and what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hack import prices
from tokenworks.catalog.aws import RegionalPrices

REGIONS = {
    "prices": {
        "p5.48xlarge": {
            "eu-west-2": {"od": 71.55, "cb": 4.72},
            "us-east-1": {"od": 55.04, "cb": 5.19},
        },
        "p5e.48xlarge": {"us-east-2": {"od": None, "cb": 5.97}},
        "g4dn.xlarge": {"eu-west-1": {"od": 0.59, "cb": None}},
    }
}
CATALOG = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
m7i.xlarge,,,4.0,16.0,,0.2247,0.123100,eu-west-1,euw1-az1,x86_64
m7i.xlarge,,,4.0,16.0,,0.2247,0.132500,eu-west-1,euw1-az2,x86_64
m7i.xlarge,,,4.0,16.0,,0.2016,0.085000,us-east-1,use1-az1,x86_64
trn2.48xlarge,Trainium2,16.0,192.0,2048.0,"{'Gpus': [{}, {}]}",,23.0631,us-east-2,use2-az3,x86_64
"""


def spot(*sizes: tuple[str, str, str]) -> dict[str, Any]:
    """A feed: region, type, price on Linux."""
    return {
        "config": {
            "regions": [
                {
                    "region": region,
                    "instanceTypes": [
                        {
                            "type": "gpuCurrentGen",
                            "sizes": [
                                {
                                    "size": name,
                                    "valueColumns": [
                                        {"name": "linux", "prices": {"USD": price}},
                                        {"name": "mswin", "prices": {"USD": "0.5"}},
                                    ],
                                }
                            ],
                        }
                    ],
                }
                for region, name, price in sizes
            ]
        }
    }


FEED = spot(
    ("us-west-2", "g6.xlarge", "0.4455"),
    ("us-east-1", "g6.xlarge", "0.5375"),
    # The feed has some types twice.
    ("us-east-1", "g6.xlarge", "0.5375"),
    ("us-east-1-atl-1", "p5.48xlarge", "20.5265"),
    ("us-east-2", "p5.48xlarge", "N/A*"),
    ("us-east-1", "t3.large", "0.02"),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The catalogue's file, with the three records beside it."""
    copy = tmp_path / "prices.json"
    copy.write_bytes(prices.FILE.read_bytes())
    monkeypatch.setattr(prices, "FILE", copy)
    (tmp_path / "regions").write_text(json.dumps(REGIONS))
    (tmp_path / "catalog").write_text(CATALOG)
    (tmp_path / "spot").write_text(json.dumps(FEED))
    return copy


def write(file: Path, *options: str) -> RegionalPrices:
    prices.main(
        [
            word
            for option in options
            for word in (f"--{option}", str(file.with_name(option)), "2026-01-02", f"the {option}")
        ]
    )
    return RegionalPrices.model_validate_json(file.read_text())


def test_each_record_makes_one_table(file: Path) -> None:
    found = write(file, "regions", "catalog", "spot")
    assert [table.dollars_per_hour for table in (*found.on_demand, found.spot)] == [
        {"p5.48xlarge": {"eu-west-2": 71.55}},
        {"m7i.xlarge": {"eu-west-1": 0.2247}},
        {"g6.xlarge": {"us-east-1": 0.5375, "us-west-2": 0.4455}},
    ]
    assert (found.spot.where, found.spot.date) == ("the spot", "2026-01-02")


def test_what_is_not_given_stays(file: Path) -> None:
    before = RegionalPrices.model_validate_json(file.read_text())
    after = write(file, "spot")
    assert after.spot != before.spot
    assert after.on_demand == before.on_demand
    assert after.unlisted == before.unlisted


def test_writing_what_was_read_changes_nothing(file: Path) -> None:
    before = file.read_text()
    prices.main([])
    assert file.read_text() == before


def test_two_prices_of_one_thing_are_refused() -> None:
    feed = spot(("us-east-1", "g6.xlarge", "0.5"), ("us-east-1", "g6.xlarge", "0.6"))
    with pytest.raises(ValueError, match=r"g6\.xlarge in us-east-1: 0\.5 and 0\.6"):
        prices.tabled(prices.of_spot(json.dumps(feed)))
