"""The objects of two snapshots, matched by what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from policies.tree import at, mapping
from tokenworks.review.difference import Change, changes
from tokenworks.review.private import without
from tokenworks.review.snapshot import Placed, Snapshot
from tokenworks.spec.stack import Manifest


@dataclass(frozen=True, order=True)
class Identity:
    """What an object is called; its version does not count."""

    kind: str
    namespace: str
    name: str
    group: str

    @property
    def of_kind(self) -> str:
        """`group/Kind`, as the catalog writes it."""
        return f"{self.group}/{self.kind}"

    def __str__(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True)
class Difference:
    """One object before and after; None where it is not there."""

    identity: Identity
    release: str
    before: Manifest | None
    after: Manifest | None
    changes: tuple[Change, ...] = ()

    def touches(self, path: tuple[str, ...]) -> tuple[Change, ...]:
        """The changes at a path, below it, or of what holds it."""
        return tuple(c for c in self.changes if c.path[: len(path)] == path[: len(c.path)])


def identity_of(manifest: Manifest) -> Identity:
    """What the object is called."""
    group, slash, _ = str(manifest.get("apiVersion") or "").partition("/")
    name = at(manifest, "metadata", "name")
    namespace = at(manifest, "metadata", "namespace")
    return Identity(
        str(manifest.get("kind")), str(namespace or ""), str(name), group if slash else ""
    )


def differences(before: Snapshot | None, after: Snapshot | None) -> tuple[Difference, ...]:
    """Every object that is not the same in both, in the order of the rendering."""
    old = _by_identity(before.objects if before else ())
    new = _by_identity(after.objects if after else ())
    found: list[Difference] = []
    for identity, item in new.items():
        was = old.get(identity)
        if was is None:
            found.append(Difference(identity, item.release, None, item.manifest))
        elif was.manifest != item.manifest:
            changed = _changes(identity, was.manifest, item.manifest)
            if changed:
                found.append(
                    Difference(identity, item.release, was.manifest, item.manifest, changed)
                )
    gone = [i for i in old if i not in new]
    return (*found, *(Difference(i, old[i].release, old[i].manifest, None) for i in gone))


def _by_identity(objects: Iterable[Placed]) -> Mapping[Identity, Placed]:
    return {identity_of(item.manifest): item for item in objects}


def _changes(identity: Identity, before: Manifest, after: Manifest) -> tuple[Change, ...]:
    found = changes(before, after)
    secret = identity.of_kind == "/Secret"
    return tuple(without(change, secret=secret) for change in found)


def annotations_of(manifest: Manifest) -> Mapping[str, Any]:
    """The object's annotations."""
    return mapping(at(manifest, "metadata", "annotations"))
