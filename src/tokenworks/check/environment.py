"""`check ENV`: schemas, rules and the set itself, over everything an environment renders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from policies import Context, Finding, Manifest, evaluate, name_of
from tokenworks.catalog.reduced import reduced_crds
from tokenworks.check.conform import validate_schemas
from tokenworks.check.context import unresolved_revisions
from tokenworks.check.report import Report
from tokenworks.check.schemas import build_schemas
from tokenworks.render.release import Release
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
    """An object, its namespace filled in, and the document it was rendered from."""

    manifest: Manifest
    release: str
    file: str | None
    line: int | None = None


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
        *_empty(releases),
        *_repeated(placed),
        *_valid(placed, validate_schemas(objects, tools.kubeconform, schemas)),
        *(
            finding if violation.index < 0 else _at(placed[violation.index], finding)
            for violation, finding in evaluate(objects, context)
        ),
    ]
    where = f"{len(releases)} releases of environment {stack.name}"
    return Report(tuple(found), len(objects), where)


def _placed(stack: Stack, release: Release) -> Iterator[_Placed]:
    kind, _, name = release.name.partition("-")
    document = {"model": "ModelRelease", "tenant": "Tenant"}.get(kind)
    source = stack.sources.get(f"{document}/{name}")
    for position, manifest in enumerate(release.objects):
        place = (source, None)
        if release.name == "manifests" and position < len(stack.manifest_sources):
            place = stack.manifest_sources[position]
        file = None if place[0] is None else place[0].as_posix()
        yield _Placed(_in_namespace(manifest, release.namespace), release.name, file, place[1])


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


def _empty(releases: Iterable[Release]) -> Iterator[Finding]:
    for release in releases:
        if not release.objects and not release.charts:
            yield Finding(
                "empty-render",
                "error",
                f"release {release.name}",
                "",
                "renders no object at all",
                "look at its values: ./tokenworks render ENV",
            )


def _repeated(placed: Sequence[_Placed]) -> Iterator[Finding]:
    """Objects that two releases render: whoever applies last wins, until the other does."""
    first: dict[tuple[str, str], _Placed] = {}
    for item in placed:
        group = str(item.manifest.get("apiVersion")).rpartition("/")[0]
        other = first.setdefault((group, name_of(item.manifest)), item)
        if other is not item:
            yield Finding(
                "repeated-object",
                "error",
                name_of(item.manifest),
                "metadata.name",
                f"is rendered twice: by release {other.release} and by release {item.release}",
                "rename one, or let one release own it",
                item.file,
                item.line,
            )


def _valid(placed: Sequence[_Placed], findings: Iterable[Finding]) -> Iterator[Finding]:
    places = {name_of(item.manifest): item for item in placed}
    for finding in findings:
        yield _at(places[finding.object], finding)


def _at(item: _Placed, finding: Finding) -> Finding:
    return replace(finding, file=item.file, line=item.line)
