"""What Argo CD is told: one Application a release, who may do what, and where it begins.

Waves order the applications: queues and gateway, then tenants, then models. They are synced by one
application that holds them all; `ApplicationSet` has an order of its own (RollingSync), which
switches automatic sync off and so heals nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tokenworks.catalog.bill import bill
from tokenworks.render.argocd import settings_of
from tokenworks.render.release import Release
from tokenworks.render.waves import WAVE, deliverable, key_of
from tokenworks.spec.common import duration_seconds
from tokenworks.spec.environment import ArgoCd, SyncWindow
from tokenworks.spec.stack import Manifest, Stack

ROOT: Final = "tokenworks"
"""Name of the application that holds all others, and of its project."""
API: Final = "argoproj.io/v1alpha1"
FINALIZER: Final = "resources-finalizer.argocd.argoproj.io"
"""With it, deleting an application deletes its objects first."""
_HERE: Final = "https://kubernetes.default.svc"
_SCALERS: Final = ("kube-controller-manager", "keda-operator")
"""Field managers that change replicas: of HorizontalPodAutoscalers and of KEDA."""
_SCALED: Final = (
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    ("workloads.x-k8s.io", "RoleBasedGroup"),
)
_FIRST_PAUSE: Final = 10
_LONGEST_PAUSE: Final = 180
"""Seconds before a failed sync is tried again, at first and after many."""

_PLATFORM_KINDS: Final = (
    ("", "Service"), ("", "ServiceAccount"), ("apps", "Deployment"),
    ("gateway.networking.k8s.io", "Gateway"), ("kueue.x-k8s.io", "LocalQueue"),
    ("networking.istio.io", "DestinationRule"), ("networking.istio.io", "EnvoyFilter"),
    ("networking.k8s.io", "NetworkPolicy"),
)  # fmt: skip
_PLATFORM_WIDE: Final = (
    ("kueue.x-k8s.io", "ClusterQueue"), ("kueue.x-k8s.io", "ResourceFlavor"),
    ("kueue.x-k8s.io", "Topology"), ("kueue.x-k8s.io", "WorkloadPriorityClass"),
)  # fmt: skip
_MODEL_KINDS: Final = (
    ("", "ConfigMap"), ("", "PersistentVolumeClaim"), ("", "Service"), ("", "ServiceAccount"),
    ("apps", "Deployment"), ("batch", "Job"), ("gateway.networking.k8s.io", "HTTPRoute"),
    ("inference.networking.k8s.io", "InferencePool"),
    ("inference.networking.x-k8s.io", "InferenceModelRewrite"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("networking.istio.io", "DestinationRule"),
    ("networking.k8s.io", "NetworkPolicy"), ("policy", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "Role"), ("rbac.authorization.k8s.io", "RoleBinding"),
    ("workloads.x-k8s.io", "RoleBasedGroup"),
)  # fmt: skip
"""Kinds of the charts: a model that comes by Git alone may have any of them, and no others."""


def applications(stack: Stack, releases: Sequence[Release]) -> list[Release]:
    """Projects and the application that Pulumi applies, and the applications that Git brings."""
    delivered = [release for release in releases if deliverable(release)]
    namespace = str(bill().components["argocd"].namespace)
    needs = tuple(r.name for r in releases)
    seconds = seconds_of(delivered)
    begin = (*_projects(stack, delivered), _root(stack, namespace, seconds))
    made = [_application(stack, release, namespace) for release in delivered]
    return [
        Release("argocd-applications", "delivery", namespace, begin, needs, seconds),
        *(Release(f"application-{a['metadata']['name']}", "applications", namespace, (a,))
          for a in made),
    ]  # fmt: skip


def outline(release: Release) -> Release:
    """All of a release that anything here reads: of its objects only what and where they are."""
    objects = release.objects if deliverable(release) else ()
    return replace(release, objects=tuple(_outlined(o) for o in objects), charts=())


def _outlined(manifest: Manifest) -> Manifest:
    metadata = {k: v for k, v in manifest["metadata"].items() if k in ("name", "namespace")}
    return {
        "apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata,
    }  # fmt: skip


def seconds_of(releases: Sequence[Release]) -> float:
    """How long those that Argo CD delivers may take from nothing: one step after another."""
    slowest: dict[int, float] = {}
    for release in releases:
        if not deliverable(release):
            continue
        step = step_of(release)
        slowest[step] = max(slowest.get(step, 0.0), release.ready_seconds)
    return sum(slowest.values())


def step_of(release: Release) -> int:
    """The wave of a release's application."""
    if release.layer == "models":
        return 2
    return 1 if release.name.startswith("tenant-") else 0


def project_of(release: Release) -> str:
    """The project whose limits hold for a release."""
    return "manifests" if release.name == "manifests" else release.layer


# Applications


def _application(stack: Stack, release: Release, namespace: str) -> Manifest:
    metadata: Manifest = {
        "name": release.name, "namespace": namespace, "labels": _labels(stack, release.layer),
    }  # fmt: skip
    if wave := step_of(release):
        metadata["annotations"] = {WAVE: str(wave)}
    metadata["finalizers"] = [FINALIZER]
    source = {
        **_source(stack, release.layer),
        "directory": {"include": f"{release.name}.yaml"},
    }
    spec = {
        "project": project_of(release),
        "source": source,
        "destination": {"server": _HERE, "namespace": release.namespace or namespace},
        "syncPolicy": _policy(release.ready_seconds),
        "ignoreDifferences": [_scaled(group, kind) for group, kind in _SCALED],
    }
    return {"apiVersion": API, "kind": "Application", "metadata": metadata, "spec": spec}


def _root(stack: Stack, namespace: str, seconds: float) -> Manifest:
    return {
        "apiVersion": API, "kind": "Application",
        "metadata": {
            "name": ROOT, "namespace": namespace, "labels": _labels(stack, "delivery"),
            "finalizers": [FINALIZER],
        },
        "spec": {
            "project": ROOT,
            "source": _source(stack, "applications"),
            "destination": {"server": _HERE, "namespace": namespace},
            "syncPolicy": _policy(seconds),
        },
    }  # fmt: skip


def _labels(stack: Stack, layer: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/part-of": "tokenworks",
        "tokenworks.dev/environment": stack.name,
        "tokenworks.dev/layer": layer,
    }


def _source(stack: Stack, layer: str) -> Manifest:
    settings = settings_of(stack)
    return {
        "repoURL": settings.repository,
        "targetRevision": settings.revision,
        "path": f"{settings.path}/{stack.name}/{layer}",
    }


def attempts(ready_seconds: float) -> int:
    """How often a sync is tried: the pauses alone outlast the release's start."""
    pause, waited, count = _FIRST_PAUSE, 0, 0
    while waited < ready_seconds:
        waited, count = waited + pause, count + 1
        pause = min(2 * pause, _LONGEST_PAUSE)
    return count


def _policy(ready_seconds: float) -> Manifest:
    """Sync by itself, heal, and try again for longer than the release may take to start."""
    return {
        "automated": {"prune": True, "selfHeal": True},
        "syncOptions": [
            "ServerSideApply=true",
            "RespectIgnoreDifferences=true",
            # Two releases that bring one object would undo each other.
            "FailOnSharedResource=true",
        ],
        "retry": {
            "limit": attempts(ready_seconds),
            # What was mended meanwhile is taken instead of what failed.
            "refresh": True,
            "backoff": {
                "duration": f"{_FIRST_PAUSE}s", "factor": 2, "maxDuration": f"{_LONGEST_PAUSE}s",
            },
        },
    }  # fmt: skip


def _scaled(group: str, kind: str) -> Manifest:
    """What a scaler changed is the scaler's; what a person changed is not."""
    return {"group": group, "kind": kind, "managedFieldsManagers": list(_SCALERS)}


# Projects


@dataclass(frozen=True)
class _Limits:
    """What applications of a project may bring, and whereto."""

    title: str
    namespaces: Sequence[str]
    kinds: Sequence[tuple[str, str]]
    """Group and kind of objects in these namespaces."""
    wide: Sequence[Mapping[str, str]] = ()
    """Group and kind of objects without a namespace, and their name where only one may be."""


def _projects(stack: Stack, delivered: Sequence[Release]) -> list[Manifest]:
    names = sorted({project_of(release) for release in delivered})
    settings, namespace = settings_of(stack), str(bill().components["argocd"].namespace)
    applications_only = _Limits(
        "Brings the other applications.", (namespace,), ((API.partition("/")[0], "Application"),)
    )
    found = [_project(ROOT, settings, applications_only, ())]
    for name in names:
        limits = _limits(stack, [r for r in delivered if project_of(r) == name], name)
        found.append(_project(name, settings, limits, settings.windows))
    return found


def _limits(stack: Stack, releases: Sequence[Release], name: str) -> _Limits:
    if name == "models":
        tenants = sorted(tenant.namespace for tenant in stack.tenants)
        return _Limits("Models of all tenants, in their namespaces.", tenants, _MODEL_KINDS)
    objects = [manifest for release in releases for manifest in release.objects]
    if name == "manifests":
        return _limits_of(objects)
    made = sorted(o["metadata"]["name"] for o in objects if o["kind"] == "Namespace")
    return _Limits(
        "Queues, the gateway, and tenants with their own namespaces.",
        sorted({release.namespace for release in releases}),
        _PLATFORM_KINDS,
        (
            *({"group": group, "kind": kind} for group, kind in _PLATFORM_WIDE),
            *({"group": "", "kind": "Namespace", "name": namespace} for namespace in made),
        ),
    )


def _limits_of(objects: Sequence[Manifest]) -> _Limits:
    """Plain objects: the kinds and places that they have now, cluster-wide ones by name."""
    spaced = [o for o in objects if "namespace" in o["metadata"]]
    wide = [
        {"group": key_of(o)[0], "kind": key_of(o)[1], "name": str(o["metadata"]["name"])}
        for o in objects
        if "namespace" not in o["metadata"]
    ]
    namespaces = sorted({str(o["metadata"]["namespace"]) for o in spaced})
    title = "Plain objects of the environment."
    return _Limits(title, namespaces, sorted({key_of(o) for o in spaced}), wide)


def _project(
    name: str, settings: ArgoCd, limits: _Limits, windows: Sequence[SyncWindow]
) -> Manifest:
    """The limits, and the only repository that objects come from."""
    spec: dict[str, Any] = {
        "description": limits.title,
        "sourceRepos": [settings.repository],
        "destinations": [{"server": _HERE, "namespace": n} for n in limits.namespaces],
        "clusterResourceWhitelist": [dict(item) for item in limits.wide],
        "namespaceResourceWhitelist": [{"group": g, "kind": k} for g, k in limits.kinds],
    }
    if windows:
        spec["syncWindows"] = [_window(window) for window in windows]
    meta = {
        "name": name,
        "namespace": bill().components["argocd"].namespace,
        "labels": {"app.kubernetes.io/part-of": "tokenworks"},
    }
    return {"apiVersion": API, "kind": "AppProject", "metadata": meta, "spec": spec}


def _window(window: SyncWindow) -> Manifest:
    seconds = round(duration_seconds(window.duration))
    return {
        "kind": window.kind,
        "schedule": window.schedule,
        "duration": f"{seconds}s",
        "timeZone": window.time_zone,
        "applications": list(window.applications),
        # Somebody who syncs by hand knows what they do.
        "manualSync": True,
    }
