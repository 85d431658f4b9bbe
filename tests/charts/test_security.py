"""Pods of tenants keep to the restricted Pod Security Standard, which their namespaces enforce."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.toolchain import module_dir
from tests.charts.documents import model, simulator, stack
from tokenworks.render import RenderTools, render
from tokenworks.spec.model import ModelRelease

pytestmark = pytest.mark.helm
ROOT = Path(__file__).resolve().parents[2]
VOLUMES = {"name", "configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}


def pod_specs(node: Any) -> Iterator[dict[str, Any]]:
    """Every pod spec below."""
    if isinstance(node, dict):
        if isinstance(node.get("containers"), list):
            yield node
        for value in node.values():
            yield from pod_specs(value)
    elif isinstance(node, list):
        for value in node:
            yield from pod_specs(value)


def breaches(pod: dict[str, Any]) -> Iterator[str]:
    """What the standard does not allow (kubernetes.io, Pod Security Standards, restricted)."""
    security = pod.get("securityContext", {})
    if not security.get("runAsNonRoot") or security.get("runAsUser", 1) == 0:
        yield "runs as root"
    if security.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "no seccomp profile"
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key))
    yield from (f"volume {key}" for v in pod.get("volumes", []) for key in v.keys() - VOLUMES)
    for container in (*pod["containers"], *pod.get("initContainers", [])):
        own = container.get("securityContext", {})
        if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
            yield f"{container['name']} may gain privileges"
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            yield f"{container['name']} has capabilities"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{container['name']} takes a port of its node"


@pytest.mark.parametrize(
    "release",
    [model(), simulator(), model(caches={"weights": {"kind": "pvc", "claim": "weights"}})],
    ids=["vllm", "simulator", "pvc"],
)
def test_pods_of_tenants_keep_to_it(release: ModelRelease, renderer: Path) -> None:
    made = render(stack(release), RenderTools(renderer, module_dir))
    tenants = {
        o["metadata"]["name"]
        for r in made
        for o in r.objects
        if o["kind"] == "Namespace"
        and o["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") == "restricted"
    }
    assert tenants == {"research"}
    pods = [pod for r in made if r.namespace in tenants for o in r.objects for pod in pod_specs(o)]
    assert len(pods) == 2, "engine and picker"
    assert [breach for pod in pods for breach in breaches(pod)] == []


def test_weights_on_a_nodes_disk_open_their_tenants_namespace_and_say_so(renderer: Path) -> None:
    pool = {"spec": {"nodePools": {"h100": {"localStorage": {"path": "/mnt/disk"}}}}}
    release = model(caches={"weights": {"kind": "node"}})
    made = render(stack(release, environment=pool), RenderTools(renderer, module_dir))
    (labels,) = (
        o["metadata"]["labels"]
        for r in made
        for o in r.objects
        if o["kind"] == "Namespace" and o["metadata"]["name"] == "research"
    )
    standard = {k.rpartition("/")[2]: v for k, v in labels.items() if k.startswith("pod-security")}
    assert standard == {"enforce": "privileged", "warn": "restricted", "audit": "restricted"}


def test_pods_of_the_exercises_keep_to_it() -> None:
    files = sorted((ROOT / "docs" / "exercises").glob("*.yaml"))
    pods = [p for f in files for o in yaml.safe_load_all(f.read_text()) for p in pod_specs(o)]
    assert pods
    assert [breach for pod in pods for breach in breaches(pod)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"securityContext": {}},
        {"hostNetwork": True},
        {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
        {"containers": [{"name": "a"}]},
    ],
)
def test_a_breach_is_seen(change: dict[str, Any]) -> None:
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": own}],
    }
    assert list(breaches(pod)) == []
    assert list(breaches({**pod, **change})) != []
