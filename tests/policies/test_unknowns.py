"""Values that only exist after `up`: what they may mend is not said, everything else is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from policies import Context, Manifest, Unknown, check
from policies.tree import at, string_map, watched
from tests.policies.builders import Object, deployment, engine, found, network_policy, pod
from tests.policies.mutations import corpus
from tests.policies.test_cases import PODS, spec
from tests.policies.test_rules import BROKEN
from tests.policies.unknowns import STRICT, objections

STEP = 5
"""`python -m tests.policies.unknowns` asks every place."""
GOOD = corpus()


@pytest.mark.parametrize("name", GOOD)
def test_no_rule_objects_because_a_value_is_unknown(name: str) -> None:
    assert list(objections(name, GOOD[name], STEP)) == []


def _container(item: Object) -> Object:
    return item["spec"]["template"]["spec"]["containers"][0]


def _variable(item: Object) -> None:
    env = _container(item).get("env")
    if env is None or isinstance(env, list):
        _container(item)["env"] = [*(env or []), {"name": "OTHER", "value": Unknown()}]


def _argument(item: Object) -> None:
    words: list[Any] = _container(item).get("args") or []
    _container(item)["args"] = [*words, "--served-model-name", Unknown()]


def _annotation(item: Object) -> None:
    item["metadata"]["annotations"] = {"checksum": Unknown()}


def _label(item: Object) -> None:
    item["spec"]["template"]["metadata"].setdefault("labels", {})["release"] = Unknown()


def _name(item: Object) -> None:
    item["metadata"]["name"] = Unknown()


def _volume(item: Object) -> None:
    body = item["spec"]["template"]["spec"]
    more = {"name": "more", "configMap": {"name": Unknown()}}
    body["volumes"] = [*body.get("volumes", []), more]


def _neighbour(item: Object) -> None:
    item["spec"]["template"]["spec"]["containers"].append({"name": "next", "image": Unknown()})


ELSEWHERE: list[Callable[[Object], None]] = [
    _variable, _argument, _annotation, _label, _name, _volume,
]  # fmt: skip
FAULTS = [
    *((rule, spec(case)) for rule in PODS for case in PODS[rule]["fires"]),
    *BROKEN.items(),
]


def rules_of(item: Manifest) -> set[str]:
    return {finding.rule for finding in check([item, network_policy()], STRICT)}


@pytest.mark.parametrize("change", ELSEWHERE, ids=lambda change: change.__name__)
def test_what_is_unknown_elsewhere_hides_no_fault(change: Callable[[Object], None]) -> None:
    hidden: list[str] = []
    for rule, broken in FAULTS:
        item = deployment(broken)
        if rule in rules_of(item):
            changed = copy.deepcopy(item)
            change(changed)
            hidden += [rule] if rule not in rules_of(changed) else []
    assert hidden == []


def test_a_container_is_judged_beside_an_unknown_one() -> None:
    item = deployment(pod(engine(startupProbe=None, image="vllm/vllm-openai:v0.26.0")))
    _neighbour(item)
    # A neighbour may be the one that pauses before it stops, or take the port.
    assert {"startup-probe", "image-digest"} <= rules_of(item)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("image-digest", {"image": Unknown()}),
        ("startup-probe", {"startupProbe": Unknown()}),
        ("liveness-probe", {"livenessProbe": {"httpGet": Unknown(), "timeoutSeconds": 1}}),
        ("gpu-limits", {"resources": {"limits": Unknown()}}),
        ("world-size", {"args": ["--tensor-parallel-size", Unknown()]}),
        ("world-size", {"args": ["-tp", "4", Unknown()]}),
        ("plain-secret", {"env": [{"name": "API_KEY", "value": Unknown()}]}),
    ],
)
def test_what_is_unknown_itself_is_not_judged(rule: str, change: dict[str, Any]) -> None:
    assert found(rule, deployment(pod(engine(**change)))) == []


def test_a_word_that_is_unknown_may_be_any_flag() -> None:
    limits = {"limits": {"nvidia.com/gpu": 1}}
    wrong = ["-tp", "4"]
    for args in (wrong, [*wrong, "--served-model-name", Unknown()]):
        assert found("world-size", deployment(pod(engine(args=args, resources=limits))))
    for args in ([*wrong, Unknown()], ["-tp", Unknown()], Unknown()):
        assert not found("world-size", deployment(pod(engine(args=args, resources=limits))))


def test_a_waiver_whose_text_is_unknown_counts() -> None:
    item = deployment(pod(engine(startupProbe=None)))
    item["metadata"]["annotations"] = {"policies.tokenworks.dev/waive.startup-probe": Unknown()}
    assert check([item, network_policy()], Context(today="2026-01-01")) == []


def test_an_unknown_object_may_be_the_one_that_is_missing() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [deployment(pod()), Unknown()]}
    assert found("network-policy", deployment(pod()))
    assert found("network-policy", listed) == []


def told(read: Callable[[Any], object]) -> list[tuple[object, ...]]:
    """The places that reading tells of."""
    places: list[tuple[object, ...]] = []
    data = {"a": {"x": Unknown(), "y": 1}, "b": [1, {"z": [Unknown()]}], "c": {"d": 1}}
    read(watched(data, places.append))
    return places


READINGS: list[tuple[Callable[[Any], object], list[tuple[object, ...]]]] = [
    (lambda data: at(data, "a", "y"), []),
    (lambda data: at(data, "a", "x"), [("a",)]),
    (lambda data: data["a"]["x"], [("a",)]),
    (lambda data: {**data["a"]}, [("a",)]),
    (lambda data: list(data["a"].values()), [("a",)]),
    (lambda data: [*data["a"]], []),
    (lambda data: "x" in data["a"], []),
    (lambda data: data["b"][1]["z"], []),
    (lambda data: data["b"][1]["z"][0], [("b", 1, "z")]),
    (lambda data: tuple(data["b"][1]["z"]), [("b", 1, "z")]),
    (lambda data: [*data["b"][1]["z"]], [("b", 1, "z")]),
    (lambda data: len(data["b"][1]["z"]), []),
    (lambda data: string_map(data["a"]), []),
    (lambda data: string_map(data["a"]).get("x"), [("a",)]),
    (lambda data: {"y": "1"}.items() <= string_map(data["a"]).items(), [("a",)]),
]


@pytest.mark.parametrize(("read", "places"), READINGS)
def test_reading_what_is_unknown_is_told(
    read: Callable[[Any], object], places: list[tuple[object, ...]]
) -> None:
    assert list(dict.fromkeys(told(read))) == places
