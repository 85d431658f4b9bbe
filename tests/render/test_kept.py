"""Rendered charts are kept by what they are made of, and only by that."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tokenworks.errors import TokenworksError
from tokenworks.render import helm as rendering
from tokenworks.render.helm import RenderTools, template
from tokenworks.render.kept import Kept, key_of
from tokenworks.spec.stack import Manifest

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: one\nversion: 0.1.0\n",
    "templates/a.yaml": "kind: A\nname: {{ .Release.Name }}\nvalue: {{ .Values.value }}\n",
}


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "chart"
    for name, text in CHART.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.fixture
def tools(tmp_path: Path, helm: Path) -> RenderTools:
    return RenderTools(helm, lambda name: tmp_path / name, Kept(tmp_path / "kept"))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Values of every run of Helm."""
    real = rendering._template  # pyright: ignore[reportPrivateUsage]
    seen: list[str] = []

    def counted(
        helm: Path, chart: Path, name: str, namespace: str, values: str
    ) -> tuple[Manifest, ...]:
        seen.append(values)
        return real(helm, chart, name, namespace, values)

    monkeypatch.setattr(rendering, "_template", counted)
    return seen


@pytest.mark.helm
def test_the_same_is_rendered_once(tools: RenderTools, chart: Path, runs: list[str]) -> None:
    first = template(tools, chart, "r", "n", {"value": 1})
    assert first == ({"kind": "A", "name": "r", "value": 1},)
    assert template(tools, chart, "r", "n", {"value": 1}) == first
    assert len(runs) == 1
    template(replace(tools, kept=None), chart, "r", "n", {"value": 1})
    assert len(runs) == 2


@pytest.mark.helm
def test_whatever_helm_reads_makes_another(
    tools: RenderTools, chart: Path, runs: list[str], tmp_path: Path
) -> None:
    template(tools, chart, "r", "n", {"value": 1})
    template(tools, chart, "other", "n", {"value": 1})
    template(tools, chart, "r", "other", {"value": 1})
    assert template(tools, chart, "r", "n", {"value": 2})[0]["value"] == 2
    changed = Path(shutil.copytree(chart, tmp_path / "changed"))
    (changed / "templates" / "a.yaml").write_text("kind: B\n")
    assert template(tools, changed, "r", "n", {"value": 1}) == ({"kind": "B"},)
    assert len(runs) == 5


def test_a_file_behind_a_link_counts(tmp_path: Path, chart: Path) -> None:
    """Our charts have their library by a link."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "x.tpl").write_text("1")
    keys: set[str] = set()
    for number, text in enumerate(("1", "2")):
        folder = Path(shutil.copytree(chart, tmp_path / f"chart-{number}"))
        (folder / "charts").symlink_to(library)
        (library / "x.tpl").write_text(text)
        keys.add(key_of(Path("/bin/sh"), folder, "v"))
    assert len(keys) == 2


@pytest.mark.helm
def test_a_damaged_file_is_rendered_again(
    tools: RenderTools, chart: Path, runs: list[str], tmp_path: Path
) -> None:
    first = template(tools, chart, "r", "n", {"value": 1})
    (file,) = (tmp_path / "kept").glob("*.json")
    whole = file.read_text()
    damaged = ("", "{", "[]", "null", whole[:-1], whole.replace('"r"', '"x"'), "[" * 100_000)
    for text in damaged:
        file.write_text(text)
        assert template(tools, chart, "r", "n", {"value": 1}) == first
    assert len(runs) == 1 + len(damaged) and file.read_text() == whole


def test_what_cannot_be_put_there_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json" / "in the way").mkdir(parents=True)
    Kept(tmp_path).put("a", ({"kind": "A"},))
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.helm
def test_a_failure_is_not_kept(tools: RenderTools, chart: Path, runs: list[str]) -> None:
    (chart / "templates" / "a.yaml").write_text('{{ fail "no" }}')
    for _ in range(2):
        with pytest.raises(TokenworksError):
            template(tools, chart, "r", "n", {})
    assert len(runs) == 2


def test_what_json_cannot_tell_is_not_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put("a", ({"kind": "A", "when": date(2026, 1, 1)},))
    numbered: Any = {1: "a number as a key"}
    kept.put("b", (numbered,))
    assert (kept.get("a"), kept.get("b")) == (None, None)


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Kept(tmp_path / "file" / "below")
    kept.put("a", ({"kind": "A"},))
    assert kept.get("a") is None


def test_the_oldest_half_goes(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(6):
        kept.put(str(number), ({"kind": "A"},))
        os.utime(tmp_path / f"{number}.json", (number, number))
    kept.trim(6)
    assert len(list(tmp_path.glob("*.json"))) == 6
    kept.trim(5)
    assert sorted(f.stem for f in tmp_path.glob("*.json")) == ["3", "4", "5"]
