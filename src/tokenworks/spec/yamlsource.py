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

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from tokenworks.spec.problems import FieldPath, Flaw

MAX_VALUES: Final = 200_000
"""Values in one document once its aliases are written out."""
MAX_DEPTH: Final = 64
"""Maps and lists inside one another; Kubernetes objects stay below 30."""
MAX_DIGITS: Final = 18
"""Digits of an integer: all of them fit 64 bits, which is what Kubernetes keeps."""

ScalarValue = str | int | float | bool | None


@dataclass(frozen=True)
class Scalar:
    """A single value, and how it was written."""

    line: int
    text: str
    value: ScalarValue


@dataclass(frozen=True)
class Mapping:
    """A map; each entry keeps the line of its key."""

    line: int
    entries: dict[str, Entry] = field(default_factory=lambda: {})
    size: int = 1


@dataclass(frozen=True)
class Sequence:
    """A list."""

    line: int
    items: tuple[Node, ...] = ()
    size: int = 1


Node = Scalar | Mapping | Sequence


@dataclass(frozen=True)
class Entry:
    """One key of a map."""

    line: int
    node: Node


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
    line = node.line
    for part in path:
        if isinstance(node, Mapping) and part in node.entries:
            entry = node.entries[str(part)]
            line, node = entry.line, entry.node
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            line = node.line
        else:
            break
    return line


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


def read_yaml(text: str, *, octal: bool = False) -> Yaml:
    """Every document of the text. `octal`: `0555` is a number, as Kubernetes reads it.

    Nothing is raised: what cannot be read is a flaw.
    """
    builder = _Builder(octal)
    documents: list[Node] = []
    try:
        for node in builder.documents(yaml.parse(text, Loader=yaml.SafeLoader)):
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


def _unreadable(why: str) -> Flaw:
    return Flaw(None, (), f"unreadable YAML: {why}", None, "write the file anew as plain text")


def _syntax_flaw(error: yaml.MarkedYAMLError) -> Flaw:
    mark = error.problem_mark or error.context_mark
    line = None if mark is None else mark.line + 1
    why = ", ".join(str(part) for part in (error.context, error.problem) if part)
    remedy = "correct the syntax at or just above this line"
    if "'\\t'" in why:
        remedy = "indent with spaces, never tabs"
    return Flaw(line, (), f"unreadable YAML: {why}", None, remedy)


class _StopError(Exception):
    """Reading cannot go on: the one flaw that says why."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.found)
        self.flaw = flaw


def _line(event: Event) -> int:
    return cast("yaml.Mark", event.start_mark).line + 1


def _size(node: Node) -> int:
    return 1 if isinstance(node, Scalar) else node.size


class _Builder:
    """Events to nodes. Collects flaws and goes on; stops only where structure is lost."""

    def __init__(self, octal: bool) -> None:
        self.flaws: list[Flaw] = []
        self._octal = octal
        self._anchors: dict[str, Node | None] = {}
        self._events: Iterator[Event] = iter(())

    def documents(self, events: Iterator[Event]) -> Iterator[Node]:
        self._events = events
        for event in events:
            if isinstance(event, DocumentStartEvent):
                self._anchors = {}
                node = self._node(next(events), ())
                if not (isinstance(node, Scalar) and node.value is None):
                    yield node
            elif isinstance(event, DocumentEndEvent):
                continue

    def _node(self, event: Event, path: FieldPath) -> Node:
        if isinstance(event, AliasEvent):
            return self._alias(event, path)
        if len(path) > MAX_DEPTH:
            raise _StopError(
                Flaw(
                    _line(event), path[:4], f"more than {MAX_DEPTH} levels deep", None, "flatten it"
                )
            )
        anchor = cast("str | None", getattr(event, "anchor", None))
        if anchor is not None:
            self._anchors[anchor] = None  # open: an alias to it now would contain itself
        node = self._plain_node(event, path)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _plain_node(self, event: Event, path: FieldPath) -> Node:
        self._refuse_tags(event, path)
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, path)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, path)
        assert isinstance(event, ScalarEvent)
        return self._scalar(event, path)

    def _alias(self, event: AliasEvent, path: FieldPath) -> Node:
        anchor = event.anchor
        if anchor not in self._anchors:
            raise _StopError(
                Flaw(
                    _line(event),
                    path,
                    f"alias *{anchor} without an anchor &{anchor} before it",
                    None,
                    "define the anchor first, or write the value",
                )
            )
        node = self._anchors[anchor]
        if node is None:
            raise _StopError(
                Flaw(
                    _line(event),
                    path,
                    f"anchor &{anchor} contains itself",
                    None,
                    "write the value without the alias",
                )
            )
        return node

    def _refuse_tags(self, event: Event, path: FieldPath) -> None:
        tag = cast("str | None", getattr(event, "tag", None))
        if tag in (None, "!") or (tag == _STR and isinstance(event, ScalarEvent)):
            return
        shown = str(tag).replace("tag:yaml.org,2002:", "!!")
        self.flaws.append(
            Flaw(_line(event), path, f"found the tag {shown}", "no tags but !!str", "remove it")
        )

    def _sequence(self, start: SequenceStartEvent, path: FieldPath) -> Sequence:
        items: list[Node] = []
        size = 1
        while not isinstance(event := next(self._events), SequenceEndEvent):
            item = self._node(event, (*path, len(items)))
            size = self._grown(size, item, start)
            items.append(item)
        return Sequence(_line(start), tuple(items), size)

    def _mapping(self, start: MappingStartEvent, path: FieldPath) -> Mapping:
        entries: dict[str, Entry] = {}
        merged: list[Node] = []
        size = 1
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event, path)
            inner = (*path, key)
            if key in entries:
                self.flaws.append(
                    Flaw(
                        _line(event),
                        inner,
                        f"key given twice, first in line {entries[key].line}",
                        "each key once",
                        "remove one of the two",
                    )
                )
            node = self._node(next(self._events), inner)
            size = self._grown(size, node, start)
            if key == "<<" and isinstance(event, ScalarEvent) and event.implicit[0]:
                merged.append(node)
            elif key not in entries:
                entries[key] = Entry(_line(event), node)
        for node in merged:
            self._merge(entries, node, path, start)
        return Mapping(_line(start), entries, size)

    def _merge(self, entries: dict[str, Entry], node: Node, path: FieldPath, start: Event) -> None:
        sources = node.items if isinstance(node, Sequence) else (node,)
        for source in sources:
            if not isinstance(source, Mapping):
                self.flaws.append(
                    Flaw(
                        _line(start),
                        (*path, "<<"),
                        "merges something that is not a map",
                        "an alias of a map",
                        "name an anchor of a map",
                    )
                )
                continue
            for key, entry in source.entries.items():
                entries.setdefault(key, entry)

    def _grown(self, size: int, node: Node, start: Event) -> int:
        size += _size(node)
        if size > MAX_VALUES:
            raise _StopError(
                Flaw(
                    _line(start),
                    (),
                    f"more than {MAX_VALUES} values, aliases written out",
                    None,
                    "split the file, or use fewer aliases",
                )
            )
        return size

    def _key(self, event: Event, path: FieldPath) -> str:
        if not isinstance(event, ScalarEvent):
            raise _StopError(
                Flaw(
                    _line(event),
                    path,
                    "found a map or list as a key",
                    "text keys",
                    "quote text that begins with { or [; template syntax is not read here",
                )
            )
        scalar = self._scalar(event, (*path, event.value[:60]))
        if isinstance(scalar.value, bool) or scalar.value is None:
            shown = scalar.text or "nothing"
            self.flaws.append(
                Flaw(
                    scalar.line,
                    (*path, scalar.text),
                    f"found {shown} as a key",
                    "text keys",
                    f'write "{scalar.text}" in quotes',
                )
            )
        return scalar.text

    def _scalar(self, event: ScalarEvent, path: FieldPath) -> Scalar:
        text, line = event.value, _line(event)
        bad = _UNPRINTABLE.search(text)
        if bad is not None:
            code = f"U+{ord(bad[0]):04X}"
            self.flaws.append(
                Flaw(
                    line, path, f"found the control character {code}", "printable text", "remove it"
                )
            )
            return Scalar(line, text, _UNPRINTABLE.sub("?", text))
        if not event.implicit[0]:
            return Scalar(line, text, text)
        value = plain_value(text, octal=self._octal)
        if isinstance(value, Ambiguous):
            self.flaws.append(
                Flaw(
                    line,
                    path,
                    f"found {text}, which YAML versions read differently",
                    value.allowed,
                    f'write "{text}" in quotes if text is meant',
                )
            )
            return Scalar(line, text, text)
        return Scalar(line, text, value)


@dataclass(frozen=True)
class Ambiguous:
    """A plain scalar whose meaning depends on the YAML version."""

    allowed: str


_STR = "tag:yaml.org,2002:str"
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_OLD_BOOL = frozenset(
    case
    for word in ("y", "n", "yes", "no", "on", "off")
    for case in (word, word.capitalize(), word.upper())
)
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_HEX = re.compile(r"[-+]?0x[0-9a-fA-F]+")
_OCTAL = re.compile(r"0o?[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_ODD_NUMBER = re.compile(r"[-+]?(0b[01_]+|[0-9][0-9_]*_[0-9_.]*|0x[0-9a-fA-F_]+|0[0-9]+|0o[0-9]+)")


def plain_value(text: str, *, octal: bool) -> ScalarValue | Ambiguous:
    """What an unquoted scalar means, where every reader agrees; `Ambiguous` elsewhere."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text in _OLD_BOOL:
        return Ambiguous("true or false")
    if text[:1] not in "+-.0123456789":
        return text
    return _number(text, octal)


def _number(text: str, octal: bool) -> ScalarValue | Ambiguous:
    value: ScalarValue | Ambiguous = text
    if _INT.fullmatch(text):
        value = int(text) if len(text) <= MAX_DIGITS else Ambiguous(f"up to {MAX_DIGITS} digits")
    elif _HEX.fullmatch(text):
        value = int(text, 16) if len(text) <= MAX_DIGITS else Ambiguous("numbers of 64 bits")
    elif octal and _OCTAL.fullmatch(text) and len(text) <= MAX_DIGITS:
        value = int(text.replace("o", ""), 8)
    elif _NOT_FINITE.fullmatch(text):
        value = Ambiguous("finite numbers")
    elif _ODD_NUMBER.fullmatch(text):
        value = Ambiguous("a decimal number without leading zeros and underscores")
    elif _FLOAT.fullmatch(text):
        value = float(text) if len(text) <= 2 * MAX_DIGITS else Ambiguous("shorter numbers")
        if value in (float("inf"), float("-inf")):
            value = Ambiguous("finite numbers")
    return value
