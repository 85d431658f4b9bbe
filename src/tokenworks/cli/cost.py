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

    `least` is with as few nodes as may run, `most` with as many. Prices are public ones without
    discounts, and the lines below the table say of which day. Spot prices move by the hour: what
    comes of them is an estimate, marked with `~`. A price that no public source gives is said to be
    not known, and sums say how many they leave out.

    Example: ./tokenworks cost staging
    """
    from tokenworks.render.aws import plan_of  # noqa: PLC0415 - start-up time of --help
    from tokenworks.render.aws.cost import NOT_COUNTED, items  # noqa: PLC0415

    stack = load(environment)
    if stack.environment.spec.cluster.aws is None:
        raise UsageError(
            f"{environment} is not on AWS (spec.cluster.provider): its nodes have no price here"
        )
    plan = plan_of(stack)
    found = items(plan)
    if output is Format.JSON:
        print(json.dumps(_data(found), indent=2))
        return
    print(_table(_rows(found), output))
    # Markdown makes one paragraph of lines.
    between = "\n\n" if output is Format.MARKDOWN else "\n"
    notes = [*_sources(found, plan.spec.region), f"Not counted: {NOT_COUNTED}."]
    print("\n" + between.join(notes))


def _sources(found: Sequence[Item], region: str) -> list[str]:
    """Where and when prices were read, a line for each source; and why some are not known."""
    from tokenworks.catalog.aws import regional_prices  # noqa: PLC0415

    lines: list[str] = []
    for item in found:
        if item.quote is None:
            unlisted = regional_prices().unlisted
            if item.what in unlisted.types and item.purchase in ("on-demand", "reservation"):
                lines.append(
                    f"{item.what}: no price on demand in any region, {unlisted.date}, "
                    f"from {unlisted.where}."
                )
            continue
        source = item.quote.source
        lines.append(f"{_heading(item, region)} {source.date}, from {source.where}.")
    return list(dict.fromkeys(lines))


def _heading(item: Item, region: str) -> str:
    if item.name == "control plane":
        return "Control plane:"
    match item.purchase:
        case "capacity-block":
            return "Capacity blocks:"
        case "spot":
            return f"~ Spot in {region}, an estimate that moves by the hour: as of"
        case "on-demand" | "reservation":
            return f"On demand in {region}:"


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
    prices = (
        _price(item.each, item.as_of), _price(item.hourly(item.least), item.as_of),
        _price(most, item.as_of), _price(month, item.as_of),
    )  # fmt: skip
    return (item.name, item.what, item.purchase, nodes, *prices)


def _price(value: float | None, as_of: str | None) -> str:
    if value is None:
        return "not known"
    # Nothing costs nothing at any price.
    return f"{'~' if as_of and value else ''}{value:,.2f}"


def _sums(least: Total, most: Total) -> tuple[str, str, str]:
    def shown(value: float, sum_: Total) -> str:
        more = f" + {sum_.unknown} not known" if sum_.unknown else ""
        return _price(value, sum_.as_of) + more

    return shown(least.hourly, least), shown(most.hourly, most), shown(most.monthly, most)


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
            "estimateAsOf": sum_.as_of,
        }

    def priced(item: Item) -> dict[str, Any]:
        source = None if item.quote is None else item.quote.source
        return {
            "dollarsPerHourEach": item.each,
            "estimateAsOf": item.as_of,
            "priceDate": source and source.date,
            "priceSource": source and source.where,
        }

    return {
        "pools": [
            {
                "name": item.name, "what": item.what, "purchase": item.purchase,
                "least": item.least, "most": item.most, **priced(item),
            }
            for item in found
        ],
        "byPurchase": {kind: of(sum_) for kind, sum_ in by_purchase(found).items()},
        "least": of(total(found, most=False)),
        "most": of(total(found, most=True)),
    }  # fmt: skip
