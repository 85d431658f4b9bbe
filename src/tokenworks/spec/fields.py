"""What the document types say about a field: its siblings, its form, its type in words.

Messages are made from the types themselves, so that they cannot fall behind them.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tokenworks.spec.common import Form
from tokenworks.spec.problems import FieldPath

_TYPES: Final[dict[Any, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a map",
    list: "a list",
    tuple: "a list",
}


ANYTHING: Final = "a value"


def names_at(kind: type[BaseModel], path: FieldPath) -> list[str]:
    """Names of the fields allowed in the map at the path, sorted; empty when it has none."""
    model = _model(_annotation(kind, path))
    return [] if model is None else sorted(_aliases(model))


def description_at(kind: type[BaseModel], path: FieldPath) -> str:
    """What the field means; empty where the types do not say."""
    model = _model(_annotation(kind, path[:-1]))
    info = None if model is None else _aliases(model).get(str(path[-1]))
    return "" if info is None or info.description is None else info.description.rstrip(".")


def form_at(kind: type[BaseModel], path: FieldPath) -> Form | None:
    """The form that a text at the path must have."""
    return _form(_annotation(kind, path))


def words_at(kind: type[BaseModel], path: FieldPath) -> str:
    """What may stand at the path, in words."""
    annotation = _annotation(kind, path)
    form = _form(annotation)
    if form is not None:
        return form.allowed
    names = names_at(kind, path)
    if names:
        return f"a map with {', '.join(names)}"
    bare = _bare(annotation)
    if typing.get_origin(bare) is typing.Literal:
        return ", ".join(str(value) for value in typing.get_args(bare))
    return _TYPES.get(typing.get_origin(bare) or bare, ANYTHING)


def takes_text(kind: type[BaseModel], path: FieldPath, text: str) -> bool:
    """Whether the text may stand at the path."""
    bare, form = _bare(_annotation(kind, path)), form_at(kind, path)
    if typing.get_origin(bare) is typing.Literal:
        return text in typing.get_args(bare)
    return bare is str and (form is None or form.holds(text))


def places_of(kind: type[BaseModel], name: str) -> list[FieldPath]:
    """Where a document of the kind has a field of that name, nearest to the top first."""
    return sorted((path for path in _paths(kind, ()) if path[-1] == name), key=len)


def _paths(kind: type[BaseModel], above: FieldPath) -> Iterator[FieldPath]:
    for name, info in _aliases(kind).items():
        path = (*above, name)
        yield path
        inner = _model(info.annotation)
        if inner is not None:
            yield from _paths(inner, path)


def _aliases(kind: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in kind.model_fields.items()}


def _annotation(kind: type[BaseModel], path: FieldPath) -> Any:
    """The type at the path with everything annotated on it; None where there is none."""
    annotation: Any = kind
    for part in path:
        annotation = _step(_bare(annotation), part)
    return annotation


def _step(annotation: Any, part: str | int) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        info = _aliases(annotation).get(str(part))
        return None if info is None else _Extras(info.annotation, tuple(info.metadata))
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is dict:
        return arguments[1]
    return arguments[0] if arguments else None


@dataclass(frozen=True)
class _Extras:
    """A field's type, and what pydantic took off its outermost Annotated[...]."""

    annotation: Any
    metadata: tuple[Any, ...]


def _form(annotation: Any) -> Form | None:
    """The first `Form` annotated on the type or on the part of it that is not None."""
    extras = getattr(annotation, "metadata", getattr(annotation, "__metadata__", ()))
    for extra in extras:
        if isinstance(extra, Form):
            return extra
    inner = _unwrapped(annotation)
    return None if inner is annotation else _form(inner)


def _unwrapped(annotation: Any) -> Any:
    """Without the outermost Annotated[...] or `| None`."""
    if isinstance(annotation, _Extras):
        return annotation.annotation
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return annotation.__origin__
    if origin in (types.UnionType, typing.Union):
        rest = [part for part in typing.get_args(annotation) if part is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _bare(annotation: Any) -> Any:
    """Without any Annotated[...] and `| None` around it."""
    inner = _unwrapped(annotation)
    return annotation if inner is annotation else _bare(inner)


def _model(annotation: Any) -> type[BaseModel] | None:
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None
