"""Digests: with or without tag, in every list of containers, and what is exempt."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Context, Unknown
from tests.policies.builders import DIGEST, Object, deployment, engine, found, named, pod

RULE = "image-digest"


def image(reference: Any) -> Object:
    return deployment(pod(engine(image=reference, command=["x"])))


@pytest.mark.parametrize(
    "reference",
    [
        f"nginx@{DIGEST}",
        f"nginx:1.27@{DIGEST}",
        f"registry.example:5000/team/nginx:1.27@{DIGEST}",
        "nginx@sha512:" + "ab" * 64,
        Unknown(),
    ],
)
def test_compliant(reference: str) -> None:
    assert found(RULE, image(reference)) == []


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("nginx:1.27", "without digest"),
        ("nginx", "which means :latest"),
        ("nginx:latest", "moves with :latest"),
        ("registry.example:5000/nginx", "which means :latest"),
        ("registry.example:5000/nginx:1.27", "without digest"),
        ("nginx:1.27@sha256:abc", "malformed digest"),
        (f"nginx@{DIGEST.upper()}", "malformed digest"),
        ("nginx@", "malformed digest"),
        (f"Team/Nginx@{DIGEST}", "upper-case"),
        ("", "names no image"),
    ],
)
def test_violating(reference: str, says: str) -> None:
    findings = found(RULE, image(reference))
    assert len(findings) == 1
    assert says in findings[0].message
    assert findings[0].severity == "error"


@pytest.mark.parametrize("key", ["initContainers", "ephemeralContainers"])
def test_every_list_of_containers(key: str) -> None:
    findings = found(RULE, deployment(pod(**{key: [{"name": "x", "image": "busybox:1.36"}]})))
    assert [f.field for f in findings] == [f"spec.template.spec.{key}[0].image"]


def test_image_volumes() -> None:
    volume = {"name": "weights", "image": {"reference": "registry.example/weights:1"}}
    findings = found(RULE, deployment(pod(volumes=[volume, {"name": "x", "emptyDir": {}}])))
    assert [f.field for f in findings] == ["spec.template.spec.volumes[0].image.reference"]


def test_pod_specs_without_a_template() -> None:
    spec = {"containers": [{"name": "kserve-container", "image": "x:1"}]}
    runtime = named("serving.kserve.io/v1alpha1", "ServingRuntime", spec=spec)
    assert [f.field for f in found(RULE, runtime)] == ["spec.containers[0].image"]


def test_custom_resource_definitions_hold_no_pods() -> None:
    spec = {"versions": [{"default": {"containers": [{"name": "x", "image": "x:1"}]}}]}
    assert (
        found(RULE, named("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec=spec)) == []
    )


@pytest.mark.parametrize(
    ("local", "reference", "exempt"),
    [
        ("ghcr.io/tokenworks/simulator:0.1.0", "ghcr.io/tokenworks/simulator:0.1.0", True),
        ("ghcr.io/tokenworks/simulator:0.1.0", "ghcr.io/tokenworks/simulator:0.2.0", False),
        (
            "ghcr.io/tokenworks/simulator:0.1.0",
            "ghcr.io/tokenworks/simulator:0.1.0@sha256:a",
            False,
        ),
        ("docker.io/library/busybox", "busybox:1.36", True),
        ("docker.io/istio/pilot:1.31.0", "istio/pilot:1.31.0", True),
        ("docker.io/library/busybox", "example.com/library/busybox:1", False),
        ("registry.k8s.io/pause:3.10.1", "nginx:1.27", False),
    ],
)
def test_local_images(local: str, reference: str, exempt: bool) -> None:
    context = Context(local_images=frozenset({local}))
    assert (found(RULE, image(reference), context=context) == []) is exempt


@pytest.mark.parametrize("reference", ["nginx:1.27", f"nginx@{DIGEST}", f"pause:3@{DIGEST}"])
def test_what_a_cluster_without_a_registry_does_not_have(reference: str) -> None:
    """It would wait for an image that nobody can pull; a digest does not help."""
    context = Context(
        frozenset({"docker.io/library/pause:3"}), only_local_images=True,
        unresolved_images=frozenset({"nginx:1.27"}),
    )  # fmt: skip
    (finding,) = found(RULE, image(reference), context=context)
    assert (finding.severity, reference in finding.message) == ("error", True)
    assert "pulls none" in finding.message
    assert found(RULE, image("pause:3"), context=context) == []


def test_unresolved_digests_warn_until_they_are_applied() -> None:
    known = Context(unresolved_images=frozenset({"nginx:1.27"}))
    for context in (Context(), known):
        reference = "nginx:1.27" if context is known else "nginx:1.27@unresolved"
        finding = found(RULE, image(reference), context=context)[0]
        assert finding.severity == "warning"
        assert "unresolved" in finding.message
    refusing = Context(unresolved_images=frozenset({"nginx:1.27"}), unresolved="error")
    assert found(RULE, image("nginx:1.27"), context=refusing)[0].severity == "error"
    assert found(RULE, image("nginx:1.28"), context=known)[0].severity == "error"


def test_injected_proxies_bring_their_own_image() -> None:
    gateway = image("auto")
    assert found(RULE, gateway)
    gateway["spec"]["template"]["metadata"]["labels"]["sidecar.istio.io/inject"] = "true"
    assert found(RULE, gateway) == []
