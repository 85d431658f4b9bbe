"""The quick reader reads what the careful one reads, or leaves it to that one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.spec.test_any_text import quick, values, yamlish
from tokenworks.spec.problems import FieldPath
from tokenworks.spec.yamldata import Document, compose, place_in, read_data
from tokenworks.spec.yamlsource import Node, data_of, place_of, read_yaml

ROOT = Path(__file__).parents[2]
FOLDERS = ("rendered", "examples", "policies/examples", "tests/policies/corpus", "tests/spec")


def paths(data: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The paths of everything in the data, and of something that is not there."""
    yield path
    yield (*path, "not there")
    if isinstance(data, dict):
        for key, child in cast("dict[str, Any]", data).items():
            yield from paths(child, (*path, key))
    if isinstance(data, list):
        for position, item in enumerate(cast("list[Any]", data)):
            yield from paths(item, (*path, position))


def same(text: str) -> bool:
    """Whether the quick reader reads the text, and then as the careful one does."""
    quickly = read_data(text)
    if quickly is None:
        return False
    read = read_yaml(text, kubernetes=True)
    assert read.flaws == ()
    assert repr([document.data for document in quickly]) == repr(list(map(data_of, read.documents)))
    for document, node in zip(quickly, read.documents, strict=True):
        compare_places(text, document, node)
    return True


def compare_places(text: str, document: Document, node: Node) -> None:
    assert document.place == place_of(node, ())
    composed = compose("\n".join(text.split("\n")[document.first : document.after]))
    for path in paths(document.data):
        line, column = place_in(composed, path)
        assert (line + document.first, column) == place_of(node, path), path


def test_manifests_are_read_quickly_and_alike() -> None:
    files = sorted(f for folder in FOLDERS for f in (ROOT / folder).rglob("*.yaml"))
    read = [same(file.read_text()) for file in files if file.stat().st_size < 30_000]
    assert len(read) > 300
    assert sum(read) > 0.8 * len(read)


@quick
@given(text=yamlish)
def test_odd_texts(text: str) -> None:
    same(text)


@quick
@given(
    data=st.lists(values, min_size=1, max_size=3),
    flow=st.sampled_from([None, False, True]),
    style=st.sampled_from([None, "'", '"', "|"]),
    comment=st.sampled_from(["", "# a comment\n", "\n\n", "%YAML 1.1\n"]),
)
def test_dumped_values(data: list[Any], flow: bool | None, style: str | None, comment: str) -> None:
    text: str = yaml.safe_dump_all(  # pyright: ignore[reportUnknownMemberType]
        data, default_flow_style=flow, default_style=style, allow_unicode=True,
        explicit_start=bool(comment),
    )  # fmt: skip
    same(comment + text)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n", "a: &x 1\nb: *x\n", "a: !!str 1\n", "a: on\n", "on: 1\n", "a: 0o8\n",
        "<<: {a: 1}\n", "{[a]: 1}\n", "a: 1_000\n", "a: \x01\n", "a: b\r\nc: d\n",
        "%YAML 1.1\n---\na: b\n", '"true": 1\n', "a: [" * 70 + "]" * 70, "a: {b\n", "a: 09\n",
    ],
)  # fmt: skip
def test_what_needs_a_second_thought_is_left(text: str) -> None:
    assert read_data(text) is None


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("a: 1", [(0, 1)]),
        ("a: 1\n", [(0, 1)]),
        ("# x\n\n---\na: 1\n---\nb: 2", [(2, 4), (4, 6)]),
        ("a: 1\n...\n---\n---\nb: |\n  x\n\n", [(0, 1), (3, 7)]),
        ("--- {a: 1}\n--- [b]\n", [(0, 1), (1, 2)]),
        ("---\n# nothing\n", []),
    ],
)
def test_documents_know_their_lines(text: str, spans: list[tuple[int, int]]) -> None:
    assert [(d.first, d.after) for d in read_data(text) or ()] == spans
    assert same(text)
