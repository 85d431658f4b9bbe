"""Credentials in manifests: by place, by name and by shape; what refers to a Secret is fine."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Unknown, words
from policies.secrets import kind_of, masked, names_secret
from tests.canary import SHAPED, SHAPELESS, leaks
from tests.policies.builders import CARRIERS, Object, deployment, engine, found, named, pod

RULE = "plain-secret"
FROM_SECRET = {"valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}


def secret(**fields: Any) -> Object:
    return named("v1", "Secret", **fields)


def variable(name: str, value: Any) -> Object:
    return deployment(pod(engine(env=[{"name": name, "value": value}])))


@pytest.mark.parametrize(
    "item",
    [
        secret(type="kubernetes.io/service-account-token"),
        named("bitnami.com/v1alpha1", "SealedSecret", spec={"encryptedData": {"token": "AgBx"}}),
        named("external-secrets.io/v1", "ExternalSecret", spec={"target": {"name": "hub"}}),
        deployment(pod(engine(env=[{"name": "HF_TOKEN", **FROM_SECRET}]))),
        variable("DB_PASSWORD_FILE", "/run/secrets/password"),
        variable("API_KEY", "$(OTHER)"),
        deployment(pod(engine(args=["--api-key", "$VLLM_API_KEY"]))),
        named("v1", "ConfigMap", data={"ca.crt": "-----BEGIN CERTIFICATE-----\nMIIB"}),
        named("v1", "ConfigMap", data={"url": "https://user@example.com:8080/a@b"}),
    ],
    ids=lambda item: item["kind"],
)
def test_compliant(item: Object) -> None:
    assert found(RULE, item) == []


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_a_secret_with_contents_is_refused_by_its_keys(field: str) -> None:
    (finding,) = found(RULE, secret(**{field: {"token": SHAPELESS, "empty": ""}}))
    assert (finding.severity, finding.field) == ("error", field)
    assert "(token)" in finding.message
    for way in ("kubectl create secret", "ExternalSecret", "SealedSecret"):
        assert way in finding.remedy


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=list(CARRIERS))
def test_variables_are_told_by_their_names_in_every_kind(carrier: Any) -> None:
    env = [{"name": "A", "value": "x"}, {"name": "DB_PASSWORD", "value": SHAPELESS}]
    (finding,) = found(RULE, carrier(pod(engine(env=env))))
    assert "DB_PASSWORD" in finding.message
    assert finding.field.endswith("env[1].value")


@pytest.mark.parametrize(
    "words_of",
    [
        {"args": ["serve", "x", "--api-key", SHAPELESS]},
        {"args": [f"--api-key={SHAPELESS}"]},
        {"command": ["sh", "-c", f"exec vllm serve x --hf_token {SHAPELESS}"], "args": None},
    ],
    ids=str,
)
def test_flags_of_engines_are_told_by_their_names(words_of: Object) -> None:
    (finding,) = found(RULE, deployment(pod(engine(**words_of))))
    assert "in clear text in --" in finding.message


@pytest.mark.parametrize(("kind", "canary"), SHAPED.items(), ids=list(SHAPED))
def test_anything_is_told_by_its_shape_wherever_it_stands(kind: str, canary: str) -> None:
    for item in (
        variable("ANYTHING", canary),
        deployment(pod(engine(args=["--header", f"Authorization: {canary}"]))),
        named("v1", "ConfigMap", data={"app.yaml": f"key: {canary}\n"}),
        named("example.com/v1", "Anything", spec={"list": [{"x": [canary]}]}),
    ):
        (finding,) = found(RULE, item)
        assert kind in finding.message
        assert leaks(words(finding), SHAPED.values()) == []


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn-inference-server-version-2",
        "hf_transfer",
        "https://huggingface.co/Qwen/Qwen3-0.6B",
        "https://$(USER):$(PASSWORD)@db.example/x",
        "s3://bucket/path@v1",
        "sha256:0123456789abcdef",
        "eyJust.a.name",
        "-----BEGIN PUBLIC KEY-----",
        "task-AKIA",
    ],
)
def test_what_only_resembles_one_is_none(text: str) -> None:
    assert kind_of(text) is None
    assert masked(text) == text


def test_property_absent_and_empty() -> None:
    assert found(RULE) == []
    for value in (None, "", {}, []):
        assert found(RULE, secret(data=value, stringData=value), variable("API_KEY", value)) == []


def test_what_is_known_after_up_only_is_not_judged() -> None:
    assert found(RULE, variable("API_KEY", Unknown())) == []


def test_definitions_may_speak_of_credentials() -> None:
    definition = named("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    definition["spec"] = {"description": SHAPED["private key"]}
    assert found(RULE, definition) == []


def test_a_secret_among_the_arguments_is_a_warning() -> None:
    env = [{"name": "KEY", **FROM_SECRET}, {"name": "PLAIN", "value": "x"}]
    (finding,) = found(
        RULE, deployment(pod(engine(env=env, args=["--key", "$(KEY)", "--x", "$(PLAIN)"])))
    )
    assert (finding.severity, finding.field[-7:]) == ("warning", "args[1]")


def test_a_value_is_never_part_of_a_message() -> None:
    planted = [*SHAPED.values(), SHAPELESS]
    for canary in planted:
        for item in (secret(data={"x": canary}), variable("API_TOKEN", canary)):
            for finding in found(RULE, item):
                assert leaks(words(finding), planted) == []


@pytest.mark.parametrize("canary", SHAPED.values(), ids=list(SHAPED))
def test_masking_leaves_the_rest(canary: str) -> None:
    assert masked(f"before {canary} after").startswith("before (not shown)")
    assert leaks(masked(f"a {canary} b {canary}"), [canary]) == []


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("HF_TOKEN", True),
        ("api-key", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("SSL_KEY_FILE", False),
        ("MONKEY", False),
        ("max-num-batched-tokens", False),
    ],
)
def test_names(name: str, verdict: bool) -> None:
    assert names_secret(name) is verdict
