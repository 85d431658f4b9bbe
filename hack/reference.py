"""Write docs/reference/ from the code itself: commands, policies, and a page per document.

    .venv/bin/python hack/reference.py      (make generate-docs)

Nothing is said here that a docstring or a field's description does not say already.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer
from typer import core
from typer import main as typer_main

import policies
from hack import caches, matrix
from policies.admission import elsewhere
from policies.profiles import PROFILES, weigh
from tokenworks.cli.main import build

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "reference"
HEADER = (
    "<!-- Written by hack/reference.py (make generate-docs): edit what it is made from. -->\n\n"
)

Schema = dict[str, Any]


def commands_page() -> str:
    """Every command with its help and options."""
    top = typer_main.get_command(build())
    intro = (
        "# Commands\n\nExit code 0: fine; 1: findings, or what was asked failed; "
        "2: wrong usage or input.\n"
    )
    return HEADER + intro + "".join(_sections(top, "./tokenworks"))


def _sections(command: Any, path: str) -> Iterator[str]:
    if isinstance(command, core.TyperGroup):
        for name, child in sorted(command.commands.items()):
            yield from _sections(child, f"{path} {name}")
        return
    pieces = [_plain(piece) for piece in command.collect_usage_pieces(typer.Context(command))]
    usage = " ".join([path, *pieces[1:], *pieces[:1]])  # options last, as people type them
    yield f"\n## {path.removeprefix('./tokenworks ')}\n\n```text\n{usage}\n```\n\n"
    yield f"{_help(command.help or '')}\n"
    rows = [row for parameter in command.params if (row := _row(parameter))]
    if rows:
        yield "\n| | meaning |\n|---|---|\n" + "".join(rows)


def _plain(piece: str) -> str:
    """`{ENV}` as `ENV`, `[[TEXT]]` as `[TEXT]`: what must be typed has no brackets."""
    return re.sub(r"^\[\[(.*)\]\]$", r"[\1]", re.sub(r"[{}]", "", piece))


def _help(docstring: str) -> str:
    """The docstring; its examples become code lines."""
    return re.sub(r"^Example: (.*)$", r"Example: `\1`", inspect.cleandoc(docstring), flags=re.M)


def _row(parameter: Any) -> str:
    meaning = getattr(parameter, "help", None)
    if not meaning or parameter.name == "help":
        return ""
    if parameter.param_type_name == "option":
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
        choices = ", ".join(f"`{choice}`" for choice in _choices(parameter))
        names += f" ({choices})" if choices else ""
    else:
        names = f"`{_cell(parameter.metavar or parameter.name.upper())}`"
    return f"| {names} | {_cell(meaning)} |\n"


def _choices(option: Any) -> list[str]:
    """Values of an option that takes one of a few."""
    annotation = option.type_descriptor.annotation
    kinds = [k for k in (annotation, *get_args(annotation)) if isinstance(k, type)]
    return [str(member.value) for kind in kinds if issubclass(kind, Enum) for member in kind]


def document_page(file: Path) -> str:
    """One document's fields, from its published schema."""
    schema: Schema = json.loads(file.read_text())
    title = schema.get("title", file.stem)
    lines = [
        f"# {title}\n\n{_prose(schema)}\n\n",
        f"Schema: [{file.name}](../../schemas/{file.name})\n",
    ]
    lines.append("\n| field | type | default | meaning |\n|---|---|---|---|\n")
    lines += _rows(schema, schema.get("$defs", {}), "")
    return HEADER + "".join(lines)


def _rows(schema: Schema, types: Schema, path: str) -> Iterator[str]:
    """One row a field; the fields of an object follow it, with their path."""
    required = set(schema.get("required", []))
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        default = "required" if name in required else _default(field)
        target, kind, suffix = _target(field, types)
        yield f"| `{where}` | {_cell(kind)} | {_cell(default)} | {_cell(_prose(field))} |\n"
        if target is not None:
            yield from _rows(target, types, where + suffix)


def _target(field: Schema, types: Schema) -> tuple[Schema | None, str, str]:
    """The object a field holds, how its type is called, and what its path adds."""
    if "$ref" in field:
        found = types[field["$ref"].rsplit("/", 1)[-1]]
        return (found, "object", "") if "properties" in found else (None, _kind(found, types), "")
    if field.get("type") == "array":
        target, kind, _ = _target(field.get("items", {}), types)
        return target, f"list of {kind}", "[]"
    values = _values_of_map(field)
    if values is not None:
        target, kind, _ = _target(values, types)
        return target, f"map of name to {kind}", ".<name>"
    return None, _kind(field, types), ""


def _values_of_map(field: Schema) -> Schema | None:
    """What the values of a map are like; None for what is no map."""
    patterns: dict[str, Schema] = field.get("patternProperties", {})
    named: Schema | bool = field.get("additionalProperties", False)
    return next(iter(patterns.values()), None) or (None if isinstance(named, bool) else named)


def _kind(field: Schema, types: Schema) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_target(option, types)[1] for option in field["anyOf"]))
    if "$ref" in field:
        return _target(field, types)[1]
    return str(field.get("type", "any"))


def _default(field: Schema) -> str:
    if "default" not in field or field["default"] is None:
        return ""
    value = field["default"]
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _prose(schema: Schema) -> str:
    return str(schema.get("description", "")).strip()


def _cell(text: str) -> str:
    """Text that a table cell can hold."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def policies_page() -> str:
    """Every rule: what it wants, why, and what to do."""
    lines = [HEADER, "# Policies\n\n`./tokenworks explain RULE` adds an example of each.\n"]
    lines += ["\n## Profiles\n\n| rule |", *(f" {name} |" for name in PROFILES), " admission |\n"]
    lines.append("|---|" + "---|" * (len(PROFILES) + 1) + "\n")
    for rule in policies.RULES:
        weights = [weigh(rule.id, rule.severity, policies.Context(profile=p)) for p in PROFILES]
        shown = " | ".join(weight or "off" for weight in weights)
        asked = "no" if elsewhere(rule) else "yes"
        lines.append(f"| [{rule.id}](#{rule.id}) | {shown} | {asked} |\n")
    for rule in policies.RULES:
        lines.append(f"\n## {rule.id}\n\n{rule.title} ({rule.severity}).\n\n")
        lines.append(f"{rule.reason}\n\n{rule.remedy}\n\n")
        lines.append(f"[Documentation]({rule.link})")
        why = elsewhere(rule)
        lines.append(f". Not asked in admission: {why}.\n" if why else ". Asked in admission.\n")
    return "".join(lines)


def main() -> None:
    """Write every page."""
    OUT.mkdir(parents=True, exist_ok=True)
    pages = {
        "commands.md": commands_page(),
        "policies.md": policies_page(),
        "engines-matrix.md": HEADER + matrix.page(ROOT),
        "caches.md": HEADER + caches.page(ROOT),
    }
    for file in sorted((ROOT / "schemas").glob("*.schema.json")):
        pages[f"{file.name.removesuffix('.schema.json')}.md"] = document_page(file)
    for old in OUT.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        (OUT / name).write_text(text)


if __name__ == "__main__":
    main()
