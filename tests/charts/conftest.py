"""Fixtures of the chart tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.charts.documents import model, values_of
from tests.charts.rendering import Helm, Objects


@pytest.fixture(scope="session")
def charts(helm: Path) -> Helm:
    """Helm, over our charts."""
    return Helm(helm)


@pytest.fixture(scope="session")
def vllm(charts: Helm) -> Objects:
    """A vLLM release with two GPUs, downloaded weights and a queue."""
    return charts.objects("model", values_of(model()))


@pytest.fixture(scope="session")
def plain(charts: Helm) -> Objects:
    """The chart `model` without any values."""
    return charts.objects("model")
