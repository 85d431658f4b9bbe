"""Fixtures: the whole matrix, and the engine pods in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.charts.rendering import Helm, Objects
from tests.fieldnotes.view import Pod, engine_pods
from tests.matrix.cells import Cell
from tests.matrix.rendering import rendered


@pytest.fixture(scope="session")
def matrix(helm: Path) -> Mapping[Cell, Objects]:
    """Objects of every allowed cell."""
    return rendered(Helm(helm))


@pytest.fixture(scope="session")
def pods(matrix: Mapping[Cell, Objects]) -> Sequence[Pod]:
    """Every engine pod of every allowed cell."""
    return engine_pods(matrix)
