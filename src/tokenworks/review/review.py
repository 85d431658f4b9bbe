"""Two snapshots of one environment, judged together."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from policies import Finding
from tokenworks.review.capacity import Need, needs
from tokenworks.review.difference import Change, values
from tokenworks.review.effects import Effect, effects
from tokenworks.review.findings import Verdicts, verdicts
from tokenworks.review.objects import Difference, differences
from tokenworks.review.private import without
from tokenworks.review.refusals import refusals
from tokenworks.review.snapshot import Snapshot


@dataclass(frozen=True)
class Operation:
    """One thing that is done to a resource of the infrastructure."""

    what: str
    """create, update, replace, delete, or another word of Pulumi's."""
    kind: str
    name: str


@dataclass(frozen=True)
class Preview:
    """What a preview of the infrastructure says."""

    operations: tuple[Operation, ...] = ()
    failed: str = ""
    """Why there is none."""


@dataclass(frozen=True)
class Review:
    """What happens to one environment."""

    environment: str
    before: Snapshot | None
    """None: the environment is new."""
    after: Snapshot | None
    """None: the environment is gone."""
    differences: tuple[Difference, ...]
    verdicts: Verdicts
    refused: tuple[Finding, ...]
    waived: tuple[Finding, ...]
    """What would be refused, and somebody answers for."""
    effects: tuple[Effect, ...]
    needs: tuple[Need, ...]
    infrastructure: tuple[Change, ...]
    renamed: tuple[tuple[str, str], ...]
    """Releases that are the same under another name."""
    preview: Preview | None = None
    """None: nobody previewed it."""

    @property
    def broken(self) -> str:
        """What is wrong with the documents, as they would be."""
        return self.after.broken if self.after else ""

    @property
    def fails(self) -> bool:
        """Whether something forbids the change."""
        return bool(self.broken or self.refused or self.verdicts.errors)

    @property
    def changes(self) -> bool:
        """Whether anything is to be seen."""
        moved = any(need.changes for need in self.needs)
        seen = self.differences or self.infrastructure or self.verdicts.new or self.verdicts.fixed
        return bool(self.fails or seen or moved or None in (self.before, self.after))


def review(name: str, before: Snapshot | None, after: Snapshot | None) -> Review:
    """What the way from one snapshot to the other does. A state that does not load has nothing."""
    old = None if before is None or before.broken else before
    new = None if after is None or after.broken else after
    # Nothing can be told of objects that nobody could render.
    known = (None, None) if after is not None and after.broken else (old, new)
    was, will = (snapshot.findings if snapshot else () for snapshot in known)
    found = differences(*known)
    judged = refusals(*known, found)
    return Review(
        name,
        before,
        after,
        found,
        verdicts(was, will),
        judged.refused,
        judged.waived,
        effects(*known, found),
        needs(*known, found),
        _infrastructure(*known),
        tuple(renames(found)),
    )


def _infrastructure(before: Snapshot | None, after: Snapshot | None) -> tuple[Change, ...]:
    old, new = (dict(s.infrastructure) if s else dict[str, Any]() for s in (before, after))
    return tuple(without(change, secret=False) for change in values(old, new, ()))


def renames(found: Sequence[Difference]) -> Iterator[tuple[str, str]]:
    """Pairs of releases, one gone and one new, whose objects differ by the name alone."""
    by_release: dict[str, list[Difference]] = defaultdict(list)
    for difference in found:
        by_release[difference.release].append(difference)
    new = {
        _texts(d, _name(r)): r for r, d in by_release.items() if all(x.before is None for x in d)
    }
    for old, removed in by_release.items():
        other = new.get(_texts(removed, _name(old)))
        if other is not None and all(difference.after is None for difference in removed):
            yield old, other


def _name(release: str) -> str:
    return release.partition("-")[2] or release


def _texts(found: Sequence[Difference], name: str) -> tuple[str, ...]:
    """The objects as text, in which the name is the same for all."""
    texts = (json.dumps(d.after or d.before, sort_keys=True, default=str) for d in found)
    return tuple(sorted(text.replace(name, "\0") for text in texts))
