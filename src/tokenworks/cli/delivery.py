"""Handing what serves over to Argo CD, and taking it back, while it goes on serving.

Three things say whose an object is: Pulumi's state, the managers of its fields, and the
Application that holds it. Each is changed here without touching the object itself.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tokenworks.catalog.bill import bill
from tokenworks.cli import endpoint, engine
from tokenworks.cli.context import say
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.render.projects import ROOT
from tokenworks.render.release import ARGOCD, FIELD_MANAGER, Release, logical_name
from tokenworks.render.waves import deliverable, pulumis_share
from tokenworks.spec.stack import Manifest, Stack

_APPLICATION: Final = "kubernetes:argoproj.io/v1alpha1:Application"
_CONTROLLERS: Final = {
    "argocd-applicationset-controller": "deployment",
    "argocd-application-controller": "statefulset",
}
"""What makes Applications, and what deletes the objects of those that go; in this order."""
_TRACKING: Final = "argocd.argoproj.io/tracking-id"
"""Annotation by which Argo CD knows its objects; nobody would remove it from what both applied."""
_ATTEMPTS: Final = 5
_SECONDS: Final = 900

Resource = dict[str, Any]
"""One resource of Pulumi's state."""


def argocd_delivers(pulumis: Iterable[engine.Engine]) -> bool:
    """Whether Argo CD delivers now, whatever the documents say."""
    return any(r["type"] == _APPLICATION for p in pulumis for r in engine.resources(p))


# Pulumi's state


def to_forget(stack: Stack, releases: Sequence[Release], there: Sequence[Resource]) -> set[str]:
    """URNs of what the state still has and Argo CD delivers from now on."""
    if stack.environment.spec.delivery != "argocd":
        return set()
    kept = {r.name: {logical_name(o) for o in r.objects} for r in pulumis_share(stack, releases)}
    handed = {release.name: kept.get(release.name, set()) for release in releases}
    handed = {r.name: handed[r.name] for r in releases if deliverable(r)}
    components = {r["urn"]: _name(r) for r in there if _is_release(r) and _name(r) in handed}
    gone = {urn for urn, name in components.items() if not handed[name]}
    for resource in there:
        name = components.get(str(resource.get("parent")))
        if name is not None and _name(resource) not in handed[name]:
            gone.add(resource["urn"])
    return gone


def _name(resource: Resource) -> str:
    return str(resource["urn"]).split("::", 3)[3]


def _is_release(resource: Resource) -> bool:
    return str(resource["type"]).startswith(("tokenworks:serving:", "tokenworks:platform:"))


def without(there: Sequence[Resource], gone: set[str]) -> list[Resource]:
    """The resources that stay, none of which depends on one that goes."""
    return [_loosened(resource, gone) for resource in there if resource["urn"] not in gone]


def _loosened(resource: Resource, gone: set[str]) -> Resource:
    changed = dict(resource)
    if "dependencies" in changed:
        changed["dependencies"] = [u for u in changed["dependencies"] if u not in gone]
    if "propertyDependencies" in changed:
        before: Mapping[str, list[str] | None] = changed["propertyDependencies"]
        changed["propertyDependencies"] = {
            key: [u for u in urns or [] if u not in gone] for key, urns in before.items()
        }
    return changed


# Steps of `up` and `down`


def announce(stack: Stack, releases: Sequence[Release], pulumi: engine.Engine) -> None:
    """Say what a preview cannot know: what it calls deleted stays."""
    objects = _handed(releases, to_forget(stack, releases, engine.resources(pulumi)))
    if objects:
        say(
            f"{len(objects)} object(s) that are shown as deleted stay as they are: "
            "`up` hands them over to Argo CD"
        )


def hand_over(stack: Stack, releases: Sequence[Release], pulumi: engine.Engine) -> None:
    """Leave to Argo CD what it delivers from now on; nothing in the cluster stops.

    Raises:
        TokenworksError: the cluster or Pulumi's backend refused.
    """
    there = engine.resources(pulumi)
    gone = to_forget(stack, releases, there)
    if not gone:
        return
    objects = _handed(releases, gone)
    say(f"handing {len(objects)} object(s) over to Argo CD; they go on running")
    _change_owner(stack, objects, FIELD_MANAGER, ARGOCD)
    engine.replace_resources(pulumi, without(there, gone))


def _handed(releases: Iterable[Release], gone: set[str]) -> list[Manifest]:
    names = {urn.split("::", 3)[3] for urn in gone}
    objects = (o for r in releases if deliverable(r) for o in r.objects)
    return [manifest for manifest in objects if logical_name(manifest) in names]


def take_back(stack: Stack, releases: Sequence[Release], pulumis: Sequence[engine.Engine]) -> None:
    """End Argo CD's delivery without touching what it delivered; Pulumi adopts that next.

    Raises:
        UsageError: it delivers a release that the documents no longer have.
        TokenworksError: the cluster or Pulumi's backend refused.
    """
    _refuse_unknown(stack, releases)
    say("taking over from Argo CD; what it delivered goes on running")
    _stop(stack)
    objects = [o for r in releases if deliverable(r) for o in r.objects]
    _change_owner(stack, objects, ARGOCD, FIELD_MANAGER)
    _forget_applications(pulumis)


def remove_delivered(stack: Stack, pulumis: Sequence[engine.Engine]) -> None:
    """Let Argo CD remove all that it delivered, and forget that it did.

    Raises:
        TokenworksError: something is left after a quarter of an hour.
    """
    say("Argo CD removes what it delivered")
    where = ("-n", _namespace(), "--ignore-not-found")
    limit = ("--wait=true", f"--timeout={_SECONDS}s")
    _kubectl(stack, "delete", "applications.argoproj.io", ROOT, *where, *limit)
    _forget_applications(pulumis)


def _forget_applications(pulumis: Sequence[engine.Engine]) -> None:
    for pulumi in pulumis:
        there = engine.resources(pulumi)
        gone = {r["urn"] for r in there if r["type"] == _APPLICATION}
        if gone:
            engine.replace_resources(pulumi, without(there, gone))


# The cluster


def _namespace() -> str:
    return str(bill().components["argocd"].namespace)


def _applications(stack: Stack) -> list[Manifest]:
    said = _kubectl(stack, "get", "applications.argoproj.io", "-n", _namespace(), "-o", "json")
    found: list[Manifest] = json.loads(said)["items"]
    return found


def _refuse_unknown(stack: Stack, releases: Sequence[Release]) -> None:
    known = {ROOT, *(release.name for release in releases)}
    unknown = [n for a in _applications(stack) if (n := a["metadata"]["name"]) not in known]
    if unknown:
        raise UsageError(
            f"Argo CD delivers {', '.join(sorted(unknown))}, which environment {stack.name} no "
            "longer has, and whose objects nobody would remove: push the rendered tree without "
            "it, wait until it is gone, then run the same command again"
        )


def _stop(stack: Stack) -> None:
    """Delete every Application, with nobody there who would delete its objects or make it anew."""
    there = ("-n", _namespace())
    for name, kind in _CONTROLLERS.items():
        _kubectl(stack, "scale", *there, f"{kind}/{name}", "--replicas=0")
    for name in _CONTROLLERS:
        pods = ("pod", "-l", f"app.kubernetes.io/name={name}")
        _kubectl(stack, "wait", *there, *pods, "--for=delete", "--timeout=180s")
    # Their applications stay until they have lost what would take their objects with them.
    every = ("--all", "--cascade=orphan", "--wait=true")
    _kubectl(stack, "delete", "applicationsets.argoproj.io", *there, *every)
    found = _applications(stack)
    for application in found:
        application["metadata"]["finalizers"] = []
    if found:
        _kubectl(stack, "replace", "-f", "-", objects=found)
        _kubectl(stack, "delete", "applications.argoproj.io", *there, "--all", "--wait=true")


def renamed(manifest: Manifest, old: str, new: str) -> Manifest | None:
    """The object with the fields of one manager given to another; None: nothing to give.

    Where both applied it, they did the same fields, and the entry of `old` goes.
    """
    entries: list[Resource] = manifest["metadata"].get("managedFields") or []
    mine = [e for e in entries if e["manager"] == old and e["operation"] == "Apply"]
    if not mine:
        return None
    both = any(e["manager"] == new and e["operation"] == "Apply" for e in entries)
    given = [{**e, "manager": new} if e in mine else e for e in entries if not (both and e in mine)]
    metadata: Manifest = {**manifest["metadata"], "managedFields": given}
    notes: dict[str, str] = metadata.get("annotations") or {}
    if old == ARGOCD and _TRACKING in notes:
        metadata["annotations"] = {k: v for k, v in notes.items() if k != _TRACKING}
    return {**manifest, "metadata": metadata}


def _change_owner(stack: Stack, objects: Sequence[Manifest], old: str, new: str) -> None:
    """Give the fields that `old` applied to `new`: what Git drops later is then removed."""
    for attempt in range(1, _ATTEMPTS + 1):
        changed = _to_change(stack, objects, old, new)
        if not changed:
            return
        try:
            _kubectl(stack, "replace", "-f", "-", objects=changed)
        except TokenworksError:
            # Somebody changed one of them meanwhile; those are read again.
            if attempt == _ATTEMPTS:
                raise


def _to_change(stack: Stack, objects: Sequence[Manifest], old: str, new: str) -> list[Manifest]:
    if not objects:
        return []
    flags = ("--ignore-not-found", "--show-managed-fields", "-o", "json", "-f", "-")
    said = _kubectl(stack, "get", *flags, objects=objects)
    found: Manifest = json.loads(said) if said.strip() else {"items": []}
    items: list[Manifest] = found.get("items", [found])
    changed = (renamed(item, old, new) for item in items)
    return [item for item in changed if item is not None]


def _kubectl(stack: Stack, *arguments: str, objects: Sequence[Manifest] = ()) -> str:
    """What kubectl prints; `objects` are its standard input.

    Raises:
        TokenworksError: it failed.
    """
    command = [*endpoint.kubectl(stack), *arguments]
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    result = subprocess.run(
        command, input=json.dumps(listed), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise TokenworksError(
            f"kubectl {' '.join(arguments)} failed:\n{result.stderr.strip()}\n"
            f"{endpoint.remedy(stack)}"
        )
    return result.stdout
