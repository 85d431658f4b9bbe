"""What restarts, stops, moves and goes; and the GPUs that it takes meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from policies.secrets import HIDDEN
from tokenworks.review.capacity import needs
from tokenworks.review.effects import Effect, effects
from tokenworks.review.objects import differences
from tokenworks.review.review import renames, review
from tokenworks.review.snapshot import Placed, Pool, Snapshot

POOLS = {
    "a": Pool("gpu-a", 8, 2, {"pool": "a"}),
    "b": Pool("gpu-b", 4, 1, {"pool": "b"}),
}


def snapshot(*objects: dict[str, Any], release: str = "r", **more: Any) -> Snapshot:
    placed = tuple(Placed(release, item) for item in objects)
    return Snapshot("env", placed, **{"pools": POOLS, **more})


def template(image: str = "x", gpus: int = 2, pool: str = "a", note: str = "") -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {"name": "engine", "image": image, "resources": {"limits": limits}}
    metadata = {"annotations": {"checksum/config": note}} if note else {}
    return {
        "metadata": metadata,
        "spec": {"nodeSelector": {"pool": pool}, "containers": [container]},
    }


def deployment(
    name: str = "x", replicas: int = 2, rolling: Any = None, **pod: Any
) -> dict[str, Any]:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxSurge": 0}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"replicas": replicas, "strategy": strategy, "template": template(**pod)},
    }


def group(replicas: int = 1, size: int = 2, partition: int = 0, **pod: Any) -> dict[str, Any]:
    rolling = {"partition": partition, "maxUnavailable": 1, "maxSurge": 1}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "g", "namespace": "n"},
        "spec": {
            "replicas": replicas,
            "rolloutStrategy": {"rollingUpdateConfiguration": rolling},
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template(**pod)},
        },
    }


def roles(*replicas: int, **pod: Any) -> dict[str, Any]:
    made = [
        {"name": f"r{n}", "replicas": count, "standalonePattern": {"template": template(**pod)}}
        for n, count in enumerate(replicas)
    ]
    return {
        "apiVersion": "workloads.x-k8s.io/v1alpha2",
        "kind": "RoleBasedGroup",
        "metadata": {"name": "g", "namespace": "n"},
        "spec": {"roles": made},
    }


def crd(**served: bool) -> dict[str, Any]:
    """A CRD, the last of whose versions objects are stored as."""
    versions = [
        {"name": name, "served": on, "storage": name == list(served)[-1]}
        for name, on in served.items()
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "versions": versions},
    }


def plain(kind: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    annotations = more.pop("annotations", {})
    metadata = {"name": "x", "namespace": "n", "annotations": annotations}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def done(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> list[Effect]:
    old, new = snapshot(*before), snapshot(*after)
    return list(effects(old, new, differences(old, new)))


CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[tuple[str, str]]]] = {
    "another image": (
        [deployment()],
        [deployment(image="y")],
        [("restarts", "2 pods of 2 GPUs each, 1 at a time")],
    ),
    "more replicas": (
        [deployment()],
        [deployment(replicas=3)],
        [("starts", "1 pod of 2 GPUs each, more")],
    ),
    "fewer replicas": (
        [deployment(replicas=4)],
        [deployment(replicas=1)],
        [("stops", "3 pods of 2 GPUs each, of 4")],
    ),
    "a release that is switched on": (
        [deployment(replicas=0)],
        [deployment(replicas=2, image="y")],
        [("starts", "2 pods of 2 GPUs each")],
    ),
    "more replicas of another image": (
        [deployment(replicas=1)],
        [deployment(replicas=2, image="y")],
        [
            ("restarts", "2 pods of 2 GPUs each, 1 at a time"),
            ("starts", "1 pod of 2 GPUs each, more"),
        ],
    ),
    "a version of a CRD that goes": (
        [crd(v1=True, v2=True)],
        [crd(v2=True)],
        [("withdraws", "version v1: what still is written or read as it gets an error")],
    ),
    "a version of a CRD that is kept, and not served": (
        [crd(v1=True, v2=True)],
        [crd(v1=False, v2=True)],
        [("withdraws", "version v1: what still is written or read as it gets an error")],
    ),
    "a version of a CRD that comes": ([crd(v1=True)], [crd(v1=True, v2=True)], []),
    "a rollout that goes slower": ([deployment()], [deployment(rolling={"maxSurge": 1})], []),
    "no replica any more": (
        [deployment()],
        [deployment(replicas=0, image="y")],
        [("stops", "2 pods of 2 GPUs each")],
    ),
    "a release that is switched off": (
        [deployment()],
        [deployment(replicas=0)],
        [("stops", "2 pods of 2 GPUs each")],
    ),
    "a release that is off": ([deployment(replicas=0)], [deployment(replicas=0, image="y")], []),
    "half at a time": (
        [deployment(replicas=4)],
        [deployment(replicas=4, image="y", rolling={"maxUnavailable": "50%"})],
        [("restarts", "4 pods of 2 GPUs each, 2 at a time")],
    ),
    "a group": (
        [group(replicas=2)],
        [group(replicas=2, image="y")],
        [("restarts", "2 groups of 2 pods, 4 GPUs each, 1 at a time")],
    ),
    "a group, from a number on": (
        [group(replicas=3)],
        [group(replicas=3, partition=2, image="y")],
        [
            (
                "restarts",
                "3 groups of 2 pods, 4 GPUs each, 1 at a time; 2 stay as they are (partition)",
            )
        ],
    ),
    "roles": (
        [roles(1, 3)],
        [roles(1, 3, image="y")],
        [("restarts", "1 pod of 2 GPUs each, 3 pods of 2 GPUs each, 1 at a time")],
    ),
    "more of a role": (
        [roles(1, 3)],
        [roles(1, 4)],
        [("starts", "1 pod of 2 GPUs each, more")],
    ),
    "a workload that comes": ([], [deployment(gpus=0)], [("starts", "2 pods")]),
    "a workload that goes": ([deployment(gpus=1)], [], [("stops", "2 pods of 1 GPU each")]),
    "a claim that goes": (
        [plain("PersistentVolumeClaim")],
        [],
        [("deletes data", "what is on the volume, unless its class retains it")],
    ),
    "a claim that is kept": (
        [plain("PersistentVolumeClaim", annotations={"helm.sh/resource-policy": "keep"})],
        [],
        [("leaves", "stays in the cluster, and nothing renders it any more")],
    ),
    "a namespace that goes": (
        [plain("Namespace")],
        [],
        [("deletes data", "the namespace, with everything in it")],
    ),
    "a route that goes": (
        [plain("HTTPRoute", "gateway.networking.k8s.io/v1")],
        [],
        [("moves requests", "requests that it matched find no backend")],
    ),
    "nodes of another kind": (
        [plain("NodePool", "karpenter.sh/v1", spec={"template": {"a": 1}, "weight": 1})],
        [plain("NodePool", "karpenter.sh/v1", spec={"template": {"a": 2}, "weight": 1})],
        [("replaces nodes", "one after another, as its disruption budget allows")],
    ),
    "nodes that are chosen later": (
        [plain("NodePool", "karpenter.sh/v1", spec={"template": {"a": 1}, "weight": 1})],
        [plain("NodePool", "karpenter.sh/v1", spec={"template": {"a": 1}, "weight": 2})],
        [],
    ),
    "subnets of nodes": (
        [plain("EC2NodeClass", "karpenter.k8s.aws/v1", spec={"subnetSelectorTerms": [{"a": 1}]})],
        [plain("EC2NodeClass", "karpenter.k8s.aws/v1", spec={"subnetSelectorTerms": [{"a": 2}]})],
        [],
    ),
    "an image of nodes": (
        [plain("EC2NodeClass", "karpenter.k8s.aws/v1", spec={"amiSelectorTerms": [{"a": 1}]})],
        [plain("EC2NodeClass", "karpenter.k8s.aws/v1", spec={"amiSelectorTerms": [{"a": 2}]})],
        [("replaces nodes", "one after another, as its disruption budget allows")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_happens_is_said(name: str) -> None:
    before, after, expected = CASES[name]
    assert [(effect.what, effect.words) for effect in done(before, after)] == expected


def test_a_checksum_stands_for_the_configuration() -> None:
    (effect,) = done([deployment(note="1")], [deployment(note="2")])
    assert effect.because == ("its configuration",)


def test_the_fields_are_named_without_the_way_to_the_pod() -> None:
    (effect,) = done([deployment()], [deployment(image="y", gpus=1)])
    assert effect.because == (
        "containers[engine].image",
        'containers[engine].resources.limits["nvidia.com/gpu"]',
    )


def test_the_heaviest_is_first() -> None:
    before = [deployment("z"), deployment("a"), plain("Namespace")]
    found = done(before, [deployment("a", image="y"), deployment("new")])
    assert [e.what for e in found] == ["deletes data", "stops", "restarts", "starts"]


def asked(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> Any:
    old, new = snapshot(*before), snapshot(*after)
    found = needs(old, new, differences(old, new))
    return {need.pool: (need.before, need.during, need.after, need.short) for need in found}


NONE = (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([deployment()], [deployment()], {"a": (4, 4, 4, 0), "b": NONE}),
        ([deployment()], [deployment(image="y")], {"a": (4, 4, 4, 0), "b": NONE}),
        (
            [deployment()],
            [deployment(image="y", rolling={"maxSurge": 1})],
            {"a": (4, 6, 4, 0), "b": NONE},
        ),
        (
            [deployment()],
            [deployment(image="y", rolling={"maxSurge": "51%"})],
            {"a": (4, 8, 4, 0), "b": NONE},
        ),
        ([deployment()], [deployment(replicas=4)], {"a": (4, 8, 8, 0), "b": NONE}),
        ([deployment()], [deployment(replicas=1)], {"a": (4, 4, 2, 0), "b": NONE}),
        ([deployment()], [deployment("y")], {"a": (4, 8, 4, 0), "b": NONE}),
        ([deployment()], [deployment(pool="b")], {"a": (4, 4, 0, 0), "b": (0, 4, 4, 0)}),
        ([deployment()], [], {"a": (4, 4, 0, 0), "b": NONE}),
        ([], [deployment(replicas=9)], {"a": (0, 18, 18, 2), "b": NONE}),
        ([group(gpus=4)], [group(gpus=4, image="y")], {"a": (8, 16, 8, 0), "b": NONE}),
        (
            [group(gpus=8)],
            [group(gpus=8, image="y")],
            {"a": (16, 32, 16, 16), "b": NONE},
        ),
        ([roles(1, 2)], [roles(2, 2)], {"a": (6, 8, 8, 0), "b": NONE}),
        ([deployment(pool="none")], [deployment(pool="none", image="y")], {"a": NONE, "b": NONE}),
    ],
    ids=[
        "nothing", "in place", "one more", "rounded up", "grows", "shrinks", "renamed", "moves",
        "goes", "too many", "a group more", "a group too many", "roles", "elsewhere",
    ],
)  # fmt: skip
def test_gpus_while_both_states_run(before: Any, after: Any, expected: Any) -> None:
    assert asked(before, after) == expected


def test_a_workload_that_stops_first_needs_no_spare_gpu() -> None:
    old = deployment()
    new = deployment(image="y", rolling={"maxSurge": 2})
    for item in (old, new):
        item["spec"]["strategy"] = {"type": "Recreate"}
    assert asked([old], [new])["a"] == (4, 4, 4, 0)
    (effect,) = done([old], [new])
    assert effect.words.endswith("2 at a time")


def test_the_same_under_another_name_is_a_rename() -> None:
    old = snapshot(deployment("one"), plain("Service"), release="model-one")
    new = snapshot(deployment("two"), plain("Secret"), release="model-two")
    found = differences(old, new)
    assert list(renames(found)) == []
    old, new = (snapshot(deployment(n), release=f"model-{n}") for n in ("one", "two"))
    assert list(renames(differences(old, new))) == [("model-one", "model-two")]


def test_secrets_are_not_shown() -> None:
    old = snapshot(plain("Secret", data={"token": "b25l", "gone": "eA=="}))
    new = snapshot(plain("Secret", data={"token": "dHdv"}, stringData={"new": "three"}))
    (found,) = differences(old, new)
    assert {str(v) for c in found.changes for v in (c.before, c.after)} == {HIDDEN, "ABSENT"}


def test_variables_that_hold_secrets_are_not_shown() -> None:
    old, new = deployment(), deployment()
    for item, value in ((old, "one"), (new, "two")):
        item["spec"]["template"]["spec"]["containers"][0]["env"] = [
            {"name": "HF_TOKEN", "value": value}, {"name": "HF_HOME", "value": value},
        ]  # fmt: skip
    (found,) = differences(snapshot(old), snapshot(new))
    assert [(c.before, c.after) for c in found.changes] == [(HIDDEN, HIDDEN), ("one", "two")]


def test_documents_that_do_not_load_have_no_findings_to_lose() -> None:
    from policies import Finding  # noqa: PLC0415

    finding = Finding("rule", "error", "Pod x", "spec", "words", "remedy")
    old = snapshot(deployment(), findings=(finding,))
    found = review("env", old, Snapshot("env", broken="stacks/env/x.yaml:1: wrong"))
    assert found.fails
    assert (found.differences, found.verdicts.fixed, found.effects) == ((), (), ())


def test_a_base_that_does_not_load_makes_everything_new() -> None:
    found = review("env", Snapshot("env", broken="wrong"), snapshot(deployment()))
    assert not found.fails
    assert [effect.what for effect in found.effects] == ["starts"]
