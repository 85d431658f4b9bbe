"""The order of objects under Argo CD, what it never deletes, and who delivers what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.documents import stack
from tokenworks.render.release import Layer, Release, logical_name
from tokenworks.render.waves import (
    WAVE,
    annotated,
    deliverable,
    pulumis_share,
    wave_of,
    with_waves,
)

OPTIONS = "argocd.argoproj.io/sync-options"


def manifest(version: str, kind: str, **notes: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "x", "namespace": "n"}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {**metadata, **({"annotations": notes} if notes else {})},
    }


NAMESPACE = manifest("v1", "Namespace")
GATEWAY = manifest("gateway.networking.k8s.io/v1", "Gateway")
POOL = manifest("inference.networking.k8s.io/v1", "InferencePool")
CLAIM = manifest("v1", "PersistentVolumeClaim")
SERVICE = manifest("v1", "Service")
ROUTE = manifest("gateway.networking.k8s.io/v1", "HTTPRoute")
WORKLOADS = [
    manifest("apps/v1", "Deployment"),
    manifest("batch/v1", "Job"),
    manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    manifest("workloads.x-k8s.io/v1alpha2", "RoleBasedGroup"),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w["kind"])
def test_pools_come_before_workloads_and_routes_after(workload: dict[str, Any]) -> None:
    order = [NAMESPACE, SERVICE, POOL, workload, ROUTE]
    waves = [wave_of(item) for item in order]
    assert waves == sorted(set(waves))


def test_a_claim_is_not_waited_for_before_a_pod_uses_it() -> None:
    assert wave_of(CLAIM) == wave_of(WORKLOADS[0])


def test_queues_come_after_their_flavors() -> None:
    queue, flavor = (manifest("kueue.x-k8s.io/v1beta2", k) for k in ("ClusterQueue", "Topology"))
    assert wave_of(flavor) < wave_of(queue)


@pytest.mark.parametrize(
    "kept",
    [
        NAMESPACE,
        manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        manifest("v1", "PersistentVolumeClaim", **{"helm.sh/resource-policy": "keep"}),
    ],
    ids=lambda item: item["kind"],
)
def test_what_takes_more_with_it_than_git_has_is_never_deleted(kept: dict[str, Any]) -> None:
    notes = annotated(kept)["metadata"]["annotations"]
    assert notes[OPTIONS] == "Prune=false,Delete=false"
    assert notes["argocd.argoproj.io/compare-options"] == "IgnoreExtraneous"


def test_other_objects_are_deleted_when_git_drops_them() -> None:
    for item in (CLAIM, SERVICE, ROUTE, *WORKLOADS):
        assert OPTIONS not in annotated(item)["metadata"].get("annotations", {})


def test_a_wave_that_somebody_wrote_counts() -> None:
    own = manifest("gateway.networking.k8s.io/v1", "HTTPRoute", **{WAVE: "7"})
    assert annotated(own)["metadata"]["annotations"] == {WAVE: "7"}
    assert annotated(SERVICE) == SERVICE


def release(name: str, layer: Layer, *objects: dict[str, Any]) -> Release:
    return Release(name, layer, "n", objects)


RELEASES = [
    release("lws", "operators", NAMESPACE, WORKLOADS[0]),
    release("karpenter-pools", "platform", manifest("karpenter.sh/v1", "NodePool")),
    release("queues", "platform", manifest("kueue.x-k8s.io/v1beta2", "ClusterQueue")),
    release("gateway", "platform", NAMESPACE, GATEWAY, SERVICE),
    release("tenant-a", "platform", NAMESPACE, SERVICE),
    release("model-m", "models", WORKLOADS[0], ROUTE),
    release("argocd-applications", "delivery", manifest("argoproj.io/v1alpha1", "Application")),
    release("application-queues", "applications", manifest("argoproj.io/v1alpha1", "Application")),
]


def test_only_what_serves_is_delivered_by_argocd() -> None:
    found = [r.name for r in RELEASES if deliverable(r)]
    assert found == ["queues", "gateway", "tenant-a", "model-m"]


def test_objects_that_pulumi_alone_delivers_have_no_wave() -> None:
    for item in RELEASES:
        changed = with_waves(item) != item.objects
        assert not changed or deliverable(item), item.name


def test_pulumi_delivers_everything_or_what_must_be_there_before() -> None:
    pulumi = stack()
    spec = {"delivery": "argocd", "argocd": {"repository": "https://git.example.com/p.git"}}
    argocd = stack(environment={"spec": spec})
    assert pulumis_share(pulumi, RELEASES) == RELEASES
    shared = {r.name: [logical_name(o) for o in r.objects] for r in pulumis_share(argocd, RELEASES)}
    assert shared == {
        "lws": ["Namespace:n/x", "Deployment:n/x"],
        "karpenter-pools": ["NodePool:n/x"],
        "gateway": ["Namespace:n/x", "Gateway:n/x"],
        "tenant-a": ["Namespace:n/x"],
        "argocd-applications": ["Application:n/x"],
    }
