"""Numbers, nulls, misspelt names and arguments that templates would bend, in every topology."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.charts.rendering import Helm, Objects
from tests.fieldnotes.view import Pod, pods_of
from tests.matrix.cells import Cell
from tests.matrix.rendering import values_of
from tokenworks.catalog.engines import load_engines
from tokenworks.spec.values import RoleValues

pytestmark = pytest.mark.helm

BIG = 100_000_000
TOPOLOGIES = ("group", "group-ray", "wide-ep", "split", "split-router", "split-rbg")
Values = dict[str, Any]


@pytest.fixture(scope="module")
def chart(helm: Path) -> Helm:
    return Helm(helm)


def cell(topology: str, engine: str = "vllm") -> Cell:
    """A cell with everything else as it comes."""
    return Cell(engine, played=False, topology=topology, network="-", cache="-")


def maps(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every map of the values, by its path."""
    if isinstance(node, dict):
        yield path
        for key, part in node.items():
            yield from maps(part, (*path, key))


def roles(values: Values) -> list[Values]:
    """Values of every role; null takes the chart's own away."""
    return [role for role in values["roles"].values() if role is not None]


def at(values: Values, path: Sequence[str]) -> Values:
    """The map there."""
    for part in path:
        values = values[part]
    return values


@pytest.mark.fieldnote(31)
class TestBigIntegers:
    """100000000 is not 1e+08."""

    @pytest.mark.parametrize("engine", load_engines().engines)
    def test_flags_of_every_engine_stay_whole(self, engine: str, chart: Helm) -> None:
        mine = cell("single", engine)
        values = values_of(mine)
        values["engine"]["flags"] = {**values["engine"]["flags"], "big": BIG}
        for pod in pods_of(mine, chart.objects("model", values)):
            assert any(str(BIG) in word for word in pod.engine["args"]), pod
            assert not any("e+" in word for word in pod.engine["args"]), pod

    @pytest.mark.parametrize("topology", TOPOLOGIES)
    def test_flags_of_every_role_stay_whole(self, topology: str, chart: Helm) -> None:
        mine = cell(topology)
        values = values_of(mine)
        for role in roles(values):
            role["flags"] = {**role["flags"], "big": BIG, "json": {"n": BIG, "f": 1.5}}
        for pod in pods_of(mine, chart.objects("model", values)):
            if pod.engine.get("args"):
                assert f"--big={BIG}" in pod.engine["args"], pod
                (text,) = [a for a in pod.engine["args"] if a.startswith("--json=")]
                assert json.loads(text.removeprefix("--json=")) == {"n": BIG, "f": 1.5}, pod
                assert f'"n":{BIG}' in text, pod


@pytest.mark.fieldnote(32)
class TestNullOverrides:
    """Null and absent are the same, whatever Helm makes of null."""

    @pytest.mark.parametrize("topology", TOPOLOGIES)
    def test_what_may_be_absent_may_be_null(self, topology: str, chart: Helm) -> None:
        values = values_of(cell(topology))
        nulled = copy.deepcopy(values)
        may_be_null = [
            field.alias or name
            for name, field in RoleValues.model_fields.items()
            if not field.is_required() and field.default is None
        ]
        absent = 0
        for role in roles(nulled):
            for name in may_be_null:
                absent += name not in role
                role.setdefault(name, None)
        assert absent
        assert chart.objects("model", nulled).all == chart.objects("model", values).all


@pytest.mark.fieldnote(34)
class TestMisspeltValues:
    """A field that nobody reads is an error, at every level of every topology."""

    @pytest.mark.parametrize("topology", TOPOLOGIES)
    def test_a_misspelt_field_is_refused(self, topology: str, chart: Helm) -> None:
        values = values_of(cell(topology))
        free = {
            "flags", "env", "labels", "annotations", "devices", "nodeSelector", "config",
            "secretEnv", "podLabels", "ports", "roles", "files",
        }  # fmt: skip
        closed = [path for path in maps(values) if not free & set(path[-1:])]
        deepest = [p for p in closed if not free - {"roles"} & set(p)]
        assert len(deepest) > 10
        misspelt = copy.deepcopy(values)
        for path in deepest:
            at(misspelt, path)["misspelt"] = 1
        done = chart.template("model", misspelt)
        assert done.returncode != 0
        for path in deepest:
            where = f"at '/{'/'.join(path)}'" if path else "at ''"
            assert f"{where}: additional properties 'misspelt' not allowed" in done.stderr, path


@pytest.mark.fieldnote(35)
class TestArguments:
    """What a program gets is what the document says, word by word."""

    def test_variables_and_arguments_are_text(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for container in pod.containers:
                for word in (*container.get("command", []), *container.get("args", [])):
                    assert isinstance(word, str) and word, pod
                for entry in container.get("env", []):
                    assert isinstance(entry.get("value", ""), str), pod

    def test_no_list_is_empty(self, matrix: Mapping[Cell, Objects]) -> None:
        for mine, objects in matrix.items():
            for pod in pods_of(mine, objects):
                for container in pod.containers:
                    assert None not in container.values(), pod
                    assert [] not in container.values(), pod

    @pytest.mark.parametrize("topology", TOPOLOGIES)
    def test_lists_and_json_survive(self, topology: str, chart: Helm) -> None:
        mine = cell(topology)
        values = values_of(mine)
        config = {"a": ["x y", 'quote "', "$(NO)", "{{ x }}"], "b": {"c": True, "d": None}}
        words = ["1", "two words", "no", "--dash", "it's"]
        values["engine"]["flags"] = {
            **values["engine"]["flags"], "config": config, "list": words,
        }  # fmt: skip
        for pod in pods_of(mine, chart.objects("model", values)):
            args = pod.engine.get("args", [])
            if args:
                (text,) = [a for a in args if a.startswith("--config=")]
                assert json.loads(text.removeprefix("--config=")) == config, pod
                start = args.index("--list") + 1
                assert args[start : start + len(words)] == words, pod
