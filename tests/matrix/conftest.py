"""Fixtures of the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.charts.rendering import Helm, Objects
from tests.matrix.cells import Cell
from tests.matrix.rendering import rendered


@pytest.fixture(scope="session")
def matrix(helm: Path) -> Mapping[Cell, Objects]:
    """Objects of every allowed cell."""
    return rendered(Helm(helm))
