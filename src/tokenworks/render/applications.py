"""What Argo CD is told: where it begins, and how it makes an Application of every rendered file.

An ApplicationSet a step reads the files of `rendered/<environment>/`: a file that comes makes an
Application, one that goes takes its Application with it. Steps are waves of the one application
that holds the sets: queues and gateway, then tenants, then models. It waits for a set until all
that came of it is synced and healthy (`catalog/health`). `ApplicationSet` has an order of its own,
RollingSync, which switches automatic sync off and so heals nothing: it is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tokenworks.catalog.bill import bill
from tokenworks.render.argocd import settings_of
from tokenworks.render.projects import API, HERE, ROOT, places_of, project_of, projects
from tokenworks.render.release import Release
from tokenworks.render.waves import WAVE, deliverable
from tokenworks.spec.common import duration_seconds
from tokenworks.spec.stack import Manifest, Stack

FINALIZER: Final = "resources-finalizer.argocd.argoproj.io"
"""With it, deleting an application deletes its objects first."""
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


def applications(stack: Stack, releases: Sequence[Release]) -> list[Release]:
    """Projects and the application that Pulumi applies, and the sets that Git brings."""
    delivered = [release for release in releases if deliverable(release)]
    namespace = str(bill().components["argocd"].namespace)
    needs = tuple(r.name for r in releases)
    seconds = seconds_of(delivered)
    begin = (*projects(stack, delivered), _root(stack, namespace, seconds))
    made = [_set(stack, family, namespace) for family in families(delivered)]
    return [
        Release("argocd-applications", "delivery", namespace, begin, needs, seconds),
        *(Release(f"applicationset-{s['metadata']['name']}", "applications", namespace, (s,))
          for s in made),
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


# Sets


@dataclass(frozen=True)
class Files:
    """Rendered files, and where their objects belong that do not say so."""

    pattern: str
    """As `git ls-files` takes it, below the environment's folder."""
    namespace: str
    """Its name, or a template over the first object of the file."""


@dataclass(frozen=True)
class Family:
    """Releases that are delivered alike, in one step."""

    name: str
    step: int
    """The wave of its set."""
    project: str
    layer: str
    files: tuple[Files, ...]
    ready_seconds: float
    """The longest that one of its releases may take from nothing."""


def families(releases: Iterable[Release]) -> list[Family]:
    """The sets of an environment, by step and name; none without a release."""
    members: dict[str, list[Release]] = {}
    for release in releases:
        if deliverable(release):
            members.setdefault(family_of(release), []).append(release)
    made = [_family(name, found) for name, found in members.items()]
    return sorted(made, key=lambda family: (family.step, family.name))


def family_of(release: Release) -> str:
    """Which set a release comes of."""
    if release.layer == "platform":
        return "tenants" if release.name.startswith("tenant-") else "platform"
    return project_of(release)


_STEPS: Final[Mapping[str, int]] = {"platform": 0, "tenants": 1, "models": 2, "manifests": 2}


def _family(name: str, members: Sequence[Release]) -> Family:
    layer, seconds = members[0].layer, max(r.ready_seconds for r in members)
    return Family(name, _STEPS[name], project_of(members[0]), layer, _files(name, members), seconds)


def _files(name: str, members: Sequence[Release]) -> tuple[Files, ...]:
    """A pattern where names tell what belongs to it, so that a new file needs nothing else."""
    if name == "tenants":
        # A tenant's file begins with its namespace.
        return (Files("platform/tenant-*.yaml", "{{ .metadata.name }}"),)
    if name == "models":
        return (Files("models/model-*.yaml", "{{ .metadata.namespace }}"),)
    return tuple(
        Files(f"{r.layer}/{r.name}.yaml", r.namespace or places_of(r.objects)[0]) for r in members
    )


def seconds_of(releases: Sequence[Release]) -> float:
    """How long those that Argo CD delivers may take from nothing: one step after another."""
    slowest: dict[int, float] = {}
    for family in families(releases):
        slowest[family.step] = max(slowest.get(family.step, 0.0), family.ready_seconds)
    return sum(slowest.values())


def _set(stack: Stack, family: Family, namespace: str) -> Manifest:
    labels = _labels(stack, family.layer)
    metadata: Manifest = {"name": family.name, "namespace": namespace, "labels": labels}
    if family.step:
        metadata["annotations"] = {WAVE: str(family.step)}
    spec = {
        "goTemplate": True,
        # A file that lacks what the template reads makes no Application, instead of an odd one.
        "goTemplateOptions": ["missingkey=error"],
        "generators": [{"git": _generator(stack, files)} for files in family.files],
        "template": _template(stack, family, labels),
    }
    return {"apiVersion": API, "kind": "ApplicationSet", "metadata": metadata, "spec": spec}


def _generator(stack: Stack, files: Files) -> Manifest:
    settings = settings_of(stack)
    return {
        "repoURL": settings.repository,
        "revision": settings.revision,
        "files": [{"path": f"{_folder(stack)}/{files.pattern}"}],
        "requeueAfterSeconds": round(duration_seconds(settings.poll)),
        "values": {"namespace": files.namespace},
    }


def _template(stack: Stack, family: Family, labels: Mapping[str, str]) -> Manifest:
    """The Application of one file."""
    return {
        "metadata": {
            "name": '{{ trimSuffix ".yaml" .path.filename }}', "labels": dict(labels),
            "finalizers": [FINALIZER],
        },
        "spec": {
            "project": family.project,
            "source": {
                **_source(stack, family.layer), "directory": {"include": "{{ .path.filename }}"},
            },
            "destination": {"server": HERE, "namespace": "{{ .values.namespace }}"},
            "syncPolicy": _policy(family.ready_seconds),
            "ignoreDifferences": [_scaled(group, kind) for group, kind in _SCALED],
        },
    }  # fmt: skip


# Where it begins


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
            "destination": {"server": HERE, "namespace": namespace},
            "syncPolicy": _policy(seconds),
        },
    }  # fmt: skip


def _labels(stack: Stack, layer: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/part-of": "tokenworks",
        "tokenworks.dev/environment": stack.name,
        "tokenworks.dev/layer": layer,
    }


def _folder(stack: Stack) -> str:
    return f"{settings_of(stack).path}/{stack.name}"


def _source(stack: Stack, layer: str) -> Manifest:
    settings = settings_of(stack)
    return {
        "repoURL": settings.repository,
        "targetRevision": settings.revision,
        "path": f"{_folder(stack)}/{layer}",
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
