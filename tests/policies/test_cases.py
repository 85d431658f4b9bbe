"""Every rule: where it must fire, with which words, and where it must stay silent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies import RULES, Context, check, explain
from tests.policies.builders import CARRIERS, Object, deployment, engine, found, network_policy, pod
from tests.policies.sets import objects

Cases = dict[str, dict[str, Any]]

HERE = Path(__file__).parent / "cases"
PODS: Cases = yaml.safe_load((HERE / "pods.yaml").read_text())
SETS: Cases = yaml.safe_load((HERE / "sets.yaml").read_text())
OLDER = {
    "startup-probe", "readiness-probe", "liveness-probe", "gpu-limits", "image-digest",
    "network-policy", "plain-secret", "service-links", "shared-memory", "surge", "drain",
    "shell-pid1",
}  # fmt: skip
"""Rules with a file of tests of their own."""


def pairs(cases: Cases, key: str) -> list[Any]:
    return [
        pytest.param(rule, case, cases[rule], id=f"{rule}-{number}")
        for rule in cases
        for number, case in enumerate(cases[rule][key])
    ]


def carriers(rule: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """The kinds that carry a case: groups have more GPUs than one pod's command line says."""
    kinds = case.get("kinds") or rule.get("kinds")
    names = set(CARRIERS)
    if kinds == "built-in":
        names -= {"custom"}
    if kinds == "alone":
        names -= {"leader", "worker"}
    return {name: CARRIERS[name] for name in sorted(names)}


def spec(case: dict[str, Any]) -> Object:
    return pod(engine(**case["engine"]), **case.get("pod", {}))


def messages(rule: str, made: list[Object], given: dict[str, Any]) -> list[str]:
    context = Context(profile=given.get("profile", "prod"))
    return [finding.message for finding in found(rule, *made, context=context)]


def test_every_rule_has_cases() -> None:
    assert {*PODS, *SETS, *OLDER} == {rule.id for rule in RULES}
    assert len(RULES) >= 60


@pytest.mark.parametrize(("rule", "case", "given"), pairs(PODS, "fires"))
def test_rules_about_pods_fire_in_every_kind(
    rule: str, case: dict[str, Any], given: dict[str, Any]
) -> None:
    for name, carrier in carriers(given, case).items():
        said = messages(rule, [carrier(spec(case))], given)
        assert any(case["says"] in text for text in said), (name, said)


@pytest.mark.parametrize(("rule", "case", "given"), pairs(PODS, "fires"))
def test_rules_about_pods_see_native_sidecars(
    rule: str, case: dict[str, Any], given: dict[str, Any]
) -> None:
    sidecar = {**engine(**case["engine"]), "name": "second", "restartPolicy": "Always"}
    plain = {"name": "web", "image": "nginx:1.27"}
    made = {**pod(plain, **case.get("pod", {})), "initContainers": [sidecar]}
    assert messages(rule, [deployment(made)], given)


@pytest.mark.parametrize(("rule", "case", "given"), pairs(PODS, "silent"))
def test_rules_about_pods_stay_silent(
    rule: str, case: dict[str, Any], given: dict[str, Any]
) -> None:
    for name, carrier in carriers(given, case).items():
        assert messages(rule, [carrier(spec(case))], given) == [], name


@pytest.mark.parametrize(("rule", "case", "given"), pairs(SETS, "fires"))
def test_rules_about_sets_fire(rule: str, case: dict[str, Any], given: dict[str, Any]) -> None:
    said = messages(rule, objects(case), given)
    assert any(case["says"] in text for text in said), said


@pytest.mark.parametrize(("rule", "case", "given"), pairs(SETS, "silent"))
def test_rules_about_sets_stay_silent(
    rule: str, case: dict[str, Any], given: dict[str, Any]
) -> None:
    assert messages(rule, objects(case), given) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rules_explain_themselves(rule: Any) -> None:
    assert rule.link.startswith("https://")
    for text in (rule.title, rule.reason, rule.remedy):
        assert text == text.strip()
        assert text
    assert rule.reason.endswith(".")
    assert rule.remedy.endswith(".")
    assert not rule.title.endswith(".")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_text_says_something_of_its_own(rule: Any) -> None:
    title, reason, remedy = (plain(text) for text in (rule.title, rule.reason, rule.remedy))
    assert len({title, reason, remedy}) == 3
    assert title not in reason and title not in remedy
    # What breaks takes a sentence; what to do begins with what to do.
    assert len(reason.split()) >= 12
    assert len(remedy.split()) >= 4
    assert remedy.split()[0] in IMPERATIVES
    text = explain(rule.id)
    assert all(part in text for part in (rule.title, rule.reason, rule.remedy, rule.link))


IMPERATIVES = {
    "add", "allow", "ask", "call", "correct", "declare", "define", "give", "keep", "leave",
    "lower", "make", "mount", "move", "name", "pin", "put", "raise", "refer", "remove", "require",
    "scale", "set", "use", "write",
}  # fmt: skip


def plain(text: str) -> str:
    """Words without marks, in lower case."""
    return re.sub(r"[^a-z0-9 ]+", "", text.lower())


def test_sound_sets_are_silent() -> None:
    made = objects({"objects": [{"engine": {}}, {"service": {}}, {"pool": {}}]})
    assert check([*made, network_policy()], Context()) == []
