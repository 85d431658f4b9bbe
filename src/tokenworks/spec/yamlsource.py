"""YAML text to plain data that still knows its lines.

Stricter than YAML where YAML misleads, and each strictness has a reason:

- A key given twice, which parsers settle silently in favour of the last.
- A plain word or number that one YAML version reads as text and another as something
  else (`on`, `no`, `012`, `1_000`): the writer says which by quoting it.
- Anchors are read; one that contains itself, or that multiplies into a document of
  more than `MAX_VALUES` values, is not.
- Tags other than `!!str`.

The tree is built on PyYAML's events, because its composer forgets how a scalar was
written and follows aliases without a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from policies.secrets import masked
from tokenworks.spec.problems import SHOWN, FieldPath, Flaw, named, shown
from tokenworks.spec.scalars import UNPRINTABLE, Ambiguous, ScalarValue, plain_value

MAX_VALUES: Final = 200_000
"""Values that aliases may add to one document."""
MAX_DEPTH: Final = 64
"""Maps and lists inside one another; Kubernetes objects stay below 30."""
FAST: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, which is the one that Kubernetes' own was made from: it says what can be read.
It gives the same events many times faster, and has fewer words for what is wrong."""
_STR: Final = "tag:yaml.org,2002:str"


@dataclass(frozen=True)
class Scalar:
    """A single value, and how it was written."""

    line: int
    text: str
    value: ScalarValue
    column: int = field(default=1, kw_only=True, compare=False)
    quoted: bool = field(default=False, kw_only=True, compare=False)


@dataclass(frozen=True)
class Mapping:
    """A map; each entry keeps the line of its key."""

    line: int
    entries: dict[str, Entry] = field(default_factory=lambda: {})
    size: int = 1
    column: int = field(default=1, kw_only=True, compare=False)


@dataclass(frozen=True)
class Sequence:
    """A list."""

    line: int
    items: tuple[Node, ...] = ()
    size: int = 1
    column: int = field(default=1, kw_only=True, compare=False)


Node = Scalar | Mapping | Sequence


@dataclass(frozen=True)
class Entry:
    """One key of a map."""

    line: int
    node: Node
    column: int = field(default=1, kw_only=True, compare=False)


@dataclass(frozen=True)
class Yaml:
    """What a text holds: its documents that are not empty, and what is wrong with it."""

    documents: tuple[Node, ...]
    flaws: tuple[Flaw, ...]


def data_of(node: Node) -> object:
    """The node as dict, list and scalars."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [data_of(item) for item in node.items]
    return {key: data_of(entry.node) for key, entry in node.entries.items()}


def line_of(node: Node, path: FieldPath) -> int:
    """Line of the field, or of the nearest part of the document that contains it."""
    return place_of(node, path)[0]


def place_of(node: Node, path: FieldPath) -> tuple[int, int]:
    """Line and column of the field, or of the nearest part that contains it; from 1."""
    place = node.line, node.column
    for part in path:
        if isinstance(node, Mapping) and part in node.entries:
            entry = node.entries[str(part)]
            place, node = (entry.line, entry.column), entry.node
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            place = node.line, node.column
        else:
            break
    return place


def node_at(node: Node, path: FieldPath) -> Node | None:
    """The node of the field; None when the document has no such field."""
    for part in path:
        if isinstance(node, Mapping) and part in node.entries:
            node = node.entries[str(part)].node
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            return None
    return node


def read_yaml(text: str, *, kubernetes: bool = False) -> Yaml:
    """Every document of the text. `kubernetes`: numbers are read as Kubernetes reads them.

    Nothing is raised: what cannot be read is a flaw.
    """
    read = _read(text, FAST, kubernetes=True) if kubernetes else None
    if read is None or any(flaw.found.startswith(_UNREADABLE) for flaw in read.flaws):
        worded = _read(text, yaml.SafeLoader, kubernetes=kubernetes)
        # Kubernetes cannot read what only the other parser can.
        if read is None or any(flaw.found.startswith(_UNREADABLE) for flaw in worded.flaws):
            return worded
    return read


def _read(text: str, loader: type[Any], *, kubernetes: bool) -> Yaml:
    builder = _Builder(kubernetes)
    documents: list[Node] = []
    try:
        for node in builder.documents(yaml.parse(text, Loader=loader)):
            documents.append(node)
    except _StopError as stop:
        builder.flaws.append(stop.flaw)
    except yaml.MarkedYAMLError as error:
        builder.flaws.append(_syntax_flaw(error))
    except yaml.YAMLError as error:
        builder.flaws.append(_unreadable(str(error).splitlines()[0]))
    except (ValueError, OverflowError, IndexError) as error:
        # PyYAML lets these through for escapes and directives outside their range.
        builder.flaws.append(_unreadable(str(error)))
    return Yaml(tuple(documents), tuple(builder.flaws))


_UNREADABLE: Final = "unreadable YAML"


def _unreadable(why: str) -> Flaw:
    return Flaw(None, (), f"{_UNREADABLE}: {why}", None, "write the file anew as plain text")


def _syntax_flaw(error: yaml.MarkedYAMLError) -> Flaw:
    mark = error.problem_mark or error.context_mark
    line = None if mark is None else mark.line + 1
    why = ", ".join(str(part) for part in (error.context, error.problem) if part)
    remedy = "correct the syntax at or just above this line"
    if "'\\t'" in why:
        remedy = "indent with spaces, never tabs"
    return Flaw(line, (), f"{_UNREADABLE}: {why}", None, remedy)


class _StopError(Exception):
    """Reading cannot go on: the one flaw that says why."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.found)
        self.flaw = flaw


def _line(event: Event) -> int:
    return cast("yaml.Mark", event.start_mark).line + 1


def _column(event: Event) -> int:
    return cast("yaml.Mark", event.start_mark).column + 1


def _flaw(
    event: Event, path: FieldPath, found: str, remedy: str, allowed: str | None = None
) -> Flaw:
    return Flaw(_line(event), path, found, allowed, remedy)


def _size(node: Node) -> int:
    return 1 if isinstance(node, Scalar) else node.size


class _Builder:
    """Events to nodes. Collects flaws and goes on; stops only where structure is lost."""

    def __init__(self, kubernetes: bool) -> None:
        self.flaws: list[Flaw] = []
        self._kubernetes = kubernetes
        self._anchors: dict[str, Node | None] = {}
        self._events: Iterator[Event] = iter(())
        self._written = 0

    def documents(self, events: Iterator[Event]) -> Iterator[Node]:
        """The documents that hold something."""
        self._events = events
        for event in events:
            if isinstance(event, DocumentStartEvent):
                self._anchors = {}
                node = self._node(next(events), ())
                if not (isinstance(node, Scalar) and node.value is None):
                    yield node

    def _node(self, event: Event, path: FieldPath) -> Node:
        self._written += 1
        if isinstance(event, AliasEvent):
            return self._alias(event, path)
        if len(path) > MAX_DEPTH:
            found = f"more than {MAX_DEPTH} levels deep"
            raise _StopError(_flaw(event, path[:4], found, "flatten it"))
        anchor = cast("str | None", getattr(event, "anchor", None))
        if anchor is not None:
            self._anchors[anchor] = None  # open: an alias to it now would contain itself
        node = self._new_node(event, path)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _new_node(self, event: Event, path: FieldPath) -> Node:
        self._refuse_tags(event, path)
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, path)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, path)
        return self._scalar(cast("ScalarEvent", event), path)

    def _alias(self, event: AliasEvent, path: FieldPath) -> Node:
        anchor = event.anchor
        if anchor not in self._anchors:
            found = f"alias *{anchor} without an anchor &{anchor} before it"
            remedy = "define the anchor first, or write the value"
            raise _StopError(_flaw(event, path, found, remedy))
        node = self._anchors[anchor]
        if node is None:
            found = f"anchor &{anchor} contains itself"
            raise _StopError(_flaw(event, path, found, "write the value without the alias"))
        return node

    def _refuse_tags(self, event: Event, path: FieldPath) -> None:
        tag = cast("str | None", getattr(event, "tag", None))
        if tag in (None, "!") or (tag == _STR and isinstance(event, ScalarEvent)):
            return
        found = f"found the tag {named(str(tag).replace('tag:yaml.org,2002:', '!!'))}"
        self.flaws.append(_flaw(event, path, found, "remove it", "no tags but !!str"))

    def _sequence(self, start: SequenceStartEvent, path: FieldPath) -> Sequence:
        items: list[Node] = []
        size = 1
        while not isinstance(event := next(self._events), SequenceEndEvent):
            item = self._node(event, (*path, len(items)))
            size = self._grown(size, item, start)
            items.append(item)
        return Sequence(_line(start), tuple(items), size, column=_column(start))

    def _mapping(self, start: MappingStartEvent, path: FieldPath) -> Mapping:
        entries: dict[str, Entry] = {}
        merged: list[Node] = []
        size = 1
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event, path)
            node = self._node(next(self._events), (*path, key))
            size = self._grown(size, node, start)
            if key == "<<" and cast("ScalarEvent", event).implicit[0]:
                merged.append(node)
            elif key in entries:
                found = f"key given twice, first in line {entries[key].line}"
                remedy = "remove one of the two"
                self.flaws.append(_flaw(event, (*path, key), found, remedy, "each key once"))
            else:
                entries[key] = Entry(_line(event), node, column=_column(event))
        for node in merged:
            self._merge(entries, node, path, start)
        return Mapping(_line(start), entries, size, column=_column(start))

    def _merge(self, entries: dict[str, Entry], node: Node, path: FieldPath, start: Event) -> None:
        for source in node.items if isinstance(node, Sequence) else (node,):
            if isinstance(source, Mapping):
                for key, entry in source.entries.items():
                    entries.setdefault(key, entry)
            else:
                found, remedy = "merges what is no map", "name an anchor of a map"
                self.flaws.append(_flaw(start, (*path, "<<"), found, remedy, "an alias of a map"))

    def _grown(self, size: int, node: Node, start: Event) -> int:
        size += _size(node)
        # What is really written may be long; only what aliases make of it is bounded.
        if size > MAX_VALUES + self._written:
            found = f"more than {MAX_VALUES} values, aliases written out"
            raise _StopError(_flaw(start, (), found, "split the file, or use fewer aliases"))
        return size

    def _key(self, event: Event, path: FieldPath) -> str:
        if not isinstance(event, ScalarEvent):
            found = "found a map, a list or an alias as a key"
            remedy = "quote text that begins with { or [; template syntax is not read here"
            raise _StopError(_flaw(event, path, found, remedy, "text keys"))
        text = UNPRINTABLE.sub("?", event.value)
        value = plain_value(text, kubernetes=self._kubernetes) if event.implicit[0] else text
        if value is None or isinstance(value, bool | Ambiguous):
            found = f"found {text} as a key" if text else "found a key without a name"
            remedy = f'write "{text}" in quotes'
            self.flaws.append(_flaw(event, (*path, text), found, remedy, "text keys"))
        elif text != event.value:
            found = "found a control character in a key"
            self.flaws.append(_flaw(event, (*path, text), found, "remove it", "printable text"))
        return text

    def _scalar(self, event: ScalarEvent, path: FieldPath) -> Scalar:
        text, line, column = event.value, _line(event), _column(event)
        bad = UNPRINTABLE.search(text)
        if bad is not None:
            found = f"found the control character U+{ord(bad[0]):04X}"
            self.flaws.append(_flaw(event, path, found, "remove it", "printable text"))
            return Scalar(line, text, UNPRINTABLE.sub("?", text), column=column)
        if not event.implicit[0]:
            return Scalar(line, text, text, column=column, quoted=True)
        value = plain_value(text, kubernetes=self._kubernetes)
        if isinstance(value, Ambiguous):
            remedy = f"write {shown(text)} in quotes if text is meant"
            found = f"found {masked(text)[:SHOWN]}, {value.reason}"
            self.flaws.append(_flaw(event, path, found, remedy, value.allowed))
            return Scalar(line, text, text, column=column)
        return Scalar(line, text, value, column=column)
