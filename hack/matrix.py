"""The page of engines, topologies and caches: from golden files, which tests keep true, and from
the list of tests that prove more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_INTRO: Final = """# Engines, topologies and caches

Every row is rendered, and compared with a golden file, in every cache and network of the row; its
objects fit the schemas of the pinned versions, and no rule finds anything. `played`: the simulator
stands in for the engine, with the engine's own command line. What is not here is refused when
documents are loaded; tests/matrix/golden/refusals.txt has the words.

"""
_NETWORKS: Final = ("efa", "roce", "tcp")
_PICKERS: Final = {
    "gateway-api-inference-extension": "endpoint picker",
    "llm-d-router": "llm-d 0.10",
    "llm-d-inference-scheduler": "llm-d 0.4",
    "sgl-model-gateway": "SGLang's router",
    "vllm-router": "vLLM's router",
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


def proven(row: Row, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """How a row is proven, the strongest first."""

    def meant(entry: Mapping[str, Any]) -> bool:
        pairs = (("engines", row.engine), ("topologies", row.topology))
        return all(entry[key] == "all" or value in entry[key] for key, value in pairs)

    order = ("real engine", "simulator", "real router", "dry run")
    found = {str(entry["how"]) for entry in entries if meant(entry)}
    return [*(how for how in order if how in found), "golden"]


def page(root: Path) -> str:
    """The page's text, without the heading that every generated page has."""
    folder = root / "tests" / "matrix"
    entries = proofs(folder / "proofs.yaml")
    head = "| engine | topology | caches | networks | played | gateway | proven by |\n"
    body = "".join(_line(row, entries) for row in rows(folder / "golden"))
    return _INTRO + head + "|---|---|---|---|---|---|---|\n" + body + "".join(_tests(entries))


def _line(row: Row, entries: Sequence[Mapping[str, Any]]) -> str:
    real = [name for name in row.columns if not name.startswith("played")]
    named = [name for name in real if name != "as it comes"]
    cells = (
        row.engine,
        row.topology,
        ", ".join(name for name in named if name not in _NETWORKS) or "as it comes",
        ", ".join(name for name in named if name in _NETWORKS) or "none between pods",
        _played(len(real), len(row.columns)),
        row.gateway,
        ", ".join(proven(row, entries)),
    )
    return f"| {' | '.join(cells)} |\n"


def _played(real: int, every: int) -> str:
    if real == 0:
        return "only"
    return "yes" if every > real else "no"


def _tests(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "\n## The tests behind it\n\n"
    for entry in entries:
        yield f"- {entry['how']}: {', '.join(f'`{test}`' for test in entry['tests'])}\n"
    yield "- golden: `tests/matrix/test_golden.py`, `test_schemas.py`, `test_policies.py`\n"
