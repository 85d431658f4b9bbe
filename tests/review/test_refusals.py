"""Fields that cannot change, CRDs that go, and who answers for it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from policies import RULES
from policies.model import Waiver
from policies.waivers import OF_CHANGES
from tokenworks.catalog.changes import changes
from tokenworks.check import rules
from tokenworks.review.objects import differences
from tokenworks.review.refusals import CRD_REMOVAL, CRD_VERSION, IMMUTABLE, Refusals, refusals
from tokenworks.review.snapshot import Placed, Snapshot

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


def snapshot(objects: Sequence[dict[str, Any]], **more: Any) -> Snapshot:
    return Snapshot("env", tuple(Placed("release", item) for item in objects), **more)


def made(kind: str, version: str, **fields: Any) -> dict[str, Any]:
    """An object; `labels` go to its metadata."""
    metadata: dict[str, Any] = {"name": "x", "namespace": "n", "labels": fields.pop("labels", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def fields_of(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The fields that are refused."""
    old, new = snapshot([before]), snapshot([after])
    found = refusals(old, new, differences(old, new)).refused
    assert {finding.rule for finding in found} <= {IMMUTABLE}
    assert all("cannot change" in f.message and "waiver" in f.remedy for f in found)
    return [finding.field for finding in found]


def pod(cpu: str = "1", image: str = "a", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}}
    return {"spec": {"containers": [{"name": "c", "image": image, "resources": resources}], **spec}}


def group(size: int = 2, labels: dict[str, str] = QUEUE, **container: Any) -> dict[str, Any]:
    template = {"size": size, "workerTemplate": pod(**container)}
    spec = {"replicas": 1, "leaderWorkerTemplate": template}
    return made("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec=spec, labels=labels)


CASES = {
    "a Deployment's selector": (
        made("Deployment", "apps/v1", spec={"selector": {"matchLabels": {"a": "b"}}}),
        made("Deployment", "apps/v1", spec={"selector": {"matchLabels": {"a": "c"}}}),
        ["spec.selector.matchLabels.a"],
    ),
    "a Deployment's replicas and pods": (
        made("Deployment", "apps/v1", spec={"replicas": 1, "template": pod()}),
        made("Deployment", "apps/v1", spec={"replicas": 2, "template": pod(image="b")}),
        [],
    ),
    "a queue that is left": (
        made("Deployment", "apps/v1", labels=QUEUE),
        made("Deployment", "apps/v1"),
        ['metadata.labels["kueue.x-k8s.io/queue-name"]'],
    ),
    "a StatefulSet's claims": (
        made("StatefulSet", "apps/v1", spec={"serviceName": "a", "volumeClaimTemplates": []}),
        made("StatefulSet", "apps/v1", spec={"serviceName": "a", "volumeClaimTemplates": [{}]}),
        ["spec.volumeClaimTemplates[0]"],
    ),
    "what of a StatefulSet may change": (
        made("StatefulSet", "apps/v1", spec={"replicas": 1, "template": pod()}),
        made(
            "StatefulSet",
            "apps/v1",
            spec={"replicas": 2, "template": pod(cpu="2"), "podManagementPolicy": "OrderedReady"},
        ),
        [],
    ),
    "a StatefulSet in a queue grows": (
        made("StatefulSet", "apps/v1", spec={"replicas": 1}, labels=QUEUE),
        made("StatefulSet", "apps/v1", spec={"replicas": 2}, labels=QUEUE),
        ["spec.replicas"],
    ),
    "a StatefulSet in a queue is switched off": (
        made("StatefulSet", "apps/v1", spec={"replicas": 1}, labels=QUEUE),
        made("StatefulSet", "apps/v1", spec={"replicas": 0}, labels=QUEUE),
        [],
    ),
    "a Job's pods": (
        made("Job", "batch/v1", spec={"template": pod()}),
        made("Job", "batch/v1", spec={"template": pod(image="b")}),
        ["spec.template.spec.containers[c].image"],
    ),
    "a Service's address": (
        made("Service", "v1", spec={"clusterIP": "None"}),
        made("Service", "v1", spec={}),
        ["spec.clusterIP"],
    ),
    "a load balancer's class": (
        made("Service", "v1", spec={"type": "LoadBalancer", "loadBalancerClass": "a"}),
        made("Service", "v1", spec={"type": "LoadBalancer", "loadBalancerClass": "b"}),
        ["spec.loadBalancerClass"],
    ),
    "a class that goes with the load balancer": (
        made("Service", "v1", spec={"type": "LoadBalancer", "loadBalancerClass": "a"}),
        made("Service", "v1", spec={"type": "ClusterIP"}),
        [],
    ),
    "a Secret's type": (
        made("Secret", "v1", data={}),
        made("Secret", "v1", type="kubernetes.io/tls", data={}),
        ["type"],
    ),
    "a Secret's usual type, now written": (
        made("Secret", "v1", data={}),
        made("Secret", "v1", type="Opaque", data={}),
        [],
    ),
    "data that was said to stay": (
        made("ConfigMap", "v1", immutable=True, data={"a": "b"}),
        made("ConfigMap", "v1", immutable=True, data={"a": "c"}),
        ["data.a"],
    ),
    "data that was not": (
        made("ConfigMap", "v1", data={"a": "b"}),
        made("ConfigMap", "v1", data={"a": "c"}),
        [],
    ),
    "a claim's class": (
        made("PersistentVolumeClaim", "v1", spec={"storageClassName": "a"}),
        made("PersistentVolumeClaim", "v1", spec={"storageClassName": "b"}),
        ["spec.storageClassName"],
    ),
    "a claim that grows": (
        made("PersistentVolumeClaim", "v1", spec={"resources": {"requests": {"storage": "1Gi"}}}),
        made("PersistentVolumeClaim", "v1", spec={"resources": {"requests": {"storage": "2Gi"}}}),
        [],
    ),
    "a claim that shrinks": (
        made("PersistentVolumeClaim", "v1", spec={"resources": {"requests": {"storage": "1Ti"}}}),
        made("PersistentVolumeClaim", "v1", spec={"resources": {"requests": {"storage": "999Gi"}}}),
        ["spec.resources.requests.storage"],
    ),
    "a claim's size, written otherwise": (
        made("PersistentVolumeClaim", "v1", spec={"resources": {"requests": {"storage": "1Gi"}}}),
        made(
            "PersistentVolumeClaim", "v1", spec={"resources": {"requests": {"storage": "1024Mi"}}}
        ),
        [],
    ),
    "where a volume lies": (
        made("PersistentVolume", "v1", spec={"csi": {"driver": "a", "volumeHandle": "b"}}),
        made("PersistentVolume", "v1", spec={"csi": {"driver": "a", "volumeHandle": "c"}}),
        ["spec.csi.volumeHandle"],
    ),
    "from which nodes a volume is reached": (
        made("PersistentVolume", "v1", spec={"nodeAffinity": {"required": {"a": "b"}}}),
        made("PersistentVolume", "v1", spec={"nodeAffinity": {"required": {"a": "c"}}}),
        ["spec.nodeAffinity.required.a"],
    ),
    "what of a volume may change": (
        made(
            "PersistentVolume", "v1", spec={"csi": {"driver": "a"}, "capacity": {"storage": "1Gi"}}
        ),
        made(
            "PersistentVolume",
            "v1",
            spec={
                "csi": {"driver": "a", "controllerExpandSecretRef": {"name": "x"}},
                "capacity": {"storage": "2Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": "Filesystem",
                "nodeAffinity": {"required": {"a": "c"}},
            },
        ),
        [],
    ),
    "a Pod": (
        made("Pod", "v1", **pod(image="a")),
        made("Pod", "v1", **pod(image="b", cpu="2", hostNetwork=True, restartPolicy="Always")),
        ["spec.containers[c].resources.requests.cpu", "spec.hostNetwork"],
    ),
    "a Pod's second container": (
        made("Pod", "v1", **pod()),
        made("Pod", "v1", spec={"containers": [*pod()["spec"]["containers"], {"name": "d"}]}),
        ["spec.containers[d]"],
    ),
    "what a quota is for": (
        made("ResourceQuota", "v1", spec={"scopes": ["BestEffort", "Terminating"]}),
        made("ResourceQuota", "v1", spec={"scopes": ["Terminating"]}),
        ["spec.scopes[0]"],
    ),
    "what a quota is for, in another order": (
        made("ResourceQuota", "v1", spec={"scopes": ["BestEffort", "Terminating"]}),
        made("ResourceQuota", "v1", spec={"scopes": ["Terminating", "BestEffort"]}),
        [],
    ),
    "what runs a RuntimeClass": (
        made("RuntimeClass", "node.k8s.io/v1", handler="a"),
        made("RuntimeClass", "node.k8s.io/v1", handler="b"),
        ["handler"],
    ),
    "whose an IngressClass is": (
        made("IngressClass", "networking.k8s.io/v1", spec={"controller": "a.b/c"}),
        made("IngressClass", "networking.k8s.io/v1", spec={"controller": "a.b/d"}),
        ["spec.controller"],
    ),
    "a driver of volumes": (
        made("CSIDriver", "storage.k8s.io/v1", spec={}),
        made(
            "CSIDriver",
            "storage.k8s.io/v1",
            spec={"attachRequired": True, "volumeLifecycleModes": ["Ephemeral", "Persistent"]},
        ),
        ["spec.volumeLifecycleModes[0]"],
    ),
    "what kind of addresses": (
        made("EndpointSlice", "discovery.k8s.io/v1", addressType="IPv4"),
        made("EndpointSlice", "discovery.k8s.io/v1", addressType="IPv6"),
        ["addressType"],
    ),
    "a StorageClass": (
        made("StorageClass", "storage.k8s.io/v1", parameters={"a": "b"}),
        made("StorageClass", "storage.k8s.io/v1", parameters={"a": "c"}, reclaimPolicy="Delete"),
        ["parameters.a"],
    ),
    "whom a binding binds": (
        made("RoleBinding", "rbac.authorization.k8s.io/v1", roleRef={"name": "a"}, subjects=[]),
        made("RoleBinding", "rbac.authorization.k8s.io/v1", roleRef={"name": "b"}, subjects=[]),
        ["roleRef.name"],
    ),
    "a priority": (
        made("PriorityClass", "scheduling.k8s.io/v1", value=1),
        made("PriorityClass", "scheduling.k8s.io/v1", value=2),
        ["value"],
    ),
    "another version of the same": (
        made("Deployment", "apps/v1beta2", spec={"replicas": 1}),
        made("Deployment", "apps/v1", spec={"replicas": 1}),
        [],
    ),
    "the size of a group in a queue": (
        group(2),
        group(3),
        ["spec.leaderWorkerTemplate.size"],
    ),
    "the size of a group in none": (group(2, labels={}), group(3, labels={}), []),
    "what a group in a queue asks for": (
        group(cpu="1"),
        group(cpu="2"),
        ["spec.leaderWorkerTemplate.workerTemplate.spec.containers[c].resources.requests.cpu"],
    ),
    "the same, written otherwise": (group(cpu="1"), group(cpu="1000m"), []),
    "the image of a group in a queue": (group(image="a"), group(image="b"), []),
    "the nodes of a group in a queue": (
        group(nodeSelector={"a": "b"}),
        group(nodeSelector={"a": "c"}),
        ["spec.leaderWorkerTemplate.workerTemplate.spec.nodeSelector.a"],
    ),
    "a flavor's nodes, where they have a topology": (
        made("ResourceFlavor", "kueue.x-k8s.io/v1", spec={"topologyName": "t", "nodeLabels": {}}),
        made(
            "ResourceFlavor",
            "kueue.x-k8s.io/v1",
            spec={"topologyName": "t", "nodeLabels": {"a": "b"}},
        ),
        ["spec.nodeLabels.a"],
    ),
    "a flavor's nodes": (
        made("ResourceFlavor", "kueue.x-k8s.io/v1", spec={"nodeLabels": {}}),
        made("ResourceFlavor", "kueue.x-k8s.io/v1", spec={"nodeLabels": {"a": "b"}}),
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_field_that_cannot_change_is_refused_and_no_other(name: str) -> None:
    before, after, expected = CASES[name]
    kept = copy.deepcopy((before, after))
    assert fields_of(before, after) == expected
    assert (before, after) == kept


@pytest.mark.parametrize(
    ("allowed", "expected"), [(True, 0), (False, 1), (None, 1)], ids=["yes", "no", "unsaid"]
)
def test_a_claim_grows_where_its_class_lets_it(*, allowed: bool | None, expected: int) -> None:
    storage = made("StorageClass", "storage.k8s.io/v1", allowVolumeExpansion=allowed)
    old, new = (
        made(
            "PersistentVolumeClaim",
            "v1",
            spec={"storageClassName": "x", "resources": {"requests": {"storage": size}}},
        )
        for size in ("1Gi", "2Gi")
    )
    found = refused([old, storage], [new, storage])
    assert [f.field for f in found] == ["spec.resources.requests.storage"] * expected
    assert all("StorageClass x lets none grow" in f.message for f in found)


def crd(rule: str, *versions: tuple[str, bool]) -> dict[str, Any]:
    color = {"type": "string", "x-kubernetes-validations": [{"rule": rule}]}
    spec = {"type": "object", "properties": {"color": color}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": name, "served": True, "storage": stored, "schema": schema}
                for name, stored in versions or (("v1", True),)
            ],
        },
    }


def refused(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], **more: Any) -> Any:
    old, new = snapshot(before), snapshot(after, **more)
    return refusals(old, new, differences(old, new)).refused


def widget(color: str | None) -> dict[str, Any]:
    return made("Widget", "example.com/v1", spec={} if color is None else {"color": color})


@pytest.mark.parametrize(
    ("rule", "before", "after", "expected"),
    [
        ("self == oldSelf", "red", "blue", ["spec.color"]),
        ("self == oldSelf", "red", "red", []),
        ("self == oldSelf", None, "blue", []),
        ("self == oldSelf || true", "red", "blue", []),
        ("self.size() > 0", "red", "blue", []),
    ],
)
def test_what_a_crd_holds_fast_cannot_change(
    rule: str, before: str | None, after: str | None, expected: list[str]
) -> None:
    found = refused([crd(rule), widget(before)], [crd(rule), widget(after)])
    assert [finding.field for finding in found] == expected


def test_a_crd_does_not_go() -> None:
    found = refused([crd("true"), widget("red")], [])
    assert [(f.rule, f.severity, f.object) for f in found] == [
        (CRD_REMOVAL, "error", "CustomResourceDefinition widgets.example.com")
    ]
    assert "waiver" in found[0].remedy


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([("v1", True)], [("v2", True)], ["spec.versions[v1]"]),
        ([("v1", True)], [("v1", False), ("v2", True)], []),
        ([("v1", False), ("v2", True)], [("v2", True)], []),
    ],
    ids=["stored", "both", "served alone"],
)
def test_the_version_that_objects_are_stored_as_stays(
    before: Any, after: Any, expected: list[str]
) -> None:
    found = refused([crd("true", *before)], [crd("true", *after)])
    assert [f.field for f in found] == expected
    assert all(f.rule == CRD_VERSION for f in found)


def test_scope_and_kind_of_a_crd_stay() -> None:
    other = crd("true")
    other["spec"]["scope"] = "Cluster"
    assert [f.field for f in refused([crd("true")], [other])] == ["spec.scope"]


def waiver(**more: str) -> Waiver:
    given = {
        "rule": CRD_REMOVAL, "object": "CustomResourceDefinition widgets.example.com",
        "reason": "nothing uses it", "owner": "platform", "expires": "2099-12-31", **more,
    }  # fmt: skip
    return Waiver(**given)


@pytest.mark.parametrize(
    ("more", "today", "left"),
    [
        ({}, "2026-01-01", 0),
        ({}, "2100-01-01", 1),
        ({"object": "CustomResourceDefinition others.example.com"}, "2026-01-01", 1),
        ({"rule": IMMUTABLE}, "2026-01-01", 1),
        ({"owner": ""}, "2026-01-01", 1),
    ],
    ids=["counts", "expired", "of another", "of another rule", "of nobody"],
)
def test_a_waiver_lets_it_pass(more: dict[str, str], today: str, left: int) -> None:
    old, new = snapshot([crd("true")]), snapshot([], waivers=(waiver(**more),), today=today)
    found = refusals(old, new, differences(old, new))
    assert (len(found.refused), len(found.waived)) == (left, 1 - left)


def test_an_object_may_bring_its_own_waiver() -> None:
    before, after, _ = copy.deepcopy(CASES["a priority"])
    after["metadata"]["annotations"] = {
        f"policies.tokenworks.dev/waive.{IMMUTABLE}": "it is deleted first; platform; 2099-12-31"
    }
    assert refused([before], [after], today="2026-01-01") == ()


def test_a_new_environment_and_one_that_goes_are_refused_nothing() -> None:
    one = snapshot([crd("true")])
    assert refusals(None, one, differences(None, one)) == Refusals()
    assert refusals(one, None, differences(one, None)) == Refusals()


def test_rules_of_changes_are_explained_and_are_none_of_a_set() -> None:
    assert {IMMUTABLE, CRD_REMOVAL, CRD_VERSION} == OF_CHANGES
    assert set(rules.rule_ids()) >= OF_CHANGES
    assert OF_CHANGES.isdisjoint(rule.id for rule in RULES)


def test_facts_name_kinds_with_their_group() -> None:
    known = changes()
    entries = [*known.immutable, *known.restarts, *known.nodes, known.shape]
    assert all("/" in kind for entry in entries for kind in entry.kinds)
    assert all(entry.source for entry in entries)
