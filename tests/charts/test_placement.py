"""Where Kueue puts pods: how close together, and what it refuses to place at all.

The rules are those of Kueue's own webhooks and scheduler: pods for a pool with a topology say
exactly one of required, preferred and unconstrained, and the two templates of a group agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.charts.documents import model, simulator, stack, values_of, variants
from tests.charts.rendering import Helm, Object, Objects
from tokenworks.render.model import model_values
from tokenworks.spec.model import ModelRelease

pytestmark = pytest.mark.helm
KUEUE = "kueue.x-k8s.io/"
GROUP = f"{KUEUE}podset-group-name"
HOW = tuple(f"{KUEUE}podset-{how}-topology" for how in ("required", "preferred", "unconstrained"))
LEVELS = (
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "kubernetes.io/hostname",
)
NO_KUEUE = {"spec": {"platform": {"kueue": {"enabled": False}}}}


def group(**topology: Any) -> ModelRelease:
    """A model over two nodes of the pool whose nodes say where they stand."""
    return model(
        pool="racks",
        topology={"kind": "multi-node", "tensorParallel": 8, **topology},
        resources={"gpus": 8},
        replicas=1,
    )


def said(template: Object) -> dict[str, str]:
    """What a pod template says to Kueue, by annotations."""
    annotations: Mapping[str, str] = template["metadata"].get("annotations", {})
    return {key: value for key, value in annotations.items() if key.startswith(KUEUE)}


def templates(objects: Objects) -> Iterator[Object]:
    """Every pod template of engines."""
    for item in objects.of("Deployment"):
        if "engine" in {c["name"] for c in item["spec"]["template"]["spec"]["containers"]}:
            yield item["spec"]["template"]
    for item in objects.of("LeaderWorkerSet"):
        parts = item["spec"]["leaderWorkerTemplate"]
        yield from (parts["leaderTemplate"], parts["workerTemplate"])
    for item in objects.of("RoleBasedGroup"):
        for role in item["spec"]["roles"]:
            yield (role.get("standalonePattern") or role["leaderWorkerPattern"])["template"]


@pytest.fixture(scope="module")
def rendered(charts: Helm) -> dict[str, Objects]:
    """What every variant renders to."""
    return {name: charts.objects("model", values_of(v)) for name, v in variants().items()}


@pytest.mark.parametrize("level", LEVELS[:2])
def test_a_group_that_must_share_a_domain_says_so_in_both_templates(
    level: str, charts: Helm
) -> None:
    objects = charts.objects("model", values_of(group(within=level)))
    leader, worker = templates(objects)
    assert (
        said(leader) == said(worker) == {f"{KUEUE}podset-required-topology": level, GROUP: "group"}
    )


def test_other_groups_are_as_close_together_as_there_is_room(charts: Helm) -> None:
    """Kueue widens the level it is given, so it is given the narrowest."""
    leader, worker = templates(charts.objects("model", values_of(group())))
    assert said(leader) == {f"{KUEUE}podset-preferred-topology": LEVELS[-1], GROUP: "group"}
    assert said(worker) == said(leader)


def test_each_role_is_placed_as_what_it_is(rendered: Mapping[str, Objects]) -> None:
    objects = rendered["split-near"]
    decode = objects.one("Deployment", "demo-decode")["spec"]["template"]
    assert said(decode) == {f"{KUEUE}podset-unconstrained-topology": "true"}
    prefill = objects.one("LeaderWorkerSet", "demo-prefill")["spec"]["leaderWorkerTemplate"]
    assert f"{KUEUE}podset-preferred-topology" in said(prefill["leaderTemplate"])


def test_a_single_pod_says_something_or_it_would_not_be_admitted(charts: Helm) -> None:
    """Queues hold pools with and without levels, and Kueue never guesses which is meant."""
    (template,) = templates(charts.objects("model", values_of(model(pool="racks"))))
    assert said(template) == {f"{KUEUE}podset-unconstrained-topology": "true"}


def test_kueue_takes_what_the_templates_say(rendered: Mapping[str, Objects]) -> None:
    groups = 0
    for objects in rendered.values():
        for template in templates(objects):
            assert sum(how in said(template) for how in HOW) <= 1
        for item in objects.of("LeaderWorkerSet"):
            parts = item["spec"]["leaderWorkerTemplate"]
            leader, worker = said(parts["leaderTemplate"]), said(parts["workerTemplate"])
            assert leader == worker
            if GROUP in leader:
                groups += 1
                assert HOW[0] in leader or HOW[1] in leader
                assert not leader[GROUP].isdigit()
    assert groups == 2


@pytest.mark.parametrize(
    ("release", "environment"),
    [
        (variants()["group"], None),
        (group(), NO_KUEUE),
        (simulator(pool="racks", resources={"gpus": 0}, topology={"tensorParallel": 1}), None),
    ],
    ids=["a pool without levels", "no Kueue", "no GPUs"],
)
def test_what_kueue_does_not_place_says_nothing(
    release: ModelRelease, environment: dict[str, Any] | None
) -> None:
    for role in model_values(stack(environment=environment), release).roles.values():
        assert [key for key in role.annotations if key.startswith(KUEUE)] == []


@pytest.fixture(scope="module")
def role_based(charts: Helm) -> Objects:
    """A RoleBasedGroup on the pool with levels: prefill is a group, decode is not."""
    release = model(
        engine={"name": "sglang", "flags": None, "image": None, "version": None},
        pool="racks",
        topology={
            "kind": "disaggregated",
            "tensorParallel": 8,
            "expressedAs": "RoleBasedGroup",
            "prefill": {"nodes": 2},
        },
        resources={"gpus": 8},
        replicas=1,
    )
    return charts.objects("model", values_of(release))


class TestRoleBasedGroup:
    """Kueue has no integration for it: what it sees are pods."""

    def test_each_pod_is_queued(self, role_based: Objects) -> None:
        found = list(templates(role_based))
        assert len(found) == 2
        for template in found:
            labels = template["metadata"]["labels"]
            assert labels["kueue.x-k8s.io/queue-name"] == "research"
            assert labels["kueue.x-k8s.io/priority-class"] == "serving"
        above = role_based.one("RoleBasedGroup")["metadata"]["labels"]
        assert [key for key in above if key.startswith(KUEUE)] == []

    def test_each_pod_is_placed_alone(self, role_based: Objects) -> None:
        for template in templates(role_based):
            assert said(template) == {f"{KUEUE}podset-unconstrained-topology": "true"}

    def test_pods_of_other_kinds_are_queued_by_what_makes_them(
        self, rendered: Mapping[str, Objects]
    ) -> None:
        for template in templates(rendered["split"]):
            labels = template["metadata"]["labels"]
            assert [key for key in labels if key.startswith(KUEUE)] == []
