"""What is handed to Helm, and that it reads it as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tokenworks.render.helm import RenderTools, template, values_text

ODD = '😀 é \x7f \x85 \u2028 \u2029 \ufeff \\ud83d "quoted"\n'


def test_values_are_yaml_and_json_alike() -> None:
    text = values_text({"a": ODD, "n": 1})
    assert json.loads(text) == yaml.safe_load(text) == {"a": ODD, "n": 1}


@pytest.mark.helm
def test_helm_reads_them_as_they_were(renderer: Path, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 0.1.0\n")
    (chart / "templates" / "map.yaml").write_text("a: {{ .Values.a | quote }}\n")
    (made,) = template(RenderTools(renderer, Path), chart, "demo", "default", {"a": ODD})
    assert made == {"a": ODD}
