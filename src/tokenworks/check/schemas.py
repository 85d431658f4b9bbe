"""JSON Schemas, strict ones, from what the cluster itself is made of.

Built-in kinds come from Kubernetes' own OpenAPI files, custom ones from the CRDs that
the environment installs: no schema is fetched, none is skipped. A field that the API
server would drop silently is an error here.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from policies import Manifest

Schema = dict[str, Any]

LOCATION: Final = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"
"""How kubeconform is to name the file of a kind; the group of core kinds is `v1`."""
_FORMAT: Final = "1"
"""Part of the cache key: raise it when the conversion changes."""
_KEPT: Final = frozenset(
    {
        "type", "required", "enum", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties", "uniqueItems",
    }
)  # fmt: skip
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_CRD: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_OPEN: Final = frozenset(
    {
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        # JSON Schemas inside CRDs contain themselves; the API server judges them.
        *(f"{_CRD}JSONSchemaProps{end}" for end in ("", "OrArray", "OrBool", "OrStringArray")),
        f"{_CRD}JSON",
    }
)
"""Types that hold anything."""


def build_schemas(openapi_dir: Path, crds: Iterable[Manifest], out: Path) -> Path:
    """The folder with a schema for every built-in kind and every served version of the CRDs.

    `openapi_dir` is `api/openapi-spec/v3` of Kubernetes. The folder lies below `out`, is named
    by the hash of what it is made from, and appears at once or not at all.
    """
    files = sorted(openapi_dir.glob("*.json"))
    own = [crd for crd in crds if crd.get("kind") == "CustomResourceDefinition"]
    folder = out / _key(files, own)
    if folder.is_dir():
        return folder
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=out, prefix=".new-"))
    try:
        meta: Schema = {"type": "object"}
        for file in files:
            types = cast("dict[str, Schema]", _components(file))
            if _META in types:
                meta = _Builtin(types).convert(types[_META])
            for name, schema in _builtin(types):
                _write(scratch, name, schema)
        for name, schema in _custom(own, meta):
            _write(scratch, name, schema)
        scratch.replace(folder)
    except OSError:
        # Another run was first: its folder has the same content.
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _key(files: Iterable[Path], crds: Iterable[Manifest]) -> str:
    digest = hashlib.sha256(_FORMAT.encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    for text in sorted(json.dumps(crd, sort_keys=True, default=str) for crd in crds):
        digest.update(b"\0" + text.encode())
    return digest.hexdigest()[:32]


def _components(file: Path) -> object:
    return json.loads(file.read_bytes()).get("components", {}).get("schemas", {})


def _write(folder: Path, name: str, schema: Schema) -> None:
    (folder / name).write_text(json.dumps(schema, separators=(",", ":"), sort_keys=True))


def _file_name(group: str, version: str, kind: str) -> str:
    return f"{group or version}_{version}_{kind.lower()}.json"


# --- built-in kinds ------------------------------------------------------------


def _builtin(types: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    """The kinds that one OpenAPI file describes."""
    converter = _Builtin(types)
    for schema in types.values():
        kinds = schema.get("x-kubernetes-group-version-kind", [])
        # Options and events of watches are listed under every group: no objects of their own.
        if len(kinds) != 1 or "properties" not in schema:
            continue
        if "metadata" not in schema["properties"] or kinds[0]["kind"].endswith("List"):
            continue
        identity = kinds[0]
        name = _file_name(identity["group"], identity["version"], identity["kind"])
        yield name, _identified(converter.convert(schema))


class _Builtin:
    """OpenAPI 3 to strict JSON Schema, references written out."""

    def __init__(self, types: Mapping[str, Schema]) -> None:
        self._types = types
        self._done: dict[str, Schema] = {}

    def convert(self, schema: Schema) -> Schema:
        """The schema; objects with declared fields take no others."""
        parts = schema.get("allOf", [])
        if "$ref" in schema or (len(parts) == 1 and "$ref" in parts[0]):
            return self._reference(schema.get("$ref") or parts[0]["$ref"])
        result = {key: value for key, value in schema.items() if key in _KEPT}
        if "oneOf" in schema:
            result["oneOf"] = [self.convert(part) for part in schema["oneOf"]]
        if "items" in schema:
            result["items"] = self.convert(schema["items"])
        if "additionalProperties" in schema:
            extra = schema["additionalProperties"]
            result["additionalProperties"] = (
                _or_null(self.convert(cast("Schema", extra))) if isinstance(extra, dict) else extra
            )
        if "properties" in schema:
            required = schema.get("required", [])
            result["properties"] = {
                # The API server reads null as absent, wherever absent is allowed.
                name: self.convert(part) if name in required else _or_null(self.convert(part))
                for name, part in schema["properties"].items()
            }
            result.setdefault("additionalProperties", False)
        return result

    def _reference(self, reference: str) -> Schema:
        name = reference.rpartition("/")[2]
        if name in _OPEN:
            return {}
        if name not in self._done:
            self._done[name] = self.convert(self._types[name])
        return self._done[name]


# --- custom kinds --------------------------------------------------------------


def _custom(crds: Iterable[Manifest], meta: Schema) -> Iterator[tuple[str, Schema]]:
    for crd in crds:
        spec = crd["spec"]
        for version in spec["versions"]:
            schema = version.get("schema", {}).get("openAPIV3Schema")
            if not version.get("served") or schema is None:
                continue
            converted = _structural(schema)
            converted.setdefault("properties", {})["metadata"] = meta
            name = _file_name(spec["group"], version["name"], spec["names"]["kind"])
            yield name, _identified(converted)


def _structural(schema: Schema) -> Schema:
    """A CRD's structural schema as JSON Schema: what would be pruned is refused."""
    result = {key: value for key, value in schema.items() if key in _KEPT}
    for junction in ("allOf", "anyOf", "oneOf"):
        if junction in schema:
            result[junction] = [_conditions(part) for part in schema[junction]]
    if "not" in schema:
        result["not"] = _conditions(schema["not"])
    if "items" in schema:
        result["items"] = _structural(schema["items"])
    if schema.get("x-kubernetes-int-or-string") and "anyOf" not in result:
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    _fields(schema, result)
    return _or_null(result) if schema.get("nullable") else result


def _fields(schema: Schema, result: Schema) -> None:
    properties = {name: _structural(part) for name, part in schema.get("properties", {}).items()}
    if schema.get("x-kubernetes-embedded-resource"):
        properties = {"apiVersion": {}, "kind": {}, "metadata": {}, **properties}
    if properties:
        result["properties"] = properties
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        result["additionalProperties"] = _structural(cast("Schema", extra))
    elif schema.get("type") == "object" and not (
        extra or schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        result["additionalProperties"] = False


def _conditions(schema: Schema) -> Schema:
    """A part of allOf, anyOf, oneOf, not: it says what must hold, not which fields exist."""
    result = {key: value for key, value in schema.items() if key in _KEPT}
    for junction in ("allOf", "anyOf", "oneOf"):
        if junction in schema:
            result[junction] = [_conditions(part) for part in schema[junction]]
    for single in ("not", "items", "additionalProperties"):
        if isinstance(schema.get(single), dict):
            result[single] = _conditions(schema[single])
    if "properties" in schema:
        result["properties"] = {k: _conditions(v) for k, v in schema["properties"].items()}
    return result


# --- both ------------------------------------------------------------------------


def _identified(schema: Schema) -> Schema:
    """The root of a kind: it has an API version and a kind, whatever its schema says."""
    properties = {**schema.get("properties", {})}
    properties["apiVersion"] = properties["kind"] = {"type": "string"}
    required = sorted({*schema.get("required", []), "apiVersion", "kind"})
    return {**schema, "properties": properties, "required": required}


def _or_null(schema: Schema) -> Schema:
    """The same schema, null allowed."""
    result = dict(schema)
    if isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]
    if "enum" in result:
        result["enum"] = [*result["enum"], None]
    for junction in ("oneOf", "anyOf"):
        if junction in result and "type" not in result:
            result[junction] = [*result[junction], {"type": "null"}]
    return result
