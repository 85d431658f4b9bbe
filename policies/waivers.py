"""Findings that somebody answers for: in the environment's document, or on the object itself.

A waiver that expired, that says too little or that waives nothing is a finding: what was an
exception must not become a habit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from policies.model import Context, Finding, Manifest, Violation, Waiver, name_of
from policies.tree import Unknown, at, mapping

PREFIX = "policies.tokenworks.dev/waive."
"""Annotation `policies.tokenworks.dev/waive.RULE: reason; owner; YYYY-MM-DD`."""
RULE = "waiver"
OF_CHANGES = frozenset({"immutable-field", "crd-removal", "crd-version"})
"""Rules about the way from one state of the repository to the next. Whoever sees one state alone
cannot tell what their waivers waive."""
OF_AWS = "aws-"
"""How rules about resources of AWS begin: no set of objects holds what they judge."""
NOWHERE = -1
"""Index of the object of a waiver that names none of the set."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_REMEDY = "mend what it waives, and remove it; or argue for it anew with a later day"


@dataclass(frozen=True)
class _Written:
    """A waiver and where it stands: an object's index, or None for the environment."""

    waiver: Waiver
    index: int | None
    path: tuple[str, ...] = ()
    known: bool = True
    """False where its text only exists after `up`: it may be sound."""


Found = tuple[Violation, Finding]


def apply(
    objects: Sequence[Manifest],
    context: Context,
    found: Sequence[Found],
    *,
    every: bool,
    rules: Collection[str],
) -> list[Found]:
    """The findings that are not waived; with those about waivers, where every rule was asked.

    `rules` are the names of all there are.
    """
    written = list(_written(objects, context))
    used: set[int] = set()
    kept: list[Found] = []
    for violation, finding in found:
        waived = False
        for position, item in enumerate(written):
            sound = not item.known or valid(item.waiver, context) is None
            if sound and _covers(item, finding, violation):
                used.add(position)
                waived = True
        if not waived:
            kept.append((violation, finding))
    for position, item in enumerate(written if every else ()):
        # Those of AWS are asked inside Pulumi alone; who reads the document knows their names.
        of_aws = item.waiver.rule.startswith(OF_AWS)
        problem = None if of_aws else _no_rule(item.waiver.rule, {*rules, *OF_CHANGES})
        if problem is None and item.known:
            problem = valid(item.waiver, context)
        # A part of an environment does not need all of its waivers.
        whole = item.index is not None or context.whole
        unseen = item.waiver.rule in OF_CHANGES or item.waiver.rule.startswith(OF_AWS)
        if problem is None and position not in used and whole and not unseen:
            problem = f"waives nothing: {item.waiver.rule} finds nothing in {item.waiver.object}"
        if problem:
            kept.append(_about(objects, item, problem))
    return kept


def _written(objects: Sequence[Manifest], context: Context) -> Iterator[_Written]:
    for waiver in context.waivers:
        yield _Written(waiver, None)
    for index, manifest in enumerate(objects):
        for key, value in mapping(at(manifest, "metadata", "annotations")).items():
            if str(key).startswith(PREFIX):
                parts = [part.strip() for part in str(value).split(";")]
                reason, owner, day = (*parts, "", "", "")[:3]
                waiver = Waiver(
                    str(key).removeprefix(PREFIX), name_of(manifest), reason, owner, day
                )
                path = ("metadata", "annotations", str(key))
                yield _Written(waiver, index, path, not isinstance(value, Unknown))


def _covers(item: _Written, finding: Finding, violation: Violation) -> bool:
    if item.waiver.rule != finding.rule:
        return False
    if item.index is not None:
        return item.index == violation.index
    return item.waiver.object == finding.object


def valid(waiver: Waiver, context: Context) -> str | None:
    """What is wrong with a waiver by itself; None where it counts."""
    if not waiver.reason or not waiver.owner:
        return "names no reason or no owner (reason; owner; YYYY-MM-DD)"
    if not _DAY.fullmatch(waiver.expires):
        return "names no day on which it expires (reason; owner; YYYY-MM-DD)"
    if context.today and waiver.expires < context.today:
        return f"expired on {waiver.expires} (owner: {waiver.owner})"
    return None


def _no_rule(name: str, rules: Collection[str]) -> str | None:
    if name in rules:
        return None
    near = get_close_matches(name.lower().replace("_", "-"), sorted(rules), n=1)
    return f"names no rule{f'; did you mean {near[0]}?' if near else ''}"


def _about(objects: Sequence[Manifest], item: _Written, problem: str) -> Found:
    waiver = item.waiver
    index = item.index
    if index is None:
        names = [name_of(manifest) for manifest in objects]
        index = names.index(waiver.object) if waiver.object in names else NOWHERE
    message = f"the waiver of {waiver.rule} {problem}"
    place, _, line = waiver.place.rpartition(":")
    finding = Finding(
        RULE,
        "error",
        waiver.object,
        ".".join(item.path[:2]) if item.path else "",
        message,
        _REMEDY,
        (place or line) or None,
        int(line) if place else None,
    )
    return Violation(index, item.path, message, _REMEDY), finding
