"""The rendered tree: written whole, checked exactly, nobody else's files touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tokenworks.errors import UsageError
from tokenworks.render.release import Release, RemoteChart
from tokenworks.render.tree import compare, release_text, strangers, tree, write

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


def release(name: str = "a", **changes: object) -> Release:
    return Release(name, "models", "ns", ({**OBJECT, **changes},))


def test_a_release_is_one_file_in_its_layer(tmp_path: Path) -> None:
    change = write(tree([release("a"), release("b")]), tmp_path)
    assert change.added == ("models/a.yaml", "models/b.yaml")
    assert sorted(p.name for p in (tmp_path / "models").iterdir()) == ["a.yaml", "b.yaml"]


def test_a_chart_that_is_fetched_later_is_written_as_what_is_asked_for() -> None:
    chart = RemoteChart(
        "gpu", "https://charts.example.com", "gpu-operator", "v1.2.3", "gpu", {"a": 1}
    )
    text = release_text(Release("gpu", "operators", "gpu", (OBJECT,), charts=(chart,)))
    written = list(yaml.safe_load_all(text))
    assert written == [OBJECT, chart.manifest()]
    assert written[1]["spec"]["values"] == {"a": 1}
    assert (written[1]["spec"]["chart"], written[1]["spec"]["version"]) == (
        "gpu-operator",
        "v1.2.3",
    )


def test_a_second_write_touches_nothing(tmp_path: Path) -> None:
    write(tree([release()]), tmp_path)
    stamp = (tmp_path / "models" / "a.yaml").stat().st_mtime_ns
    assert not write(tree([release()]), tmp_path)
    assert (tmp_path / "models" / "a.yaml").stat().st_mtime_ns == stamp


def test_a_release_that_is_gone_takes_its_file_and_empty_folder_along(tmp_path: Path) -> None:
    write(tree([release()]), tmp_path)
    assert write({}, tmp_path).removed == ("models/a.yaml",)
    assert list(tmp_path.iterdir()) == []


def test_files_that_rendering_did_not_write_stay(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    own = tmp_path / "models" / "mine.yaml"
    own.write_text("a: 1\n")
    assert not write({}, tmp_path)
    assert own.read_text() == "a: 1\n"


def test_what_would_be_applied_beside_what_was_rendered_is_found(tmp_path: Path) -> None:
    write(tree([release()]), tmp_path)
    for name in ("README.md", "applications/b.yml", "models/mine.yaml", "x.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a: 1\n")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    assert strangers(tmp_path) == ("applications/b.yml", "gone.yaml", "models/mine.yaml", "x.json")
    assert strangers(tmp_path / "nosuch") == ()


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ({}, "+ models/a.yaml"),
        ({"models/a.yaml": release_text(release(data={"k": "old"}))}, "~ models/a.yaml"),
        ({"models/z.yaml": release_text(release("z"))}, "- models/z.yaml"),
    ],
)
def test_comparing_names_every_difference_and_writes_nothing(
    tmp_path: Path, before: dict[str, str], line: str
) -> None:
    write(before, tmp_path)
    there = {p: p.read_bytes() for p in tmp_path.rglob("*.yaml")}
    assert line in compare(tree([release()]), tmp_path).lines()
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.yaml")} == there


def test_text_survives_the_file(tmp_path: Path) -> None:
    data = {"script": "one\ntwo\n", "number": "1e6", "yes": "yes", "big": 1_048_576_000}
    write(tree([release(data=data)]), tmp_path)
    text = (tmp_path / "models" / "a.yaml").read_text()
    assert yaml.safe_load(text)["data"] == data
    assert "1048576000" in text
    assert "|" in text


def test_another_file_in_the_way_is_named_and_stays(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "b.yaml").write_text("mine")
    with pytest.raises(UsageError, match=r"models/b\.yaml: no rendering wrote this"):
        write(tree([release("a"), release("b")]), tmp_path)
    assert [p.name for p in tmp_path.rglob("*.yaml")] == ["b.yaml"]
    assert (tmp_path / "models" / "b.yaml").read_text() == "mine"
