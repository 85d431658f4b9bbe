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


# --- fields of custom resources --------------------------------------------------

LOOSE = "Zk39fhA7" + "_qPw20xmTr"
"""What no object can be called, in no provider's shape."""
SHORT = "sk-" + "test123456"


def custom(group: str = "example.com", kind: str = "Anything", **spec: Any) -> Object:
    return named(f"{group}/v1", kind, spec=spec)


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (custom(token=LOOSE), "spec.token"),
        (custom(token=SHORT), "spec.token"),
        (custom(token="word", group="arks.ai", kind="ArksToken"), "spec.token"),
        (custom(llm={"apiKey": LOOSE}), "spec.llm.apiKey"),
        (custom(llm={"APIKey": "0a1b2c3d4e5f6a7b8c9d0e1f"}), "spec.llm.APIKey"),
        (custom(llm={"api_keys": ["", LOOSE]}), "spec.llm.api_keys[1]"),
        (custom(auth={"accessToken": "12345678-9abc-def0-1234-56789abcdef0"}),
         "spec.auth.accessToken"),
        (custom(database={"password": SHAPELESS}), "spec.database.password"),
        (custom(config={"ssl.truststore.password": "mystorepassword"}),
         'spec.config["ssl.truststore.password"]'),
        (custom(env={"HF_TOKEN": LOOSE}), "spec.env.HF_TOKEN"),
        (custom(parameters=[{"name": "auth.password", "value": SHAPELESS}]),
         "spec.parameters[0].value"),
        (custom(helm={"valuesObject": {"redis": {"auth": {"password": "hunter2"}}}}),
         "spec.helm.valuesObject.redis.auth.password"),
    ],
)  # fmt: skip
def test_fields_of_custom_resources_are_told_by_name_and_value(item: Object, field: str) -> None:
    (finding,) = found(RULE, item)
    assert (finding.severity, finding.field) == ("error", field)
    assert leaks(words(finding), [LOOSE, SHORT, SHAPELESS]) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"tokenSecretRef": {"name": "hub"}, "token": {"secretKeyRef": {"name": "hub", "key": "t"}}},
        {"tokenFrom": {"password": SHAPELESS}, "passwordRef": {"password": SHAPELESS}},
        {"token": "hf-token", "hfToken": "hub", "authSecret": "ngc-api-secret"},
        {"secrets": {"huggingFaceToken": "llm-d-hf-token", "dbPassword": "db-password"}},
        {"hfTokenSecret": {"hfTokenSecretName": "huggingface-token", "hfTokenKeyName": "token"}},
        {"password": {"name": "db", "key": "password"}, "apiKey": {"name": "a", "key": LOOSE}},
        {"token": "<token>", "apiKey": "${TOKEN}", "password": "REPLACE_ME", "hfToken": "$TOKEN"},
        {"password": "{{ .password }}", "token": "%TOKEN%", "apiKey": "your-api-key-1234567890"},
        {"password": "HOLODECK_PASSWORD", "token": "", "apiKey": None, "adminPassword": "none"},
        {"token": "vault:secret/data/hub#token1234", "password": "ENC[AES256_GCM,data:abc]"},
        {"tokens": 100, "maxTokens": 4096, "tokenizer": "meta/llama", "token": True, "apiKey": 1},
        {"eosToken": "End_Of_Text_0123456", "stopTokens": ["STOP_0123456789abc"]},
        {"publicKey": "ssh-ed25519", "maxToken": LOOSE, "passwordFile": "/run/secrets/x"},
        {"mappings": {"password": SHAPELESS}, "keys": {"password": SHAPELESS}},
        {"resetPassword": "always", "changePassword": "disabled", "password": "$2a$10$abcdefg"},
        {"parameters": [{"name": "path", "value": LOOSE}, {"name": "token", "value": "hub"}]},
    ],
    ids=str,
)
def test_fields_that_refer_or_wait_are_silent(spec: Object) -> None:
    assert found(RULE, custom(**spec)) == []


@pytest.mark.parametrize(
    "item",
    [
        custom(group="external-secrets.io", kind="ExternalSecret",
               data=[{"secretKey": LOOSE, "remoteRef": {"key": "a", "property": "password"}}]),
        custom(group="bitnami.com", kind="SealedSecret", encryptedData={"token": LOOSE}),
        custom(group="apiextensions.k8s.io", kind="CustomResourceDefinition", token=LOOSE),
        {**custom(token=LOOSE), "sops": {"version": "3.9"}},
        {**custom(), "metadata": {"name": "a", "annotations": {"token": LOOSE}}},
        named("apps/v1", "Deployment", token=LOOSE),
        custom(token=Unknown()),
    ],
    ids=str,
)  # fmt: skip
def test_what_leads_to_secrets_or_hides_them_is_silent(item: Object) -> None:
    assert found(RULE, item) == []


def test_a_variable_of_a_custom_resources_container_is_told_once() -> None:
    env = [{"name": "HF_TOKEN", "value": LOOSE}]
    (finding,) = found(RULE, CARRIERS["custom"](pod(engine(env=env))))
    assert "in HF_TOKEN" in finding.message
