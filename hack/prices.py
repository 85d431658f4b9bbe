"""Write `src/tokenworks/catalog/aws/prices.json`: prices on demand by region, and of spot.

    python hack/prices.py --regions FILE DATE WHERE --catalog FILE DATE WHERE --spot FILE DATE WHERE

Each of the three replaces one table, and says where and when its file was read; a table whose file
is not given stays as it is. The files are:

    --regions   `regions.json` of koyakimu/aws-gpu-quick-reference: AWS's price list, to the cent
    --catalog   `vms.csv` of a SkyPilot catalogue: AWS's price list, a row for every zone
    --spot      `spot.json` of AWS, what its page of spot prices shows: the lowest of a region

Types and regions that the catalogue does not have are left out, and so are prices on demand of the
region that `instances.yaml` has them for.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenworks.catalog.aws import instances, zones_by_region

FILE = Path(__file__).parents[1] / "src/tokenworks/catalog/aws/prices.json"

Price = tuple[str, str, float]
"""Instance type, region, dollars an hour."""
Table = dict[str, dict[str, float]]


def of_regions(text: str) -> Iterator[Price]:
    """Prices on demand of `regions.json`."""
    for name, regions in json.loads(text)["prices"].items():
        for region, price in regions.items():
            if price["od"] is not None:
                yield name, region, price["od"]


def of_catalog(lines: Iterable[str]) -> Iterator[Price]:
    """Prices on demand of `vms.csv`; a type without one has an empty cell."""
    for row in csv.DictReader(lines):
        if row["Price"]:
            yield row["InstanceType"], row["Region"], float(row["Price"])


def of_spot(text: str) -> Iterator[Price]:
    """Prices of spot capacity with Linux of `spot.json`; what is not to be had has no number."""
    for region in json.loads(text)["config"]["regions"]:
        for kind in region["instanceTypes"]:
            for size in kind["sizes"]:
                for column in size["valueColumns"]:
                    price = column["prices"]["USD"]
                    if column["name"] == "linux" and not price.startswith("N/A"):
                        yield size["size"], region["region"], float(price)


def tabled(prices: Iterable[Price]) -> Table:
    """By type and region, of what the catalogue has.

    Raises `ValueError` when a type has two prices in one region, for then one of them is something
    else than it seems.
    """
    catalogue, regions = instances(), zones_by_region()
    table: Table = {}
    for name, region, price in prices:
        if name not in {*catalogue.accelerated, *catalogue.general} or region not in regions:
            continue
        if table.setdefault(name, {}).setdefault(region, price) != price:
            raise ValueError(f"{name} in {region}: {table[name][region]} and {price}")
    return {name: dict(sorted(table[name].items())) for name in sorted(table)}


def elsewhere(table: Table) -> Table:
    """Without the region that `instances.yaml` has."""
    home = instances().prices.region
    return {
        name: kept
        for name, prices in table.items()
        if (kept := {region: price for region, price in prices.items() if region != home})
    }


def written(data: dict[str, Any]) -> str:
    """One type a line, so that a change of prices can be read."""

    def line(key: str, value: Any) -> str:
        return f"{json.dumps(key)}: {json.dumps(value)}"

    def table(value: dict[str, Any], indent: str) -> str:
        rows = [f"{indent}    {line(*item)}" for item in value["dollarsPerHour"].items()]
        return "\n".join(
            [
                "{",
                f"{indent}  {line('where', value['where'])},",
                f"{indent}  {line('date', value['date'])},",
                f'{indent}  "dollarsPerHour": {{',
                ",\n".join(rows),
                f"{indent}  }}",
                f"{indent}}}",
            ]
        )

    on_demand = ",\n".join("    " + table(value, "    ") for value in data["onDemand"])
    unlisted = ",\n".join(f"    {line(*item)}" for item in data["unlisted"].items())
    return (
        f'{{\n  "onDemand": [\n{on_demand}\n  ],\n'
        f'  "spot": {table(data["spot"], "  ")},\n'
        f'  "unlisted": {{\n{unlisted}\n  }}\n}}\n'
    )


def main(arguments: Sequence[str]) -> None:
    """Read what is named, and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("regions", "catalog", "spot"):
        parser.add_argument(f"--{name}", nargs=3, metavar=("FILE", "DATE", "WHERE"))
    given = parser.parse_args(arguments)
    data: dict[str, Any] = json.loads(FILE.read_text("utf-8"))

    def sourced(option: Sequence[str], table: Table) -> dict[str, Any]:
        return {"where": option[2], "date": option[1], "dollarsPerHour": table}

    if given.regions:
        table = elsewhere(tabled(of_regions(Path(given.regions[0]).read_text("utf-8"))))
        data["onDemand"][0] = sourced(given.regions, table)
    if given.catalog:
        with Path(given.catalog[0]).open(encoding="utf-8", newline="") as lines:
            data["onDemand"][1] = sourced(given.catalog, elsewhere(tabled(of_catalog(lines))))
    if given.spot:
        table = tabled(of_spot(Path(given.spot[0]).read_text("utf-8")))
        data["spot"] = sourced(given.spot, table)
    FILE.write_text(written(data), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
