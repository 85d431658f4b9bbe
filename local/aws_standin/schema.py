"""The provider's schema, read from its Python SDK: which inputs a resource has, and their types."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from local.aws_standin.values import UNKNOWN

Failure = tuple[str, str]
"""Dotted path of a property, and what is wrong with it."""
_REGISTERED: Final = r'"fqn": "([\w.]+)",\s*"classes": \{\s*"(aws:[^"]+)": "(\w+)"'
_SCALARS: Final = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


@cache
def resources() -> dict[str, tuple[str, str]]:
    """Type token: module and class of the SDK."""
    spec = find_spec("pulumi_aws")
    if spec is None or spec.origin is None:
        raise RuntimeError("pulumi-aws is not installed: run ./tokenworks venv pulumi aws")
    text = Path(spec.origin).read_text(encoding="utf-8")
    return {token: (module, name) for module, token, name in re.findall(_REGISTERED, text)}


def failures(token: str, inputs: dict[str, Any]) -> Iterator[Failure]:
    """What the provider would refuse, by types alone."""
    known = resources().get(token)
    if known is None:
        near = difflib.get_close_matches(token, resources(), 1)
        yield "", f"no resource {token}" + (f"; did you mean {near[0]}?" if near else "")
        return
    kind = _kind(token)
    if kind is not None:
        yield from _object(inputs, kind, "")


def takes(token: str, name: str) -> bool:
    """Whether a resource has such an input."""
    kind = _kind(token)
    return kind is not None and name in _inputs(kind)[0]


def _kind(token: str) -> type[Any] | None:
    """The class of a resource's inputs; None: there is no such resource, or it has none."""
    module, name = resources().get(token, ("pulumi_aws", ""))
    found = importlib.import_module(module)
    # Where a nested type has the name already, the SDK puts `Init` before.
    return getattr(found, f"{name}InitArgs", None) or getattr(found, f"{name}Args", None)


@cache
def _inputs(kind: type[Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Types of a class's inputs by the provider's names, and which must be given."""
    tools = importlib.import_module("pulumi._types")
    types_of = cast("dict[str, Any]", tools.input_type_types(kind))
    names = cast("dict[str, str]", tools.input_type_py_to_pulumi_names(kind))
    parameters = inspect.signature(kind.__init__).parameters
    needed = {n for n, p in parameters.items() if p.default is p.empty and n != "__self__"}
    return types_of, frozenset(names[name] for name in needed if name in names)


def _object(value: Any, kind: type[Any], path: str) -> Iterator[Failure]:
    if not isinstance(value, dict):
        yield path, f"found {_shown(value)}, wanted a map"
        return
    fields = cast("dict[str, Any]", value)
    types_of, required = _inputs(kind)
    for name in sorted(required - fields.keys()):
        yield _below(path, name), "is missing, and must be given"
    for name, item in fields.items():
        if name.startswith("__"):
            continue
        if name not in types_of:
            near = difflib.get_close_matches(name, types_of, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield _below(path, name), f"no such property{hint}"
        else:
            yield from wrong(item, types_of[name], _below(path, name))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def wrong(value: Any, kind: Any, path: str) -> Iterator[Failure]:
    """What does not fit the type; a value that is not known yet fits every type."""
    if value is None or value == UNKNOWN:
        return
    options = [option for option in _options(kind) if option is not type(None)]
    if any(option is Any or option is typing.Any for option in options):
        return
    verdicts = [list(_one(value, option, path)) for option in options]
    if verdicts and all(verdicts):
        yield from min(verdicts, key=len)


def _options(kind: Any) -> list[Any]:
    """The types of which the value may have one; futures and outputs are those of their value."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return [found for option in typing.get_args(kind) for found in _options(option)]
    name = getattr(origin or kind, "__name__", "")
    if name in ("Awaitable", "Output"):
        return []
    if isinstance(kind, str | typing.ForwardRef):
        return [typing.Any]
    return [kind]


def _one(value: Any, kind: Any, path: str) -> Iterator[Failure]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    name = getattr(origin or kind, "__name__", "")
    if name in ("Sequence", "list"):
        yield from _items(value, arguments[0] if arguments else typing.Any, path)
    elif name in ("Mapping", "dict"):
        yield from _values(value, arguments[1] if arguments else typing.Any, path)
    elif kind in _SCALARS:
        yield from _scalar(value, kind, path)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        allowed = [str(member.value) for member in kind]
        if value not in allowed:
            yield path, f"found {_shown(value)}, wanted one of {', '.join(allowed)}"
    elif isinstance(kind, type):
        yield from _object(value, cast("type[Any]", kind), path)


def _items(value: Any, kind: Any, path: str) -> Iterator[Failure]:
    if not isinstance(value, list):
        yield path, f"found {_shown(value)}, wanted a list"
        return
    for place, item in enumerate(cast("list[Any]", value)):
        yield from wrong(item, kind, f"{path}[{place}]")


def _values(value: Any, kind: Any, path: str) -> Iterator[Failure]:
    if not isinstance(value, dict):
        yield path, f"found {_shown(value)}, wanted a map"
        return
    for key, item in cast("dict[str, Any]", value).items():
        yield from wrong(item, kind, f"{path}.{key}")


def _scalar(value: Any, kind: type[Any], path: str) -> Iterator[Failure]:
    """Numbers travel as floats, and the engine turns numbers and flags to text where asked."""
    if kind is str:
        fits = isinstance(value, str | int | float)
    elif kind is bool:
        fits = isinstance(value, bool) or value in ("true", "false")
    else:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = number and (kind is float or float(value).is_integer())
    if not fits:
        yield path, f"found {_shown(value)}, wanted {_SCALARS[kind]}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else repr(value)
