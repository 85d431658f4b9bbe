"""Every allowed cell renders to its golden file; every other is refused in the words beside it.

.venv/bin/python -P -m tests.matrix.golden     writes the files anew
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.charts.rendering import Objects
from tests.matrix.cells import CACHES, NETWORKS, TOPOLOGIES, Cell, cells
from tests.matrix.golden import FOLDER, files
from tests.matrix.judging import refusals
from tokenworks.catalog.engines import load_engines

GOLDEN = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.txt"))


@pytest.fixture(scope="module")
def now(matrix: Mapping[Cell, Objects]) -> Mapping[str, str]:
    """What the files would be."""
    return files(matrix, refusals())


@pytest.mark.helm
@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_file_is_what_is_rendered(name: str, now: Mapping[str, str]) -> None:
    assert (FOLDER / name).read_text() == now.get(name, "")


@pytest.mark.helm
def test_every_engine_and_topology_has_its_file(now: Mapping[str, str]) -> None:
    assert sorted(now) == GOLDEN


def test_every_combination_is_judged() -> None:
    engines, columns = len(load_engines().engines), len(NETWORKS) + len(CACHES) - 1
    assert len(cells()) == engines * 2 * len(TOPOLOGIES) * columns
    assert refusals().keys() == set(cells())


def test_every_engine_serves_in_some_cell_and_is_refused_in_another() -> None:
    for engine in load_engines().engines:
        words = [bool(said) for cell, said in refusals().items() if cell.engine == engine]
        assert set(words) == {True, False}, engine


def test_every_refusal_says_what_to_do() -> None:
    for words in refusals().values():
        for line in words:
            field, _, text = line.partition(": ")
            assert field.startswith("spec.") and text.count(";") >= 1, line
            assert "allowed: ;" not in line, line
