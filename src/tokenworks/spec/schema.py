"""The documents' JSON Schema, for editors and for anyone who checks documents elsewhere.

    python -m tokenworks.spec.schema            writes schemas/*.schema.json
    python -m tokenworks.spec.schema --check    exit 1 where a file is not up to date

The schema holds what one document can be held to; what must hold between documents
(`tokenworks.spec.rules`) needs `load_stack`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pydantic.json_schema import GenerateJsonSchema

from tokenworks.spec.common import Document
from tokenworks.spec.environment import Environment
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.tenant import Tenant

DOCUMENTS: Final[dict[str, type[Document]]] = {
    "environment": Environment,
    "model-release": ModelRelease,
    "tenant": Tenant,
}
"""Name of a schema file, without `.schema.json`: the document it describes."""


class _Untitled(GenerateJsonSchema):
    """Without the titles pydantic makes up from field names: editors would show them."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - as overridden
        return False


def schema_of(kind: type[Document]) -> dict[str, Any]:
    """JSON Schema of the document. A file must say its apiVersion and kind."""
    schema = _closed(kind.model_json_schema(by_alias=True, schema_generator=_Untitled))
    schema["required"] = sorted({"apiVersion", "kind", *schema["required"]})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _closed(schema: Any) -> Any:
    """As strict as loading: no empty values, no keys of another form than the named one."""
    if isinstance(schema, list):
        return [_closed(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    part = {key: _closed(value) for key, value in cast("dict[str, Any]", schema).items()}
    if "patternProperties" in part:
        part.setdefault("additionalProperties", False)
    if part.get("default", "") is None or isinstance(part.get("default"), dict):
        del part["default"]  # the fields of a map tell their own defaults
    members = [member for member in part.get("anyOf", ()) if member != {"type": "null"}]
    if len(members) == 1:
        del part["anyOf"]
        return {**members[0], **part}
    return part


def schema_text(kind: type[Document]) -> str:
    """The schema as the file holds it."""
    return json.dumps(schema_of(kind), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def stale(folder: Path) -> Iterator[Path]:
    """Schema files that are missing or differ from the types."""
    for name, kind in DOCUMENTS.items():
        file = folder / f"{name}.schema.json"
        if not file.is_file() or file.read_text(encoding="utf-8") != schema_text(kind):
            yield file


def write(folder: Path) -> tuple[Path, ...]:
    """Writes the schema files that are not up to date, and tells which."""
    folder.mkdir(parents=True, exist_ok=True)
    files = tuple(stale(folder))
    for file in files:
        kind = DOCUMENTS[file.name.removesuffix(".schema.json")]
        file.write_text(schema_text(kind), encoding="utf-8")
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks the files in `schemas/`; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tokenworks.spec.schema", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    parser.add_argument("--dir", type=Path, default=Path("schemas"), help="default: schemas")
    options = parser.parse_args(arguments)
    folder: Path = options.dir
    if not options.check:
        for file in write(folder):
            print(f"wrote {file}")
        return 0
    files = tuple(stale(folder))
    for file in files:
        print(f"{file}: not up to date; run `python -m tokenworks.spec.schema`", file=sys.stderr)
    return 1 if files else 0


if __name__ == "__main__":
    sys.exit(main())
