"""A YAML node to a typed document, and pydantic's complaints in our users' words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from policies.secrets import masked
from tokenworks.catalog.flags import grammars
from tokenworks.errors import did_you_mean, nearest
from tokenworks.spec import fields
from tokenworks.spec.common import NO_HINT, Document
from tokenworks.spec.problems import FieldPath, Flaw, field_name, shown
from tokenworks.spec.secrets import hides
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

_BOUNDS: Final = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
}


def parse(kind: type[T], node: Node) -> tuple[T | None, tuple[Flaw, ...]]:
    """The document, or None and what is wrong with it."""
    empty = tuple(_empty(node, ()))
    if empty:
        return None, empty
    text = json.dumps(data_of(node))
    try:
        return kind.model_validate_json(text, strict=True, by_alias=True, by_name=False), ()
    except ValidationError as error:
        details = error.errors(include_url=False)
    return None, tuple(_flaws(kind, node, details))


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


def _flaws(kind: type[Document], node: Node, details: list[ErrorDetails]) -> Iterator[Flaw]:
    complaints: dict[FieldPath, _Complaint] = {}
    for detail in details:
        complaint = _complaint(kind, node, detail)
        # One mistake in a union complains once for each of its members.
        complaints.setdefault(complaint.path, complaint)
    misspelt = {c.meant for c in complaints.values() if c.name == "extra_forbidden"}
    for path, complaint in complaints.items():
        if complaint.name != "missing" or path not in misspelt:
            yield complaint.flaw()


@dataclass(frozen=True)
class _Complaint:
    """One complaint of pydantic, with what is needed to say it in our words."""

    kind: type[Document]
    node: Node
    path: FieldPath
    name: str
    message: str
    context: dict[str, Any]

    def flaw(self) -> Flaw:
        """The complaint as a flaw."""
        return _WORDS.get(self.name, _other)(self)

    def because(self, allowed: str | None, remedy: str | None, found: str | None = None) -> Flaw:
        """A flaw at the field, by default with what was found there."""
        return Flaw(line_of(self.node, self.path), self.path, found or self.found, allowed, remedy)

    @property
    def target(self) -> Node | None:
        """What stands at the field."""
        return node_at(self.node, self.path)

    @property
    def found(self) -> str:
        """What stands at the field, in words."""
        target = self.target
        if isinstance(target, Mapping):
            return "found a map"
        if isinstance(target, Sequence):
            return "found a list"
        if target is None or target.value is None:
            return "found nothing"
        if hides(self.path):
            return "found a value that is not shown"
        if isinstance(target.value, str):
            return f"found {shown(target.text)}"
        kind = "" if isinstance(target.value, bool) else "the number "
        return f"found {kind}{target.text}"

    @property
    def meant(self) -> FieldPath | None:
        """The sibling field whose name is like this one's."""
        *above, key = self.path
        near = nearest(str(key), fields.names_at(self.kind, tuple(above)))
        return None if near is None else (*above, near)


def _complaint(kind: type[Document], node: Node, detail: ErrorDetails) -> _Complaint:
    path, name = _place(node, detail)
    return _Complaint(kind, node, path, name, detail["msg"], detail.get("ctx", {}))


def _place(node: Node, detail: ErrorDetails) -> tuple[FieldPath, str]:
    """Where in the document, and what kind of complaint.

    Pydantic appends `[key]` where a key is meant, and the member's name inside a union.
    """
    loc, name = detail["loc"], detail["type"]
    if loc and loc[-1] == "[key]":
        return loc[:-1], "key"
    here: FieldPath = ()
    for part in loc:
        if node_at(node, (*here, part)) is None:
            if name == "missing" and len(here) == len(loc) - 1:
                return loc, name
            return here, "union"
        here = (*here, part)
    return here, name


def _unknown_field(complaint: _Complaint) -> Flaw:
    *above, key = complaint.path
    names = fields.names_at(complaint.kind, tuple(above))
    remedy = "remove it"
    if complaint.meant is not None:
        remedy = f"did you mean {complaint.meant[-1]}?"
    elif places := fields.places_of(complaint.kind, str(key)):
        remedy = f"did you mean {field_name(places[0])}?"
    elif flag := _flag_of_engine(complaint.node, str(key)):
        remedy = f"did you mean spec.engine.flags.{flag}?"
    return complaint.because(", ".join(names), remedy, "unknown field")


def _flag_of_engine(node: Node, key: str) -> str | None:
    """The flag of the document's engine that has this name, however its words are joined."""
    engine = node_at(node, ("spec", "engine", "name"))
    grammar = grammars().get(engine.text) if isinstance(engine, Scalar) else None
    flag = dashed(key)
    return flag if grammar is not None and flag in grammar.long else None


def _missing(complaint: _Complaint) -> Flaw:
    meaning = fields.description_at(complaint.kind, complaint.path)
    remedy = f"add it ({meaning})" if meaning else "add it"
    allowed = fields.words_at(complaint.kind, complaint.path)
    return complaint.because(allowed, remedy, "is missing")


def _not_one_of(complaint: _Complaint) -> Flaw:
    allowed = str(complaint.context["expected"]).split("'")[1::2]
    target = complaint.target
    text = target.text if isinstance(target, Scalar) else ""
    return complaint.because(", ".join(allowed), did_you_mean(text, allowed, "write one of these"))


def _out_of_bounds(complaint: _Complaint) -> Flaw:
    key, words = _BOUNDS[complaint.name]
    bound = complaint.context[key]
    plain = int(bound) if bound == int(bound) else bound
    return complaint.because(f"{words} {plain}", "change the number")


def _too_many(complaint: _Complaint) -> Flaw:
    allowed = f"at most {complaint.context['max_length']}"
    target = complaint.target
    parts = target.entries if isinstance(target, Mapping) else getattr(target, "items", ())
    return complaint.because(allowed, "remove some", f"found {len(parts)}")


def _too_few(complaint: _Complaint) -> Flaw:
    allowed = f"at least {complaint.context['min_length']}"
    return complaint.because(allowed, "add some", f"found {complaint.context['actual_length']}")


def _too_short(complaint: _Complaint) -> Flaw:
    least, remedy = complaint.context["min_length"], "write more"
    meaning = fields.description_at(complaint.kind, complaint.path)
    allowed = f"at least {least} characters" + (f": {meaning}" if meaning else "")
    return complaint.because(allowed, remedy)


def _too_long_a_text(complaint: _Complaint) -> Flaw:
    target = complaint.target
    length = len(target.text) if isinstance(target, Scalar) else 0
    most = f"at most {complaint.context['max_length']} characters"
    return complaint.because(most, "shorten it", f"found {length} characters")


def _not_a_map(complaint: _Complaint) -> Flaw:
    allowed = fields.words_at(complaint.kind, complaint.path)
    return complaint.because(allowed, "write its fields on lines of their own, indented")


def _not_text(complaint: _Complaint) -> Flaw:
    form, target = fields.form_at(complaint.kind, complaint.path), complaint.target
    text = target.text if isinstance(target, Scalar) and not hides(complaint.path) else ""
    if form is not None and not form.holds(text):
        return complaint.because(form.allowed, form.remedy)
    allowed = "text" if form is None else form.allowed
    return complaint.because(allowed, f'write "{text}" in quotes' if text else "change the value")


def _not_a_number(complaint: _Complaint) -> Flaw:
    target = complaint.target
    is_text = isinstance(target, Scalar) and isinstance(target.value, str)
    remedy = "write digits only, without quotes and unit" if is_text else "change the value"
    return complaint.because("a whole number", remedy)


def _wrong_type(complaint: _Complaint) -> Flaw:
    return complaint.because(fields.words_at(complaint.kind, complaint.path), "change the value")


def _key(complaint: _Complaint) -> Flaw:
    key, allowed = str(complaint.path[-1]), str(complaint.context["allowed"])
    remedy = _as_meant(key, complaint) or "rename it"
    return complaint.because(allowed, remedy, f"found {shown(key)}")


def _as_meant(text: str, complaint: _Complaint) -> str | None:
    """The remedy where the text has its form once its words are joined in another way."""
    pattern = str(complaint.context["pattern"])
    if masked(text) != text:  # in another spelling nobody would see that it is a credential
        return None
    for other in (dashed(text), snaked(text)):
        if pattern and other != text and re.fullmatch(pattern, other) and len(text) <= _SHORT:
            return f"write {other}"
    return None


_SHORT: Final = 40
"""Characters of names."""


def dashed(name: str) -> str:
    """`--maxNumSeqs`, `max_num_seqs` and `MAX_NUM_SEQS` as `max-num-seqs`."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.strip("-"))
    return re.sub(r"[_ ]", "-", parts).lower()


def snaked(name: str) -> str:
    """`hf-home` as `HF_HOME`."""
    return dashed(name).replace("-", "_").upper()


def _no_member(complaint: _Complaint) -> Flaw:
    return complaint.because(
        "text, a number, true or false, a list of texts, or a map", "write one of these"
    )


def _refused(complaint: _Complaint) -> Flaw:
    context = complaint.context
    inner = tuple(part for part in str(context["field"]).split(".") if part)
    at = replace(complaint, path=(*complaint.path, *inner))
    allowed, remedy = str(context["allowed"]), str(context["remedy"])
    if remedy == NO_HINT and isinstance(at.target, Scalar) and not hides(at.path):
        remedy = _as_meant(at.target.text, complaint) or remedy
    return at.because(allowed or None, remedy or None, str(context["found"]))


def _other(complaint: _Complaint) -> Flaw:
    return complaint.because(None, "correct the value", f"{complaint.found}: {complaint.message}")


_WORDS: Final[dict[str, Callable[[_Complaint], Flaw]]] = {
    "extra_forbidden": _unknown_field,
    "missing": _missing,
    "literal_error": _not_one_of,
    "refused": _refused,
    "model_type": _not_a_map,
    "model_attributes_type": _not_a_map,
    "string_type": _not_text,
    "int_type": _not_a_number,
    "int_from_float": _not_a_number,
    "bool_type": _wrong_type,
    "float_type": _wrong_type,
    "dict_type": _wrong_type,
    "tuple_type": _wrong_type,
    "key": _key,
    "too_long": _too_many,
    "too_short": _too_few,
    "string_too_short": _too_short,
    "string_too_long": _too_long_a_text,
    "union": _no_member,
    **dict.fromkeys(_BOUNDS, _out_of_bounds),
}
