"""What the provider waits for, when it has applied an object."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

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
_METADATA: Final = "tokenworks.dev/metadata"
"""Annotation by which an object is known to have the labels and annotations that were applied."""
WEBHOOKS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet")


def group_of(manifest: Manifest) -> str:
    """API group; empty for the core group."""
    group, slash, _ = str(manifest["apiVersion"]).rpartition("/")
    return group if slash else ""


def _injected_later(manifest: Manifest) -> bool:
    """Whether the operator puts its CA into every webhook after it started."""
    hooks: list[Manifest] = manifest.get("webhooks") or []
    configs: list[Manifest] = [hook.get("clientConfig", {}) for hook in hooks]
    return bool(configs) and all("service" in c and not c.get("caBundle") for c in configs)


def _wait_for(manifest: Manifest) -> Sequence[str]:
    if manifest["kind"] in WEBHOOKS:
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


def waiting(manifest: Manifest) -> dict[str, str]:
    """Annotations that say so: readiness, in the object as it has just been applied.

    It tells one that is older by its generation, which labels and annotations do not change: where
    nothing else was changed (an object that is adopted, a chart's new version), it would keep the
    one from before, and find a difference the next time.
    """
    if _skips_waiting(manifest):
        return {"pulumi.com/skipAwait": "true"}
    conditions = _wait_for(manifest)
    if not conditions:
        return {}
    metadata = {key: manifest["metadata"].get(key) for key in ("labels", "annotations")}
    told = json.dumps(metadata, sort_keys=True).encode()
    digest = hashlib.sha256(told).hexdigest()[:12]
    applied = f"jsonpath={{.metadata.annotations['{_METADATA}']}}={digest}"
    return {_METADATA: digest, "pulumi.com/waitFor": json.dumps([*conditions, applied])}
