"""Every note has tests, and says so by its number."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.fieldnotes.notes import NOTES

TESTS = Path(__file__).parents[1]


def marked(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Numbers in `@pytest.mark.fieldnote(…)` over classes and functions that test something."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or not _tests(node):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fieldnote":
                yield from ((ast.literal_eval(number), node.name) for number in mark.args)


def _tests(node: ast.ClassDef | ast.FunctionDef) -> bool:
    inside = node.body if isinstance(node, ast.ClassDef) else [node]
    return any(isinstance(f, ast.FunctionDef) and f.name.startswith("test_") for f in inside)


def test_every_note_has_tests_and_every_mark_a_note() -> None:
    found = defaultdict[int, list[str]](list)
    for file in TESTS.rglob("test_*.py"):
        text = file.read_text()
        if "fieldnote" in text:
            for number, name in marked(ast.parse(text)):
                found[number].append(name)
    assert found.keys() == NOTES.keys()


def test_only_what_tests_something_counts() -> None:
    text = """
@pytest.mark.fieldnote(1)
class TestEmpty:
    def helper(self): ...
@pytest.mark.fieldnote(2, 3)
class TestBoth:
    def test_it(self): ...
@pytest.mark.fieldnote(4)
def test_alone(): ...
@pytest.mark.helm
def test_other(): ...
"""
    assert [*marked(ast.parse(text))] == [(2, "TestBoth"), (3, "TestBoth"), (4, "test_alone")]
