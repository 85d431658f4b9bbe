"""YAML text straight to plain data, for the texts that everybody reads alike.

`yamlsource` keeps lines and says what is wrong; this does neither, and is several times
faster. It reads what needs no second thought, and gives up at the first thing that does:
anchors, tags, keys given twice, words that YAML versions read differently, errors. Whatever
it reads is what `yamlsource` would have read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tokenworks.spec.problems import FieldPath
from tokenworks.spec.scalars import UNPRINTABLE, Ambiguous, ScalarValue, plain_value
from tokenworks.spec.yamlsource import FAST, MAX_DEPTH

Data = dict[str, Any] | list[Any] | ScalarValue


@dataclass(frozen=True)
class Document:
    """One document that holds something."""

    data: Data
    place: tuple[int, int]
    """Line and column where it begins, from 1."""
    first: int
    """Lines of the text before it."""
    after: int
    """Lines of the text up to its end."""


class _OddError(Exception):
    """Something that needs a second thought."""


def read_data(text: str) -> list[Document] | None:
    """The documents of a text of Kubernetes objects; None where `yamlsource` must read it."""
    if any(mark in text for mark in _BREAKS):
        return None  # lines are counted by \n below
    try:
        return list(_Reader(text).documents())
    except (_OddError, yaml.YAMLError, ValueError, OverflowError, IndexError):
        return None


_BREAKS: Final = ("\r", "\x85", "\u2028", "\u2029")


class _Reader:
    """One pass over the events of a text."""

    def __init__(self, text: str) -> None:
        self._next = FAST(text).get_event
        self._plain: dict[str, ScalarValue] = {}
        self._quoted: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def documents(self) -> Iterator[Document]:
        """Those that hold something."""
        self._next()  # the stream's start
        while type(event := self._next()) is not StreamEndEvent:
            if type(event) is not DocumentStartEvent or event.version or event.tags:
                raise _OddError
            first = cast("yaml.Mark", event.start_mark).line
            root = self._next()
            data = self._node(root, 0)
            end = self._next()
            if type(end) is not DocumentEndEvent:
                raise _OddError
            if data is not None:
                mark, begin = (cast("yaml.Mark", e.start_mark) for e in (end, root))
                place = begin.line + 1, begin.column + 1
                yield Document(data, place, first, mark.line + (mark.column > 0))

    def _node(self, event: Any, depth: int) -> Data:
        kind = cast("type[object]", type(event))
        if kind is ScalarEvent:
            return self._scalar(event)
        if depth >= MAX_DEPTH or event.anchor is not None or event.tag is not None:
            raise _OddError  # an alias has an anchor, and no tag at all
        if kind is MappingStartEvent:
            return self._mapping(depth + 1)
        if kind is SequenceStartEvent:
            return self._sequence(depth + 1)
        raise _OddError

    def _sequence(self, depth: int) -> list[Any]:
        items: list[Any] = []
        following, scalar, node = self._next, self._scalar, self._node
        while type(event := following()) is not SequenceEndEvent:
            items.append(scalar(event) if type(event) is ScalarEvent else node(event, depth))
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        following, scalar, node, keys = self._next, self._scalar, self._node, self._keys
        while type(event := following()) is not MappingEndEvent:
            if type(event) is not ScalarEvent or event.anchor is not None or event.tag is not None:
                raise _OddError
            key = keys.get(event.value) or self._key(event)
            if key in entries:
                raise _OddError
            event = following()
            entries[key] = scalar(event) if type(event) is ScalarEvent else node(event, depth)
        return entries

    def _key(self, event: ScalarEvent) -> str:
        """A key as it is kept: once for all that are alike. Any that may be none is odd, quoted or
        not, since it is not asked again how the next one is written."""
        text = event.value
        value = plain_value(text, kubernetes=True)
        odd = value is None or isinstance(value, bool | Ambiguous)
        if odd or text == "<<" or UNPRINTABLE.search(text):
            raise _OddError
        return self._keys.setdefault(text, text)

    def _scalar(self, event: ScalarEvent) -> ScalarValue:
        if event.anchor is not None or event.tag is not None:
            raise _OddError
        text = event.value
        if not event.implicit[0]:
            known = self._quoted.get(text)
            return self._new_quoted(text) if known is None else known
        try:
            return self._plain[text]
        except KeyError:
            return self._new_plain(text)

    def _new_quoted(self, text: str) -> str:
        if UNPRINTABLE.search(text):
            raise _OddError
        return self._quoted.setdefault(text, text)

    def _new_plain(self, text: str) -> ScalarValue:
        value = plain_value(text, kubernetes=True)
        if isinstance(value, Ambiguous) or UNPRINTABLE.search(text):
            raise _OddError
        return self._plain.setdefault(text, value)


# --- places --------------------------------------------------------------------


class _Unresolved(FAST):
    """Composes without asking what a plain scalar means."""

    def resolve(self, kind: type[Node], value: object, implicit: object) -> str:  # noqa: ARG002
        """Any tag will do."""
        return _ANY


_ANY: Final = "tag:yaml.org,2002:str"


def compose(text: str) -> Node:
    """The nodes of the one document of a text that `read_data` could read."""
    return cast("Node", yaml.compose(text, Loader=_Unresolved))


def place_in(node: Node, path: FieldPath) -> tuple[int, int]:
    """Line and column of a field, or of the nearest part that contains it; from 1."""
    mark = cast("yaml.Mark", node.start_mark)
    for part in path:
        found = _child(node, part)
        if found is None:
            break
        mark, node = found
    return mark.line + 1, mark.column + 1


def text_in(node: Node, path: FieldPath) -> int | None:
    """Lines from the key of a text in block style to the field of it that a path leads to.

    None where the path ends before a text, or leads into one that is written another way.
    """
    for position, part in enumerate(path):
        if isinstance(node, ScalarNode):
            inside = path[position:]
            break
        found = _child(node, part)
        if found is None:
            return None
        node = found[1]
    else:
        return None
    if node.style != "|":
        return None
    try:
        return place_in(compose(str(node.value)), inside)[0]
    except (yaml.YAMLError, AttributeError):
        return None


def _child(node: Node, part: str | int) -> tuple[yaml.Mark, Node] | None:
    """Where a field is named, and what it holds."""
    if isinstance(node, MappingNode):
        entries = cast("list[tuple[Node, Node]]", node.value)
        for key, value in entries:
            if key.value == part:
                return cast("yaml.Mark", key.start_mark), value
    elif isinstance(node, SequenceNode) and isinstance(part, int):
        items = cast("list[Node]", node.value)
        if part < len(items):
            return cast("yaml.Mark", items[part].start_mark), items[part]
    return None
