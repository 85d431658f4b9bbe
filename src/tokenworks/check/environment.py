"""`check ENV`: schemas, rules and the set itself, over everything an environment renders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from policies import Context, Finding, Manifest, evaluate, name_of
from tokenworks.catalog.reduced import reduced_crds
from tokenworks.check.conform import validate_schemas
from tokenworks.check.context import unresolved_revisions
from tokenworks.check.report import Report
from tokenworks.check.schemas import build_schemas
from tokenworks.render.release import Release
from tokenworks.spec.problems import FieldPath
from tokenworks.spec.stack import Stack


@dataclass(frozen=True)
class CheckTools:
    """What checking an environment needs from the machine."""

    kubeconform: Path
    openapi: Path
    """`api/openapi-spec/v3` of the Kubernetes module."""
    cache: Path
    """Folder for generated schemas."""


@dataclass(frozen=True)
class _Placed:
    """An object, its namespace filled in, and where it comes from."""

    manifest: Manifest
    release: str
    document: str
    """`Kind/name` of the document that it was rendered from."""
    written: tuple[Path, int] | None = None
    """File and line of an object that was written as it is."""


def check_environment(
    stack: Stack, releases: Sequence[Release], context: Context, tools: CheckTools
) -> Report:
    """All findings over what the environment renders, each with the document it came from.

    Raises TokenworksError when kubeconform fails.
    """
    placed = [item for release in releases for item in _placed(stack, release)]
    objects = [item.manifest for item in placed]
    schemas = build_schemas(tools.openapi, [*reduced_crds(), *objects], tools.cache)
    found = [
        *unresolved_revisions(stack, context),
        *_empty(stack, releases),
        *_repeated(stack, placed),
        *_valid(stack, placed, validate_schemas(objects, tools.kubeconform, schemas)),
        *(
            finding
            if violation.index < 0 or finding.file is not None  # a waiver of the environment's
            else _at(stack, placed[violation.index], finding, violation.path)
            for violation, finding in evaluate(objects, context, known=True)
        ),
    ]
    where = f"{len(releases)} releases of environment {stack.name}"
    return Report(tuple(found), len(objects), where)


def _placed(stack: Stack, release: Release) -> Iterator[_Placed]:
    document = _document(stack, release.name)
    for position, manifest in enumerate(release.objects):
        written = None
        if release.name == "manifests" and position < len(stack.manifest_sources):
            written = stack.manifest_sources[position]
        object_ = _in_namespace(manifest, release.namespace)
        yield _Placed(object_, release.name, document, written)


def _document(stack: Stack, release: str) -> str:
    """The document that says what the release is: a model's, a tenant's, else the environment's."""
    kind, _, name = release.partition("-")
    document = f"{_KINDS.get(kind)}/{name}"
    return document if document in stack.sources else f"Environment/{stack.name}"


_KINDS: Final = {"model": "ModelRelease", "tenant": "Tenant"}


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    """The object as it is applied: what names no namespace goes to the release's."""
    metadata: dict[str, object] = manifest.get("metadata") or {}
    if not namespace or metadata.get("namespace") or manifest.get("kind") not in _NAMESPACED:
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}


_NAMESPACED = frozenset(
    {
        "Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob",
        "LeaderWorkerSet", "NetworkPolicy", "Service", "InferencePool",
    }
)  # fmt: skip
"""Kinds whose namespace the rules ask for."""


def _empty(stack: Stack, releases: Iterable[Release]) -> Iterator[Finding]:
    for release in releases:
        if not release.objects and not release.charts:
            yield Finding(
                "empty-render",
                "error",
                f"release {release.name}",
                "",
                "renders no object at all",
                f"look at its values: ./tokenworks render {stack.name}",
                stack.place(_document(stack, release.name), ())[0],
            )


def _repeated(stack: Stack, placed: Sequence[_Placed]) -> Iterator[Finding]:
    """Objects that two releases render: whoever applies last wins, until the other does."""
    first: dict[tuple[str, str], _Placed] = {}
    for item in placed:
        group = str(item.manifest.get("apiVersion")).rpartition("/")[0]
        other = first.setdefault((group, name_of(item.manifest)), item)
        if other is not item:
            found = Finding(
                "repeated-object",
                "error",
                name_of(item.manifest),
                "metadata.name",
                f"is rendered twice: by release {other.release} and by release {item.release}",
                "rename one, or let one release own it",
            )
            yield _at(stack, item, found, ())


def _valid(
    stack: Stack, placed: Sequence[_Placed], findings: Iterable[Finding]
) -> Iterator[Finding]:
    places = {name_of(item.manifest): item for item in placed}
    for finding in findings:
        yield _at(stack, places[finding.object], finding, ())


def _at(stack: Stack, item: _Placed, finding: Finding, path: FieldPath) -> Finding:
    if item.written is not None:
        return replace(finding, file=item.written[0].as_posix(), line=item.written[1])
    decides = _decides(item, path)
    file, line = stack.place(item.document, decides or ())
    return replace(finding, file=file, line=line if decides else None)


_OF_MODELS: Final[dict[str | int, FieldPath]] = {
    "replicas": ("spec", "replicas"),
    "resources": ("spec", "resources"),
    "image": ("spec", "engine", "image"),
    "args": ("spec", "engine", "flags"),
    "command": ("spec", "engine", "flags"),
    "env": ("spec", "engine", "env"),
    "nodeSelector": ("spec", "pool"),
    "tolerations": ("spec", "pool"),
    "startupProbe": ("spec", "startup"),
    "terminationGracePeriodSeconds": ("spec", "startup"),
    "volumes": ("spec", "caches"),
    "timeouts": ("spec", "route"),
}
"""Part of an object's path: the field of the model's document that it mostly follows from."""
_OF_ENVIRONMENTS: Final[dict[str, FieldPath]] = {
    "gateway": ("spec", "gateway"),
    "istiod": ("spec", "gateway"),
    "queues": ("spec", "nodePools"),
    "kueue": ("spec", "platform", "kueue"),
    "lws": ("spec", "platform", "leaderWorkerSet"),
    "argocd": ("spec", "argocd"),
}
"""Release: the field of the environment's document that asks for it."""


def _decides(item: _Placed, path: FieldPath) -> FieldPath | None:
    """The field of the document that the object's field follows from, where that is known."""
    if item.document.startswith("Environment/"):
        return _OF_ENVIRONMENTS.get(item.release)
    if not item.document.startswith("ModelRelease/"):
        return None
    return next((_OF_MODELS[part] for part in reversed(path) if part in _OF_MODELS), None)
