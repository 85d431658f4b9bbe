"""A YAML node to a typed document, and pydantic's complaints in our users' words."""

from __future__ import annotations

import difflib
import json
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tokenworks.spec.common import Document
from tokenworks.spec.problems import FieldPath, Flaw, field_name
from tokenworks.spec.yamlsource import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    data_of,
    line_of,
    node_at,
)

T = TypeVar("T", bound=Document)

_ALLOWED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a map",
}
_BOUND: Final = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
}
_KIND_NAMES: Final[dict[type, str]] = {bool: "true or false", int: "a number", float: "a number"}


def parse(kind: type[T], node: Node) -> tuple[T | None, tuple[Flaw, ...]]:
    """The document, or None and what is wrong with it."""
    empty = tuple(_empty(node, ()))
    if empty:
        return None, empty
    text = json.dumps(data_of(node))
    try:
        return kind.model_validate_json(text, strict=True, by_alias=True, by_name=False), ()
    except ValidationError as error:
        return None, tuple(_flaws(kind, node, error))


def _empty(node: Node, path: FieldPath) -> Iterator[Flaw]:
    """Keys without a value. A forgotten value must not pass for the default.

    Flags may hold JSON of the engine's own, where null is a value.
    """
    if isinstance(node, Scalar) and node.value is None:
        yield Flaw(
            node.line, path, "found nothing", "a value", "give it a value, or remove the line"
        )
    elif isinstance(node, Mapping) and path != ("spec", "engine", "flags"):
        for key, entry in node.entries.items():
            for flaw in _empty(entry.node, (*path, key)):
                yield replace(flaw, line=entry.line) if flaw.path == (*path, key) else flaw
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from _empty(item, (*path, index))


def _flaws(kind: type[Document], node: Node, error: ValidationError) -> Iterator[Flaw]:
    seen: set[FieldPath] = set()
    for detail in error.errors(include_url=False):
        path, is_key, beyond = _place(node, detail)
        if path in seen:
            continue  # one mistake of a union complains once for each member
        seen.add(path)
        flaw = _flaw(kind, node, detail, path)
        if is_key:
            flaw = Flaw(flaw.line, path, "the key has a wrong form", flaw.allowed, "rename it")
        elif beyond:
            flaw = Flaw(flaw.line, path, _found(node, path), _FLAG_VALUES, "write one of these")
        yield flaw


_FLAG_VALUES: Final = "text, a number, true or false, a list of texts, or a map"


def _place(node: Node, detail: ErrorDetails) -> tuple[FieldPath, bool, bool]:
    """Where in the document; whether a key is meant; whether below a union's member."""
    loc = detail["loc"]
    if loc and loc[-1] == "[key]":
        return loc[:-1], True, False
    here: FieldPath = ()
    for part in loc:
        if node_at(node, (*here, part)) is None:
            missing = detail["type"] == "missing" and len(here) == len(loc) - 1
            return ((*here, part), False, False) if missing else (here, False, True)
        here = (*here, part)
    return here, False, False


@dataclass(frozen=True)
class _Complaint:
    """One complaint of pydantic, with what is needed to say it in our words."""

    kind: type[Document]
    node: Node
    path: FieldPath
    line: int
    name: str
    message: str
    context: dict[str, Any]

    @property
    def found(self) -> str:
        return _found(self.node, self.path)

    def flaw(self, found: str, allowed: str | None, remedy: str | None) -> Flaw:
        return Flaw(self.line, self.path, found, allowed, remedy)


def _flaw(kind: type[Document], node: Node, detail: ErrorDetails, path: FieldPath) -> Flaw:
    complaint = _Complaint(
        kind,
        node,
        path,
        line_of(node, path),
        detail["type"],
        detail["msg"],
        detail.get("ctx", {}),
    )
    return _WORDS.get(detail["type"], _other)(complaint)


def _unknown_field(complaint: _Complaint) -> Flaw:
    key = str(complaint.path[-1])
    allowed = _fields(_model_at(complaint.kind, complaint.path[:-1]))
    remedy = _nearest(key, allowed) or _elsewhere(complaint.kind, key) or "remove it"
    return complaint.flaw("unknown field", ", ".join(allowed), remedy)


def _missing(complaint: _Complaint) -> Flaw:
    return complaint.flaw("is missing", _describe(complaint.kind, complaint.path), "add it")


def _not_one_of(complaint: _Complaint) -> Flaw:
    allowed = str(complaint.context["expected"]).split("'")[1::2]
    remedy = _nearest(_text(complaint.node, complaint.path), allowed) or "write one of these"
    return complaint.flaw(complaint.found, ", ".join(allowed), remedy)


def _out_of_bounds(complaint: _Complaint) -> Flaw:
    key, words = _BOUND[complaint.name]
    return complaint.flaw(complaint.found, f"{words} {complaint.context[key]}", "change the number")


def _not_a_map(complaint: _Complaint) -> Flaw:
    fields = ", ".join(_fields(_model_at(complaint.kind, complaint.path)))
    return complaint.flaw(complaint.found, f"a map with {fields}", "indent its fields")


def _wrong_type(complaint: _Complaint) -> Flaw:
    remedy = _type_remedy(complaint.node, complaint.path, complaint.name)
    return complaint.flaw(complaint.found, _ALLOWED[complaint.name], remedy)


def _refusal(complaint: _Complaint) -> Flaw:
    return _refused(complaint.node, complaint.path, complaint.context)


def _other(complaint: _Complaint) -> Flaw:
    return complaint.flaw(f"{complaint.found}: {complaint.message}", None, "correct the value")


_WORDS: Final[dict[str, Callable[[_Complaint], Flaw]]] = {
    "extra_forbidden": _unknown_field,
    "missing": _missing,
    "literal_error": _not_one_of,
    "refused": _refusal,
    "model_type": _not_a_map,
    "model_attributes_type": _not_a_map,
    **dict.fromkeys(_BOUND, _out_of_bounds),
    **dict.fromkeys(_ALLOWED, _wrong_type),
}


def _refused(node: Node, path: FieldPath, context: dict[str, Any]) -> Flaw:
    inner = (*path, *(part for part in str(context["field"]).split(".") if part))
    found = str(context["found"]) or _found(node, inner)
    allowed, remedy = str(context["allowed"]), str(context["remedy"])
    return Flaw(line_of(node, inner), inner, found, allowed or None, remedy or None)


def _type_remedy(node: Node, path: FieldPath, name: str) -> str:
    target = node_at(node, path)
    if name == "string_type" and isinstance(target, Scalar) and target.text:
        return f'write "{target.text}" in quotes'
    if isinstance(target, Scalar) and isinstance(target.value, str) and name != "dict_type":
        return "write it without quotes and without a unit"
    return "change the value"


def _text(node: Node, path: FieldPath) -> str:
    target = node_at(node, path)
    return target.text if isinstance(target, Scalar) else ""


def _found(node: Node, path: FieldPath) -> str:
    target = node_at(node, path)
    if isinstance(target, Mapping):
        return "found a map"
    if isinstance(target, Sequence):
        return "found a list"
    if target is None or target.value is None:
        return "found nothing"
    shown = target.text if len(target.text) <= 60 else target.text[:57] + "..."
    return f"found {json.dumps(shown, ensure_ascii=False)}" + (
        "" if isinstance(target.value, str) else f" ({_KIND_NAMES[type(target.value)]})"
    )


def _nearest(word: str, allowed: list[str]) -> str | None:
    lowered = {item.lower().replace("_", "").replace("-", ""): item for item in allowed}
    near = difflib.get_close_matches(
        word.lower().replace("_", "").replace("-", ""), lowered, 1, 0.7
    )
    return f"did you mean {lowered[near[0]]}?" if near else None


def _elsewhere(kind: type[Document], key: str) -> str | None:
    """The place where the document does have a field of this name."""
    places = [path for path in _paths(kind, ()) if path[-1] == key]
    return f"did you mean {field_name(min(places, key=len))}?" if places else None


def _paths(kind: type[BaseModel], above: FieldPath) -> Iterator[FieldPath]:
    for name, info in _aliases(kind).items():
        path = (*above, name)
        yield path
        inner = _inner_model(info.annotation)
        if inner is not None:
            yield from _paths(inner, path)


def _describe(kind: type[Document], path: FieldPath) -> str | None:
    model = _model_at(kind, path[:-1])
    info = _aliases(model).get(str(path[-1])) if model is not None else None
    return info.description.rstrip(".") if info is not None and info.description else None


def _aliases(kind: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in kind.model_fields.items()}


def _fields(kind: type[BaseModel] | None) -> list[str]:
    return sorted(_aliases(kind)) if kind is not None else []


def _model_at(kind: type[BaseModel], path: FieldPath) -> type[BaseModel] | None:
    """The model whose fields stand at the path."""
    annotation: Any = kind
    for part in path:
        annotation = _step(_bare(annotation), part)
    found = _bare(annotation)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _step(annotation: Any, part: str | int) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        info = _aliases(annotation).get(str(part))
        return None if info is None else info.annotation
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is dict:
        return arguments[1]
    return arguments[0] if arguments else None


def _bare(annotation: Any) -> Any:
    """The annotation without Annotated[...] and without `| None`."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    if origin in (types.UnionType, typing.Union):
        rest = [part for part in typing.get_args(annotation) if part is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None
