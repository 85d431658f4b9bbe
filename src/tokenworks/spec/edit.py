"""Changing one value of a YAML text, and no other byte of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

import yaml

Path = Sequence[str]
_PLAIN: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9./-]*|[1-9][0-9]*|0")
"""What every reader takes for the text or the number that it is."""
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class CannotEditError(Exception):
    """The text has no place for the value; the message says what is there."""


def value_at(text: str, path: Path) -> str | None:
    """The scalar at `path` as it is written, quotes and all; None where there is none."""
    node = _at(_root(text), path)
    if not isinstance(node, yaml.ScalarNode):
        return None
    return text[node.start_mark.index : node.end_mark.index]


def values_below(text: str, path: Path) -> tuple[tuple[str, ...], ...]:
    """Paths of the single values at `path` and below it, from the top."""
    return tuple(_leaves(_at(_root(text), path), tuple(path)))


def _leaves(node: yaml.Node | None, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(node, yaml.ScalarNode):
        yield path
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _leaves(value, (*path, key.value))


def with_value(text: str, path: Path, value: str) -> str:
    """The text with `value` (as it is to be written) at `path`; its mapping has to be there.

    Raises:
        CannotEditError: there is no such mapping, or something else than one value.
    """
    root = _root(text)
    parent, node = _at(root, path[:-1]), _at(root, path)
    if isinstance(node, yaml.ScalarNode) and node.start_mark.index < node.end_mark.index:
        return text[: node.start_mark.index] + value + text[node.end_mark.index :]
    if node is not None or not isinstance(parent, yaml.MappingNode) or not parent.value:
        raise CannotEditError(f"{'.'.join(path)}: there is no single value, and no place for one")
    start: int = parent.value[0][0].start_mark.index
    if parent.flow_style:
        return f"{text[:start]}{path[-1]}: {value}, {text[start:]}"
    indent = " " * parent.value[0][0].start_mark.column
    return f"{text[:start]}{path[-1]}: {value}\n{indent}{text[start:]}"


def written(value: str) -> str:
    """A text as YAML: bare where no reader takes it for anything else, quoted otherwise."""
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)


def _root(text: str) -> yaml.Node | None:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node
