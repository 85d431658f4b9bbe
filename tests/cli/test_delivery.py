"""Handing over to Argo CD and back: what Pulumi forgets, and whose fields are whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.charts.documents import stack
from tokenworks.cli import delivery, state
from tokenworks.render.release import ARGOCD, FIELD_MANAGER, Release

ENVIRONMENT = "tokenworks:environment:Environment"
DELIVERED = {
    "spec": {"delivery": "argocd", "argocd": {"repository": "https://git.example.com/p.git"}}
}


def manifest(version: str, kind: str, name: str = "x") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "n"}}


RELEASES = (
    Release("lws", "operators", "n", (manifest("apps/v1", "Deployment", "lws"),)),
    Release("tenant-a", "platform", "n", (manifest("v1", "Namespace"), manifest("v1", "Service"))),
    Release("model-m", "models", "n", (manifest("apps/v1", "Deployment"),)),
)


def urn(*types: str, name: str) -> str:
    return f"urn:pulumi:lab::tokenworks::{'$'.join(types)}::{name}"


def resource(name: str, *types: str, **more: Any) -> dict[str, Any]:
    return {"urn": urn(*types, name=name), "type": types[-1], **more}


RELEASE = (ENVIRONMENT, "tokenworks:platform:Release")
TENANT = (ENVIRONMENT, "tokenworks:serving:Tenant")
MODEL = (ENVIRONMENT, "tokenworks:serving:Model")
SERVICE = (*TENANT, "kubernetes:core/v1:Service")
ENGINE = (*MODEL, "kubernetes:apps/v1:Deployment")
STATE = [
    resource("lab", ENVIRONMENT),
    resource("lws", *RELEASE),
    resource(
        "Deployment:n/lws", *RELEASE, "kubernetes:apps/v1:Deployment",
        parent=urn(*RELEASE, name="lws"),
    ),
    resource("tenant-a", *TENANT),
    resource(
        "Namespace:n/x", *TENANT, "kubernetes:core/v1:Namespace",
        parent=urn(*TENANT, name="tenant-a"),
    ),
    resource("Service:n/x", *SERVICE, parent=urn(*TENANT, name="tenant-a")),
    resource("model-m", *MODEL),
    resource("Deployment:n/x", *ENGINE, parent=urn(*MODEL, name="model-m")),
    resource(
        "volume", "aws:x:Y",
        dependencies=[urn(*SERVICE, name="Service:n/x"), urn(*TENANT, name="tenant-a")],
        propertyDependencies={"a": [urn(*SERVICE, name="Service:n/x")], "b": None},
    ),
]  # fmt: skip
HANDED = {
    urn(*SERVICE, name="Service:n/x"),
    urn(*MODEL, name="model-m"),
    urn(*ENGINE, name="Deployment:n/x"),
}


def test_pulumi_forgets_what_argocd_delivers_and_nothing_else() -> None:
    assert delivery.to_forget(stack(environment=DELIVERED), RELEASES, STATE) == HANDED


def test_with_pulumi_nothing_is_forgotten() -> None:
    assert delivery.to_forget(stack(), RELEASES, STATE) == set()


def test_forgetting_twice_forgets_nothing_more() -> None:
    left = delivery.without(STATE, HANDED)
    assert delivery.to_forget(stack(environment=DELIVERED), RELEASES, left) == set()


def test_a_model_that_is_gone_is_not_handed_over() -> None:
    """Nobody would deliver it: Pulumi deletes it."""
    assert delivery.to_forget(stack(environment=DELIVERED), RELEASES[:2], STATE) == {
        urn(*SERVICE, name="Service:n/x")
    }


def test_nothing_that_stays_depends_on_what_goes() -> None:
    left = delivery.without(STATE, HANDED)
    assert len(left) == len(STATE) - len(HANDED)
    volume = left[-1]
    assert volume["dependencies"] == [urn(*TENANT, name="tenant-a")]
    assert volume["propertyDependencies"] == {"a": [], "b": []}
    assert len(STATE[-1]["dependencies"]) == 2, "the state that was read is as it was"


def entry(manager: str, operation: str = "Apply", **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def owners(*entries: dict[str, Any]) -> list[tuple[str, str]] | None:
    item = {**manifest("v1", "Service")}
    item["metadata"] = {**item["metadata"], "managedFields": list(entries)}
    found = delivery.renamed(item, FIELD_MANAGER, ARGOCD)
    if found is None:
        return None
    return [(e["manager"], e["operation"]) for e in found["metadata"]["managedFields"]]


def test_what_one_applied_becomes_the_others() -> None:
    mine, kubelet = entry(FIELD_MANAGER, spec={}), entry("kubelet", "Update")
    assert owners(kubelet, mine) == [("kubelet", "Update"), (ARGOCD, "Apply")]


def test_what_both_applied_is_the_others_alone() -> None:
    assert owners(entry(FIELD_MANAGER), entry(ARGOCD)) == [(ARGOCD, "Apply")]


def test_argocds_mark_goes_with_it() -> None:
    item = manifest("v1", "Namespace")
    notes = {"argocd.argoproj.io/tracking-id": "tenant-a:/Namespace:/x", "kept": "yes"}
    fields = [entry(FIELD_MANAGER), entry(ARGOCD)]
    item["metadata"] |= {"annotations": notes, "managedFields": fields}
    back, over = (
        delivery.renamed(item, old, new)
        for old, new in ((ARGOCD, FIELD_MANAGER), (FIELD_MANAGER, ARGOCD))
    )
    assert back and back["metadata"]["annotations"] == {"kept": "yes"}
    assert over and over["metadata"]["annotations"] == notes


@pytest.mark.parametrize("entries", [(), (entry(ARGOCD),), (entry(FIELD_MANAGER, "Update"),)])
def test_what_is_nobodys_or_the_others_stays(entries: tuple[dict[str, Any], ...]) -> None:
    assert owners(*entries) is None


def test_a_state_that_is_not_there_has_no_resources(tmp_path: Path) -> None:
    assert state.resources(tmp_path / "none.json") == []
