"""What is generated in `charts/`: schema, default values and README of each chart.

`python -m tokenworks.render.chart_files` writes them, `--check` names those that are stale.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from tokenworks.render.defaults import default_values
from tokenworks.spec.common import Document
from tokenworks.spec.values import CHARTS

Schema = dict[str, Any]
ROOT = Path(__file__).parents[3] / "charts"
HEADER = "# Written by `make generate-charts`; do not edit.\n"
VALUES_MARK = "<!-- values -->"


# Schema


def _closed(node: object) -> object:
    """Maps take keys of their pattern only, and every field is given: Helm fills in what
    values.yaml has, which is nothing for the items of a list or of a map. Titles, which repeat
    the field's name, are left out.
    """
    if isinstance(node, list):
        return [_closed(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    items = cast("dict[str, object]", node).items()
    kept = {k: _closed(v) for k, v in items if not (k == "title" and isinstance(v, str))}
    if "patternProperties" in kept:
        kept["additionalProperties"] = False
    fields = cast("dict[str, dict[str, object]]", kept.get("properties", {}))
    given = [name for name, field in fields.items() if field.get("default") is not None]
    if given:
        kept["required"] = sorted({*given, *cast("list[str]", kept.get("required", []))})
    return kept


def schema(values: type[Document]) -> Schema:
    """JSON Schema of a chart's values, closed at every level."""
    made = cast("Schema", _closed(values.model_json_schema(by_alias=True)))
    # Helm hands these to every chart, wanted or not.
    made["properties"]["global"] = {"type": "object", "description": "Set by Helm; not used."}
    made["properties"]["tokenworks-lib"] = {
        "type": "object",
        "description": "Set by Helm for the library chart; not used.",
        "properties": {"global": {"type": "object"}},
        "additionalProperties": False,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def resolve(node: Schema, root: Schema) -> Schema:
    """The node itself, a reference followed, null left out of a choice."""
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        followed = {**root["$defs"][name], **{k: v for k, v in node.items() if k != "$ref"}}
        return resolve(cast("Schema", followed), root)
    choices = [c for c in node.get("anyOf", []) if c.get("type") != "null"]
    if len(choices) == 1:
        rest = {k: v for k, v in node.items() if k != "anyOf"}
        return resolve({**choices[0], **rest}, root)
    return node


# values.yaml


def _comment(text: str, indent: str) -> str:
    lines = textwrap.wrap(text, 96 - len(indent))
    return "".join(f"{indent}# {line}\n" for line in lines)


def _block(key: str, value: object, indent: str) -> str:
    flow = isinstance(value, dict | list) and not value
    text = yaml.dump({key: value}, sort_keys=False, default_flow_style=flow, width=1000)  # pyright: ignore[reportUnknownMemberType]
    lines = text.strip()
    if flow:
        lines = lines.removeprefix("{").removesuffix("}")
    return textwrap.indent(lines, indent) + "\n"


def values_text(document: Document, indent: str = "") -> str:
    """The values with each field's meaning above it."""
    text = ""
    data = document.model_dump(by_alias=True, mode="json")
    for name, field in type(document).model_fields.items():
        value, key = getattr(document, name), field.alias or name
        text += _comment(field.description or "", indent)
        if isinstance(value, Document):
            text += f"{indent}{key}:\n{values_text(value, indent + '  ')}"
        elif any(isinstance(part, Document) for part in _values(value)):
            text += f"{indent}{key}:\n{_parts(cast('dict[str, Document]', value), indent + '  ')}"
        else:
            text += _block(key, data[key], indent)
    return text


def _values(value: object) -> list[object]:
    return list(cast("dict[str, object]", value).values()) if isinstance(value, dict) else []


def _parts(parts: dict[str, Document], indent: str) -> str:
    """A map of parts with fields of their own, such as roles."""
    return "".join(
        f"{indent}{name}:\n{values_text(part, indent + '  ')}" for name, part in parts.items()
    )


# README


def _part(node: Schema, root: Schema) -> Schema | None:
    """What every value of a map is, if it has fields of its own."""
    inner = [resolve(raw, root) for raw in node.get("patternProperties", {}).values()]
    return inner[0] if len(inner) == 1 and "properties" in inner[0] else None


def _type_words(node: Schema) -> str:
    if "enum" in node:
        return " or ".join(f"`{value}`" for value in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_type_words(choice) for choice in node["anyOf"]))
    words = {"object": "map", "array": "list"}
    name = str(node.get("type", "any"))
    text = words.get(name, name)
    if "minimum" in node:
        text += (
            f" {node['minimum']}–{node['maximum']}"
            if "maximum" in node
            else f" ≥ {node['minimum']}"
        )
    return text


def rows(node: Schema, root: Schema, value: object, path: str = "") -> Iterator[tuple[str, ...]]:
    """One row a leaf: key, type, default, meaning."""
    for key, raw in node["properties"].items():
        if not path and key in ("global", "tokenworks-lib"):
            continue
        child, where = resolve(raw, root), f"{path}{key}"
        inner = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
        part = _part(child, root)
        if part is not None and not {"repository", "gpus"} & set(part["properties"]):
            first = next(iter(_values(inner)), None)
            yield from rows(part, root, first, f"{where}.<name>.")
        elif "properties" in child:
            yield from rows(child, root, inner, f"{where}.")
        else:
            yield where, _type_words(child), json.dumps(inner), str(child.get("description", ""))


def table(values: type[Document], defaults: Document) -> str:
    """The table of values of a chart's README."""
    root = schema(values)
    data = defaults.model_dump(by_alias=True, mode="json")
    lines = ["| value | type | default | meaning |", "| --- | --- | --- | --- |"]
    for key, kind, default, meaning in rows(root, root, data):
        shown = default.replace("|", "\\|")
        lines.append(f"| `{key}` | {kind} | `{shown}` | {meaning} |")
    return "\n".join(lines)


def readme(prose: str, values: type[Document], defaults: Document) -> str:
    """README of a chart: its prose (README.in.md) with the table in place of the mark."""
    return prose.replace(VALUES_MARK, table(values, defaults))


# Files


def chart_files(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file of `charts/`: path and text."""
    files: dict[Path, str] = {}
    for chart, values in CHARTS.items():
        defaults, folder = default_values()[chart], root / chart
        files[folder / "values.schema.json"] = json.dumps(schema(values), indent=2) + "\n"
        files[folder / "values.yaml"] = HEADER + "---\n" + values_text(defaults)
        prose = (folder / "README.in.md").read_text()
        files[folder / "README.md"] = readme(prose, values, defaults)
    return files


def stale(root: Path = ROOT) -> list[Path]:
    """Generated files that differ from what would be written."""
    return [p for p, text in chart_files(root).items() if not p.is_file() or p.read_text() != text]


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` name the stale ones and return 1."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write("usage: python -m tokenworks.render.chart_files [--check]\n")
        return 2
    old = stale()
    if not arguments:
        for path in old:
            path.write_text(chart_files()[path])
        return 0
    for path in old:
        sys.stderr.write(f"{path}: stale; run `make generate-charts`\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
