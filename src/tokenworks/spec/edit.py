"""Changing one field of a YAML text, and no other byte of it.

A change is read back: what it says has to be what was said before, but for that field.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from typing import Any, Final, cast

import yaml

Path = Sequence[str]
_PLAIN: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9./-]*|[1-9][0-9]*|0")
"""What every reader takes for the text or the number that it is."""
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class CannotEditError(Exception):
    """The text is written in a way that is left to people; the message says how."""


def value_at(text: str, path: Path) -> str | None:
    """The value at `path` as it is written, quotes and all; None where there is none, or where it
    is no single value.

    Raises:
        CannotEditError: it is written over several lines.
    """
    node = _at(_root(text), path)
    if not isinstance(node, yaml.ScalarNode):
        return None
    raw = text[node.start_mark.index : node.end_mark.index]
    if "\n" in raw:
        raise CannotEditError(f"{'.'.join(path)} is written over several lines")
    return raw


def has(text: str, path: Path) -> bool:
    """Whether there is anything at `path`."""
    return _at(_root(text), path) is not None


def with_value(text: str, path: Path, value: str) -> str:
    """The text with `value` (as it is to be written, on one line) at `path`.

    Raises:
        CannotEditError: its mapping is not there, or the text is left to people.
    """
    root = _root(text)
    parent, node = _at(root, path[:-1]), _at(root, path)
    if node is not None:
        changed = _replaced(text, node, value)
    elif isinstance(parent, yaml.MappingNode) and parent.value:
        changed = _begun(text, parent, path[-1], value)
    else:
        raise CannotEditError(f"{'.'.join(path)}: there is no mapping that it could be in")
    return _checked(text, changed, path, _loaded(value))


def with_field_of(text: str, path: Path, other: str) -> str:
    """The text with the whole field at `path` as `other` has it, comments in it too.

    Raises:
        CannotEditError: `other` has none, or one of the texts is left to people.
    """
    theirs, root = _root(other), _root(text)
    node, own, parent = _at(theirs, path), _at(root, path), _at(root, path[:-1])
    if node is None:
        raise CannotEditError(f"{'.'.join(path)} is not there")
    raw = other[node.start_mark.index : _end(other, node)]
    if "\n" not in raw:
        return with_value(text, path, raw)
    if not isinstance(parent, yaml.MappingNode) or parent.flow_style or not parent.value:
        raise CannotEditError(f"{'.'.join(path)}: there is no mapping that it could be in")
    lines = _block(other, _key(theirs, path), node, parent.value[0][0].start_mark.column)
    if own is None:
        at = text.find("\n", _end(text, parent))
        changed = f"{text}\n{lines}" if at < 0 else f"{text[: at + 1]}{lines}{text[at + 1 :]}"
    else:
        start = text.rfind("\n", 0, _key(root, path).start_mark.index) + 1
        at = text.find("\n", _end(text, own))
        changed = f"{text[:start]}{lines}{'' if at < 0 else text[at + 1 :]}"
    wanted = _field(_loaded(other), path)
    return _checked(text, changed, path, wanted)


def written(value: str) -> str:
    """A text as YAML: bare where no reader takes it for anything else, quoted otherwise."""
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)


def _replaced(text: str, node: yaml.Node, value: str) -> str:
    start, end = node.start_mark.index, _end(text, node)
    if "\n" in text[start:end]:
        raise CannotEditError("the value that is there is written over several lines")
    # An empty value stands right behind its colon.
    gap = " " if start == end else ""
    return f"{text[:start]}{gap}{value}{text[end:]}"


def _begun(text: str, parent: yaml.MappingNode, key: str, value: str) -> str:
    """A field at the top of a mapping."""
    start: int = parent.value[0][0].start_mark.index
    if parent.flow_style:
        return f"{text[:start]}{key}: {value}, {text[start:]}"
    indent = " " * parent.value[0][0].start_mark.column
    return f"{text[:start]}{key}: {value}\n{indent}{text[start:]}"


def _block(text: str, key: yaml.Node, node: yaml.Node, column: int) -> str:
    """The lines of a field, moved to `column`."""
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    at = text.find("\n", _end(text, node))
    lines = text[start : len(text) if at < 0 else at].split("\n")
    shift = column - key.start_mark.column
    if shift < 0:
        lines = [line[-shift:] if line.strip() else line for line in lines]
    return "".join(f"{' ' * shift if line.strip() else ''}{line}\n" for line in lines)


def _end(text: str, node: yaml.Node) -> int:
    """Where the last of it ends; a block's own mark is where the next thing begins."""
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return len(text[: node.end_mark.index].rstrip())
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last: Any = node.value[-1]
    whole = isinstance(last, tuple)
    return _end(text, cast("tuple[yaml.Node, yaml.Node]", last)[1] if whole else last)


def _key(node: yaml.Node | None, path: Path) -> yaml.Node:
    parent = _at(node, path[:-1])
    assert isinstance(parent, yaml.MappingNode)
    return next(key for key, _ in parent.value if key.value == path[-1])


def _checked(before: str, after: str, path: Path, value: object) -> str:
    """The text after a change that changed that field alone."""
    wanted: Any = copy.deepcopy(_loaded(before))
    node = wanted
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    if _loaded(after) != wanted:
        raise CannotEditError(f"{'.'.join(path)} cannot be changed without changing more")
    return after


def _field(value: Any, path: Path) -> object:
    for key in path:
        value = value[key]
    return value


def _loaded(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CannotEditError(f"it is no YAML any more: {type(error).__name__}") from None


def _root(text: str) -> yaml.Node | None:
    """The document's node.

    Raises:
        CannotEditError: it has anchors, which say one thing in two places, or two documents.
    """
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
                line = token.start_mark.line + 1
                raise CannotEditError(f"line {line} has an anchor or an alias; write values out")
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise CannotEditError(f"it is not one YAML document: {type(error).__name__}") from None


def _at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node
