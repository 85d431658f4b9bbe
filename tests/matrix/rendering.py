"""Every allowed cell as Kubernetes objects: one helm process for each set of values, once a run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.charts.rendering import Helm, Objects
from tests.matrix.cells import Cell
from tests.matrix.judging import allowed, release_of
from tokenworks.render.defaults import helm_values
from tokenworks.render.model import model_values

AT_ONCE: Final = 4
Values = dict[str, Any]


def values_of(cell: Cell) -> Values:
    """Values of the chart `model` for a cell."""
    stack, model = release_of(cell)
    return helm_values("model", model_values(stack, model))


@cache
def rendered(helm: Helm) -> Mapping[Cell, Objects]:
    """Objects of every allowed cell; cells with the same values share them."""
    same: dict[str, list[Cell]] = defaultdict(list)
    for cell in allowed():
        same[json.dumps(values_of(cell), sort_keys=True)].append(cell)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda text: helm.objects("model", text), same)
        return {
            cell: objects
            for objects, cells in zip(found, same.values(), strict=True)
            for cell in cells
        }


def distinct(matrix: Mapping[Cell, Objects]) -> Sequence[tuple[Cell, Objects]]:
    """The first cell of each set of objects."""
    first: dict[int, tuple[Cell, Objects]] = {}
    for cell, objects in matrix.items():
        first.setdefault(id(objects), (cell, objects))
    return list(first.values())


def pinned_helm() -> Helm:
    """Helm of the toolchain."""
    from local.toolchain import ensure  # noqa: PLC0415  tests without programs need no toolchain

    return Helm(Path(ensure("helm")["helm"]))
