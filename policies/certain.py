"""What can be said although a part of the objects is not known yet.

A preview knows many values only after `up`. Whatever they will be, they may make right what a rule
objects to: a finding counts only where the rule came to it without reading such a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from policies.inventory import Inventory
from policies.model import Context, Manifest, Path, Rule, Violation
from policies.tree import has_unknown, watched


@dataclass(frozen=True)
class Certain:
    """The rules over an inventory, without what unknown values may refute."""

    inventory: Inventory
    known: bool = False
    """Nothing is unknown: nobody has to look."""

    def find(self, rule: Rule, context: Context) -> Sequence[Violation]:
        """The violations of a rule that hold whatever the unknown values will be."""
        found = list(rule.find(self.inventory, context))
        if self.known or not found or not self._partly:
            return found
        doubts = _Doubts()
        # Readers keep what they read: each rule gets its own, so that every reading is told.
        again = Inventory.of([doubts.watch(i, m) for i, m in enumerate(self.inventory.objects)])
        return [v for v in list(rule.find(again, context)) if not doubts.concern(rule, v)]

    @cached_property
    def _partly(self) -> bool:
        return has_unknown(list(self.inventory.objects))


@dataclass(frozen=True)
class _Doubts:
    """Where something unknown was read: the object's index, and the place in it."""

    places: set[tuple[int, Path]] = field(default_factory=set[tuple[int, Path]])

    def watch(self, index: int, manifest: Manifest) -> Manifest:
        """The object, so that reading something unknown of it counts."""
        return watched(manifest, partial(self._note, index))

    def _note(self, index: int, place: Path) -> None:
        self.places.add((index, place))

    def concern(self, rule: Rule, violation: Violation) -> bool:
        """Whether a violation may depend on what was read.

        A rule about the set depends on all of it, any other on the same object, less the
        neighbours of the container that it speaks of.
        """
        if rule.whole_set:
            return bool(self.places)
        return any(
            index == violation.index and (rule.across or not _apart(place, violation.path))
            for index, place in self.places
        )


def _apart(place: Path, other: Path) -> bool:
    """Whether two paths lead into different containers of one pod spec."""
    here, there = _container(place), _container(other)
    return None not in (here, there) and here != there and here[:-2] == there[:-2]  # type: ignore[index]


_LISTS = ("containers", "initContainers", "ephemeralContainers")


def _container(path: Path) -> Path | None:
    """The part of a path that leads to a container."""
    ends = [n + 2 for n, part in enumerate(path[:-1]) if part in _LISTS]
    return path[: ends[0]] if ends else None
