"""Networks and caches do not meddle with each other: cells of both are not rendered, but reckoned.

A cell with a network and a cache of its own has the values of that network's cell with those
things changed that the cache changes, so that the golden files of the two say all about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.matrix.cells import SAID_NOTHING, Cell, crossed
from tests.matrix.judging import allowed
from tests.matrix.rendering import values_of

_GONE: Final = object()
Flat = Mapping[tuple[str, ...], Any]
ENGINES: Final = sorted({(c.engine, c.played) for c in allowed()})


def flat(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Leaves by their path."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    found: dict[tuple[str, ...], Any] = {}
    for key, part in value.items():
        found |= flat(part, (*path, key))
    return found


def untangled(value: Any) -> Any:
    """vLLM's two connectors as two settings: one is the network's, the other the cache's."""
    if not isinstance(value, dict):
        return value
    config: Any = value.get("kv-transfer-config")
    if isinstance(config, dict) and config["kv_connector"] == "MultiConnector":
        nixl, kept = config["kv_connector_extra_config"]["connectors"]
        policy = {"kv_load_failure_policy": config["kv_load_failure_policy"]}
        value = {**value, "kv-transfer-config": {**nixl, **policy}, "kept by": kept}
    return {key: untangled(part) for key, part in value.items()}


def test_two_connectors_are_told_apart() -> None:
    nixl, kept = {"kv_connector": "NixlConnector"}, {"kv_connector": "OffloadingConnector"}
    both = {
        "kv_connector": "MultiConnector",
        "kv_load_failure_policy": "fail",
        "kv_connector_extra_config": {"connectors": [nixl, kept]},
    }
    assert untangled({"flags": {"kv-transfer-config": both}}) == {
        "flags": {
            "kv-transfer-config": {**nixl, "kv_load_failure_policy": "fail"}, "kept by": kept,
        },
    }  # fmt: skip


def changes(before: Flat, after: Flat) -> dict[tuple[str, ...], Any]:
    """What one sets, and what it removes."""
    places = before.keys() | after.keys()
    return {
        place: after.get(place, _GONE)
        for place in places
        if before.get(place, _GONE) != after.get(place, _GONE)
    }


def laid(base: Flat, *all_changes: Flat) -> dict[tuple[str, ...], Any]:
    """The changes made, one after another."""
    result = dict(base)
    for made in all_changes:
        result |= made
    return {place: value for place, value in result.items() if value is not _GONE}


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "played"), ENGINES)
def test_values_of_both_are_the_changes_of_each(engine: str, played: bool) -> None:
    known = {cell: flat(untangled(values_of(cell))) for cell in allowed() if cell.engine == engine}
    for cell in crossed():
        if (cell.engine, cell.played) != (engine, played):
            continue
        where = (engine, played, cell.topology)
        base = known.get(Cell(*where, SAID_NOTHING, SAID_NOTHING))
        network = known.get(Cell(*where, cell.network, SAID_NOTHING))
        kept = known.get(Cell(*where, SAID_NOTHING, cell.cache))
        if base is not None and network is not None and kept is not None:
            expected = laid(base, changes(base, network), changes(base, kept))
            assert flat(untangled(values_of(cell))) == expected, cell
