"""The page of engines, topologies and caches: from golden files, which tests keep true, and from
the list of tests that prove more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_INTRO: Final = """# Engines, topologies, caches and gateways

One row is one engine in one topology, behind one gateway; one cell of it is one cache or network.
The letters of a cell are how it is proven; capitals are the engine itself, small letters where the
simulator alone can stand in for it. An empty cell is refused when documents are loaded, and
tests/matrix/golden/refusals.txt has the words.

"""
_PICKERS: Final = {
    "gateway-api-inference-extension": "endpoint picker",
    "llm-d-router": "llm-d 0.10",
    "llm-d-inference-scheduler": "llm-d 0.4",
    "sgl-model-gateway": "SGLang's router",
    "vllm-router": "vLLM's router",
}
_HOW: Final = {
    "real engine": ("E", "the engine itself serves it on the local cluster"),
    "simulator": ("S", "the simulator plays the engine on the local cluster, all else is real"),
    "real router": ("R", "the router is the real one, and pairs prefill with decode"),
    "real parser": ("P", "the parser of vLLM 0.32.0 takes the command line"),
    "dry run": (
        "D",
        "the API server takes its objects, with CRDs and webhooks; of a RoleBasedGroup the fields "
        "that we write, for there is no module with its CRD",
    ),
    "golden": ("G", "what it renders to is compared, fits the schemas, and no rule finds anything"),
}
"""How something may be proven: its letter, and what that means; the strongest first."""
COLUMNS: Final = {
    "as it comes": "nothing is said of caches and network",
    "none": "weights: no volume",
    "ephemeral": "weights: the node's disk, lost with the pod",
    "claim": "weights: a filled claim",
    "prefetch": "weights: a claim that is made, and filled by a Job",
    "node": "weights: the pool's local disk",
    "hf": "weights: from the hub",
    "s3": "weights: streamed from an object store",
    "pvc": "weights: in a claim of their own",
    "oci": "weights: an image volume",
    "no-prefix": "no prefix cache",
    "kv-memory": "KV: its part of the GPU's memory",
    "kv-type": "KV: type of its numbers",
    "kv-block": "KV: size of its blocks",
    "offload": "KV beyond the GPU: memory",
    "offload-nvme": "KV beyond the GPU: memory and files",
    "lmcache": "KV beyond the GPU: LMCache",
    "mooncake": "KV beyond the GPU: Mooncake, and under SGLang HiCache before it",
    "hicache": "KV beyond the GPU: HiCache with files of a claim",
    "efa": "network: EFA",
    "roce": "network: RoCE",
    "tcp": "network: TCP, said aloud",
}
_GATEWAY: Final = re.compile(r"container (?:picker|router)\n  image = (\S+)")


@dataclass(frozen=True)
class Row:
    """One golden file."""

    engine: str
    topology: str
    columns: tuple[str, ...]
    gateway: str


def rows(golden: Path) -> list[Row]:
    """Every engine and topology that may be combined."""
    return [_row(file) for file in sorted(golden.glob("*/*.txt"))]


def _row(file: Path) -> Row:
    text = file.read_text()
    columns = tuple(re.findall(r"^## (.*)$", text, re.M))
    image = _GATEWAY.search(text)
    names = [name for part, name in _PICKERS.items() if image and part in image[1]]
    return Row(file.parent.name, file.stem, columns, names[0] if names else "Service")


def proofs(file: Path) -> list[dict[str, Any]]:
    """What is proven by tests of their own."""
    return yaml.safe_load(file.read_text())


def proven(row: Row, column: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """How a cell of a row is proven, the strongest first; empty: it is refused."""
    real, played = column in row.columns, _played(column) in row.columns
    found = {
        str(entry["how"])
        for entry in entries
        # The parser is given what the engine itself is started with.
        if _meant(entry, row, column, real if entry["how"] == "real parser" else real or played)
    }
    if real or played:
        found.add("golden")
    return [how for how in _HOW if how in found]


def _meant(entry: Mapping[str, Any], row: Row, column: str, rendered: bool) -> bool:
    """Whether an entry speaks of a cell; `all` is all that is rendered."""
    pairs = (("engines", row.engine), ("topologies", row.topology), ("columns", column))
    named = all(entry[key] == "all" or value in entry[key] for key, value in pairs)
    return named and (rendered or entry["columns"] != "all")


def _played(column: str) -> str:
    return "played" if column == "as it comes" else f"played {column}"


def letters(row: Row, column: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """A cell: capitals where the engine itself is rendered or runs."""
    how = proven(row, column, entries)
    text = "".join(_HOW[name][0] for name in how)
    if column in row.columns:
        return text
    return text.lower().replace("e", "E")


def columns(found: Sequence[Row]) -> list[str]:
    """Every cache and network of any row, in the order of the legend."""
    present = {name.removeprefix("played ") for row in found for name in row.columns}
    present = {"as it comes" if name == "played" else name for name in present}
    return [name for name in COLUMNS if name in present] + sorted(present - COLUMNS.keys())


def page(root: Path) -> str:
    """The page's text, without the heading that every generated page has."""
    folder = root / "tests" / "matrix"
    entries, found = proofs(folder / "proofs.yaml"), rows(folder / "golden")
    names = columns(found)
    head = f"| engine | topology | gateway | {' | '.join(names)} |\n{'|---' * (3 + len(names))}|\n"
    body = "".join(_line(row, names, entries) for row in found)
    return f"{_INTRO}{_legend()}\n{head}{body}\n{_meanings(names)}{''.join(_tests(entries))}"


def _line(row: Row, names: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> str:
    cells = (row.engine, row.topology, row.gateway, *(letters(row, n, entries) for n in names))
    return f"| {' | '.join(cells)} |\n"


def _legend() -> str:
    lines = (f"| {letter} | {how} | {means} |\n" for how, (letter, means) in _HOW.items())
    return "| | | |\n|---|---|---|\n" + "".join(lines)


def _meanings(names: Sequence[str]) -> str:
    lines = (f"| {name} | {COLUMNS[name]} |\n" for name in names)
    return "| column | what the document says |\n|---|---|\n" + "".join(lines)


def _tests(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "\n## The tests behind it\n\n"
    by_how: dict[str, list[str]] = {}
    for entry in entries:
        known = by_how.setdefault(str(entry["how"]), [])
        known += [test for test in entry["tests"] if test not in known]
    for how in _HOW:
        if how in by_how:
            yield f"- {how}:\n" + "".join(f"  - `{test}`\n" for test in by_how[how])
    yield "- golden: `tests/matrix/test_golden.py`, `test_schemas.py`, `test_policies.py`\n"
