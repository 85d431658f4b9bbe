"""The policy pack: the same words, unknown values, whole stacks, and the wire."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy.proxy import (
    UNKNOWN_OBJECT_VALUE,
    UNKNOWN_STRING_VALUE,
    UnknownValueError,
    unknown_checking_proxy,
)

import policies
from policies import Context, check, words
from policies.pack import CONTEXT_VARIABLE, Judge
from policies.resources import manifests
from tests.policies.builders import Object, deployment, engine, network_policy, pod

PACK = Path(policies.__file__).parent


@dataclass(frozen=True)
class Resource:
    """What Pulumi hands to a policy, as far as the rules read it."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str


def token(item: Object) -> str:
    version = item["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{item['kind']}"


def resource(item: Object, resource_type: str | None = None) -> Resource:
    kind = resource_type or token(item)
    return Resource(kind, unknown_checking_proxy(item), f"urn:{item.get('kind')}")


def judge(context: Context | None = None) -> Judge:
    return Judge(context or Context(), UnknownValueError)


BAD = deployment(pod(engine(startupProbe=None, image="vllm/vllm-openai:v0.26.0")))


def said(objects: list[Object], severity: str = "error") -> list[str]:
    """Every sentence of one severity that a preview of these objects prints."""
    by = judge()
    resources = [resource(item) for item in objects]
    each = [text for one in resources for text in by.each(one, severity)]  # type: ignore[arg-type]
    return each + [text for text, _ in by.stack(resources, severity)]  # type: ignore[arg-type]


@pytest.mark.parametrize("severity", ["error", "warning"])
@pytest.mark.parametrize(
    "objects",
    [
        [BAD],
        [BAD, network_policy()],
        [deployment(pod())],
        [deployment(pod(engine(lifecycle=None), enableServiceLinks=None)), network_policy()],
        [],
    ],
)
def test_the_pack_says_what_check_says(objects: list[Object], severity: str) -> None:
    expected = [words(f) for f in check(objects, Context()) if f.severity == severity]
    assert sorted(said(objects, severity)) == sorted(expected)


def test_what_only_the_stack_shows_is_said_once() -> None:
    by, one = judge(), resource(BAD)
    assert all("[network-policy]" not in text for text in by.each(one, "error"))
    assert [text[:16] for text, _ in by.stack([one], "error")] == ["[network-policy]"]
    assert by.stack([one, resource(network_policy())], "error") == []


def test_unknown_values_are_not_judged() -> None:
    spec = pod(engine(image=UNKNOWN_STRING_VALUE, startupProbe=UNKNOWN_OBJECT_VALUE))
    assert said([deployment(spec), network_policy()]) == []


def test_a_cluster_that_is_still_to_be_made_has_objects_without_contents() -> None:
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    unknown = {**binding, "metadata": UNKNOWN_OBJECT_VALUE, "roleRef": UNKNOWN_OBJECT_VALUE}
    bare = deployment(pod(engine()))
    assert any("[network-policy]" in text for text in said([bare]))
    assert said([bare, unknown]) == []


def test_numbers_arrive_as_floats_and_read_the_same() -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000.0}, "timeoutSeconds": 1.0}
    whole = {"httpGet": {"path": "/health", "port": 8000}, "timeoutSeconds": 1}
    floats = said([deployment(pod(engine(livenessProbe=probe))), network_policy()])
    assert floats == said([deployment(pod(engine(livenessProbe=whole))), network_policy()])
    assert "timeoutSeconds 1," in floats[0]


def test_defaults_that_the_cluster_fills_in_change_no_word() -> None:
    bare = deployment(pod(engine(livenessProbe={"httpGet": {"path": "/health", "port": 8000}})))
    live = deployment(
        pod(
            engine(
                livenessProbe={
                    "httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 10, "failureThreshold": 3,
                    "successThreshold": 1,
                }
            ),
            dnsPolicy="ClusterFirst", restartPolicy="Always",
        )
    )  # fmt: skip
    live["status"] = {"replicas": 1}
    assert said([live, network_policy()]) == said([bare, network_policy()])


@pytest.mark.parametrize(
    ("resource_type", "seen"),
    [
        ("kubernetes:apps/v1:Deployment", True),
        ("kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet", True),
        ("kubernetes:core/v1:Pod", True),
        ("kubernetes:apps/v1:DeploymentPatch", False),
        ("pulumi:providers:kubernetes", False),
        ("pulumi:pulumi:Stack", False),
        ("tokenworks:index:Model", False),
        ("aws:eks/cluster:Cluster", False),
        ("kubernetes:yaml:ConfigFile", False),
    ],
)
def test_which_resources_are_objects(resource_type: str, seen: bool) -> None:
    found = list(manifests([resource({"kind": "X"}, resource_type)], UnknownValueError))
    assert bool(found) is seen


def test_identity_comes_from_the_type_when_the_properties_have_none() -> None:
    one = Resource("kubernetes:core/v1:Pod", unknown_checking_proxy({"__x": 1}), "urn:x")
    assert list(manifests([one], UnknownValueError)) == [
        ("urn:x", {"apiVersion": "v1", "kind": "Pod"})
    ]


def test_the_context_comes_from_the_environment() -> None:
    context = Context(local_images=frozenset({"a:1"}), unresolved="error")
    given = {CONTEXT_VARIABLE: context.to_json()}
    assert Judge.of(given, UnknownValueError).context == context
    assert Judge.of({}, UnknownValueError).context == Context()


@pytest.fixture(scope="module")
def analyzer() -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    """The pack as the engine runs it: a process that prints its port."""
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:0", str(PACK)]
    context = Context(local_images=frozenset({"registry.example/engine:1"})).to_json()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=PACK, env={CONTEXT_VARIABLE: context}, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield analyzer_pb2_grpc.AnalyzerStub(channel)
    finally:
        process.kill()
        process.wait()


def props(item: Object) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(item)
    return struct


def test_the_pack_over_the_wire(analyzer: Any) -> None:
    info = analyzer.GetAnalyzerInfo(empty_pb2.Empty())
    levels = {policy.name: policy.enforcementLevel for policy in info.policies}
    mandatory, advisory = analyzer_pb2.MANDATORY, analyzer_pb2.ADVISORY
    assert levels == {
        "errors": mandatory, "stack-errors": mandatory,
        "warnings": advisory, "stack-warnings": advisory,
    }  # fmt: skip
    local = engine(name="local", image="registry.example/engine:1")
    item = deployment(
        {**pod(), "containers": [BAD["spec"]["template"]["spec"]["containers"][0], local]}
    )
    one = analyzer.Analyze(
        analyzer_pb2.AnalyzeRequest(
            type=token(item), properties=props(item), urn="urn:x", name="llama"
        )
    )
    whole = analyzer.AnalyzeStack(
        analyzer_pb2.AnalyzeStackRequest(
            resources=[
                analyzer_pb2.AnalyzerResource(
                    type=token(item), properties=props(item), urn="urn:x", name="llama"
                )
            ]
        )
    )
    texts = [d.message.partition("\n")[2] for d in (*one.diagnostics, *whole.diagnostics)]
    context = Context(local_images=frozenset({"registry.example/engine:1"}))
    assert sorted(texts) == sorted(words(finding) for finding in check([item], context))
    assert {d.urn for d in (*one.diagnostics, *whole.diagnostics)} == {"urn:x"}


def test_resources_of_aws_over_the_wire_are_judged_once(analyzer: Any) -> None:
    """What a bucket shows by itself before it is made, the rest with the whole stack."""
    properties = props({"tags": {"team": "x"}, "forceDestroy": True})
    named = {
        "type": "aws:s3/bucket:Bucket",
        "properties": properties,
        "urn": "u",
        "name": "weights",
    }
    protected = analyzer_pb2.AnalyzerResourceOptions(protect=True)
    one = analyzer.Analyze(analyzer_pb2.AnalyzeRequest(**named, options=protected))
    whole = analyzer.AnalyzeStack(
        analyzer_pb2.AnalyzeStackRequest(
            resources=[analyzer_pb2.AnalyzerResource(**named, options=protected)]
        )
    )

    def rules(response: Any) -> list[str]:
        said = [d.message.partition("\n")[2] for d in response.diagnostics]
        assert all("s3:Bucket weights" in text for text in said)
        return sorted(text.partition("]")[0].strip("[") for text in said)

    assert rules(one) == ["aws-cost-tag", "aws-protected"]
    assert rules(whole) == ["aws-bucket-encryption"]


def test_the_pack_is_a_thin_wrapper() -> None:
    assert len((PACK / "__main__.py").read_text().splitlines()) <= 40
