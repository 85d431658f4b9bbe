"""What a change does to what runs: pods that restart or stop, nodes that are replaced, data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from policies.tree import at, mapping, sequence
from tokenworks.catalog.changes import Fields, changes
from tokenworks.review.difference import Change
from tokenworks.review.objects import Difference, annotations_of
from tokenworks.review.paths import ABSENT, Path, parsed, shown
from tokenworks.review.snapshot import Snapshot
from tokenworks.review.workloads import Part, parts_of

What = Literal[
    "deletes data",
    "withdraws",
    "stops",
    "replaces nodes",
    "restarts",
    "moves requests",
    "starts",
    "leaves",
]


@dataclass(frozen=True)
class Effect:
    """One thing that happens when the change is applied."""

    what: What
    subject: str
    """The object, as findings name it."""
    words: str
    """How much of it: our own words and numbers."""
    because: tuple[str, ...] = ()
    """Fields, or values, that are the reason."""


_QUIET: Final = frozenset({"replicas", "rolloutStrategy", "dependencies"})
"""Parts of templates whose change restarts nothing."""
_CHECKSUMS: Final = ("checksum/", "checksum.")
_KEPT: Final = "helm.sh/resource-policy"


def effects(
    before: Snapshot | None, after: Snapshot | None, found: Sequence[Difference]
) -> tuple[Effect, ...]:
    """Everything that happens, the heaviest first."""
    all_of_them = [effect for d in found for effect in _of_object(d, before, after)]
    return tuple(sorted(all_of_them, key=lambda e: (_ORDER.index(e.what), e.subject)))


_ORDER: Final[tuple[What, ...]] = get_args(What)


def _of_object(
    difference: Difference, before: Snapshot | None, after: Snapshot | None
) -> Iterator[Effect]:
    if difference.after is None:
        yield from _gone(difference, before)
    elif difference.before is not None:
        yield from _changed(difference, before, after)
    else:
        parts = parts_of(difference.after, after.pools if after else {})
        if any(part.replicas for part in parts):
            yield Effect("starts", str(difference.identity), sizes(parts))


def _gone(difference: Difference, before: Snapshot | None) -> Iterator[Effect]:
    name, manifest = str(difference.identity), difference.before or {}
    if annotations_of(manifest).get(_KEPT) == "keep":
        yield Effect("leaves", name, "stays in the cluster, and nothing renders it any more")
        return
    if difference.identity.kind == "Namespace":
        yield Effect("deletes data", name, "the namespace, with everything in it")
    elif difference.identity.kind in ("PersistentVolumeClaim", "PersistentVolume"):
        yield Effect("deletes data", name, "what is on the volume, unless its class retains it")
    elif difference.identity.kind == "HTTPRoute":
        yield Effect("moves requests", name, "requests that it matched find no backend")
    parts = parts_of(manifest, before.pools if before else {})
    if any(part.replicas for part in parts):
        yield Effect("stops", name, sizes(parts))


def _changed(
    difference: Difference, before: Snapshot | None, after: Snapshot | None
) -> Iterator[Effect]:
    name = str(difference.identity)
    old = parts_of(difference.before or {}, before.pools if before else {})
    new = parts_of(difference.after or {}, after.pools if after else {})
    runs = any(part.replicas for part in new) or not new
    ran = any(part.replicas for part in old) or not old
    restarted = restarting(difference)
    if ran and not runs:
        yield Effect("stops", name, sizes(old))
    elif runs and not ran:
        yield Effect("starts", name, sizes(new))
    else:
        if runs and restarted:
            yield Effect("restarts", name, _rollout(new), _reasons(restarted))
        yield from _scaled(name, old, new)
    yield from _withdrawn(difference)
    nodes = tuple(shown(change.path) for change in _in(difference, changes().nodes))
    if nodes:
        words = "one after another, as its disruption budget allows"
        yield Effect("replaces nodes", name, words, nodes)
    moved = [change for change in difference.changes if change.path[-1:] == ("weight",)]
    if difference.identity.kind == "HTTPRoute" and moved:
        yield Effect("moves requests", name, "by weight", tuple(map(_moved, moved)))


def _scaled(name: str, old: Sequence[Part], new: Sequence[Part]) -> Iterator[Effect]:
    """Replicas that come or go while others of the object stay."""
    if len(old) != len(new):
        return
    for was, will in zip(old, new, strict=True):
        moved = will.replicas - was.replicas
        if moved < 0:
            yield Effect(
                "stops", name, f"{sizes([replace(was, replicas=-moved)])}, of {was.replicas}"
            )
        elif moved > 0:
            yield Effect("starts", name, f"{sizes([replace(will, replicas=moved)])}, more")


def _withdrawn(difference: Difference) -> Iterator[Effect]:
    """Versions of a CRD in which objects could be written, and cannot any more."""
    if difference.identity.kind != "CustomResourceDefinition":
        return
    old, new = (_served(item) for item in (difference.before, difference.after))
    for version in sorted(old - new):
        words = f"version {version}: what still is written or read as it gets an error"
        yield Effect("withdraws", str(difference.identity), words)


def _served(crd: Mapping[str, Any] | None) -> set[str]:
    versions = map(mapping, sequence(at(crd or {}, "spec", "versions")))
    return {str(version.get("name")) for version in versions if version.get("served") is True}


def restarting(difference: Difference) -> tuple[Change, ...]:
    """The changes after which pods of the object have to start anew."""
    found = _in(difference, changes().restarts)
    return tuple(change for change in found if _QUIET.isdisjoint(map(str, change.path)))


def _in(difference: Difference, entries: Iterable[Fields]) -> list[Change]:
    """The changes at, or below, the fields that the catalog lists for the kind."""
    found: list[Change] = []
    for entry in entries:
        if difference.identity.of_kind not in entry.kinds:
            continue
        but = [parsed(path) for path in entry.but]
        for path in map(parsed, entry.fields):
            found += [c for c in difference.touches(path) if not _below(c.path, but)]
    return found


def _below(path: Path, others: Iterable[tuple[str, ...]]) -> bool:
    return any(path[: len(other)] == other for other in others)


def _reasons(restarted: Sequence[Change]) -> tuple[str, ...]:
    """The fields that differ, without the way to the pod; a checksum stands for configuration."""
    found = dict.fromkeys(_reason(change.path) for change in restarted)
    return tuple(found)


def _reason(path: Path) -> str:
    last = path[-1] if path else ""
    if isinstance(last, str) and last.startswith(_CHECKSUMS):
        return "its configuration"
    names = [position for position, part in enumerate(path) if part in ("spec", "metadata")]
    return shown(path[names[-1] + 1 :]) if names else shown(path)


def _moved(change: Change) -> str:
    old, new = (1 if value is ABSENT else value for value in (change.before, change.after))
    return f"{shown(change.path[:-1])} {old} to {new}"


def _rollout(parts: Sequence[Part]) -> str:
    if not parts:
        return "every pod of it"
    kept = sum(part.kept_back for part in parts)
    slow = min((part.at_once for part in parts if part.replicas), default=1)
    words = f"{sizes(parts)}, {slow} at a time"
    return f"{words}; {kept} stay as they are (partition)" if kept else words


def sizes(parts: Iterable[Part]) -> str:
    """`2 pods of 4 GPUs each`, `1 group of 2 pods, 16 GPUs each`."""
    return ", ".join(_size(part) for part in parts if part.replicas)


def _size(part: Part) -> str:
    count = part.replicas
    what = "pod" if part.pods == 1 else "group"
    words = f"{count} {what}{'' if count == 1 else 's'}"
    words += f" of {part.pods} pods" if part.pods > 1 else ""
    if not part.gpus:
        return words
    gpus = f"{part.gpus} GPU{'' if part.gpus == 1 else 's'}"
    return f"{words} of {gpus} each" if part.pods == 1 else f"{words}, {gpus} each"
