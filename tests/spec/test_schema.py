"""The published schema is the types': up to date, closed, described, strict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tokenworks.spec import schema

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=sorted(schema.DOCUMENTS))
def published(request: pytest.FixtureRequest) -> dict[str, Any]:
    file = ROOT / "schemas" / f"{request.param}.schema.json"
    return json.loads(file.read_text(encoding="utf-8"))


def objects(part: Any) -> Iterator[dict[str, Any]]:
    """Every map in the schema."""
    if isinstance(part, dict):
        yield part
        for value in part.values():
            yield from objects(value)
    elif isinstance(part, list):
        for value in part:
            yield from objects(value)


def test_the_files_are_up_to_date() -> None:
    assert list(schema.stale(ROOT / "schemas")) == []
    assert schema.main(["--check", "--dir", str(ROOT / "schemas")]) == 0


def test_every_map_is_closed(published: dict[str, Any]) -> None:
    maps = [part for part in objects(published) if part.get("type") == "object"]
    assert maps
    for part in maps:
        named = "properties" in part or "patternProperties" in part
        assert part["additionalProperties"] is (not named)


def test_every_field_is_described(published: dict[str, Any]) -> None:
    defined = published["$defs"]
    for part in objects(published):
        for name, field in part.get("properties", {}).items():
            if not isinstance(field, dict) or ("type" in part and part["type"] != "object"):
                continue
            target = defined[field["$ref"].rpartition("/")[2]] if "$ref" in field else {}
            assert field.get("description") or target.get("description"), name


def test_nothing_may_be_left_empty(published: dict[str, Any]) -> None:
    assert not [part for part in objects(published) if part.get("type") == "null"]


def test_a_document_says_what_it_is(published: dict[str, Any]) -> None:
    assert {"apiVersion", "kind", "metadata", "spec"} == set(published["required"])
    assert published["properties"]["apiVersion"]["const"] == "tokenworks.dev/v1alpha1"


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "schemas"
    assert schema.main(["--check", "--dir", str(folder)]) == 1
    assert "tenant.schema.json: not up to date; run " in capsys.readouterr().err
    assert not folder.exists(), "a check writes nothing"
    assert schema.main(["--dir", str(folder)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert schema.main(["--dir", str(folder)]) == 0
    assert capsys.readouterr().out == "", "what is up to date is not written again"
    (folder / "tenant.schema.json").write_text("{}")
    assert schema.main(["--check", "--dir", str(folder)]) == 1
