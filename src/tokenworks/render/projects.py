"""What Argo CD may do: a project a layer, which lists kinds and places, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tokenworks.catalog.bill import bill
from tokenworks.render.argocd import settings_of
from tokenworks.render.release import Release
from tokenworks.render.waves import key_of
from tokenworks.spec.common import duration_seconds
from tokenworks.spec.environment import ArgoCd, SyncWindow
from tokenworks.spec.stack import Manifest, Stack

API: Final = "argoproj.io/v1alpha1"
ROOT: Final = "tokenworks"
"""Name of the application from which all others come, and of its project."""
HERE: Final = "https://kubernetes.default.svc"
"""The cluster that Argo CD runs in."""

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


def project_of(release: Release) -> str:
    """The project whose limits hold for a release."""
    return "manifests" if release.name == "manifests" else release.layer


def places_of(objects: Sequence[Manifest]) -> tuple[str, ...]:
    """Namespaces of plain objects; where all are cluster-wide, one that none of them may be in."""
    found = {str(o["metadata"]["namespace"]) for o in objects if "namespace" in o["metadata"]}
    return tuple(sorted(found)) or ("default",)


@dataclass(frozen=True)
class _Limits:
    """What applications of a project may bring, and whereto."""

    title: str
    namespaces: Sequence[str]
    kinds: Sequence[tuple[str, str]]
    """Group and kind of objects in these namespaces."""
    wide: Sequence[Mapping[str, str]] = ()
    """Group and kind of objects without a namespace, and their name where only one may be."""


def projects(stack: Stack, delivered: Sequence[Release]) -> list[Manifest]:
    """A project for each kind of release that is delivered, and one for their sets."""
    names = sorted({project_of(release) for release in delivered})
    settings, namespace = settings_of(stack), str(bill().components["argocd"].namespace)
    kind = API.partition("/")[0], "ApplicationSet"
    sets_only = _Limits("Brings the sets of applications.", (namespace,), (kind,))
    found = [_project(ROOT, settings, sets_only, ())]
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
    kinds = sorted({key_of(o) for o in spaced})
    return _Limits("Plain objects of the environment.", places_of(objects), kinds, wide)


def _project(
    name: str, settings: ArgoCd, limits: _Limits, windows: Sequence[SyncWindow]
) -> Manifest:
    """The limits, and the only repository that objects come from."""
    spec: dict[str, Any] = {
        "description": limits.title,
        "sourceRepos": [settings.repository],
        "destinations": [{"server": HERE, "namespace": n} for n in limits.namespaces],
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
