"""Values: closed at every level, every one of them used, and rendered the same way each time."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.charts.rendering import NAMES, Helm, Values, bases, defaults
from tokenworks.render.chart_files import resolve, rows, schema, stale
from tokenworks.spec.values import CHARTS

pytestmark = pytest.mark.helm
Path = tuple[str | int, ...]
_NAMED = (
    re.compile(r"^(roles|tenants|flavors|engine\.secretEnv)\.[^.<]+"),
    re.compile(r"^(lora\.adapters)\.[^.<]+"),
    re.compile(r"^(roles\.<name>\.ports|tenants\.<name>\.pools)\.[^.<]+"),
)
"""Maps whose keys are names of the user's, with fields of their own below."""


def general(path: str) -> str:
    """`roles.<name>.replicas` for `roles.prefill.replicas`; positions in lists left out."""
    path = re.sub(r"\.\d+", "", path)
    for pattern in _NAMED:
        path = pattern.sub(r"\1.<name>", path)
    return path


def accepted(chart: str, values: Values) -> bool:
    """Whether the Python type takes the values."""
    try:
        CHARTS[chart].model_validate(values)
    except ValidationError:
        return False
    return True


def at(values: Any, path: Path) -> Any:
    for part in path:
        values = values[part]
    return values


def changed(values: Values, path: Path, edit: Callable[[Any, Any], None]) -> Values:
    """A copy in which `edit(parent, last key)` was called."""
    result = copy.deepcopy(values)
    edit(at(result, path[:-1]), path[-1])
    return result


def with_value(values: Values, path: Path, value: Any) -> Values:
    return changed(values, path, lambda parent, key: parent.__setitem__(key, value))


def walk(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below, with its path; containers too."""
    pairs: Any = ()
    if isinstance(node, dict):
        pairs = node.items()
    elif isinstance(node, list):
        pairs = enumerate(node)
    for key, value in pairs:
        yield (*path, key), value
        yield from walk(value, (*path, key))


def shown(path: Path) -> str:
    return ".".join(str(part) for part in path)


# Fresh and closed


def test_generated_files_are_fresh() -> None:
    assert stale() == []


def closed(node: Any) -> Iterator[str]:
    """Objects that neither name all their properties nor say what others must be."""
    if isinstance(node, list):
        for item in node:
            yield from closed(item)
    elif isinstance(node, dict):
        is_object = node.get("type") == "object" and {"properties", "patternProperties"} & set(node)
        if is_object and node.get("additionalProperties") is not False:
            yield str(node.get("description"))
        for value in node.values():
            yield from closed(value)


@pytest.mark.parametrize("chart", NAMES)
def test_every_object_of_the_schema_is_closed(chart: str) -> None:
    assert [d for d in closed(schema(CHARTS[chart])) if "not used" not in d] == []


@pytest.mark.parametrize("chart", NAMES)
def test_every_field_is_described(chart: str) -> None:
    root = schema(CHARTS[chart])
    assert [key for key, _, _, meaning in rows(root, root, {}) if not meaning] == []


@pytest.mark.parametrize("chart", NAMES)
def test_the_bases_give_every_field_a_value(chart: str) -> None:
    """Or the tests below would leave fields out."""
    root = schema(CHARTS[chart])
    given = {general(shown(path)) for base in bases(chart) for path, _ in walk(base)}
    assert [key for key, *_ in rows(root, root, {}) if key not in given] == []


def rendered(charts: Helm, chart: str, cases: Sequence[tuple[str, Values]]) -> list[Any]:
    """What helm says to each of the values; several at once, because most of it is waiting."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda case: charts.template(chart, case[1]), cases))


# Misspelt, missing, null


def misspelt(chart: str, base: Values) -> Iterator[tuple[str, Values]]:
    """The values with one key more, once at every level that is closed."""
    maps: list[Path] = [(), *(path for path, value in walk(base) if isinstance(value, dict))]
    for path in maps:
        for key in at(base, path):
            wrong = f"{key}x"
            values = with_value(base, (*path, wrong), copy.deepcopy(at(base, (*path, key))))
            if not accepted(chart, values):
                yield shown((*path, wrong)), values
                break


@pytest.mark.slow
@pytest.mark.parametrize("chart", NAMES)
def test_a_misspelt_value_fails_at_every_level(chart: str, charts: Helm) -> None:
    cases: dict[str, tuple[str, Values]] = {}
    for base in bases(chart):
        for path, values in misspelt(chart, base):
            cases.setdefault(general(path).rpartition(".")[0], (path, values))
    root = schema(CHARTS[chart])
    expected = {key.rpartition(".")[0] for key, *_ in rows(root, root, {})}
    assert expected <= set(cases), "a level was not tried"
    tried = list(cases.values())
    for (path, _), done in zip(tried, rendered(charts, chart, tried), strict=True):
        assert done.returncode != 0, f"{path} was taken"
        assert path.rpartition(".")[2] in done.stderr, f"{path} is not named"


def nullable(chart: str) -> set[str]:
    """Fields that may be null."""

    def names(node: Any, path: str) -> Iterator[str]:
        for key, raw in node["properties"].items():
            if any(c.get("type") == "null" for c in raw.get("anyOf", ())):
                yield path + key
            child = resolve(raw, root)
            if "properties" in child:
                yield from names(child, f"{path}{key}.")

    root = schema(CHARTS[chart])
    return set(names(root, ""))


def nulled(name: str) -> Values:
    values: Any = None
    for part in reversed(name.split(".")):
        values = {"engine" if part == "<name>" else part: values}
    return values


def first_of_each_level(names: Iterable[str]) -> set[str]:
    return {next(group) for _, group in groupby(names, key=lambda name: name.rpartition(".")[0])}


@pytest.mark.slow
@pytest.mark.parametrize("chart", NAMES)
def test_null_fails_where_a_value_is_needed(chart: str, charts: Helm) -> None:
    root, optional = schema(CHARTS[chart]), nullable(chart)
    names = [key for key, *_ in rows(root, root, {}) if key.partition(".")[0] not in optional]
    needed = first_of_each_level(name for name in names if name not in optional)
    sections = {name.partition(".")[0] for name in names}
    cases = [(name, nulled(name)) for name in sorted(needed | sections)]
    done = rendered(charts, chart, cases)
    assert [n for (n, _), d in zip(cases, done, strict=True) if d.returncode == 0] == []


def without(chart: str, name: str) -> Values:
    """Values in which the field alone is null, and everything around it is given."""
    wanted = name.split(".")
    for base in bases(chart):
        for path, _ in walk(base):
            if shown(path).split(".") == wanted:
                return with_value(base, path, None)
    return nulled(name)


@pytest.mark.slow
@pytest.mark.parametrize("chart", NAMES)
def test_null_removes_what_may_be_absent(chart: str, charts: Helm) -> None:
    cases = [(name, without(chart, name)) for name in sorted(nullable(chart))]
    done = rendered(charts, chart, cases)
    refused = [(n, d.stderr) for (n, _), d in zip(cases, done, strict=True) if d.returncode != 0]
    # An image may lack its tag or its digest, not both; a kind of weights needs its own field.
    unexpected = [
        (n, e) for n, e in refused if "has neither tag nor digest" not in e and "needs it" not in e
        and "needs a limit" not in e
    ]  # fmt: skip
    assert unexpected == []


# Used


CANDIDATES: tuple[Any, ...] = (
    True, False, "other", "Other/1", "OTHER", "77s", "3Gi", "/other", "7", "10.0.0.0/8",
    "sha256:" + "cd" * 32, "unresolved", "FailOpen", "ClusterIP", "LoadBalancer", "Exists",
    "Equal", "NoExecute", "docker.io/other/image", "other.example", "none", "ephemeral", "pvc",
    "space", "equals", "omit", "no-prefix", "repeat", "items", "underscores", "dashes", "role",
    "release", "leader", "http", "native", "RoleBasedGroup", "start", "sidecar", "hf://other/one",
    "0123456789abcdef0123456789abcdef01234567",
)  # fmt: skip


def variants(chart: str, base: Values) -> Iterator[tuple[str, Values]]:
    """For every value of `base` one copy in which it alone is another valid one."""
    for path, old in walk(base):
        for new in alternatives(old):
            values = with_value(base, path, new)
            if accepted(chart, values):
                yield shown(path), values
                break
        else:
            raise AssertionError(f"no other valid value was found for {shown(path)}")


def alternatives(old: Any) -> Iterator[Any]:
    if isinstance(old, bool):
        yield not old
    elif isinstance(old, int | float):
        yield from (old + 1, old - 1)
    elif isinstance(old, str):
        yield from (c for c in CANDIDATES if c != old)
    elif isinstance(old, list):
        yield from ([*old, more] for more in (*old[:1], "other", 4321, {"key": "other"}))
    else:
        fillers = (*list(old.values())[:1], "other", 1, {"secret": "a", "key": "b"})
        yield from ({**old, key: more} for key in ("other", "OTHER") for more in fillers)
        yield {**old, "tag": "other"}
        # A closed map whose fields are all given: its leaves are tried one by one.
        yield {key: value for key, value in old.items() if key in ("repository", "digest")} or old
        yield old


@pytest.mark.slow
@pytest.mark.parametrize("chart", NAMES)
def test_each_value_changes_the_output(chart: str, charts: Helm) -> None:
    used: set[str] = set()
    seen: set[str] = set()
    for base in bases(chart):
        before = charts.text(chart, base)
        cases = [case for case in variants(chart, base) if case[0] not in used and case[1] != base]
        for (path, _), done in zip(cases, rendered(charts, chart, cases), strict=True):
            seen.add(path)
            # Refusing a value is using it.
            if done.returncode != 0 or done.stdout != before:
                used.add(path)
    assert sorted(seen - used) == []


# Rendered


def test_integers_stay_integers_from_a_values_file(charts: Helm) -> None:
    flags = "engine: {flags: {max-model-len: 10000000, big: 1234567890123, map: {size: 2000000}}}"
    arguments = charts.objects("model", flags).container()["args"]
    assert "--max-model-len=10000000" in arguments
    assert "--big=1234567890123" in arguments
    assert '--map={"size":2000000}' in arguments
    text = charts.text("gateway", "limits: {maxRequestBytes: 104857600, maxConnections: 1000000}")
    assert "e+0" not in text
    start = {"timing": {"startSeconds": 604800}, "roles": {"engine": {"replicas": 1000}}}
    assert "e+0" not in charts.text("model", start)


@pytest.mark.slow
@pytest.mark.parametrize("chart", NAMES)
def test_rendering_twice_gives_the_same_bytes(chart: str, charts: Helm) -> None:
    for base in bases(chart):
        assert charts.text(chart, base) == charts.text(chart, base)


@pytest.mark.parametrize("chart", NAMES)
def test_values_yaml_says_what_the_renderer_would(chart: str, charts: Helm) -> None:
    assert charts.text(chart) == charts.text(chart, defaults(chart))


def empty(node: Any, path: Path = ()) -> Iterator[str]:
    """Lists, maps and nulls without content, which the API server may drop: then they differ."""
    for where, value in walk(node, path):
        if value is None or value in ([], {}):
            yield shown(where)


@pytest.mark.slow
@pytest.mark.parametrize("chart", NAMES)
def test_nothing_is_rendered_that_the_api_server_would_drop(chart: str, charts: Helm) -> None:
    for base in ({}, *bases(chart)):
        for item in charts.objects(chart, base).all:
            found = [path for path in empty(item) if path != "spec.podSelector"]
            # A flavor for nodes without labels and taints has nothing to say.
            assert found == [], f"{item['kind']} {item['metadata']['name']}"


# Exactly what was given

MISLEADING = (
    "no", "on", "off", "y", "n", "true", "null", "NO", "ON", "Y", "NULL", "TRUE",
    "123", "017", "0x1f", "1e3", "1.0", "1_0",
    "2026-11-29", "12:30", "-", "--", "~", "=", "<<", ".inf", "/a:", "/#", "::/0", "a: b", "# c",
    "a\nb\n", "x\r\ny", "\t", " a ", "'", '"', "\\", "{{ x }}", "{a", "[a", "*a", "&a", "!a",
    "@a", "`a", "%a", "|", ">", "? a", ":", "é", "😀", "\u2028", "\x7f", "\x85", "\ufeff", "",
)  # fmt: skip
"""Text that YAML, templates or their readers take for something else when it stands bare."""


BARE = ("no", "null", "NO", "TRUE", "123", "1e3", "2026-11-29", "-", "/a:", "::/0")
"""Those of them that names, keys, paths, headers and addresses may be."""
FREE = {"command", "arguments", "flags", "env", "metrics"}
"""Fields that take any text: see the test of flags and variables."""
CHOOSING = {"kind", "digest", "tag", "filledFlags", "resources", "nominal"}
"""Fields that decide what is rendered."""


def given_everywhere(chart: str, base: Values, text: str) -> Values:
    """The values with the text wherever they take it, as a value and as one more key."""
    values = base
    for path, old in walk(base):
        if (FREE | CHOOSING) & set(path):
            continue
        tried = values
        if isinstance(old, str):
            tried = with_value(values, path, text)
        elif isinstance(old, dict) and old:
            first = next(iter(at(values, path).values()))
            tried = with_value(values, path, {**at(values, path), text: copy.deepcopy(first)})
        values = tried if accepted(chart, tried) else values
    return values


def kinds(output: str) -> set[tuple[str, ...]]:
    """Kind of object, path and type of each scalar; positions in lists are left out."""
    return {
        (item["kind"], *(str(p) for p in path if isinstance(p, str)), type(value).__name__)
        for item in yaml.safe_load_all(output)
        if item
        for path, value in walk(item)
        if not isinstance(value, dict | list)
    }


def odd_keys(output: str) -> list[Path]:
    """Keys that are no text."""
    every = (path for item in yaml.safe_load_all(output) if item for path, _ in walk(item))
    return [p for p in every if not isinstance(p[-1], str | int) or isinstance(p[-1], bool)]


@pytest.mark.slow
@pytest.mark.parametrize("chart", NAMES)
def test_text_stays_text(chart: str, charts: Helm) -> None:
    """Nothing turns into a boolean, a number, null or another structure on its way."""
    base = bases(chart)[0]
    tried = [(text, given_everywhere(chart, base, text)) for text in BARE]
    cases = [case for case in tried if case[1] != base]
    expected = kinds(charts.text(chart, base))
    for (text, _), done in zip(cases, rendered(charts, chart, cases), strict=True):
        assert done.returncode == 0, f"{text!r}: {done.stderr}"
        assert odd_keys(done.stdout) == [], repr(text)
        assert {k for k in kinds(done.stdout) if text not in k} - expected == set(), repr(text)
    assert len(cases) >= 4


def test_flags_and_variables_arrive_as_they_were_given(charts: Helm) -> None:
    flags = {f"flag-{n}": text for n, text in enumerate(MISLEADING)}
    variables = {f"VARIABLE_{n}": text for n, text in enumerate(MISLEADING)}
    words = list(MISLEADING)
    engine = {
        "command": ["run", *words],
        "arguments": words,
        "flags": {**flags, "list": words, "map": {text: text for text in words}},
        "env": variables,
    }
    pod = charts.objects("model", {"engine": engine}).container()
    assert pod["command"] == ["run", *words]
    assert pod["args"][: len(words)] == words
    given = {
        a.partition("=")[0]: a.partition("=")[2] for a in pod["args"] if a.startswith("--flag-")
    }
    assert given == {f"--{name}": text for name, text in flags.items()}
    (as_json,) = [a.partition("=")[2] for a in pod["args"] if a.startswith("--map=")]
    assert json.loads(as_json) == {text: text for text in words}
    start = pod["args"].index("--list") + 1
    assert pod["args"][start : start + len(words)] == words
    assert {e["name"]: e["value"] for e in pod["env"] if e["name"] in variables} == variables
