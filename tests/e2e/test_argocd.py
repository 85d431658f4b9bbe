"""Argo CD delivers the rendered tree: handed over, healed, taken back, with requests running.

The tests of this file are one story: each goes on where the one before ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.gitops import (
    DOCUMENT,
    ROOT,
    Asking,
    Delivery,
    edited,
    git,
    seconds,
    served,
)
from tests.e2e.platform import MODEL, NAMESPACE, Platform, answered, ask, eventually, throughout
from tests.e2e.streams import Stream
from tests.e2e.test_serving import unchanged
from tokenworks.render.waves import annotated

pytestmark = [pytest.mark.e2e, pytest.mark.argocd]

OTHER = "model-llama-sim"
GATEWAY = "tokenworks-gateway"


@dataclass(frozen=True)
class Switch:
    """What a change of delivery did to those who asked meanwhile."""

    stream: Stream
    answers: tuple[str, ...]
    before: frozenset[str]
    after: frozenset[str]
    said: str

    def assert_unnoticed(self) -> None:
        """Not one answer failed, and not one pod was replaced."""
        assert self.stream.error == ""
        assert self.stream.finish == "length"
        assert len(self.answers) > 10
        assert set(self.answers) == {"200"}
        assert self.before == self.after


@pytest.fixture(scope="module")
def delivery(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Delivery]:
    """A repository that the cluster reaches, and a clone of it."""
    folder = tmp_path_factory.mktemp("git")
    with served(folder) as bare:
        git(folder, "clone", "--quiet", str(bare), "clone")
        found = Delivery(platform, folder / "clone")
        text = found.document.read_text()
        yield found
        found.document.write_text(text)
        platform.run("up", "local", "--no-chat")


def uids(platform: Platform) -> frozenset[str]:
    """Every pod that a request meets on its way: Envoy and the body router, picker, engine."""
    pods = [*platform.pods("", NAMESPACE), *platform.pods("", GATEWAY)]
    return frozenset(f"{pod['metadata']['name']} {pod['metadata']['uid']}" for pod in pods)


def switch(delivery: Delivery, url: str) -> Switch:
    """`up`, with a long answer and many short ones on their way."""
    platform = delivery.platform
    before, stream = uids(platform), Stream(url, tokens=2500)
    with Asking(url).on() as answers:
        said = platform.run("up", "local", "--no-chat").stdout
    stream.thread.join(180)
    return Switch(stream, tuple(answers), before, uids(platform), said)


def test_the_switch_to_argocd_is_noticed_by_nobody(delivery: Delivery, url: str) -> None:
    edited(delivery.document, lambda text: text.rstrip() + "\n" + DOCUMENT)
    delivery.render()
    delivery.push("everything")
    done = switch(delivery, url)
    done.assert_unnoticed()
    assert "over to Argo CD" in done.said
    assert delivery.settled()
    expected = {ROOT, "queues", "gateway", "tenant-research", "model-qwen3-sim", OTHER}
    assert delivery.states().keys() == expected


def test_nothing_differs_and_nothing_is_synced_again(delivery: Delivery) -> None:
    before = delivery.syncs()
    delivery.refresh()
    assert set(delivery.states().values()) == {("Synced", "Healthy")}
    resources = [r for a in delivery.applications().values() for r in a["status"]["resources"]]
    assert [r for r in resources if r["status"] != "Synced"] == []
    assert delivery.syncs() == before


def test_nothing_differs_for_five_minutes(delivery: Delivery) -> None:
    """Controllers that write what Git has otherwise, and syncs that undo it, would be seen."""
    before, well = delivery.syncs(), {("Synced", "Healthy")}
    throughout("all is well", lambda: set(delivery.states().values()) == well, seconds=300)
    delivery.refresh()
    assert set(delivery.states().values()) == well
    assert delivery.syncs() == before


def test_a_second_up_changes_nothing(delivery: Delivery) -> None:
    assert unchanged(delivery.platform.run("up", "local", "--no-chat").stdout)


def test_argocd_owns_what_it_was_handed(delivery: Delivery) -> None:
    """Otherwise what Git drops later would stay in the cluster."""
    found = delivery.platform.get("deployment", MODEL, "-n", NAMESPACE, "--show-managed-fields")
    applied = {
        e["manager"] for e in found["metadata"]["managedFields"] if e["operation"] == "Apply"
    }
    assert applied == {"argocd-controller"}
    assert not any("pulumi" in key for key in found["metadata"]["annotations"])


def test_what_somebody_changes_by_hand_is_seen_and_healed(delivery: Delivery, url: str) -> None:
    platform, patch = delivery.platform, {"spec": {"maxUnavailable": 3}}
    budget = ("poddisruptionbudget", MODEL, "-n", NAMESPACE)
    before = delivery.syncs()["model-qwen3-sim"]
    platform.kubectl("patch", *budget, "--type=merge", "-p", json.dumps(patch))
    eventually("the change is undone", lambda: platform.get(*budget)["spec"]["maxUnavailable"] == 1)
    eventually("a sync did it", lambda: delivery.syncs()["model-qwen3-sim"] > before)
    eventually("all is well", delivery.settled)
    assert answered(url)


def test_what_a_scaler_changes_is_left_to_it(delivery: Delivery) -> None:
    platform = delivery.platform
    target = ("deployment", "llama-sim", "-n", NAMESPACE)

    def replicas() -> int:
        return platform.get(*target)["spec"]["replicas"]

    def scale(number: int, manager: str) -> None:
        patch = json.dumps({"spec": {"replicas": number}})
        how = ("--subresource=scale", f"--field-manager={manager}", "--type=merge")
        platform.kubectl("patch", *target, *how, "-p", patch)

    before = delivery.syncs()[OTHER]
    scale(2, "kube-controller-manager")
    delivery.refresh()
    assert replicas() == 2
    assert delivery.states()[OTHER][0] == "Synced"
    assert delivery.syncs()[OTHER] == before
    scale(1, "kube-controller-manager")
    scale(2, "somebody")
    eventually("a person's change is undone", lambda: replicas() == 1)
    eventually("all is well", delivery.settled)


def mended(delivery: Delivery, url: str) -> None:
    """A mistake in one release touched no other, and a revert mends it."""
    states = delivery.states()
    assert OTHER in states
    others = {n: s for n, s in states.items() if n not in (OTHER, ROOT)}
    assert set(others.values()) == {("Synced", "Healthy")}
    assert ask(url, "and the others?").status_code == 200
    assert ask(url, "and itself?", "llama-sim").status_code == 200, "what ran goes on"
    good = delivery.revert()
    eventually("all is well again", lambda: delivery.settled(good), 240)


def test_a_bad_commit_fails_its_own_application_only(delivery: Delivery, url: str) -> None:
    file = delivery.tree / "models" / f"{OTHER}.yaml"
    edited(file, lambda text: text.replace("maxSurge: 0", "maxSurge: none", 1))
    bad = delivery.push("a mistake")

    def failed() -> bool:
        item = delivery.applications()[OTHER]["status"]
        sync = item["sync"]
        return sync.get("revision") == bad and sync["status"] != "Synced"

    eventually("the release is out of sync", failed)
    mended(delivery, url)


def test_a_file_that_is_no_yaml_takes_nothing_away(delivery: Delivery, url: str) -> None:
    """The set cannot read it: the applications that are there stay, and it says which file."""
    path = f"models/{OTHER}.yaml"
    edited(delivery.tree / path, lambda text: f"<<<<<<< HEAD\n{text}")
    delivery.push("a conflict that nobody solved")

    def said() -> bool:
        conditions = delivery.sets()["models"]["status"]["conditions"]
        (failed,) = [c for c in conditions if c["type"] == "ErrorOccurred"]
        return failed["status"] == "True" and path in failed["message"]

    eventually("the set says which file", said)
    mended(delivery, url)


def test_a_set_that_somebody_changes_by_hand_is_healed(delivery: Delivery) -> None:
    """Whatever it is that makes the applications is itself what Git says."""
    platform, name = delivery.platform, ("applicationset", "models", "-n", "argocd")
    patch = {"spec": {"template": {"spec": {"source": {"targetRevision": "elsewhere"}}}}}

    def revisions() -> set[str]:
        found = delivery.applications().values()
        return {item["spec"]["source"]["targetRevision"] for item in found}

    platform.kubectl("patch", *name, "--type=merge", "-p", json.dumps(patch))
    eventually(
        "the set is healed",
        lambda: (
            platform.get(*name)["spec"]["template"]["spec"]["source"]["targetRevision"] == "main"
        ),
    )
    eventually("so are its applications", lambda: revisions() == {"main"})
    eventually("all is well", delivery.settled, 240)


CLAIM = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "llama-weights", "namespace": NAMESPACE,
        "annotations": {"helm.sh/resource-policy": "keep"},
    },
    "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "llama-weights",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}  # fmt: skip
VOLUME = {
    "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "llama-weights"},
    "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "", "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/tmp"},
    },
}  # fmt: skip


def objects_of(delivery: Delivery, name: str) -> set[str]:
    resources = delivery.applications()[name]["status"]["resources"]
    return {f"{r['kind']}/{r['name']}" for r in resources}


def test_a_model_that_leaves_git_leaves_the_cluster_but_for_its_weights(
    delivery: Delivery, url: str, tmp_path: Path
) -> None:
    platform = delivery.platform
    volume = tmp_path / "volume.json"
    volume.write_text(json.dumps(VOLUME))
    platform.kubectl("apply", "-f", str(volume))
    file = delivery.tree / "models" / f"{OTHER}.yaml"
    edited(file, lambda text: f"{text}---\n{json.dumps(annotated(CLAIM))}\n")
    with_claim = delivery.push("weights of its own")
    eventually("the claim is there", lambda: delivery.settled(with_claim))
    mine = objects_of(delivery, OTHER)
    others = {n: objects_of(delivery, n) for n in delivery.states() if n not in (OTHER, ROOT)}
    document = platform.tree / "stacks" / "local" / "models" / "llama-sim.yaml"
    text = document.read_text()
    document.unlink()
    try:
        delivery.render()
        without = delivery.push("one model less")
        eventually("it is gone", lambda: OTHER not in delivery.states())
        eventually("the others stay", lambda: delivery.settled(without))
    finally:
        document.write_text(text)
    kinds = "deployment,service,configmap,httproute,inferencepool,networkpolicy,serviceaccount,pvc"
    left = platform.kubectl("get", kinds, "-n", NAMESPACE, "-o", "name").split()
    assert "PersistentVolumeClaim/llama-weights" in mine
    assert [n for n in left if "llama" in n] == ["persistentvolumeclaim/llama-weights"]
    assert {n: objects_of(delivery, n) for n in others if n in delivery.states()} == others
    assert ask(url, "who is left?").status_code == 200
    platform.kubectl("delete", "pvc/llama-weights", "-n", NAMESPACE, "--wait=false")
    platform.kubectl("delete", "pv/llama-weights", "--wait=false")
    delivery.render()
    again = delivery.push("both models")
    eventually("it is back", lambda: OTHER in delivery.states() and delivery.settled(again), 240)


def test_down_removes_what_argocd_delivered(delivery: Delivery) -> None:
    platform = delivery.platform
    platform.run("down", "local")
    left = platform.kubectl("get", "deployments,statefulsets,leaderworkersets", "-A", "-o", "name")
    assert left.strip() == ""
    namespaces = platform.kubectl("get", "namespaces", "-o", "name")
    assert "research" not in namespaces
    assert "argocd" not in namespaces


def test_from_nothing_everything_comes_in_its_order(delivery: Delivery) -> None:
    platform = delivery.platform
    said = platform.run("up", "local").stdout
    assert "served by" in said.strip().splitlines()[-1]
    assert set(delivery.states().values()) == {("Synced", "Healthy")}
    found = delivery.applications()

    def begun(name: str) -> str:
        return seconds(found[name]["metadata"]["creationTimestamp"])

    def over(name: str) -> str:
        return seconds(found[name]["status"]["history"][0]["deployedAt"])

    first = max(over("queues"), over("gateway"))
    assert first <= begun("tenant-research")
    assert over("tenant-research") <= begun("model-qwen3-sim")
    made = {
        kind: seconds(platform.get(kind, MODEL, "-n", NAMESPACE)["metadata"]["creationTimestamp"])
        for kind in ("poddisruptionbudget", "inferencepool", "deployment", "httproute")
    }
    assert list(made.values()) == sorted(made.values())
    assert len(set(made.values())) == len(made), "each wave waits for the one before"
    conditions = platform.get("deployment", MODEL, "-n", NAMESPACE)["status"]["conditions"]
    ready = next(c for c in conditions if c["type"] == "Available")
    assert seconds(ready["lastTransitionTime"]) <= made["httproute"]


def test_the_switch_back_to_pulumi_is_noticed_by_nobody(delivery: Delivery) -> None:
    platform = delivery.platform
    url = platform.url()
    edited(delivery.document, lambda text: text.replace(DOCUMENT, ""))
    done = switch(delivery, url)
    done.assert_unnoticed()
    assert "from Argo CD" in done.said
    assert "argocd" not in platform.kubectl("get", "namespaces", "-o", "name")
    found = platform.get("deployment", MODEL, "-n", NAMESPACE, "--show-managed-fields")
    applied = {
        e["manager"] for e in found["metadata"]["managedFields"] if e["operation"] == "Apply"
    }
    assert applied == {"tokenworks"}
    marked = platform.get("namespace,deployment,gateway", "-A")["items"]
    assert not any(
        "argocd.argoproj.io/tracking-id" in o["metadata"].get("annotations", {}) for o in marked
    )
    assert unchanged(platform.run("up", "local", "--no-chat").stdout)
