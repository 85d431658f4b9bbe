"""Schemas: strict, from OpenAPI and CRDs; and kubeconform with nothing skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tokenworks.check.conform import validate_schemas
from tokenworks.check.schemas import build_schemas
from tokenworks.errors import TokenworksError

Object = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
REF = "#/components/schemas/"
OPENAPI = {
    "components": {
        "schemas": {
            META: {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "creationTimestamp": {"type": "string", "format": "date-time"},
                },
            },
            "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
            "WidgetSpec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer"},
                    "memory": {"allOf": [{"$ref": f"{REF}Quantity"}], "default": {}},
                    "raw": {"$ref": f"{REF}io.k8s.apimachinery.pkg.runtime.RawExtension"},
                    "parts": {"type": "array", "items": {"$ref": f"{REF}WidgetSpec2"}},
                },
            },
            "WidgetSpec2": {"type": "object", "properties": {"id": {"type": "string"}}},
            "Widget": {
                "type": "object",
                "properties": {
                    "metadata": {"allOf": [{"$ref": REF + META}]},
                    "spec": {"allOf": [{"$ref": f"{REF}WidgetSpec"}]},
                },
                "x-kubernetes-group-version-kind": [
                    {"group": "", "version": "v1", "kind": "Widget"}
                ],
            },
        }
    }
}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Gadget"},
        "versions": [
            {"name": "v1alpha1", "served": False, "schema": {"openAPIV3Schema": {}}},
            {
                "name": "v1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "mode": {
                                        "type": "string", "enum": ["A", "B"], "nullable": True,
                                    },
                                    "free": {
                                        "type": "object",
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                    "any": {"x-kubernetes-preserve-unknown-fields": True},
                                    "map": {
                                        "type": "object",
                                        "additionalProperties": {"type": "integer"},
                                    },
                                    "child": {
                                        "type": "object",
                                        "x-kubernetes-embedded-resource": True,
                                        "properties": {"spec": {"type": "object"}},
                                    },
                                    "a": {"type": "string"},
                                    "b": {"type": "string"},
                                },
                                "oneOf": [
                                    {"required": ["a"], "properties": {"a": {"pattern": "^x"}}},
                                    {"required": ["b"]},
                                ],
                            }
                        },
                    }
                },
            },
        ],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("openapi")
    (folder / "api__v1_openapi.json").write_text(json.dumps(OPENAPI))
    return build_schemas(folder, [CRD], tmp_path_factory.mktemp("schemas"))


def test_what_is_built(schemas: Path) -> None:
    assert sorted(path.name for path in schemas.iterdir()) == [
        "example.com_v1_gadget.json",
        "v1_v1_widget.json",
    ]


def test_built_once_and_named_by_content(tmp_path: Path) -> None:
    openapi, out = tmp_path / "openapi", tmp_path / "out"
    openapi.mkdir()
    (openapi / "a.json").write_text(json.dumps(OPENAPI))
    first = build_schemas(openapi, [CRD], out)
    (first / "mark").touch()
    assert build_schemas(openapi, [CRD], out) == first
    assert (first / "mark").exists()
    changed = json.loads(json.dumps(CRD))
    changed["spec"]["names"]["kind"] = "Other"
    assert build_schemas(openapi, [changed], out) != first
    assert sorted(path.name for path in out.iterdir() if path.name.startswith(".")) == []


def widget(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def gadget(**spec: Any) -> Object:
    meta = {"name": "g", "labels": {"a": "b"}, "creationTimestamp": None}
    return {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": meta,
            "spec": {"b": "x", **spec}}  # fmt: skip


@pytest.mark.kubeconform
@pytest.mark.parametrize(
    "item",
    [
        widget(size=1),
        widget(size=1, memory="1Gi", parts=None),
        widget(size=1, memory=1.5, raw={"any": ["thing"]}),
        widget(size=1, parts=[{"id": "a"}, {}]),
        gadget(),
        gadget(port="http"),
        gadget(port=80, mode=None),
        gadget(free={"x": 1}, any=[1], map={"a": 1}),
        gadget(child={"apiVersion": "v1", "kind": "X", "metadata": {"x": 1}}),
        {**gadget(), "spec": {"a": "xy"}},
    ],
    ids=str,
)
def test_valid(item: Object, kubeconform: Path, schemas: Path) -> None:
    assert validate_schemas([item], kubeconform, schemas) == []


@pytest.mark.kubeconform
@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (widget(), [("spec", "missing property 'size'")]),
        (widget(size="1"), [("spec.size", "got string, want integer")]),
        (widget(size=None), [("spec.size", "got null, want integer")]),
        (widget(size=1, memory=True), [("spec.memory", "got boolean, want string or number")]),
        (
            widget(size="1", parts=[{}, {"di": 1, "id": 2}]),
            [
                ("spec.parts[1].id", "got number, want null or string"),
                ("spec.parts[1]", "unknown field 'di': the API server would drop it"),
                ("spec.size", "got string, want integer"),
            ],
        ),
        (
            {**widget(size=1), "sepc": {}},
            [("", "unknown field 'sepc': the API server would drop it")],
        ),
        (gadget(prot=1), [("spec", "unknown field 'prot': the API server would drop it")]),
        (gadget(port=True), [("spec.port", "got boolean, want integer or string")]),
        (gadget(map={"a/b": "x"}), [('spec.map["a/b"]', "got string, want integer")]),
        (gadget(a="xy"), [("spec", "'oneOf' failed, subschemas 0, 1 matched")]),
        (gadget(child={"spec": {"x": 1}}),
         [("spec.child.spec", "unknown field 'x': the API server would drop it")]),
        ({**gadget(), "metadata": {"lables": {}}},
         [("metadata", "unknown field 'lables': the API server would drop it")]),
    ],
    ids=str,
)  # fmt: skip
def test_invalid(
    item: Object, expected: list[tuple[str, str]], kubeconform: Path, schemas: Path
) -> None:
    findings = validate_schemas([item], kubeconform, schemas)
    assert sorted((f.field, f.message) for f in findings) == sorted(expected)
    assert all(f.rule == "schema" and f.severity == "error" and f.remedy for f in findings)


@pytest.mark.kubeconform
@pytest.mark.parametrize(
    "identity",
    [("v1", "Wigdet"), ("v2", "Widget"), ("example.com/v1alpha1", "Gadget"), ("other.com/v1", "X")],
)
def test_a_kind_without_schema_is_never_skipped(
    identity: tuple[str, str], kubeconform: Path, schemas: Path
) -> None:
    item = {**widget(size=1), "apiVersion": identity[0], "kind": identity[1]}
    findings = validate_schemas([widget(size=1), item, gadget()], kubeconform, schemas)
    assert [f.field for f in findings] == ["apiVersion"]
    assert f"no schema for {identity[0]} {identity[1]}" in findings[0].message


@pytest.mark.kubeconform
def test_findings_belong_to_their_object(kubeconform: Path, schemas: Path) -> None:
    items = [widget(size=n if n % 7 else "x") for n in range(50)]
    for number, item in enumerate(items):
        item["metadata"]["name"] = f"w{number}"
    found = [f.object for f in validate_schemas(items, kubeconform, schemas)]
    assert found == [f"Widget w{n}" for n in range(0, 50, 7)]


def program(folder: Path, text: str) -> Path:
    path = folder / "kubeconform"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo broken >&2; exit 1", "kubeconform failed: broken"),
        ("echo '{\"resources\": []}'", "answered for 0 of 1 objects"),
        ("echo '[]'", "kubeconform failed"),
    ],
)
def test_an_answer_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TokenworksError, match=says):
        validate_schemas([widget(size=1)], program(tmp_path, text), tmp_path)


def test_a_skipped_object_is_a_finding(tmp_path: Path) -> None:
    answer = '{"resources": [{"filename": "/x/0.json", "status": "statusSkipped"}]}'
    skipping = program(tmp_path, f"echo '{answer}'")
    findings = validate_schemas([widget(size=1)], skipping, tmp_path)
    assert [f.rule for f in findings] == ["schema"]


def test_no_objects_need_no_program(tmp_path: Path) -> None:
    assert validate_schemas([], tmp_path / "absent", tmp_path) == []
