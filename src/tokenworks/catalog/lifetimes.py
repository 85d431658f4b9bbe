"""Which versions of an engine know which flag, as far as versions were looked at.

    gap("vllm", "swap-space", "v0.32.0")     what is known of a flag that 0.32.0 does not know

`lifetimes.json` is written by `hack/lifetimes.py` from the engines' own argument parsers; which
images have tags of the engine's versions, and what took the place of a flag, by hand.
Standard library alone, for the policies import it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Order = tuple[int, ...]
"""A version as numbers that compare: release, 0 for a candidate or 1, its number, post release."""
_TAG = re.compile(
    r"v?(?P<release>\d{1,9}(?:\.\d{1,9}){1,3})(?:rc(?P<rc>\d{1,9}))?(?:\.?post(?P<post>\d{1,9}))?"
    r"(?:[-_](?:cu\d+|cuda[\d.]+|rocm[\d.]*|mi\d+x?|x86_64|amd64|arm64|aarch64|ubuntu[\d.]+|lws"
    r"|runtime|cpu))*"
)
"""Tags of releases; what stands behind them names another build of the same, and no other."""


@dataclass(frozen=True)
class Gap:
    """What is known of a flag, seen from a version that does not know it."""

    version: str
    """The version, as the engine counts."""
    last: str | None
    """Newest older version that knows it."""
    next: str | None
    """Oldest newer version that knows it."""
    instead: str
    """What took its place, as a command line writes it; empty: nothing that this version has."""


@dataclass(frozen=True)
class _Table:
    versions: Sequence[str]
    orders: Sequence[Order]
    spans: Mapping[str, str]
    """Flag: `FIRST..LAST` for each run of versions that know it, behind commas; an end is left
    out where the table ends."""
    images: Sequence[str]
    instead: Mapping[str, str]


def tag_of(engine: str, image: str) -> str | None:
    """The tag of an image that its engine's own project tags with versions; None for others."""
    table, name = _tables().get(engine), image.partition("@")[0]
    repository, separator, tag = name.rpartition(":")
    ours = table is not None and any(f"/{repository}".endswith(f"/{i}") for i in table.images)
    return tag if ours and separator else None


def newest(engine: str) -> str | None:
    """The newest version that was looked at; None of an engine without a table."""
    table = _tables().get(engine)
    return table.versions[-1] if table else None


def gap(engine: str, flag: str, tag: str) -> Gap | None:
    """Of a flag (its long name, dashes inside) that the version of an image's tag does not know.

    None where it knows the flag, and wherever that cannot be told: other tags, versions older
    than the table, names that no version has, a change between two versions of the table.
    """
    table, order = _tables().get(engine), order_of(tag)
    if table is None or order is None or flag not in table.spans or order < table.orders[0]:
        return None
    if _knows(table, flag, order):
        return None
    at, runs = bisect_right(table.orders, order) - 1, _runs(table, flag)
    before = [last for _, last in runs if last < at]
    behind = [first for first, _ in runs if first > at]
    match = _TAG.fullmatch(tag)
    return Gap(
        _said(match) if match else tag,
        table.versions[max(before)] if before else None,
        table.versions[min(behind)] if behind else None,
        _instead(table, flag, order) if before else "",
    )


def _instead(table: _Table, flag: str, order: Order) -> str:
    """What took a flag's place; empty where this version does not have that either."""
    words = table.instead.get(flag, "")
    named = re.findall(r"--([a-z][a-z0-9-]*)", words)
    return words if all(_knows(table, name, order) for name in named) else ""


def _knows(table: _Table, flag: str, order: Order) -> bool:
    """Whether a version may know a flag: between two versions of the table either counts."""
    at, after = bisect_right(table.orders, order) - 1, bisect_left(table.orders, order)
    if flag not in table.spans:
        return True
    return any(first <= at <= last or first <= after <= last for first, last in _runs(table, flag))


def _runs(table: _Table, flag: str) -> list[tuple[int, int]]:
    """Positions of the first and the last version of each run that knows a flag."""
    return [_ends(table, run) for run in table.spans[flag].split(",")]


def _said(match: re.Match[str]) -> str:
    rc, post = match["rc"], match["post"]
    return f"{match['release']}{f'rc{rc}' if rc else ''}{f'.post{post}' if post else ''}"


def order_of(tag: str) -> Order | None:
    """What a tag compares by; None where it names no release."""
    match = _TAG.fullmatch(tag)
    if match is None:
        return None
    release = [int(part) for part in match["release"].split(".")]
    candidate = (0, int(match["rc"])) if match["rc"] else (1, 0)
    return (*release, *([0] * (4 - len(release))), *candidate, int(match["post"] or 0))


def _ends(table: _Table, run: str) -> tuple[int, int]:
    first, _, last = run.partition("..")
    # What the newest version has, those after it have too, as far as anybody knows.
    return (
        table.versions.index(first) if first else 0,
        table.versions.index(last) if last else len(table.versions),
    )


@cache
def _tables() -> Mapping[str, _Table]:
    file = Path(__file__).with_name("lifetimes.json")
    data: dict[str, dict[str, Any]] = json.loads(file.read_text())
    return {engine: _table(facts) for engine, facts in data.items()}


def _table(facts: Mapping[str, Any]) -> _Table:
    orders = [order for v in facts["versions"] if (order := order_of(v)) is not None]
    return _Table(facts["versions"], orders, facts["flags"], facts["images"], facts["instead"])
