"""Fields that cannot change once an object is there: by the catalog, and by what CRDs say."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from policies.pods import pods_of
from policies.tree import at, mapping, quantity, sequence
from tokenworks.catalog.changes import Fixed, changes
from tokenworks.review.difference import Change, values
from tokenworks.review.objects import Difference
from tokenworks.review.paths import ABSENT, Item, Path, parsed, shown, value_at
from tokenworks.spec.stack import Manifest

Keys = tuple[str, ...]
Staying = Mapping[str, Sequence[Keys]]
"""`group/Kind`: fields of which its CRD says that they stay as they are."""
Refused = tuple[Change, str]
"""A change, and who refuses it."""
_QUEUE: Final = parsed('metadata.labels["kueue.x-k8s.io/queue-name"]')
_STAYS: Final = re.compile(r"self(?P<field>(?:\.\w+)?) == oldSelf(?P=field)")
"""A CRD's rule that a field stays as it is, and nothing else."""


def fixed(
    difference: Difference, stay: Staying, classes: Mapping[str, Manifest]
) -> Iterator[Refused]:
    """Every change of something that cannot change, once.

    Args:
        difference: one object before and after.
        stay: what the CRDs of both states say.
        classes: the StorageClasses by name.
    """
    before, after = difference.before, difference.after
    if before is None or after is None:
        return
    kind, seen = difference.identity.of_kind, set[str]()
    by_catalog = (r for entry in changes().immutable for r in _entry(kind, entry, before, after))
    by_crd = ((c, "its CRD") for path in stay.get(kind, ()) for c in _at(path, before, after))
    by_size = _by_size(kind, before, after, classes)
    for change, by in (*by_catalog, *_by_shape(kind, before, after), *by_crd, *by_size):
        if shown(change.path) not in seen:
            seen.add(shown(change.path))
            yield change, by


def _entry(kind: str, entry: Fixed, before: Manifest, after: Manifest) -> Iterator[Refused]:
    if kind not in entry.kinds or not _applies(entry, before, after):
        return
    old, new = (_prepared(item, entry) for item in (before, after))
    for field in entry.fields:
        path = parsed(field)
        for change in values(value_at(old, path), value_at(new, path), path):
            if not any(_matches(change.path, parsed(but)) for but in entry.but):
                yield change, entry.by


def _matches(path: Path, pattern: Keys) -> bool:
    """Whether a path is that of the pattern, or below it; `*` is any entry of a list."""
    pairs = zip(path, pattern, strict=False)
    return len(path) >= len(pattern) and all(part in ("*", one) for one, part in pairs)


def _applies(entry: Fixed, before: Manifest, after: Manifest) -> bool:
    for field, wanted in entry.where.items():
        old, new = (value_at(item, parsed(field)) for item in (before, after))
        if old is ABSENT or (wanted is not None and old != wanted):
            return False
        if isinstance(wanted, str) and new != wanted:
            return False
    return True


def _prepared(manifest: Manifest, entry: Fixed) -> Manifest:
    """The object without what may change, and with what absent fields mean."""
    found = copy.deepcopy(manifest)
    for *above, last in map(parsed, entry.but):
        _map_at(found, above).pop(last, None)
    for path, value in entry.unset.items():
        *above, last = parsed(path)
        _map_at(found, above).setdefault(last, value)
    return found


def _map_at(value: dict[str, Any], path: Iterable[str]) -> dict[str, Any]:
    """The map at the path; one of no consequence where there is none."""
    for key in path:
        inner: object = value.get(key)
        value = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
    return value


def _at(path: Keys, before: Manifest, after: Manifest) -> Iterator[Change]:
    """What differs at a path that both have: a CRD's rule is asked only then."""
    old, new = value_at(before, path), value_at(after, path)
    if old is not ABSENT and new is not ABSENT:
        yield from values(old, new, path)


_SIZE: Final = ("spec", "resources", "requests", "storage")


def _by_size(
    kind: str, before: Manifest, after: Manifest, classes: Mapping[str, Manifest]
) -> Iterator[Refused]:
    """Claims never shrink, and grow where their class lets them.

    Read in k8s.io/kubernetes v1.35.4: ValidatePersistentVolumeClaimUpdate, and
    plugin/pkg/admission/storage/persistentvolume/resize. Of a class that is not among the objects
    nothing is known.
    """
    if kind != "/PersistentVolumeClaim":
        return
    found = [value_at(item, _SIZE) for item in (before, after)]
    old, new = map(quantity, found)
    if old is None or new is None or old == new:
        return
    used = classes.get(str(at(before, "spec", "storageClassName")))
    if new < old:
        yield Change(_SIZE, *found), "the API server, since claims never shrink,"
    elif used is not None and used.get("allowVolumeExpansion") is not True:
        name = at(used, "metadata", "name")
        yield Change(_SIZE, *found), f"the API server, since StorageClass {name} lets none grow,"


# --- pods that a queue counts -----------------------------------------------


def _by_shape(kind: str, before: Manifest, after: Manifest) -> Iterator[Refused]:
    """What Kueue counted when the object was made, and would not count anew."""
    shape = changes().shape
    if kind not in shape.kinds or value_at(after, _QUEUE) is ABSENT:
        return
    for (path, old), (_, new) in zip(_pods(before), _pods(after), strict=False):
        for change in (*_fields(old, new, path, shape.pod), *_containers(old, new, path)):
            yield change, shape.by
    if kind == "apps/StatefulSet":
        yield from ((change, shape.by) for change in _replicas(before, after))


def _pods(manifest: Manifest) -> list[tuple[Keys, Mapping[str, Any]]]:
    found = [(tuple(map(str, pod.path)), pod.spec) for pod in pods_of(0, manifest)]
    return sorted(found, key=lambda pair: pair[0])


def _fields(
    old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[Any, ...], fields: Iterable[str]
) -> Iterator[Change]:
    for field in map(parsed, fields):
        yield from values(value_at(old, field), value_at(new, field), (*path, *field))


def _containers(old: Mapping[str, Any], new: Mapping[str, Any], path: Keys) -> Iterator[Change]:
    """Containers are counted by position."""
    for key in ("initContainers", "containers"):
        one, other = sequence(old.get(key)), sequence(new.get(key))
        if len(one) != len(other):
            yield Change((*path, key), f"{len(one)} of them", f"{len(other)} of them")
            continue
        for was, now in zip(map(mapping, one), map(mapping, other), strict=True):
            inside = (*path, key, Item(str(now.get("name"))))
            yield from _fields(was, now, inside, changes().shape.container)


def _replicas(before: Manifest, after: Manifest) -> Iterator[Change]:
    """A StatefulSet in a queue goes to zero and comes from there, and nowhere else."""
    path = ("spec", "replicas")
    found = [value_at(item, path) for item in (before, after)]
    old, new = (1 if value is ABSENT else value for value in found)
    if old and new:
        yield from values(old, new, path)


# --- what CRDs say --------------------------------------------------------------


def fields_that_stay(objects: Iterable[Manifest]) -> Staying:
    """What the CRDs among the objects say of theirs."""
    found: dict[str, list[Keys]] = {}
    for crd in objects:
        if crd.get("kind") != "CustomResourceDefinition":
            continue
        kind = f"{at(crd, 'spec', 'group')}/{at(crd, 'spec', 'names', 'kind')}"
        for version in sequence(at(crd, "spec", "versions")):
            paths = found.setdefault(kind, [])
            schema = mapping(at(version, "schema", "openAPIV3Schema"))
            paths += [path for path in _staying(schema, ()) if path not in paths]
    return found


def _staying(schema: Mapping[str, Any], path: Keys) -> Iterator[Keys]:
    for entry in sequence(schema.get("x-kubernetes-validations")):
        match = _STAYS.fullmatch(str(mapping(entry).get("rule")).strip())
        if match is not None and path:
            field = match["field"].removeprefix(".")
            yield (*path, field) if field else path
    for key, child in mapping(schema.get("properties")).items():
        yield from _staying(mapping(child), (*path, str(key)))
