"""Changes that no cluster makes: of fields that cannot change, and of CRDs that others live by.

They are findings like those of the rules, and are waived like them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from policies import Context, Finding, Violation
from policies.tree import at, mapping, sequence
from policies.waivers import NOWHERE, OF_CHANGES, apply
from tokenworks.review.difference import Change
from tokenworks.review.fixed import fields_that_stay, fixed
from tokenworks.review.objects import Difference, identity_of
from tokenworks.review.paths import shown
from tokenworks.review.snapshot import Snapshot

IMMUTABLE: Final = "immutable-field"
CRD_REMOVAL: Final = "crd-removal"
CRD_VERSION: Final = "crd-version"


@dataclass(frozen=True)
class Refusals:
    """Changes that are refused, and those that somebody answers for."""

    refused: tuple[Finding, ...] = ()
    waived: tuple[Finding, ...] = ()


def refusals(
    before: Snapshot | None, after: Snapshot | None, found: Sequence[Difference]
) -> Refusals:
    """What is refused of the differences of two snapshots; waivers are those of the second."""
    if before is None or after is None:
        return Refusals()
    stay = fields_that_stay([*before.manifests, *after.manifests])
    classes = {
        str(at(item, "metadata", "name")): item
        for item in after.manifests
        if item.get("kind") == "StorageClass"
    }
    refused: list[Finding] = []
    for difference in found:
        refused += _crd(difference)
        refused += [
            _immutable(difference, change, by) for change, by in fixed(difference, stay, classes)
        ]
    kept = _not_waived(refused, after)
    return Refusals(tuple(kept), tuple(finding for finding in refused if finding not in kept))


def _not_waived(found: Sequence[Finding], after: Snapshot) -> list[Finding]:
    objects = after.manifests
    places = {str(identity_of(item)): place for place, item in enumerate(objects)}
    pairs = [(Violation(places.get(f.object, NOWHERE), (), f.message, f.remedy), f) for f in found]
    context = Context(waivers=after.waivers, today=after.today)
    kept = apply(objects, context, pairs, every=False, rules=OF_CHANGES)
    return [finding for _, finding in kept]


def _immutable(difference: Difference, change: Change, by: str) -> Finding:
    return Finding(
        IMMUTABLE,
        "error",
        str(difference.identity),
        shown(change.path),
        f"cannot change while the object is there: {by} refuses it",
        "give the release another name, so that a new object stands beside the old one until that "
        "one is removed; or delete the object first, and say so in a waiver",
    )


def _crd(difference: Difference) -> Iterator[Finding]:
    old = difference.before
    if difference.identity.kind != "CustomResourceDefinition" or old is None:
        return
    if difference.after is None:
        yield Finding(
            CRD_REMOVAL,
            "error",
            str(difference.identity),
            "",
            "the CRD goes, and whoever deletes it deletes every object of its kind, others' too",
            "remove what uses the kind in a change of its own, see that `kubectl get -A` with the "
            "CRD's name lists nothing, then say so in a waiver",
        )
        return
    stored, left = _versions(old), _versions(difference.after)
    for version in sorted(name for name in stored if stored[name] and name not in left):
        yield Finding(
            CRD_VERSION,
            "error",
            str(difference.identity),
            f"spec.versions[{version}]",
            f"objects are stored as {version}, which the new CRD does not have: the API server "
            "refuses it while status.storedVersions names the version",
            f"keep {version} beside the new version until every object has been written anew and "
            "status.storedVersions is without it",
        )


def _versions(crd: Mapping[str, Any]) -> dict[str, bool]:
    """Version: whether objects are stored as it."""
    versions = map(mapping, sequence(at(crd, "spec", "versions")))
    return {str(v.get("name")): v.get("storage") is True for v in versions}
