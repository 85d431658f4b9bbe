"""Golden files of the matrix: what every allowed cell renders to, and why the others are refused.

    .venv/bin/python -P -m tests.matrix.golden

writes them anew. One file an engine and topology: the first cell in full, then how the others
differ from it. `refusals.txt` has the words of every refusal, and where it is given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.charts.rendering import Objects
from tests.matrix.cells import CACHES, NETWORKS, SAID_NOTHING, TOPOLOGIES, Cell
from tests.matrix.compact import Facts, changed, facts, whole
from tests.matrix.judging import Refusals, refusals
from tests.matrix.rendering import pinned_helm, rendered

FOLDER: Final = Path(__file__).parent / "golden"


def files(matrix: Mapping[Cell, Objects], refused: Refusals) -> dict[str, str]:
    """Name and text of every golden file."""
    topologies: dict[str, dict[Cell, Facts]] = defaultdict(dict)
    known: dict[int, Facts] = {}
    for cell, objects in matrix.items():
        if id(objects) not in known:
            known[id(objects)] = facts(objects.all)
        topologies[f"{cell.engine}/{cell.topology}.txt"][cell] = known[id(objects)]
    made = {name: _file(found) for name, found in topologies.items()}
    return {**made, "refusals.txt": refusals_text(refused)}


def _file(found: Mapping[Cell, Facts]) -> str:
    """The first cell; then the others, played ones beside the first of those."""
    bases: dict[bool, Cell] = {}
    sections: dict[str, list[str]] = {}
    for cell, mine in found.items():
        base = bases.setdefault(cell.played, cell)
        text = _section(cell, base, next(iter(bases.values())), found, mine)
        sections.setdefault(text, []).append(cell.column)
    return "\n".join(
        "".join(f"## {name}\n" for name in names) + text for text, names in sections.items()
    )


def _section(cell: Cell, base: Cell, first: Cell, found: Mapping[Cell, Facts], mine: Facts) -> str:
    if found[first] == mine:
        lines = whole(mine)
    elif cell == base:
        lines = [f"beside {first.column}:", *changed(found[first], mine)]
    else:
        lines = [f"beside {base.column}:", *changed(found[base], mine)]
    return "".join(f"{line}\n" for line in lines)


def refusals_text(refused: Refusals) -> str:
    """Every refusal once for each program, with the cells that it is given to."""
    where: dict[str, dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell, words in refused.items():
        for line in words:
            where[cell.program][line].append(cell)
    text = ""
    for program, lines in where.items():
        text += f"## {program}\n"
        for line, cells in lines.items():
            text += f"{line}\n" + "".join(f"    {place}\n" for place in _places(cells))
        text += "\n"
    return text.rstrip("\n") + "\n"


def _places(cells: Iterable[Cell]) -> list[str]:
    """Topologies by the columns they have in common."""
    columns: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        columns[cell.topology].append(_column(cell))
    alike: dict[str, list[str]] = defaultdict(list)
    for topology, names in columns.items():
        alike[_columns(names)].append(topology)
    return [f"{_topologies(found)}: {shown}" for shown, found in alike.items()]


def _topologies(names: Sequence[str]) -> str:
    return "every topology" if len(names) == len(TOPOLOGIES) else ", ".join(names)


def _column(cell: Cell) -> str:
    words = [w for w in (cell.network, cell.cache) if w != SAID_NOTHING]
    return " ".join(words) or "as it comes"


def _columns(names: Sequence[str]) -> str:
    every = len(NETWORKS) + len(CACHES) - 1
    return "whatever the network and cache" if len(names) == every else ", ".join(names)


def write() -> None:
    """Write what is rendered now, and remove what no cell renders to any more."""
    made = files(rendered(pinned_helm()), refusals())
    for old in FOLDER.rglob("*.txt"):
        if old.relative_to(FOLDER).as_posix() not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    write()
