"""Every example renders to what is beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.charts.examples import examples, made_values, rendered
from tests.charts.rendering import NAMES, Helm

pytestmark = pytest.mark.helm
AGAIN = "run `.venv/bin/python -m tests.charts.examples` and read the difference"


@pytest.mark.parametrize("example", examples(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_it_renders_to_what_is_beside_it(example: Path, charts: Helm) -> None:
    assert rendered(charts, example) == (example / "rendered.yaml").read_text(), AGAIN


def test_every_chart_has_an_example() -> None:
    assert {example.parent.name for example in examples()} == set(NAMES)


def test_values_made_from_documents_are_fresh() -> None:
    for path, text in made_values().items():
        assert path.read_text() == text, AGAIN


def test_no_version_of_a_chart_is_in_them() -> None:
    for example in examples():
        text = (example / "rendered.yaml").read_text()
        assert "helm.sh/chart" not in text
        assert "app.kubernetes.io/version" not in text
