"""Write `lifetimes.json`: which versions of an engine know which flag.

    python hack/lifetimes.py FOLDER

FOLDER holds distributions as PyPI has them (`vllm-0.9.0.tar.gz`, `sglang-0.5.14-….whl`, …);
their argument parsers are read, nothing of them is run. A flag whose name is the beginning
of a longer one counts as known, for argparse completes it.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

FILE = Path(__file__).parents[1] / "src/tokenworks/catalog/lifetimes.json"


_BY_HAND = ("images", "insteadSource", "instead")


@dataclass(frozen=True)
class Reading:
    """Where an engine says its flags."""

    files: tuple[str, ...]
    """Patterns of paths inside the distribution."""
    classes: tuple[str, ...]
    """Patterns of classes whose fields are flags, by their names and by those they carry."""


READINGS = {
    "vllm": Reading(
        (
            "vllm/engine/arg_utils.py", "vllm/entrypoints/openai/cli_args.py", "vllm/scripts.py",
            "vllm/entrypoints/cli/*.py", "vllm/entrypoints/api_server.py",
            "vllm/entrypoints/openai/api_server.py", "vllm/entrypoints/*/cli_args.py",
        ),
        ("*FrontendArgs",),
    ),
    "sglang": Reading(
        (
            "sglang/srt/server_args.py", "sglang/srt/arg_groups/fields/*.py",
        ),
        ("*",),
    ),
}  # fmt: skip


def flags(source: str, classes: Sequence[str]) -> Iterator[str]:
    """Long names of flags, without their dashes, that a source file adds to a parser.

    Whether a flag can be negated is seen only by running the parser: a name too many does no harm.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [name for argument in node.args for name in _named(argument)]
        elif isinstance(node, ast.ClassDef) and any(fnmatchcase(node.name, c) for c in classes):
            names = [name for field in node.body for name in _of_field(field)]
        else:
            continue
        for name in names:
            yield from (name, f"no-{name}")


def _of_field(field: ast.stmt) -> Iterator[str]:
    if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
        return
    if not field.target.id.startswith("_"):
        yield field.target.id.replace("_", "-")
        yield from (name for node in ast.walk(field) for name in _named(node))


def _named(node: ast.AST) -> Iterator[str]:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, str) and re.fullmatch(r"--[A-Za-z][\w-]*", value):
        yield value[2:].replace("_", "-")


def read(archive: Path, reading: Reading) -> frozenset[str]:
    """The flags of one distribution."""
    found: set[str] = set()
    for content in _files(archive, reading):
        found.update(flags(content.decode(), reading.classes))
    return frozenset(found)


def _files(archive: Path, reading: Reading) -> Iterator[bytes]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if _wanted(name, reading):
                    yield wheel.read(name)
        return
    with tarfile.open(archive) as package:
        for member in package:
            inside = member.name.partition("/")[2].removeprefix("python/")
            file = package.extractfile(member) if _wanted(inside, reading) else None
            if file is not None:
                yield file.read()


def _wanted(path: str, reading: Reading) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in reading.files)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def spans(known: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """`0.6.0..0.9.2` for each flag that some version does not know; several behind commas, an end
    left out where the table ends."""
    versions = sorted(known, key=_order)
    found: dict[str, str] = {}
    for flag in sorted(frozenset[str]().union(*known.values())):
        there = [any(f.startswith(flag) for f in known[version]) for version in versions]
        if not all(there):
            found[flag] = ",".join(_runs(versions, there))
    return found


def _runs(versions: Sequence[str], there: Sequence[bool]) -> Iterator[str]:
    start: int | None = None
    for position, present in enumerate([*there, False]):
        if present and start is None:
            start = position
        elif not present and start is not None:
            first = versions[start] if start else ""
            yield f"{first}..{versions[position - 1] if position < len(versions) else ''}"
            start = None


def text(folder: Path) -> str:
    """The whole file, with what people wrote in it."""
    before = json.loads(FILE.read_text())
    tables: list[str] = []
    for engine, reading in READINGS.items():
        archives = {
            path.name.removesuffix(".tar.gz").split("-")[1]: path
            for path in folder.glob(f"{engine}-*")
        }
        known = {version: read(path, reading) for version, path in archives.items()}
        head = {
            **{key: before[engine][key] for key in _BY_HAND},
            "source": f"{engine} on PyPI: {', '.join(reading.files)}",
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "versions": sorted(known, key=_order),
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        rows = [f"{json.dumps(f)}: {json.dumps(span)}" for f, span in spans(known).items()]
        lines.append('"flags": {\n' + ",\n".join(rows) + "\n}")
        tables.append(f'"{engine}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(tables) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(Path(sys.argv[1])))
