"""What the page of engines and topologies says is proven, is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hack.matrix import page, proofs, proven, rows
from tests.matrix.cells import TOPOLOGIES
from tests.matrix.golden import FOLDER
from tokenworks.catalog.engines import load_engines

PROOFS = Path(__file__).with_name("proofs.yaml")
ENTRIES = proofs(PROOFS)


@pytest.mark.parametrize("test", sorted({test for entry in ENTRIES for test in entry["tests"]}))
def test_every_test_that_is_named_exists(test: str, root: Path) -> None:
    file, name = test.split("::")
    tree = ast.parse((root / file).read_text())
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert name in names


def test_entries_speak_of_engines_and_topologies_that_are_rendered() -> None:
    known = {(row.engine, row.topology) for row in rows(FOLDER)}
    for entry in ENTRIES:
        engines = [*load_engines().engines] if entry["engines"] == "all" else entry["engines"]
        topologies = [*TOPOLOGIES] if entry["topologies"] == "all" else entry["topologies"]
        assert entry["how"] in ("real engine", "simulator", "real router", "dry run")
        for engine in engines:
            assert any((engine, topology) in known for topology in topologies), entry
        if entry["topologies"] != "all":
            assert {(e, t) for e in engines for t in topologies} <= known, entry


def test_the_page_has_a_row_for_every_golden_file(root: Path) -> None:
    found, lines = rows(FOLDER), page(root).splitlines()
    for row in found:
        (line,) = [x for x in lines if x.startswith(f"| {row.engine} | {row.topology} |")]
        assert line.endswith(f"| {', '.join(proven(row, ENTRIES))} |")
        assert "as it comes" in row.columns or all(c.startswith("played") for c in row.columns)


def test_who_picks_is_read_from_what_is_rendered() -> None:
    gateways = {(row.engine, row.topology): row.gateway for row in rows(FOLDER)}
    assert gateways["vllm", "single"] == "endpoint picker"
    assert gateways["vllm", "split"] == "llm-d 0.10"
    assert gateways["vllm", "split-0.4.0"] == "llm-d 0.4"
    assert gateways["vllm", "split-router"] == "vLLM's router"
    assert gateways["sglang", "split-rbg-router"] == "SGLang's router"
    assert gateways["ollama", "single"] == "Service"
