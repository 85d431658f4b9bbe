"""One object as one resource: its token, its name, and what the provider is told about it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pulumi
import pytest

from components.objects import (
    KubernetesObject,
    instructions,
    left_to_others,
    logical_name,
    properties,
    token,
)
from tests.components.recorder import crd, manifest, run, webhook

SKIP, WAIT = "pulumi.com/skipAwait", "pulumi.com/waitFor"
SERVICE: dict[str, Any] = {"service": {"name": "judge", "namespace": "judges"}}


def waits(item: dict[str, Any]) -> list[str]:
    """What the provider waits for."""
    found: list[str] = json.loads(instructions(item)[WAIT])
    return found


@pytest.mark.parametrize(
    ("version", "kind", "expected"),
    [
        ("v1", "Namespace", "kubernetes:core/v1:Namespace"),
        ("apps/v1", "Deployment", "kubernetes:apps/v1:Deployment"),
        (
            "kueue.x-k8s.io/v1beta2",
            "ClusterQueue",
            "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue",
        ),
    ],
)
def test_the_token_is_the_one_the_provider_knows_the_kind_by(
    version: str, kind: str, expected: str
) -> None:
    assert token(manifest(kind, "x", version)) == expected


def test_names_say_kind_namespace_and_name() -> None:
    assert logical_name(manifest("Service", "x", namespace="a")) == "Service:a/x"
    assert logical_name(manifest("Namespace", "a")) == "Namespace:a"


def test_an_object_of_a_known_condition_is_awaited() -> None:
    gateway = manifest("Gateway", "x", "gateway.networking.k8s.io/v1", namespace="a")
    assert waits(gateway)[0] == "condition=Programmed"
    assert waits(crd("example.com", "Thing", "v1"))[0] == "condition=Established"


def test_what_is_awaited_has_the_metadata_that_was_applied() -> None:
    """The provider takes an older one for it, unless its generation is older too."""
    plain = manifest("Gateway", "x", "gateway.networking.k8s.io/v1", namespace="a")
    labelled = copy.deepcopy(plain)
    labelled["metadata"]["labels"] = {"version": "2"}
    changed = copy.deepcopy(plain)
    changed["spec"] = {"gatewayClassName": "other"}
    for item in (plain, labelled):
        digest = instructions(item)["tokenworks.dev/metadata"]
        assert waits(item)[-1] == (
            f"jsonpath={{.metadata.annotations['tokenworks.dev/metadata']}}={digest}"
        )
    assert waits(plain) != waits(labelled)
    assert waits(plain) == waits(changed), "of the rest the generation tells"


def test_a_kind_of_the_same_name_in_another_group_is_not() -> None:
    # Istio has a Gateway too, which is never Programmed.
    istio = manifest("Gateway", "x", "networking.istio.io/v1", namespace="a")
    assert WAIT not in instructions(istio)


def test_a_route_waits_for_both_of_its_conditions() -> None:
    route = manifest("HTTPRoute", "x", "gateway.networking.k8s.io/v1", namespace="a")
    wait = instructions(route)[WAIT]
    assert "Accepted" in wait
    assert "ResolvedRefs" in wait
    assert wait.startswith('["jsonpath={')


@pytest.mark.parametrize(
    ("spec", "skipped"),
    [
        ({}, True),
        ({"type": "ClusterIP"}, True),
        ({"clusterIP": "None"}, True),
        ({"type": "LoadBalancer"}, False),
    ],
)
def test_only_a_load_balancer_is_waited_for_among_services(
    spec: dict[str, Any], skipped: bool
) -> None:
    # The provider waits for endpoints, which a model with no replicas never gets.
    assert (SKIP in instructions(manifest("Service", "x", namespace="a", spec=spec))) is skipped


@pytest.mark.fieldnote(65)
@pytest.mark.parametrize(("spec", "skipped"), [({"replicas": 0}, True), ({"replicas": 1}, False)])
def test_a_workload_without_replicas_is_not_waited_for(spec: dict[str, Any], skipped: bool) -> None:
    assert (SKIP in instructions(manifest("Deployment", "x", "apps/v1", spec=spec))) is skipped


def test_a_workload_that_leaves_replicas_to_a_scaler_is_waited_for() -> None:
    assert SKIP not in instructions(manifest("Deployment", "x", "apps/v1", spec={}))
    assert SKIP not in instructions(manifest("Deployment", "x", "apps/v1"))


def test_a_webhook_is_awaited_until_its_operator_put_the_ca_in() -> None:
    assert "caBundle" in instructions(webhook(**SERVICE))[WAIT]


def test_a_webhook_that_brings_its_ca_or_answers_elsewhere_is_not() -> None:
    assert WAIT not in instructions(webhook(**SERVICE, caBundle="Q0E="))
    assert WAIT not in instructions(webhook(url="https://judge.example.com"))
    nothing = manifest("MutatingWebhookConfiguration", "x", "admissionregistration.k8s.io/v1")
    assert WAIT not in instructions(nothing)


def test_fields_that_an_operator_tightens_are_left_to_it() -> None:
    lenient = webhook(**SERVICE)
    lenient["webhooks"][0]["failurePolicy"] = "Ignore"
    strict = webhook(**SERVICE)
    strict["webhooks"][0]["failurePolicy"] = "Fail"
    assert left_to_others(lenient) == ["webhooks[*].failurePolicy"]
    assert left_to_others(strict) == []
    assert left_to_others(manifest("ConfigMap", "x")) == []


def test_one_field_manager_owns_every_object() -> None:
    told = instructions(manifest("ConfigMap", "x", namespace="a"))
    assert told == {"pulumi.com/patchFieldManager": "tokenworks"}


def test_what_was_rendered_stays_as_it_was() -> None:
    rendered = manifest("Service", "x", namespace="a", spec={}, status={"loadBalancer": {}})
    rendered["metadata"]["annotations"] = {"example.com/kept": "yes"}
    before = copy.deepcopy(rendered)
    inputs = properties(rendered)
    assert rendered == before
    assert inputs["metadata"]["annotations"]["example.com/kept"] == "yes"
    assert "status" not in inputs


def test_contents_of_a_secret_are_encrypted_in_the_state() -> None:
    secret = manifest("Secret", "x", namespace="a", stringData={"token": "hush"}, type="Opaque")

    def program() -> pulumi.Output[Any]:
        contents = properties(secret)["stringData"]
        assert isinstance(contents, pulumi.Output)
        return pulumi.Output.from_input(contents.is_secret()).apply(_must_be_true)

    run(program)


def test_other_kinds_with_a_data_field_are_not() -> None:
    settings = manifest("ConfigMap", "x", namespace="a", data={"level": "info"})
    assert properties(settings)["data"] == {"level": "info"}


def test_an_object_is_known_under_every_version_that_is_served() -> None:
    # Otherwise a new version is another resource: created, which updates the object, and the old
    # one deleted, which deletes the same object.
    queue = manifest("LocalQueue", "x", "kueue.x-k8s.io/v1beta2", namespace="a")

    def program() -> None:
        KubernetesObject(queue, pulumi.ResourceOptions(), ["v1beta1"])

    assert run(program)["LocalQueue:a/x"].aliases == (
        "kubernetes:kueue.x-k8s.io/v1beta1:LocalQueue",
    )


def _must_be_true(value: bool) -> None:
    assert value


def test_a_claim_is_not_awaited_before_the_pods_that_bind_it() -> None:
    claim = manifest("PersistentVolumeClaim", "x", namespace="a")
    assert instructions(claim)[SKIP] == "true"
