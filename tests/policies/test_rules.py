"""What holds for every rule: its examples, every kind that carries pods, and silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import policies
from policies import RULES, Context, Rule, check, explain
from tests.policies.builders import (
    CARRIERS,
    DIGEST,
    Object,
    cron_job,
    deployment,
    engine,
    found,
    job,
    network_policy,
    pod,
)

EXAMPLES = Path(policies.__file__).parent / "examples"
STRICT = Context(profile="strict")
IDS = [rule.id for rule in RULES]


def example(rule_id: str, name: str) -> list[Object]:
    text = (EXAMPLES / rule_id / f"{name}.yaml").read_text()
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_examples_are_what_explain_says(rule: Rule) -> None:
    assert found(rule.id, *example(rule.id, "good"), context=STRICT) == []
    assert found(rule.id, *example(rule.id, "bad"), context=STRICT)
    text = explain(rule.id)
    assert rule.reason in text
    assert rule.remedy in text


def test_examples_belong_to_a_rule() -> None:
    assert sorted(folder.name for folder in EXAMPLES.iterdir()) == sorted(IDS)


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=list(CARRIERS))
def test_a_sound_engine_is_silent_in_every_kind(carrier: Any) -> None:
    assert check([carrier(pod()), network_policy()], Context()) == []


BROKEN: dict[str, Object] = {
    "startup-probe": pod(engine(startupProbe=None)),
    "readiness-probe": pod(engine(readinessProbe=None)),
    "liveness-probe": pod(engine(livenessProbe=None)),
    "gpu-limits": pod(engine(resources=None)),
    "image-digest": pod(engine(image="vllm/vllm-openai:v0.26.0")),
    "service-links": pod(enableServiceLinks=None),
    "shared-memory": pod(engine(args=["-tp", "2"], resources={"limits": {"nvidia.com/gpu": 2}})),
    "drain": pod(engine(lifecycle=None)),
    "plain-secret": pod(engine(env=[{"name": "API_KEY", "value": "x"}])),
    "shell-pid1": pod(engine(command=["sh", "-c", "vllm serve x | tee log"], args=None)),
}


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=list(CARRIERS))
@pytest.mark.parametrize("rule_id", BROKEN)
def test_each_rule_sees_each_kind(rule_id: str, carrier: Any) -> None:
    findings = check([carrier(BROKEN[rule_id]), network_policy()], Context())
    assert {finding.rule for finding in findings} == {rule_id}


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=list(CARRIERS))
def test_no_network_policy_is_seen_in_each_kind(carrier: Any) -> None:
    findings = check([carrier(pod())], Context())
    assert {finding.rule for finding in findings} == {"network-policy"}


@pytest.mark.parametrize("rule_id", sorted(BROKEN.keys() - {"service-links", "drain"}))
def test_native_sidecars_count_as_containers(rule_id: str) -> None:
    broken = BROKEN[rule_id]
    sidecar = {**broken["containers"][0], "restartPolicy": "Always"}
    spec = {**broken, "containers": [engine(name="other")], "initContainers": [sidecar]}
    assert found(rule_id, deployment(spec))


@pytest.mark.parametrize("rule_id", ["startup-probe", "readiness-probe", "liveness-probe", "drain"])
@pytest.mark.parametrize("carrier", [job, cron_job])
def test_jobs_serve_nobody(rule_id: str, carrier: Any) -> None:
    assert found(rule_id, carrier(BROKEN[rule_id])) == []


@pytest.mark.parametrize("rule", RULES, ids=IDS)
@pytest.mark.parametrize(
    "objects",
    [
        [],
        [{}],
        [{"apiVersion": "v1", "kind": "List", "items": []}],
        [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        [deployment({})],
        [deployment({"containers": []})],
        [deployment({"containers": None})],
        [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": "x", "spec": ["x"]}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "data": {"containers": "x"}}],
    ],
    ids=str,
)
def test_nothing_is_found_in_nothing(rule: Rule, objects: list[Object]) -> None:
    assert [f for f in found(rule.id, *objects) if f.rule != "network-policy"] == []


BOGUS = [None, 1, 1.5, "x", True, [], ["x"], [1], {}, {"x": 1}, [[]], [{}]]


@pytest.mark.parametrize("value", BOGUS, ids=repr)
def test_malformed_fields_never_stop_a_rule(value: Any) -> None:
    fields = (
        "name", "image", "args", "command", "env", "ports", "resources", "startupProbe",
        "livenessProbe", "readinessProbe", "lifecycle", "volumeMounts",
    )  # fmt: skip
    containers = [{**engine(), field: value} for field in fields]
    specs = ("volumes", "initContainers", "hostNetwork", "enableServiceLinks", "restartPolicy")
    pods = [pod(*containers), *({**pod(), field: value} for field in specs)]
    objects = [carrier(spec) for carrier in CARRIERS.values() for spec in pods]
    objects.append({**network_policy(), "spec": value})
    objects += [{**deployment(pod()), "metadata": value}, {**deployment(pod()), "items": value}]
    assert check(objects, Context())


def test_findings_name_object_field_and_remedy() -> None:
    spec = pod(engine(image="nginx:1.27", command=["nginx"]))
    finding = found("image-digest", deployment(spec))[0]
    assert finding.object == "Deployment team-a/llama"
    assert finding.field == "spec.template.spec.containers[0].image"
    assert "nginx:1.27" in finding.message
    assert "sha256" in finding.remedy
    assert policies.words(finding) == (
        '[image-digest] Deployment team-a/llama: container "engine" has an image without digest: '
        "nginx:1.27 (spec.template.spec.containers[0].image)\n    remedy: " + finding.remedy
    )


def test_findings_come_in_the_order_of_objects_then_rules() -> None:
    two = [deployment(pod(engine(image="vllm/vllm-openai:v1", startupProbe=None))) for _ in "ab"]
    two[1]["metadata"]["name"] = "zebra"
    findings = check([two[1], two[0], network_policy()], Context())
    assert [(f.object[-5:], f.rule) for f in findings] == [
        ("zebra", "startup-probe"),
        ("zebra", "image-digest"),
        ("llama", "startup-probe"),
        ("llama", "image-digest"),
    ]


def test_context_survives_the_environment_variable() -> None:
    context = Context(
        frozenset({"a:1"}), frozenset({"kueue-system"}), frozenset({"b:2"}), "error", True
    )
    assert Context.from_json(context.to_json()) == context
    assert Context.from_json(Context().to_json()) == Context()
    with pytest.raises(ValueError, match="localImages"):
        Context.from_json('{"localImages": []}')


def test_digest_constant_is_a_digest() -> None:
    assert found("image-digest", deployment(pod(engine(image=f"x@{DIGEST}")))) == []


@pytest.mark.parametrize("value", BOGUS, ids=repr)
def test_malformed_names_never_stop_a_rule(value: Any) -> None:
    """Names where only text belongs: what is no text is no name, and nothing falls over it."""
    mounted = engine(volumeMounts=[{"name": value, "mountPath": "/x"}])
    made = deployment(pod(mounted, volumes=[{"name": value, "emptyDir": {}}]))
    service = named_service({"ports": [{"name": value, "port": value, "targetPort": value}]})
    assert check([made, service, network_policy()], Context(profile="strict")) is not None


def named_service(spec: Object) -> Object:
    meta = {"name": "llama", "namespace": "team-a"}
    full = {"selector": {"app": "llama"}, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": full}
