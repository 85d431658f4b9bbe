"""What Argo CD must know of single objects: their wave, and what it must never delete.

Every environment's objects carry it, whoever delivers them, so that a change of delivery
changes no object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack

WAVE: Final = "argocd.argoproj.io/sync-wave"
_OPTIONS: Final = "argocd.argoproj.io/sync-options"
_COMPARE: Final = "argocd.argoproj.io/compare-options"
_KEPT: Final = "Prune=false,Delete=false"

_WAVES: Final = {
    # What others name: nothing waits for long for what it has no controller for.
    ("", "Namespace"): -1,
    ("kueue.x-k8s.io", "Topology"): -1,
    ("kueue.x-k8s.io", "ResourceFlavor"): -1,
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): -1,
    # Wave 0: configuration, rights, network policies, queues.
    ("inference.networking.k8s.io", "InferencePool"): 1,
    # A claim is bound when a pod uses it, so it must not be waited for before there is one.
    ("", "PersistentVolumeClaim"): 2,
    ("", "Pod"): 2,
    ("batch", "Job"): 2,
    ("batch", "CronJob"): 2,
    ("apps", "DaemonSet"): 2,
    ("apps", "Deployment"): 2,
    ("apps", "StatefulSet"): 2,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): 2,
    ("workloads.x-k8s.io", "RoleBasedGroup"): 2,
    ("gateway.networking.k8s.io", "Gateway"): 2,
    # Requests come when there is somebody to answer.
    ("gateway.networking.k8s.io", "HTTPRoute"): 3,
    ("gateway.networking.k8s.io", "GRPCRoute"): 3,
}
"""Group and kind: the wave. Objects of a wave are applied when those of the one before are healthy.
"""


def key_of(manifest: Manifest) -> tuple[str, str]:
    """API group (empty for the core group) and kind."""
    group, slash, _ = str(manifest["apiVersion"]).rpartition("/")
    return (group if slash else ""), str(manifest["kind"])


def wave_of(manifest: Manifest) -> int:
    """The wave of an object."""
    return _WAVES.get(key_of(manifest), 0)


def _is_kept(manifest: Manifest) -> bool:
    """Whether it takes more with it than Git can bring back: objects of a kind, of a namespace,
    or files."""
    notes: dict[str, str] = manifest["metadata"].get("annotations") or {}
    if notes.get("helm.sh/resource-policy") == "keep":
        return True
    return manifest["kind"] in ("CustomResourceDefinition", "Namespace")


def annotated(manifest: Manifest) -> Manifest:
    """The object with its wave and options; those that it brings itself count."""
    wave, told = wave_of(manifest), dict[str, str]()
    if wave:
        told[WAVE] = str(wave)
    if _is_kept(manifest):
        # What is left when Git no longer has it makes nothing out of sync.
        told |= {_OPTIONS: _KEPT, _COMPARE: "IgnoreExtraneous"}
    if not told:
        return manifest
    meta = manifest["metadata"]
    return {
        **manifest,
        "metadata": {**meta, "annotations": {**told, **(meta.get("annotations") or {})}},
    }


def with_waves(release: Release) -> tuple[Manifest, ...]:
    """The release's objects, annotated where Argo CD may deliver them."""
    if not deliverable(release):
        return release.objects
    return tuple(annotated(manifest) for manifest in release.objects)


def deliverable(release: Release) -> bool:
    """Whether Argo CD delivers the release where the environment says so: what serves.

    CRDs and operators must be there before it, and what makes nodes belongs to the infrastructure.
    """
    serves = release.name in ("queues", "gateway") or release.name.startswith("tenant-")
    return release.layer == "models" or (release.layer == "platform" and serves)


_SHARED: Final = (("", "Namespace"), ("gateway.networking.k8s.io", "Gateway"))
"""What else is built upon: secrets and volumes in namespaces, names that lead to the gateway."""


def pulumis_share(stack: Stack, releases: Iterable[Release]) -> list[Release]:
    """What Pulumi applies: everything, or what must be there before Argo CD delivers.

    Namespaces and the gateway are applied by both then, the same fields with the same values.
    """
    if stack.environment.spec.delivery == "pulumi":
        return list(releases)
    own = [release for release in releases if release.layer != "applications"]
    shared = [_shared(release) if deliverable(release) else release for release in own]
    return [release for release in shared if release.objects]


def _shared(release: Release) -> Release:
    objects = tuple(o for o in release.objects if key_of(o) in _SHARED)
    return replace(release, objects=objects)
