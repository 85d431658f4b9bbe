"""NetworkPolicy coverage: both directions, the right namespace, every selector operator."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Context
from tests.policies.builders import (
    Object,
    bare_pod,
    custom,
    deployment,
    found,
    leader,
    named,
    network_policy,
    pod,
)

RULE = "network-policy"
POD = deployment(pod())


@pytest.mark.parametrize(
    "policies",
    [
        [network_policy()],
        [network_policy({"matchLabels": {"app": "llama"}})],
        [network_policy(policyTypes=["Ingress"]), network_policy(policyTypes=["Egress"])],
        [network_policy(policyTypes=None, egress=[])],
        [{"apiVersion": "v1", "kind": "List", "items": [network_policy()]}],
    ],
)
def test_compliant(policies: list[Object]) -> None:
    assert found(RULE, POD, *policies) == []


@pytest.mark.parametrize(
    ("policies", "missing"),
    [
        ([], "Ingress and Egress"),
        ([network_policy(policyTypes=["Ingress"])], "Egress"),
        ([network_policy(policyTypes=["Egress"])], "Ingress"),
        ([network_policy(policyTypes=None, ingress=[])], "Egress"),
        ([network_policy(policyTypes=[])], "Egress"),
        ([network_policy({"matchLabels": {"app": "other"}})], "Ingress and Egress"),
    ],
)
def test_violating(policies: list[Object], missing: str) -> None:
    findings = found(RULE, POD, *policies)
    assert len(findings) == 1
    assert f"for {missing} in namespace team-a" in findings[0].message


def test_another_namespace_does_not_count() -> None:
    policy = network_policy()
    policy["metadata"]["namespace"] = "team-b"
    assert found(RULE, POD, policy)


def test_no_namespace_is_default() -> None:
    loose, policy = bare_pod(pod()), network_policy()
    del loose["metadata"]["namespace"]
    policy["metadata"]["namespace"] = "default"
    assert found(RULE, loose, policy) == []


@pytest.mark.parametrize(
    ("operator", "key", "values", "matches"),
    [
        ("In", "app", ["llama", "x"], True),
        ("In", "app", ["x"], False),
        ("In", "absent", ["x"], False),
        ("NotIn", "app", ["x"], True),
        ("NotIn", "app", ["llama"], False),
        ("NotIn", "absent", ["x"], True),
        ("Exists", "app", None, True),
        ("Exists", "absent", None, False),
        ("DoesNotExist", "absent", None, True),
        ("DoesNotExist", "app", None, False),
        ("Near", "app", None, False),
    ],
)
def test_expressions(operator: str, key: str, values: Any, matches: bool) -> None:
    expression = {"key": key, "operator": operator, "values": values}
    policy = network_policy({"matchExpressions": [expression]})
    assert (found(RULE, POD, policy) == []) is matches


def test_labels_that_a_controller_adds() -> None:
    policy = network_policy({"matchLabels": {"leaderworkerset.sigs.k8s.io/name": "llama"}})
    assert found(RULE, leader(pod()), policy) == []
    assert len(found(RULE, leader(pod()))) == 2


def test_labels_that_nobody_knows() -> None:
    spec = {"containers": [{"name": "x", "image": "x:1"}]}
    runtime = named("serving.kserve.io/v1alpha1", "ModelServer", spec=spec)
    runtime["metadata"]["labels"] = {"app": "llama"}
    guess = network_policy({"matchLabels": {"app": "llama"}})
    assert "controller" in found(RULE, runtime, guess)[0].message
    assert found(RULE, runtime, network_policy()) == []
    assert found(RULE, custom(pod()), guess) == []


def test_the_host_network_is_said_to_be_unprotected() -> None:
    findings = found(RULE, deployment(pod(hostNetwork=True)), network_policy())
    assert [f.severity for f in findings] == ["warning"]
    assert "no NetworkPolicy protects it" in findings[0].message
    assert found(RULE, deployment(pod(hostNetwork=False)), network_policy()) == []


def test_platform_namespaces_are_left_alone() -> None:
    context = Context(platform_namespaces=frozenset({"team-a"}))
    assert found(RULE, POD, context=context) == []


def test_templates_of_others_need_no_policy() -> None:
    runtime = named("serving.kserve.io/v1alpha1", "ServingRuntime", spec=pod())
    assert found(RULE, runtime) == []
