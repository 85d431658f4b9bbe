"""Which objects of a release come before which: dependencies instead of sleeps."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from components.awaiting import group_of
from tokenworks.spec.stack import Manifest


class Tier(IntEnum):
    """Objects of a tier are applied together, when those of the tier before are ready."""

    NAMESPACE = 0
    CONFIGURATION = 1
    """Everything that workloads read or run under, and objects of kinds served already."""
    WORKLOAD = 2
    """What makes pods; ready when the pods are."""
    WEBHOOK = 3
    """Registered only when something answers; awaited until the operator put its CA in."""
    OWN_KIND = 4
    """Custom resources of the operator that this release brings: its webhook judges them."""


_WORKLOADS = {
    ("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("apps", "ReplicaSet"),
    ("batch", "Job"), ("batch", "CronJob"), ("", "Pod"), ("", "ReplicationController"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("gateway.networking.k8s.io", "Gateway"),
    ("argoproj.io", "Application"),
}  # fmt: skip
_WEBHOOKS = {
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io", "APIService"),
}


_BUILT_IN = {
    f"{name}.k8s.io"
    for name in (
        "admissionregistration", "apiextensions", "apiregistration", "authentication",
        "authorization", "certificates", "coordination", "discovery", "events",
        "flowcontrol.apiserver", "metrics", "networking", "node", "rbac.authorization", "resource",
        "scheduling", "storage", "storagemigration",
    )
}  # fmt: skip


def _is_custom(group: str) -> bool:
    """Whether a CRD defines the group's kinds."""
    return "." in group and group not in _BUILT_IN


def tier(manifest: Manifest, brings_webhooks: bool) -> Tier:
    """The tier of an object, in a release that does or does not register webhooks."""
    key = (group_of(manifest), str(manifest["kind"]))
    if key == ("", "Namespace"):
        return Tier.NAMESPACE
    if key in _WORKLOADS:
        return Tier.WORKLOAD
    if key in _WEBHOOKS:
        return Tier.WEBHOOK
    if brings_webhooks and _is_custom(key[0]):
        return Tier.OWN_KIND
    return Tier.CONFIGURATION


def tiers(objects: Sequence[Manifest]) -> list[list[Manifest]]:
    """The objects by tier, first tier first, without empty ones."""
    brings_webhooks = any((group_of(o), o["kind"]) in _WEBHOOKS for o in objects)
    found: dict[Tier, list[Manifest]] = {}
    for manifest in objects:
        found.setdefault(tier(manifest, brings_webhooks), []).append(manifest)
    return [found[t] for t in sorted(found)]
