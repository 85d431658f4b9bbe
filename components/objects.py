"""One Kubernetes object as one Pulumi resource, of any kind.

The provider takes every kind under the token `kubernetes:<group>/<version>:<Kind>`, so a
rendered object needs no class of its own. What only delivery knows (what to wait for, who
owns fields) is added here and not in what is rendered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import pulumi

from tokenworks.render.release import FIELD_MANAGER, logical_name
from tokenworks.spec.stack import Manifest

_ROUTE_PARENT = '.status.parents[0].conditions[?(@.type=="{}")].status'
_WAIT_FOR: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("condition=Established",),
    ("apiregistration.k8s.io", "APIService"): ("condition=Available",),
    # Nothing is healthy too, until the repository has been read.
    ("argoproj.io", "Application"): (
        "jsonpath={.status.sync.status}=Synced",
        "jsonpath={.status.health.status}=Healthy",
    ),
    ("gateway.networking.k8s.io", "Gateway"): ("condition=Programmed",),
    ("gateway.networking.k8s.io", "HTTPRoute"): tuple(
        f"jsonpath={{{_ROUTE_PARENT.format(kind)}}}=True" for kind in ("Accepted", "ResolvedRefs")
    ),
    ("kueue.x-k8s.io", "ClusterQueue"): ("condition=Active",),
    ("kueue.x-k8s.io", "LocalQueue"): ("condition=Active",),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): ("condition=Available",),
}
_WEBHOOKS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet")


def group_of(manifest: Manifest) -> str:
    """API group; empty for the core group."""
    group, slash, _ = str(manifest["apiVersion"]).rpartition("/")
    return group if slash else ""


def token(manifest: Manifest, version: str | None = None) -> str:
    """Pulumi's type token, as provider and SDK spell it; `version` replaces the object's own."""
    own = str(manifest["apiVersion"]).rpartition("/")[2]
    return f"kubernetes:{group_of(manifest) or 'core'}/{version or own}:{manifest['kind']}"


def _injected_later(manifest: Manifest) -> bool:
    """Whether the operator puts its CA into every webhook after it started."""
    hooks: list[Manifest] = manifest.get("webhooks") or []
    configs: list[Manifest] = [hook.get("clientConfig", {}) for hook in hooks]
    return bool(configs) and all("service" in c and not c.get("caBundle") for c in configs)


def _wait_for(manifest: Manifest) -> Sequence[str]:
    if manifest["kind"] in _WEBHOOKS:
        # Before it, whatever the webhook sees is refused: its certificate has no known signer.
        return (
            ("jsonpath={.webhooks[0].clientConfig.caBundle}",) if _injected_later(manifest) else ()
        )
    return _WAIT_FOR.get((group_of(manifest), str(manifest["kind"])), ())


def _skips_waiting(manifest: Manifest) -> bool:
    """What the provider would wait for in vain, or what something else is waited for already.

    A Service is ready when its workload is, zero replicas have no pods, pods bind claims later.
    """
    spec: Manifest = manifest.get("spec") or {}
    if manifest["kind"] == "Service" and group_of(manifest) == "":
        return spec.get("type", "ClusterIP") != "LoadBalancer"
    claim = manifest["kind"] == "PersistentVolumeClaim"
    return claim or (manifest["kind"] in _SCALED and spec.get("replicas") == 0)


def left_to_others(manifest: Manifest) -> list[str]:
    """Fields that whoever serves the object may tighten, without our undoing it.

    istiod turns `failurePolicy: Ignore` of its webhook into Fail once it can answer.
    """
    hooks: list[Manifest] = manifest.get("webhooks") or []
    lenient = any(hook.get("failurePolicy") == "Ignore" for hook in hooks)
    return ["webhooks[*].failurePolicy"] if lenient else []


def instructions(manifest: Manifest) -> dict[str, str]:
    """What the provider is told about the object."""
    told = {"pulumi.com/patchFieldManager": FIELD_MANAGER}
    wait_for = _wait_for(manifest)
    if _skips_waiting(manifest):
        told["pulumi.com/skipAwait"] = "true"
    elif wait_for:
        told["pulumi.com/waitFor"] = wait_for[0] if len(wait_for) == 1 else json.dumps(wait_for)
    if manifest["kind"] in _WEBHOOKS:
        # Operators rewrite their own webhooks (CA, failure policy) and own those fields since.
        told["pulumi.com/patchForce"] = "true"
    return told


def properties(manifest: Manifest) -> dict[str, Any]:
    """The resource's inputs: the object, annotated; the contents of a Secret encrypted."""
    meta: Manifest = manifest["metadata"]
    given: Manifest = meta.get("annotations") or {}
    annotated = {**given, **instructions(manifest)}
    whole: Manifest = {**manifest, "metadata": {**meta, "annotations": annotated}}
    whole.pop("status", None)
    if manifest["kind"] == "Secret" and group_of(manifest) == "":
        for key in ("data", "stringData"):
            if key in whole:
                whole[key] = pulumi.Output.secret(whole[key])
    return whole


class KubernetesObject(pulumi.CustomResource):
    """One object in the cluster. `status` is known once it exists."""

    def __init__(
        self, manifest: Manifest, opts: pulumi.ResourceOptions, versions: Sequence[str] = ()
    ) -> None:
        """
        Args:
            manifest: the object.
            opts: its parent, and what comes before it.
            versions: other versions of its API: under these it may have been applied before, and
                a new version must not delete the object that it just updated.
        """
        older = [pulumi.Alias(type_=token(manifest, version)) for version in versions]
        super().__init__(
            token(manifest),
            logical_name(manifest),
            {**properties(manifest), "status": None},
            pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(aliases=older, ignore_changes=left_to_others(manifest)),
            ),
        )

    @property
    def status(self) -> pulumi.Output[Any]:
        """The object's status, as the cluster reports it."""
        return cast("pulumi.Output[Any]", pulumi.get(self, "status"))  # pyright: ignore[reportUnknownMemberType]
