"""Whatever stands in a field, the answer is in our words: none of the validator's own."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import BaseModel

from tokenworks.spec.common import Document
from tokenworks.spec.environment import Environment
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.typed import parse
from tokenworks.spec.yamlsource import read_yaml

STACKS = Path(__file__).parents[2] / "stacks"
BASES: Final[dict[type[Document], Path]] = {
    Environment: STACKS / "staging" / "environment.yaml",
    ModelRelease: STACKS / "dev" / "models" / "qwen3-32b.yaml",
    Tenant: STACKS / "dev" / "tenants" / "research.yaml",
}
ODD: Final = (-1, 1.7, "", "x" * 5000, True, [], {"a": 1})
RAW: Final = ("should be", "should have", "should match", "Value error", "Input ", "valid ")


def bare(annotation: Any) -> Any:
    """Without Annotated[...] and `| None`."""
    if typing.get_origin(annotation) is typing.Annotated:
        return bare(annotation.__origin__)
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        rest = [part for part in typing.get_args(annotation) if part is not type(None)]
        return bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def paths(kind: type[BaseModel], above: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field, and one item of every list and map."""
    for name, info in kind.model_fields.items():
        path = (*above, info.alias or name)
        yield path
        yield from below(bare(info.annotation), path)


def below(annotation: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from paths(annotation, path)
    elif origin in (dict, tuple, list):
        inner = (*path, "x" if origin is dict else 0)
        yield inner
        yield from below(bare(arguments[1 if origin is dict else 0]), inner)


def laid(base: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The value put into a copy of the document."""
    if not path:
        return value
    key, *rest = path
    if isinstance(key, int):
        return [laid(None, tuple(rest), value)]
    found: dict[str, Any] = dict(base) if isinstance(base, dict) else {}
    found[key] = laid(found.get(key), tuple(rest), value)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", BASES, ids=lambda kind: kind.__name__)
def test_every_field_refuses_odd_values_in_our_words(kind: type[Document]) -> None:
    base = json.loads(json.dumps(yaml.safe_load(BASES[kind].read_text()), default=str))
    refused = 0
    for path in paths(kind):
        for value in ODD:
            (node,) = read_yaml(json.dumps(laid(base, path, value))).documents
            document, flaws = parse(kind, node)
            refused += document is None
            for flaw in flaws:
                said = " ".join((flaw.found, flaw.allowed or "", flaw.remedy or ""))
                assert flaw.remedy, (path, value)
                assert not any(raw in said for raw in RAW), (path, value, said)
    assert refused > 50
