"""Every flag of every engine, on its way from a document through the chart to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.charts.rendering import Helm, defaults, merged
from tokenworks.catalog.engines import load_engines
from tokenworks.catalog.flags import Grammar, Option, Value, grammars, negative_of, read_flags
from tokenworks.catalog.shell import Word
from tokenworks.render.command import settle

pytestmark = pytest.mark.helm
ENGINES = sorted(set(load_engines().engines) - {"ollama"})
_NUMBERS = {"integer": (12345678901, 12345678896, 1024, 64, 8), "number": (0.5, 1.5)}
"""Of each kind the first is taken that the flag takes: large ones, which templates spoil."""
_VALUES: Mapping[str, Any] = {
    "text": "some text=of 'it'",
    "json": {"a": [1, 2.5, True, None], "b": {"c": "d"}},
    "list": ["one", "two"],
}


def value_of(option: Option) -> Any:
    """A value of the option's type."""
    if option.type == "choice":
        return option.choices[0]
    if option.type in _NUMBERS:
        return next(number for number in _NUMBERS[option.type] if option.range.holds(number))
    value = _VALUES[option.type]
    # What the style of an engine's lists cannot say is refused: see tests/catalog.
    return value[:1] if isinstance(value, list) and option.lists == "repeat" else value


def through_the_chart(charts: Helm, engine: str, flags: Mapping[str, Any]) -> list[str]:
    """The words that a container of the engine gets for the flags."""
    written, _ = settle(engine, flags)
    base = defaults("model")
    style = load_engines().engine(engine).style
    values = {
        "engine": {
            # Nothing of the chart's own flags.
            "arguments": [],
            "flags": {**dict.fromkeys(base["engine"]["flags"]), **written},
            "style": {
                "separator": style.separator,
                "off": style.off,
                "lists": style.lists,
                "words": style.written,
            },
            "filledFlags": {"servedName": None, "port": None, "drain": None},
        }
    }
    container = charts.objects("model", merged(base, values)).container()
    return container.get("args", [])


def read(engine: str, words: list[str]) -> dict[str, Value]:
    found = read_flags(grammars()[engine], [Word(word) for word in words])
    assert (found.unknown, found.extra, found.notes) == ((), (), ())
    return {name: flag.value for name, flag in found.given.items()}


def options(engine: str, *, switches: bool) -> dict[str, Option]:
    every = grammars()[engine].options
    return {
        name: option
        for name, option in every.items()
        if not option.only_env and (option.type == "flag") == switches
    }


def can_be_off(grammar: Grammar, option: Option) -> bool:
    by_value = grammar.style["off"] == "value" and option.takes != "none"
    return option.takes == "required" or by_value or negative_of(grammar, option) is not None


@pytest.mark.parametrize("engine", ENGINES)
def test_every_value_arrives(engine: str, charts: Helm) -> None:
    wanted = {name: value_of(o) for name, o in options(engine, switches=False).items()}
    assert read(engine, through_the_chart(charts, engine, wanted)) == wanted


def test_a_list_is_json_where_the_engine_reads_json(charts: Helm) -> None:
    name = next(n for n, o in options("vllm", switches=False).items() if o.type == "json")
    wanted = {name: [1, {"a": "b"}]}
    assert read("vllm", through_the_chart(charts, "vllm", wanted)) == wanted


@pytest.mark.parametrize(("value", "word"), [(True, "on"), (False, "off"), ("auto", "auto")])
def test_on_is_a_word_where_the_engine_wants_one(
    value: bool | str, word: str, charts: Helm
) -> None:
    words = through_the_chart(charts, "llamacpp", {"flash-attn": value})
    assert read("llamacpp", words) == {"flash-attn": word}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("on", [True, False])
def test_every_switch_arrives(engine: str, on: bool, charts: Helm) -> None:
    known = options(engine, switches=True)
    words = through_the_chart(charts, engine, dict.fromkeys(known, on))
    sayable = {n for n, o in known.items() if on or can_be_off(grammars()[engine], o)}
    assert read(engine, words) == dict.fromkeys(sayable, on)
