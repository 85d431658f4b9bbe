"""What the page of engines and topologies says is proven, is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hack.matrix import COLUMNS, columns, letters, page, proofs, proven, rows
from tests.matrix.cells import CACHES, NETWORKS, SAID_NOTHING, TOPOLOGIES
from tests.matrix.golden import FOLDER
from tokenworks.catalog.engines import load_engines

PROOFS = Path(__file__).with_name("proofs.yaml")
ENTRIES = proofs(PROOFS)


@pytest.mark.parametrize("test", sorted({test for entry in ENTRIES for test in entry["tests"]}))
def test_every_test_that_is_named_exists(test: str, root: Path) -> None:
    file, *inside, name = test.split("::")
    nodes = [*ast.parse((root / file).read_text()).body]
    for part in inside:
        (found,) = [n for n in nodes if isinstance(n, ast.ClassDef) and n.name == part]
        nodes = [*found.body]
    assert name in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_entries_speak_of_engines_and_topologies_that_are_rendered() -> None:
    known = {(row.engine, row.topology) for row in rows(FOLDER)}
    hows = ("real engine", "simulator", "real router", "real parser", "dry run")
    for entry in ENTRIES:
        engines = [*load_engines().engines] if entry["engines"] == "all" else entry["engines"]
        topologies = [*TOPOLOGIES] if entry["topologies"] == "all" else entry["topologies"]
        assert entry["how"] in hows
        for engine in engines:
            assert any((engine, topology) in known for topology in topologies), entry
        if entry["topologies"] != "all":
            assert {(e, t) for e in engines for t in topologies} <= known, entry


def test_cells_that_the_simulator_plays_are_rendered() -> None:
    """Only the real engine may serve what the matrix has not: it is another release."""
    by_name = {(row.engine, row.topology): row for row in rows(FOLDER)}
    for entry in ENTRIES:
        if entry["columns"] != "all" and entry["how"] != "real engine":
            for engine in entry["engines"]:
                for topology in entry["topologies"]:
                    here = by_name[engine, topology].columns
                    for column in entry["columns"]:
                        assert {column, f"played {column}"} & {*here}, (engine, topology, column)


def test_the_page_has_a_row_for_every_golden_file_and_a_cell_for_every_section(root: Path) -> None:
    found, lines = rows(FOLDER), page(root).splitlines()
    names = columns(found)
    for row in found:
        (line,) = [x for x in lines if x.startswith(f"| {row.engine} | {row.topology} |")]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[2] == row.gateway
        assert cells[3:] == [letters(row, name, ENTRIES) for name in names]
        rendered = {name.removeprefix("played").strip() or "as it comes" for name in row.columns}
        golden = {n for n, c in zip(names, cells[3:], strict=True) if "g" in c.lower()}
        assert golden == rendered


def test_a_cell_is_proven_by_what_speaks_of_it_alone() -> None:
    by_name = {(row.engine, row.topology): row for row in rows(FOLDER)}
    split, cpu = by_name["vllm", "split-0.4.0"], by_name["vllm", "single-cpu"]
    assert proven(split, "tcp", ENTRIES) == [
        "simulator", "real router", "real parser", "dry run", "golden",
    ]  # fmt: skip
    assert proven(split, "efa", ENTRIES) == ["real parser", "dry run", "golden"]
    assert "real engine" in proven(cpu, "pvc", ENTRIES)
    assert letters(cpu, "none", ENTRIES).islower(), "no GPU-less build of the release we pin"
    ollama = by_name["ollama", "single"]
    assert (proven(ollama, "s3", ENTRIES), letters(ollama, "s3", ENTRIES)) == ([], "")


def test_every_column_is_explained() -> None:
    assert {*CACHES, *NETWORKS, "as it comes"} - {SAID_NOTHING} == COLUMNS.keys()


def test_who_picks_is_read_from_what_is_rendered() -> None:
    gateways = {(row.engine, row.topology): row.gateway for row in rows(FOLDER)}
    assert gateways["vllm", "single"] == "endpoint picker"
    assert gateways["vllm", "split"] == "llm-d 0.10"
    assert gateways["vllm", "split-0.4.0"] == "llm-d 0.4"
    assert gateways["vllm", "split-router"] == "vLLM's router"
    assert gateways["sglang", "split-rbg-router"] == "SGLang's router"
    assert gateways["ollama", "single"] == "Service"
