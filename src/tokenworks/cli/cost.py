"""`cost`: what an environment's nodes cost, from the catalogue."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenworks.cli.context import load
from tokenworks.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenworks.render.aws.cost import Item, Total


class Format(StrEnum):
    """How costs are printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def cost(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="A folder of stacks/.")],
    output: Annotated[
        Format, typer.Option("--format", help="text for people, markdown for reviews, json.")
    ] = Format.TEXT,
) -> None:
    """What an environment's nodes cost: an hour, a month, by pool and by purchase kind.

    `least` is with as few nodes as may run, `most` with as many. Prices are on demand and of
    capacity blocks, without discounts; a price that no public source gives (all of spot) is said
    to be not known, and sums say how many they leave out.

    Example: ./tokenworks cost staging
    """
    from tokenworks.catalog.aws import instances  # noqa: PLC0415 - start-up time of --help
    from tokenworks.render.aws import plan_of  # noqa: PLC0415
    from tokenworks.render.aws.cost import NOT_COUNTED, items  # noqa: PLC0415

    stack = load(environment)
    if stack.environment.spec.cluster.aws is None:
        raise UsageError(
            f"{environment} is not on AWS (spec.cluster.provider): its nodes have no price here"
        )
    found = items(plan_of(stack))
    if output is Format.JSON:
        print(json.dumps(_data(found), indent=2))
        return
    print(_table(_rows(found), output))
    prices = instances().prices
    print(f"\nPrices of {prices.region}, {prices.date}, from {prices.where}.")
    if any(item.purchase == "capacity-block" and item.each is not None for item in found):
        print(f"Capacity blocks: {prices.blocks.date}, from {prices.blocks.where}.")
    print(f"Not counted: {NOT_COUNTED}.")


_HEAD = ("pool", "what", "purchase", "nodes", "each $/h", "least $/h", "most $/h", "most $/month")


def _rows(found: Sequence[Item]) -> list[tuple[str, ...]]:
    from tokenworks.render.aws.cost import by_purchase, total  # noqa: PLC0415

    rows = [_HEAD, *(_row(item) for item in found)]
    for kind, most in by_purchase(found).items():
        least = total((item for item in found if item.purchase == kind), most=False)
        rows.append((f"all {kind}", "", kind, "", "", *_sums(least, most)))
    rows.append(("all", "", "", "", "", *_sums(total(found, most=False), total(found, most=True))))
    return rows


def _row(item: Item) -> tuple[str, ...]:
    from tokenworks.catalog.aws import HOURS_PER_MONTH  # noqa: PLC0415

    nodes = str(item.most) if item.least == item.most else f"{item.least} to {item.most}"
    most = item.hourly(item.most)
    month = None if most is None else most * HOURS_PER_MONTH
    prices = (_price(item.each), _price(item.hourly(item.least)), _price(most), _price(month))
    return (item.name, item.what, item.purchase, nodes, *prices)


def _price(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.2f}"


def _sums(least: Total, most: Total) -> tuple[str, str, str]:
    def shown(value: float, unknown: int) -> str:
        return f"{value:,.2f}" + (f" + {unknown} not known" if unknown else "")

    return (
        shown(least.hourly, least.unknown),
        shown(most.hourly, most.unknown),
        shown(most.monthly, most.unknown),
    )


def _table(rows: Sequence[tuple[str, ...]], output: Format) -> str:
    if output is Format.MARKDOWN:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(_HEAD), *lines[1:]])
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < 4 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _data(found: Sequence[Item]) -> dict[str, Any]:
    from tokenworks.render.aws.cost import by_purchase, total  # noqa: PLC0415

    def of(sum_: Total) -> dict[str, Any]:
        return {
            "dollarsPerHour": round(sum_.hourly, 4),
            "dollarsPerMonth": round(sum_.monthly, 2),
            "pricesNotKnown": sum_.unknown,
        }

    return {
        "pools": [
            {
                "name": item.name, "what": item.what, "purchase": item.purchase,
                "least": item.least, "most": item.most, "dollarsPerHourEach": item.each,
            }
            for item in found
        ],
        "byPurchase": {kind: of(sum_) for kind, sum_ in by_purchase(found).items()},
        "least": of(total(found, most=False)),
        "most": of(total(found, most=True)),
    }  # fmt: skip
