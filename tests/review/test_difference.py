"""Differences as readers mean them."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.review.difference import changes
from tokenworks.review.paths import ABSENT, parsed, shown


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(shown(c.path), c.before, c.after) for c in changes(before, after)]


def pod(**container: Any) -> dict[str, Any]:
    return {"kind": "Pod", "spec": {"containers": [{"name": "engine", **container}]}}


AT = "spec.containers[engine]"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": None}, {}),
        (
            pod(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
            pod(env=[{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]),
        ),
        (
            pod(ports=[{"containerPort": 1}, {"containerPort": 2}]),
            pod(ports=[{"containerPort": 2}, {"containerPort": 1}]),
        ),
        (pod(args=["--a=1", "--b", "2"]), pod(args=["--a", "1", "--b=2"])),
        (
            pod(resources={"limits": {"memory": "1Gi", "nvidia.com/gpu": 2}}),
            pod(resources={"limits": {"memory": "1024Mi", "nvidia.com/gpu": "2"}}),
        ),
        ({"rules": [{"verbs": ["get", "list"]}]}, {"rules": [{"verbs": ["list", "get"]}]}),
        ({"data": {"x": '{"a": 1, "b": 2}'}}, {"data": {"x": '{"b":2,"a":1}'}}),
    ],
    ids=["keys", "null", "env", "ports", "flags", "quantities", "sets", "json"],
)
def test_what_means_the_same_is_no_difference(before: dict[str, Any], after: Any) -> None:
    if "args" in str(before):
        # The flags are the same; that they are written otherwise restarts the pod all the same.
        assert told(before, after) == [
            (f"{AT}.args[order]", ["--a=1", "--b", "2"], ["--a", "1", "--b=2"])
        ]
        return
    assert told(before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": [1]}, {"a": [True]}, [("a[0]", 1, True)]),
        ({"a": 1}, {}, [("a", 1, ABSENT)]),
        (
            pod(args=["serve", "m", "--len=8192", "--on"]),
            pod(args=["serve", "n", "--len", "16384", "--off"]),
            [
                (f"{AT}.args[1]", "m", "n"),
                (f"{AT}.args --len", "8192", "16384"),
                (f"{AT}.args --on", True, ABSENT),
                (f"{AT}.args --off", ABSENT, True),
            ],
        ),
        (
            pod(args=['--kv={"role": "both", "n": 1}']),
            pod(args=['--kv={"role": "producer", "n": 1}']),
            [(f"{AT}.args --kv.role", "both", "producer")],
        ),
        (
            pod(args=["--x=1", "--x=2"]),
            pod(args=["--x=1", "--x=3"]),
            [(f"{AT}.args --x[1]", "2", "3")],
        ),
        (
            pod(env=[{"name": "A", "value": "1"}]),
            pod(env=[{"name": "A", "value": "2"}]),
            [(f"{AT}.env[A].value", "1", "2")],
        ),
        (
            {"spec": {"initContainers": [{"name": "a"}, {"name": "b"}]}},
            {"spec": {"initContainers": [{"name": "b"}, {"name": "a"}]}},
            [("spec.initContainers[order]", ["a", "b"], ["b", "a"])],
        ),
        (
            {"spec": {"rules": [{"x": 1}, {"x": 2}]}},
            {"spec": {"rules": [{"x": 2}]}},
            [("spec.rules[0]", {"x": 1}, ABSENT)],
        ),
        (
            pod(resources={"limits": {"memory": "1Gi"}}),
            pod(resources={"limits": {"memory": "2Gi"}}),
            [(f"{AT}.resources.limits.memory", "1Gi", "2Gi")],
        ),
    ],
    ids=[
        "true is not 1", "nor in lists", "gone", "flags", "json in flags", "repeated flags", "env",
        "init containers", "unnamed", "quantity",
    ],
)  # fmt: skip
def test_a_difference_is_told_where_it_is(
    before: dict[str, Any], after: dict[str, Any], expected: list[tuple[str, Any, Any]]
) -> None:
    assert told(before, after) == expected


def test_rules_of_roles_have_no_order() -> None:
    old = {"kind": "Role", "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]}
    new = {"kind": "Role", "rules": [{"verbs": ["list"]}, {"verbs": ["get"]}]}
    assert told(old, new) == []
    assert told({**old, "kind": "HTTPRoute"}, {**new, "kind": "HTTPRoute"}) != []


SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1", "{", "[1]"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "a", "args", "limits", "rules"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["kind", "spec", "args", "env"]), VALUES, max_size=3)


@given(OBJECTS)
def test_nothing_differs_from_itself(one: dict[str, Any]) -> None:
    assert changes(one, copy.deepcopy(one)) == ()


@given(OBJECTS, OBJECTS)
def test_whether_two_differ_does_not_depend_on_who_is_first(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert bool(changes(one, other)) is bool(changes(other, one))


@given(OBJECTS, st.randoms(use_true_random=False))
def test_the_order_of_maps_means_nothing(one: dict[str, Any], chance: random.Random) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            pairs = [(key, turned(child)) for key, child in value.items()]
            chance.shuffle(pairs)
            return dict(pairs)
        return [turned(child) for child in value] if isinstance(value, list) else value

    assert changes(one, turned(one)) == ()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec.selector", ("spec", "selector")),
        ('metadata.labels["a.b/c-d"]', ("metadata", "labels", "a.b/c-d")),
        ("type", ("type",)),
    ],
)
def test_paths_of_facts_are_read(text: str, path: tuple[str, ...]) -> None:
    assert parsed(text) == path
    assert shown(path) == text
