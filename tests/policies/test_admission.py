"""Admission policies: one for each rule that an object shows by itself, and why not for others."""

from __future__ import annotations

import re

import pytest

from policies import RULES, Context
from policies.admission import admission, elsewhere, local_rules, re2

BY_ID = {rule.id: rule for rule in RULES}


def names(context: Context) -> list[str]:
    return [m["metadata"]["name"] for m in admission(RULES, context) if "validations" in m["spec"]]


def test_each_local_rule_has_a_policy_and_a_binding() -> None:
    made = admission(RULES, Context())
    policies = [m for m in made if m["kind"] == "ValidatingAdmissionPolicy"]
    bindings = [m for m in made if m["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {m["metadata"]["name"] for m in policies} == {f"tokenworks-{r}" for r in local_rules()}
    assert [m["spec"]["policyName"] for m in bindings] == [m["metadata"]["name"] for m in policies]
    assert local_rules() <= BY_ID.keys()


def test_errors_are_denied_and_warnings_said() -> None:
    actions = {
        m["metadata"]["name"]: m["spec"]["validationActions"]
        for m in admission(RULES, Context())
        if m["kind"].endswith("Binding")
    }
    assert actions["tokenworks-liveness-probe"] == ["Deny"]
    assert actions["tokenworks-service-links"] == ["Warn"]


def test_profile_and_levels_count() -> None:
    assert "tokenworks-disruption-budget" in names(Context())
    assert "tokenworks-disruption-budget" not in names(Context(profile="dev"))
    assert "tokenworks-surge" not in names(Context(levels={"surge": "off"}))


def test_operators_and_kubernetes_are_left_alone() -> None:
    policy = admission(RULES, Context(platform_namespaces=frozenset({"lws-system"})))[0]
    selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]
    assert selector["values"] == ["kube-public", "kube-system", "lws-system"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_other_rule_says_why(rule: object) -> None:
    found = BY_ID[rule.id]  # type: ignore[attr-defined]
    assert (elsewhere(found) is None) == (found.id in local_rules())


def test_messages_name_rule_and_remedy() -> None:
    for item in admission(RULES, Context()):
        for validation in item["spec"].get("validations", ()):
            assert re.match(r"\[[a-z0-9-]+\] .+\. Remedy: .+", validation["message"])
            assert len(validation["expression"]) < 16000


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("docker.io/vllm/vllm-openai", True),
        ("vllm", True),
        ("registry.example.com/team/my-vllm-image", True),
        ("registry.example.com/team/notvllms", False),
    ],
)
def test_patterns_without_looking_around_match_the_same(name: str, matches: bool) -> None:
    pattern = r"(^|/)[^/]*(?<![a-z0-9])vllm(?![a-z0-9])[^/]*$"
    plain = re2(pattern)
    assert "(?" not in plain
    assert bool(re.search(pattern, name)) is matches
    assert bool(re.search(plain, name)) is matches
