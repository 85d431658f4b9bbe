"""Wrong shapes are findings: an object that no rule can look into is not clean."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import policies
from policies import Context
from tokenworks.check.report import Report
from tokenworks.check.run import check_paths

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n}\n"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"


def checked(text: str) -> Report:
    return check_paths(["-"], io.BytesIO(text.encode()), Context())


WRONG = {
    "spec is a list": (DEPLOYMENT + "spec: [1]", "Deployment a", "spec", "a list", "a map"),
    "spec is text": (SERVICE + "spec: x", "Service a", "spec", '"x"', "a map"),
    "spec of a kind we do not know": (
        "apiVersion: x.io/v1\nkind: Odd\nmetadata: {name: a}\nspec: [1]", "Odd a", "spec",
        "a list", "a map",
    ),
    "metadata is text": (
        "apiVersion: v1\nkind: Service\nmetadata: foo", "Service (no name)", "metadata", '"foo"',
        "a map",
    ),
    "name is a number": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: 5}", "Service (no name)",
        "metadata.name", "5", "text",
    ),
    "name is a date": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: 2024-01-31}", "Service 2024-01-31",
        "metadata.name", "2024-01-31", "text",
    ),
    "name is empty": (
        'apiVersion: v1\nkind: Service\nmetadata: {name: ""}', "Service (no name)",
        "metadata.name", '""', "lower-case letters",
    ),
    "name in capitals": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: Foo_Bar}", "Service Foo_Bar",
        "metadata.name", '"Foo_Bar"', "lower-case letters",
    ),
    "namespace is a number": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: 1}", "Service a",
        "metadata.namespace", "1", "text",
    ),
    "labels are a list": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: [x]}", "Service a",
        "metadata.labels", "a list", "a map",
    ),
    "containers are a map": (
        POD + "spec: {containers: {name: a}}", "Pod n/a", "spec.containers", "a map",
        "a list of maps",
    ),
    "a container is text": (
        POD + "spec: {containers: [nginx]}", "Pod n/a", "spec.containers[0]", '"nginx"', "a map",
    ),
    "an image is a number": (
        POD + "spec: {containers: [{name: a, image: 5}]}", "Pod n/a",
        "spec.containers[0].image", "5", "text",
    ),
    "args are text": (
        POD + "spec: {containers: [{name: a, image: x, args: --port 1}]}", "Pod n/a",
        "spec.containers[0].args", '"--port 1"', "a list",
    ),
    "env is a map": (
        POD + "spec: {containers: [{name: a, image: x, env: {A: b}}]}", "Pod n/a",
        "spec.containers[0].env", "a map", "a list of maps",
    ),
    "resources are a list": (
        POD + "spec: {containers: [{name: a, image: x, resources: []}]}", "Pod n/a",
        "spec.containers[0].resources", "a list", "a map",
    ),
    "volumes are a map": (
        POD + "spec: {volumes: {a: {}}}", "Pod n/a", "spec.volumes", "a map", "a list of maps",
    ),
    "a template is a list": (
        DEPLOYMENT + "spec: {template: []}", "Deployment a", "spec.template", "a list", "a map",
    ),
    "replicas are text": (
        DEPLOYMENT + 'spec: {replicas: "3"}', "Deployment a", "spec.replicas", '"3"',
        "a whole number",
    ),
    "replicas are true": (
        DEPLOYMENT + "spec: {replicas: true}", "Deployment a", "spec.replicas", "true",
        "a whole number",
    ),
    "ports are a map": (
        SERVICE + "spec: {ports: {port: 80}}", "Service a", "spec.ports", "a map", "a list of maps",
    ),
    "policy types are numbers": (
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\n"
        "spec: {policyTypes: [1]}", "NetworkPolicy a", "spec.policyTypes[0]", "1", "text",
    ),
    "data is a list": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: [x]", "ConfigMap a", "data",
        "a list", "a map",
    ),
    "items are a map": (
        "apiVersion: v1\nkind: List\nitems: {a: b}", "List (no name)", "items", "a map", "a list",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "field", "found", "wanted"), WRONG.values(), ids=list(WRONG)
)
def test_a_wrong_shape_names_object_field_and_what_is_right(
    text: str, name: str, field: str, found: str, wanted: str
) -> None:
    report = checked(text)
    (finding,) = [f for f in report.findings if f.rule == "malformed"]
    assert (finding.object, finding.field) == (name, field)
    assert finding.message.startswith(f"found {found}")
    assert f"allowed: {wanted}" in finding.message
    assert finding.line and finding.remedy
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("apiVersion: v1\nkind: 5", "kind is no text: found 5"),
        ("apiVersion: v1\nkind: [Pod]", "kind is no text: found a list"),
        ("apiVersion: {a: 1}\nkind: Pod", "apiVersion is no text: found a map"),
        ("apiVersion: 1\nkind: Pod", "apiVersion is no text: found 1"),
        ("apiVersion: v1\nkind:", "kind is no text: found nothing"),
    ],
)
def test_what_is_no_object_says_what_it_has_instead(text: str, says: str) -> None:
    report = checked(text)
    assert [f.rule for f in report.findings] == ["not-an-object"]
    assert says in report.findings[0].message
    assert report.exit_code == 1


@pytest.mark.parametrize(
    "text",
    [
        POD + "spec:",
        POD + "spec: {containers: null, volumes: null}",
        'apiVersion: v1\nkind: Service\nmetadata: {name: "2024-01-31"}',
        "apiVersion: v1\nkind: Service\nmetadata: {generateName: a-}",
        "apiVersion: v1\nkind: Service",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'a:b'}",
        DEPLOYMENT + "spec: {replicas: '${REPLICAS}'}",
        DEPLOYMENT + "spec: {replicas: 0}",
        "apiVersion: x.io/v1\nkind: Odd\nmetadata: {name: a}\nspec: {containers: {a: {}}}",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]",
        "apiVersion: v1\nkind: List\nitems: []",
    ],
)
def test_what_is_right_or_absent_is_no_finding(text: str) -> None:
    assert [f for f in checked(text).findings if f.rule == "malformed"] == []


def test_the_examples_of_all_rules_have_the_right_shape() -> None:
    """Those that are refused are refused for something else."""
    examples = Path(policies.__file__).parent / "examples"
    report = check_paths([str(examples)], io.BytesIO(), Context())
    assert [f for f in report.findings if f.rule == "malformed"] == []


CONTAINERS = "    spec: {containers: [{name: a, image: a, args: [b]}]}\n"
LABELLED = "  template:\n    metadata: {labels: {app: a}}\n" + CONTAINERS


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        (DEPLOYMENT + "strategy: {type: Recreate}\nspec: {}\n", "strategy", "no object has"),
        (DEPLOYMENT + "spec:\n" + LABELLED, "spec", "found no selector"),
        (
            DEPLOYMENT + "spec:\n  selector: {matchLabels: {app: b}}\n" + LABELLED,
            "spec.selector.matchLabels.app", "does not have: app",
        ),
        (
            DEPLOYMENT + "spec:\n  selector: {matchLabels: {x: null}}\n" + LABELLED,
            "spec.selector.matchLabels.x", "does not have: x",
        ),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses(text: str, field: str, says: str) -> None:
    (finding,) = [f for f in checked(text).findings if f.rule == "malformed"]
    assert finding.field == field
    assert says in finding.message


@pytest.mark.parametrize(
    "text",
    [
        DEPLOYMENT + "spec:\n  selector: {matchLabels: {app: a}}\n" + LABELLED,
        DEPLOYMENT + "spec:\n  template:\n    spec: {containers: [{name: a, image: a:2}]}\n",
        DEPLOYMENT + "spec:\n  template:\n    spec: {containers: [{name: a, args: [b]}]}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nimmutable: true\ndata: {}\n",
    ],
    ids=["whole", "patch of an image", "patch of arguments", "fields beside no spec"],
)
def test_what_the_api_server_takes(text: str) -> None:
    assert [f for f in checked(text).findings if f.rule == "malformed"] == []
