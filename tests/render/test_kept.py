"""What is kept is found by what it is made of, and only by that."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tokenworks.catalog.bill import bill
from tokenworks.errors import TokenworksError
from tokenworks.kept import Kept, digest, program
from tokenworks.render import charts as running
from tokenworks.render.charts import Request
from tokenworks.render.helm import RenderTools, key_of, template
from tokenworks.render.platform import crds

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
def tools(tmp_path: Path, renderer: Path) -> RenderTools:
    return RenderTools(renderer, lambda name: tmp_path / name, Kept(tmp_path / "kept"))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Values of every chart that the program was asked for."""
    real = running.Renderer.objects
    seen: list[str] = []

    def counted(self: running.Renderer, request: Request) -> tuple[dict[str, Any], ...]:
        seen.append(request.values)
        return real(self, request)

    monkeypatch.setattr(running.Renderer, "objects", counted)
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


@pytest.mark.helm
def test_where_the_chart_is_does_not_matter(
    tools: RenderTools, chart: Path, runs: list[str], tmp_path: Path
) -> None:
    template(tools, chart, "r", "n", {"value": 1})
    template(tools, Path(shutil.copytree(chart, tmp_path / "moved")), "r", "n", {"value": 1})
    assert len(runs) == 1


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
        keys.add(key_of(Path("/bin/sh"), Request(folder, "r", "n", "1", "{}")))
    assert len(keys) == 2


def test_programs_are_told_apart_by_their_content(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    for file, text in zip(files, ("1", "2", "1"), strict=True):
        file.write_text(text)
    os.utime(files[2], (0, 0))
    keys = [program(file) for file in files]
    assert keys[0] != keys[1] and keys[0] == keys[2]


def test_parts_of_a_key_do_not_run_together() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("a", "b", "c")}) == 4
    assert digest("é") == digest("é".encode())


@pytest.mark.helm
def test_a_damaged_file_is_rendered_again(
    tools: RenderTools, chart: Path, runs: list[str], tmp_path: Path
) -> None:
    first = template(tools, chart, "r", "n", {"value": 1})
    (file,) = (tmp_path / "kept").glob("*.kept")
    whole = file.read_bytes()
    damaged = (
        b"", b"{", b"[]", b"null", whole[:-1], whole.replace(b'"r"', b'"x"'), b"[" * 100_000,
        b"\xff" + whole,
    )  # fmt: skip
    for raw in damaged:
        file.write_bytes(raw)
        assert template(tools, chart, "r", "n", {"value": 1}) == first
    assert len(runs) == 1 + len(damaged) and file.read_bytes() == whole


def test_what_cannot_be_put_there_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.kept" / "in the way").mkdir(parents=True)
    Kept(tmp_path).keep_objects("a", ({"kind": "A"},))
    assert [path.name for path in tmp_path.iterdir()] == ["a.kept"]


def test_where_nothing_can_be_kept_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Kept(tmp_path / "file" / "folder")
    kept.keep("a", "text")
    kept.trim()
    assert kept.text("a") is None


@pytest.mark.helm
def test_a_failure_is_not_kept(tools: RenderTools, chart: Path, runs: list[str]) -> None:
    (chart / "templates" / "a.yaml").write_text('{{ fail "no" }}')
    for _ in range(2):
        with pytest.raises(TokenworksError):
            template(tools, chart, "r", "n", {})
    assert len(runs) == 2


def test_what_json_cannot_tell_is_not_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.keep_objects("a", ({"kind": "A", "when": date(2026, 1, 1)},))
    numbered: Any = {1: "a number as a key"}
    kept.keep_objects("b", (numbered,))
    assert (kept.objects("a"), kept.objects("b")) == (None, None)


def test_texts_are_kept_to_the_byte(tmp_path: Path) -> None:
    text = "é\r\n\u2028\x00 \ufeff\n\n"
    Kept(tmp_path).keep("a", text)
    assert Kept(tmp_path).text("a") == text


def test_the_oldest_half_goes_when_there_are_too_many(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(4):
        kept.keep(str(number), "text")
        os.utime(tmp_path / f"{number}.kept", (number, number))
    (tmp_path / "another's").write_text("")
    kept.trim(most=4)
    assert len(list(tmp_path.iterdir())) == 5
    kept.trim(most=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.kept", "3.kept", "another's"]


def test_crds_are_those_of_the_files(tmp_path: Path) -> None:
    component = bill().components["lws"].model_copy(update={"crds": ("crds",)})
    (tmp_path / "crds").mkdir()
    file = tmp_path / "crds" / "a.yaml"
    plain = RenderTools(Path("none"), lambda _name: tmp_path)
    keeping = replace(plain, kept=Kept(tmp_path / "kept"))
    for name in ("one", "two", "one"):
        file.write_text(f"kind: CustomResourceDefinition\nname: {name}\ndescription: prose\n")
        for _ in range(2):
            assert crds(component, keeping) == crds(component, plain)
            assert crds(component, keeping) == ({"kind": "CustomResourceDefinition", "name": name},)
