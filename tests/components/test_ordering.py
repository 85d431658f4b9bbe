"""What comes before what inside a release."""

from __future__ import annotations

import pytest

from components.ordering import Tier, tier, tiers
from tests.components.recorder import Manifest, manifest, webhook


def names(objects: list[Manifest]) -> list[list[str]]:
    return [[str(o["kind"]) for o in level] for level in tiers(objects)]


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [
        ("Namespace", "v1", Tier.NAMESPACE),
        ("ServiceAccount", "v1", Tier.CONFIGURATION),
        ("Service", "v1", Tier.CONFIGURATION),
        ("CustomResourceDefinition", "apiextensions.k8s.io/v1", Tier.CONFIGURATION),
        ("ClusterRole", "rbac.authorization.k8s.io/v1", Tier.CONFIGURATION),
        ("NetworkPolicy", "networking.k8s.io/v1", Tier.CONFIGURATION),
        ("FlowSchema", "flowcontrol.apiserver.k8s.io/v1", Tier.CONFIGURATION),
        ("PodDisruptionBudget", "policy/v1", Tier.CONFIGURATION),
        ("ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1", Tier.CONFIGURATION),
        ("Deployment", "apps/v1", Tier.WORKLOAD),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", Tier.WORKLOAD),
        ("Gateway", "gateway.networking.k8s.io/v1", Tier.WORKLOAD),
        ("Gateway", "networking.istio.io/v1", Tier.OWN_KIND),
        ("MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1", Tier.WEBHOOK),
        ("APIService", "apiregistration.k8s.io/v1", Tier.WEBHOOK),
        ("ClusterQueue", "kueue.x-k8s.io/v1beta2", Tier.OWN_KIND),
    ],
)
def test_tier_of_a_kind_in_a_release_with_webhooks(kind: str, version: str, expected: Tier) -> None:
    assert tier(manifest(kind, "x", version), brings_webhooks=True) is expected


def test_custom_resources_of_others_operators_need_not_wait_for_our_pods() -> None:
    # An endpoint picker is not ready before its pool exists: waiting for it first would never end.
    pool = manifest("InferencePool", "x", "inference.networking.k8s.io/v1", namespace="a")
    picker = manifest("Deployment", "x-epp", "apps/v1", namespace="a")
    assert names([picker, pool]) == [["InferencePool"], ["Deployment"]]


def test_custom_resources_of_our_operator_wait_for_its_webhook() -> None:
    queue = manifest("ClusterQueue", "x", "kueue.x-k8s.io/v1beta2")
    operator = manifest("Deployment", "kueue", "apps/v1", namespace="a")
    objects = [queue, webhook(service={}), operator, manifest("Namespace", "a")]
    assert names(objects) == [
        ["Namespace"],
        ["Deployment"],
        ["ValidatingWebhookConfiguration"],
        ["ClusterQueue"],
    ]


def test_empty_tiers_leave_no_gap() -> None:
    assert names([]) == []
    assert names([manifest("Deployment", "x", "apps/v1")]) == [["Deployment"]]


def test_order_inside_a_tier_is_that_of_the_chart() -> None:
    objects = [manifest("Secret", "b"), manifest("ConfigMap", "a"), manifest("Secret", "a")]
    assert names(objects) == [["Secret", "ConfigMap", "Secret"]]
