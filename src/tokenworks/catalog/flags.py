"""Flags of one engine: words in any spelling to typed values, and typed values to words.

Standard library alone, for the policies import it; the grammar of each engine is in
`grammar.json`, which `python -m tokenworks.catalog.grammar` writes from the catalog.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from tokenworks.catalog.shell import Word


@dataclass(frozen=True)
class Unresolved:
    """A value that depends on variables or commands whose values are not written down."""

    text: str
    needs: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


V = TypeVar("V")
Value = bool | int | float | str | list[Any] | dict[str, Any] | Unresolved


@dataclass(frozen=True)
class Flag:
    """One flag that was given; of several, the last."""

    name: str
    value: Value
    """Typed; the raw text where that cannot be typed."""
    raw: str | None
    """The text of the value; None for a bare flag."""
    position: int | None
    """Index of its word; None when a variable of the environment set it."""


@dataclass(frozen=True)
class UnknownFlag:
    """A flag that the engine does not have."""

    name: str
    raw: str | None
    position: int
    near: tuple[str, ...]
    """Names that look like it."""


@dataclass(frozen=True)
class Range:
    """Numbers that a flag takes."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    multiple_of: int = 0
    besides: tuple[float, ...] = ()
    only: tuple[float, ...] = ()

    def holds(self, number: float) -> bool:
        """Whether the number is one of them."""
        if self.only or number in self.besides:
            return number in (*self.only, *self.besides)
        whole = not self.multiple_of or number % self.multiple_of == 0
        within = self.least <= number <= self.most and self.above < number < self.below
        return whole and within

    def words(self) -> str:
        """What follows `a number` in a sentence: ` above 0 and at most 1`."""
        if self.only:
            return f": {_listed(self.only)}"
        bounds = [
            f"{said} {bound:g}"
            for said, bound in (
                ("of at least", self.least),
                ("above", self.above),
                ("at most" if math.isfinite(self.above) else "of at most", self.most),
                ("below", self.below),
            )
            if math.isfinite(bound)
        ]
        if math.isfinite(self.least) and math.isfinite(self.most):
            bounds = [f"from {self.least:g} to {self.most:g}"]
        parts = [" and ".join(bounds)] if bounds else []
        if self.multiple_of:
            parts = [f"that is a multiple of {self.multiple_of}"]
        parts += [f"or {_listed(self.besides)}"] if self.besides else []
        return "".join(f" {part}" for part in parts)


def _listed(numbers: Sequence[float]) -> str:
    """`8, 16 or 32`."""
    *others, last = [f"{number:g}" for number in numbers]
    return f"{', '.join(others)} or {last}" if others else last


_ANY = Range()


@dataclass(frozen=True)
class Option:
    """What the grammar says about one flag."""

    name: str
    type: str
    choices: tuple[str, ...] = ()
    takes: str = "required"
    lists: str = "items"
    suffixes: bool = False
    env: str | None = None
    only_env: bool = False
    range: Range = _ANY


@dataclass(frozen=True)
class Grammar:
    """Flags and style of one engine."""

    engine: str
    options: Mapping[str, Option]
    long: Mapping[str, tuple[str, bool]]
    """Name after two dashes: the option, and whether it is switched on."""
    short: Mapping[str, tuple[str, bool]]
    """Name after one dash, likewise."""
    style: Mapping[str, Any]
    switches: frozenset[str]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Everything else: starts, images, weights, parallel."""

    def find(self, word: str) -> tuple[str, bool] | None:
        """The option that a flag (dashes at the front, no value) names."""
        if word.startswith("--"):
            return self._long(self.dashed(word[2:]))
        name = word[1:]
        found = self.short.get(name)
        return found or (self._long(self.dashed(name)) if self.style["singleDash"] else None)

    def dashed(self, name: str) -> str:
        """A name as the catalog writes it, as far as the engine sees no difference."""
        return name.replace("_", "-") if self.style["underscores"] else name

    def _long(self, name: str) -> tuple[str, bool] | None:
        found = self.long.get(name)
        if found is None and self.style["abbreviations"] and name:
            wanted = {target for known, target in self.long.items() if known.startswith(name)}
            found = wanted.pop() if len(wanted) == 1 else None
        return found

    def near(self, name: str) -> tuple[str, ...]:
        """Up to three flags whose names look like it, one of the same letters first."""
        same = [known for known in self.long if _same_letters(known, name)]
        close = difflib.get_close_matches(name.replace("_", "-"), self.long, n=3, cutoff=0.7)
        return tuple(dict.fromkeys(self.long[known][0] for known in (*same, *close)))[:3]

    @cached_property
    def variables(self) -> tuple[Option, ...]:
        """Options that the environment can set."""
        return tuple(option for option in self.options.values() if option.env)


def _same_letters(name: str, other: str) -> bool:
    """Whether two names differ only in dashes, underscores and capitals, as `maxModelLen` does."""
    first, second = (text.lower().replace("-", "").replace("_", "") for text in (name, other))
    return first == second


@dataclass(frozen=True)
class Flags:
    """What the words behind a program say."""

    given: dict[str, Flag]
    unknown: tuple[UnknownFlag, ...]
    extra: tuple[tuple[int, Word], ...]
    """Words that belong to no flag, with their positions."""
    notes: tuple[str, ...]


def read_flags(grammar: Grammar, words: Sequence[Word], start: int = 0) -> Flags:
    """Flags of a command line; `start` is the position of the first word."""
    return _FlagReader(grammar, words, start).run()


class _FlagReader:
    def __init__(self, grammar: Grammar, words: Sequence[Word], start: int) -> None:
        self.grammar, self.words, self.start = grammar, words, start
        self.at = 0
        self.given: dict[str, Flag] = {}
        self.dotted: dict[str, tuple[dict[str, Any], int]] = {}
        self.unknown: list[UnknownFlag] = []
        self.extra: list[tuple[int, Word]] = []
        self.notes: list[str] = []

    def run(self) -> Flags:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word.text == "--":
                rest = range(self.at, len(self.words))
                self.extra += [(self.start + i, self.words[i]) for i in rest]
                break
            if is_flag(word.text):
                self._flag(word, self.start + self.at - 1)
            else:
                self.extra.append((self.start + self.at - 1, word))
        self._merge()
        return Flags(self.given, tuple(self.unknown), tuple(self.extra), tuple(self.notes))

    # --- one flag --------------------------------------------------------------

    def _flag(self, word: Word, position: int) -> None:
        key, equals, after = word.text.partition("=")
        if not self.grammar.style["equals"]:
            key, equals, after = word.text, "", ""
        value = Word(after, word.unknown, word.bare) if equals else None
        if self.grammar.style["dotted"] and "." in key:
            self._dot(key, value, position)
            return
        found = self.grammar.find(key)
        if found is None and value is None:
            found, value = self._attached(key)
        if found is None:
            self._unknown(key, value, position)
            return
        self._known(self.grammar.options[found[0]], found[1], value, position)

    def _attached(self, key: str) -> tuple[tuple[str, bool] | None, Word | None]:
        """`-n2` and `-O3`: a value right behind a flag of one letter."""
        found = self.grammar.short.get(key[1:2]) if not key.startswith("--") else None
        if found is None or len(key) < 3 or self.grammar.options[found[0]].takes == "none":
            return None, None
        return found, Word(key[2:])

    def _unknown(self, key: str, value: Word | None, position: int) -> None:
        if value is None and self._next_is_value():
            value = self._take()
        raw = None if value is None else value.text
        name = key.lstrip("-")
        self.unknown.append(UnknownFlag(name, raw, position, self.grammar.near(name)))

    def _known(self, option: Option, on: bool, value: Word | None, position: int) -> None:
        if not on:
            if value is not None:
                self.notes.append(f"--no-{option.name} takes no value")
            self._give(option, False, None, position)
        elif option.type == "list":
            self._list(option, value, position)
        elif option.type == "flag":
            self._switch(option, value, position)
        else:
            self._single(option, value, position)

    def _switch(self, option: Option, value: Word | None, position: int) -> None:
        required = option.takes == "required"
        optional = option.takes == "optional"
        if value is None and (required or optional) and self._next_is_value():
            value = self._take()
        elif value is None and self._next_is_boolean():
            value = self._take()  # A switch has no value, whatever somebody gives it.
        if value is None:
            self._give(option, True, None, position)
            return
        if option.takes == "none":
            self.notes.append(f"--{option.name} takes no value, found {value.text}")
        self._give(option, _boolean(value, optional), value.text, position)

    def _single(self, option: Option, value: Word | None, position: int) -> None:
        if value is None and (option.takes == "required" or self._next_is_value()):
            value = self._take_any()
        if value is None:
            self.notes.append(f"--{option.name} has no value")
            return
        typed, problem = convert(option, value)
        if problem:
            self.notes.append(problem)
        self._give(option, typed, value.text, position)

    def _list(self, option: Option, value: Word | None, position: int) -> None:
        items = [value] if value is not None else []
        if value is None:
            while self._next_is_value():
                items.append(self._take())
                if option.lists != "items":
                    break
        if not items:
            self.notes.append(f"--{option.name} has no value")
        given: list[Any] = [part for item in items for part in _items(item, option.lists)]
        before = self.given.get(option.name)
        if option.lists == "repeat" and before and isinstance(before.value, list):
            given = [*before.value, *given]
            self.given.pop(option.name)
        raw = " ".join(item.text for item in items)
        self._give(option, given, raw, position)

    def _give(self, option: Option, value: Value, raw: str | None, position: int) -> None:
        if option.name in self.given:
            self.notes.append(f"--{option.name} is given twice; the last counts")
        self.given[option.name] = Flag(option.name, value, raw, position)

    # --- words behind a flag ---------------------------------------------------

    def _next_is_value(self) -> bool:
        return self.at < len(self.words) and not is_flag(self.words[self.at].text)

    def _next_is_boolean(self) -> bool:
        return self._next_is_value() and self.words[self.at].text.lower() in ("true", "false")

    def _take(self) -> Word:
        self.at += 1
        return self.words[self.at - 1]

    def _take_any(self) -> Word | None:
        """The next word; a flag is no value, except for engines that look no further."""
        if self.at >= len(self.words):
            return None
        greedy = not self.grammar.style["equals"]
        return self._take() if greedy or self._next_is_value() else None

    # --- JSON in pieces --------------------------------------------------------

    def _dot(self, key: str, value: Word | None, position: int) -> None:
        base, *path = key.split(".")
        found = self.grammar.find(base)
        if value is None:
            value = self._take() if self.at < len(self.words) else Word("")
        if found is None or not found[1]:
            name = key.lstrip("-")
            near = self.grammar.near(base.lstrip("-"))
            self.unknown.append(UnknownFlag(name, value.text, position, near))
            return
        name = found[0]
        if path[-1].endswith("+"):
            path[-1] = path[-1][:-1]
            piece: Any = value.text.split(",")
        else:
            piece = _json_piece(value)
        tree, first = self.dotted.get(name, ({}, position))
        _graft(tree, path, piece)
        self.dotted[name] = (tree, first)

    def _merge(self) -> None:
        """Pieces replace what `--flag '{…}'` says, wherever they stand: so does vLLM."""
        for name, (tree, position) in self.dotted.items():
            if name in self.given:
                self.notes.append(f"--{name}.… replaces the whole of --{name}")
            self.given[name] = Flag(name, tree, None, position)


def is_flag(text: str) -> bool:
    """`--x` and `-x`, but not `-`, `-1` and `-0.5`."""
    return len(text) > 1 and text[0] == "-" and not re.fullmatch(r"-\d*\.?\d+", text)


# --- values --------------------------------------------------------------------

_TRUE = frozenset({"true", "1", "yes", "on", "t"})
_FALSE = frozenset({"false", "0", "no", "off", "f"})
_SCALE = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def convert(option: Option, word: Word) -> tuple[Value, str | None]:
    """A value of the option's type, and what is wrong with it if it has not that type."""
    if word.unknown:
        return Unresolved(word.text, word.unknown), None
    typed = _typed(option, word.text)
    if typed is not None:
        outside = isinstance(typed, int | float) and not option.range.holds(typed)
        return typed, _unwanted(option, word.text, option.range.words()) if outside else None
    if option.type in _WANTED:
        return word.text, _unwanted(option, word.text)
    if option.choices and word.text not in option.choices:
        several = ", ".join(option.choices)
        return word.text, f"--{option.name} wants one of {several}, found {word.text}"
    return word.text, None


_WANTED = {"integer": "a whole number", "number": "a number", "json": "JSON"}


def _unwanted(option: Option, text: str, which: str = "") -> str:
    return f"--{option.name} wants {_WANTED[option.type]}{which}, found {text or 'nothing'}"


def _typed(option: Option, text: str) -> Value | None:
    match option.type:
        case "integer":
            return _integer(text, option.suffixes)
        case "number":
            return _number(text)
        case "json":
            return _json(text)
        case _:
            return None


def _integer(text: str, suffixes: bool) -> int | None:
    text = text.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return int(text)
    if not suffixes:
        return None
    if text == "auto":
        return -1
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([kKmMgGtT])", text)
    if match is None:
        return None
    if match[2] in _SCALE:
        return int(float(match[1]) * _SCALE[match[2]])
    return int(match[1]) * _BINARY[match[2]] if match[1].isdigit() else None


def _number(text: str) -> float | int | None:
    whole = _integer(text, False)
    if whole is not None:
        return whole
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _json(text: str) -> Value | None:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json_piece(word: Word) -> Any:
    if word.unknown:
        return Unresolved(word.text, word.unknown)
    value = _json(word.text)
    if value is None and word.text != "null":
        value = _integer(word.text, True) if word.text != "auto" else None
        return word.text if value is None else value
    return value


def _graft(tree: dict[str, Any], path: Sequence[str], piece: Any) -> None:
    """Put a piece under its path; lists grow, objects merge, anything else is replaced."""
    for key in path[:-1]:
        below = tree.get(key)
        if not isinstance(below, dict):
            below = tree[key] = {}
        tree = below  # pyright: ignore[reportUnknownVariableType]
    last = path[-1]
    if isinstance(tree.get(last), list) and isinstance(piece, list):
        tree[last] = [*tree[last], *piece]
    else:
        tree[last] = piece


def _boolean(word: Word, or_text: bool) -> Value:
    if word.unknown:
        return Unresolved(word.text, word.unknown)
    lower = word.text.lower()
    if lower in _FALSE:
        return False
    return word.text if or_text and lower not in _TRUE else lower in _TRUE or word.text


def _items(word: Word, lists: str) -> Iterator[Any]:
    if word.unknown:
        yield Unresolved(word.text, word.unknown)
    elif lists == "comma":
        yield from word.text.split(",")
    elif lists == "joined":
        yield from word.text.split()
    else:
        yield word.text


# --- writing -------------------------------------------------------------------


def write_flags(grammar: Grammar, flags: Mapping[str, Value | None]) -> tuple[str, ...]:
    """Words for flags, in the engine's own spelling; None leaves a flag out.

    Raises:
        KeyError: the engine has no such flag.
    """
    return tuple(
        word
        for name, value in flags.items()
        if value is not None
        for word in _written(grammar, grammar.options[name], value)
    )


def _written(grammar: Grammar, option: Option, value: Value) -> list[str]:
    if isinstance(value, bool) and option.type == "flag":
        return _written_switch(grammar, option, value)
    if isinstance(value, list) and option.type == "list":
        return _written_list(grammar, option, [_text(item) for item in value])
    return _joined(grammar, option, _text(value))


def _written_switch(grammar: Grammar, option: Option, value: bool) -> list[str]:
    name = spelled(grammar, option.name)
    if option.takes == "required":
        return _joined(grammar, option, _text(value))
    if value:
        return [name]
    if grammar.style["off"] == "value" and option.takes != "none":
        return _joined(grammar, option, "false")
    negative = negative_of(grammar, option)
    return [spelled(grammar, negative)] if negative else []


def negative_of(grammar: Grammar, option: Option) -> str | None:
    """The name that switches the option off, if it has one."""
    names = (name for name, target in grammar.long.items() if target == (option.name, False))
    return next(names, None)


def spoken(grammar: Grammar, flags: Mapping[str, V]) -> dict[str, V | bool | str]:
    """Flags for a writer that knows the engine's style and no single option.

    A switch that is off is written in the style's way, or as the flag that says so, or left out
    where there is neither: then off is what the engine does by itself.
    """
    found: dict[str, V | bool | str] = {}
    for name, value in flags.items():
        target = grammar.long.get(name)
        option = grammar.options[target[0]] if target else None
        if option is not None and isinstance(value, list) and option.type != "list":
            found[name] = json.dumps(value, separators=(",", ":"))
        elif option is None or not isinstance(value, bool):
            found[name] = value
        elif option.type != "flag" or option.takes == "required":
            found[name] = _worded(option, value)
        else:
            found |= _spoken_switch(grammar, option, name, value)
    return found


def _worded(option: Option, value: bool) -> str:
    """`on` in YAML is true; some engines want it said as it was written."""
    if {"on", "off"} <= set(option.choices):
        return "on" if value else "off"
    return _text(value)


def _spoken_switch(grammar: Grammar, option: Option, name: str, value: bool) -> dict[str, bool]:
    styled = {"no-prefix": f"no-{name}" in grammar.long, "value": option.takes != "none"}
    if value or styled.get(grammar.style["off"], False):
        return {name: value}
    negative = negative_of(grammar, option)
    return {negative: True} if negative else {}


def misread(grammar: Grammar, name: str, value: Value) -> str | None:
    """Why the engine would not take a flag's value as it is meant; None where it would, or has no
    such flag."""
    option = grammar.options.get(grammar.long.get(name, (name, True))[0])
    if option is None:
        return None
    if option.only_env:
        return convert(option, Word(_text(value)))[1]
    if option.type != "flag" and isinstance(value, bool):
        value = _worded(option, value)
    if option.type == "flag" and not isinstance(value, bool):
        return f"--{option.name} is on or off, found {_text(value)}"
    if isinstance(value, list) and len(value) > 1 and option.lists != grammar.style["lists"]:
        return f"--{option.name} is written once a value, and charts write it once"
    read = read_flags(grammar, [Word(word) for word in _written(grammar, option, value)])
    if read.notes or read.unknown or read.extra:
        return (*read.notes, f"--{option.name} takes one value")[0]
    return None


def _written_list(grammar: Grammar, option: Option, items: list[str]) -> list[str]:
    if not items:
        return []
    if option.lists == "items":
        return [spelled(grammar, option.name), *items]
    if option.lists == "repeat":
        return [word for item in items for word in _joined(grammar, option, item)]
    return _joined(grammar, option, ("," if option.lists == "comma" else " ").join(items))


def _joined(grammar: Grammar, option: Option, text: str) -> list[str]:
    name = spelled(grammar, option.name)
    return [f"{name}={text}"] if grammar.style["separator"] == "equals" else [name, text]


def spelled(grammar: Grammar, name: str) -> str:
    """`tp-size` as `--tp-size`, or `--tp_size` where the engine writes it so."""
    if name not in grammar.long:
        return f"-{name}"
    return "--" + (name.replace("-", "_") if grammar.style["written"] == "underscores" else name)


def _text(value: Value) -> str:
    if isinstance(value, str | Unresolved):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return (
        json.dumps(value, separators=(",", ":")) if isinstance(value, list | dict) else str(value)
    )


# --- grammars ------------------------------------------------------------------


@cache
def grammars() -> Mapping[str, Grammar]:
    """The grammar of each engine, from `grammar.json`."""
    data: dict[str, Any] = json.loads(Path(__file__).with_name("grammar.json").read_text())
    return {name: grammar_of(name, facts) for name, facts in data.items()}


def grammar_of(engine: str, facts: Mapping[str, Any]) -> Grammar:
    """A grammar from its JSON form."""
    style, switches = facts["style"], frozenset[str](facts["switches"])
    options: dict[str, Option] = {}
    long: dict[str, tuple[str, bool]] = {}
    short: dict[str, tuple[str, bool]] = {}
    ranges = _ranges(facts["ranges"])
    for name, item in facts["options"].items():
        option = _option(name, item, style, ranges.get(name, _ANY))
        options[name] = option
        if option.only_env:
            continue
        long[name] = (name, True)
        for other in item.get("aliases", ()):
            (short if len(other) == 1 else long)[other] = (name, True)
        for other in item.get("short", ()):
            short[other] = (name, True)
        for other in _negatives(option, item, style, switches):
            long[other] = short[other] = (name, False)
    return Grammar(engine, options, long, short, style, switches, facts)


def _ranges(groups: Sequence[Mapping[str, Any]]) -> dict[str, Range]:
    """The range of each flag that has one."""
    found: dict[str, Range] = {}
    for group in groups:
        bounds = {key: group[key] for key in ("least", "most", "above", "below") if key in group}
        made = Range(
            **bounds,
            multiple_of=group.get("multipleOf", 0),
            besides=tuple(group.get("besides", ())),
            only=tuple(group.get("only", ())),
        )
        found |= dict.fromkeys(group["flags"], made)
    return found


def _negatives(
    option: Option, item: Mapping[str, Any], style: Mapping[str, Any], switches: frozenset[str]
) -> tuple[str, ...]:
    given = tuple(item.get("negatives", ()))
    implied = style["off"] == "no-prefix" and option.type == "flag" and option.takes == "none"
    return (*given, f"no-{option.name}") if implied and option.name not in switches else given


def _option(name: str, item: Mapping[str, Any], style: Mapping[str, Any], numbers: Range) -> Option:
    kind = item["type"]
    return Option(
        name,
        kind,
        tuple(item.get("choices", ())),
        item.get("takes") or ("none" if kind == "flag" else "required"),
        item.get("lists") or style["lists"],
        bool(item.get("suffixes")),
        item.get("env"),
        bool(item.get("onlyEnv")),
        numbers,
    )
