"""Admission policies: one for each rule that an object shows by itself, and why not for others."""

from __future__ import annotations

import re

import pytest

from policies import RULES, Context
from policies.admission import admission, elsewhere, local_rules, re2
from policies.model import Waiver

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


def conditions(context: Context, rule: str) -> dict[str, str]:
    """Conditions of a rule's policy, by name."""
    (policy,) = [m for m in admission(RULES, context) if m["metadata"]["name"].endswith(rule)
                 and m["kind"] == "ValidatingAdmissionPolicy"]  # fmt: skip
    return {c["name"]: c["expression"] for c in policy["spec"]["matchConditions"]}


def test_waivers_of_the_environment_count_while_they_are_sound() -> None:
    sound = Waiver("drain", "Deployment team-a/llama", "it is short", "team-a", "2099-12-31")
    old = Waiver("drain", "Deployment team-a/old", "it is short", "team-a", "2020-12-31")
    other = Waiver("surge", "Deployment team-a/other", "it is short", "team-a", "2099-12-31")
    found = conditions(Context(waivers=(sound, old, other), today="2026-11-30"), "drain")
    said = found["not-waived-by-the-environment"]
    assert "'llama'" in said and "'team-a'" in said and "old" not in said and "other" not in said
    assert "not-waived-by-the-environment" not in conditions(Context(), "drain")


def test_images_of_this_machine_need_no_digest() -> None:
    context = Context(
        local_images=frozenset({"docker.io/team/made"}), unresolved_images=frozenset({"a.b/c:1"})
    )
    (policy,) = [m for m in admission(RULES, context) if m["kind"] == "ValidatingAdmissionPolicy"
                 and m["metadata"]["name"] == "tokenworks-image-digest"]  # fmt: skip
    said = policy["spec"]["validations"][0]["expression"]
    assert "'docker.io/team/made:'" in said and "'team/made:'" in said and "'a.b/c:1'" in said
