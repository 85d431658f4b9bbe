"""Good manifests in which one value is not known yet: no rule objects because of it.

python -m tests.policies.unknowns [STEP]        asks every STEP-th place, and prints what is found
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from policies import Context, Manifest, Unknown, check
from policies.model import Path, field_of
from policies.tree import is_mapping, is_sequence
from tests.policies.mutations import corpus

STRICT = Context(profile="strict")
IDENTITY = (("kind",), ("apiVersion",))
"""What even a preview knows of every object."""


@dataclass(frozen=True)
class Objection:
    """A finding that was not there while the value was known."""

    file: str
    place: str
    """Kind and field of the unknown value."""
    rule: str
    message: str


def places(value: object, path: Path = ()) -> Iterator[Path]:
    """The path of every value of an object, whole maps and lists included."""
    if path and path not in IDENTITY:
        yield path
    if is_mapping(value):
        for key, child in value.items():
            yield from places(child, (*path, key))
    elif is_sequence(value):
        for position, child in enumerate(value):
            yield from places(child, (*path, position))


def without(manifest: Manifest, path: Path, value: Any) -> Manifest:
    """The object with another value in one place."""
    changed = copy.deepcopy(manifest)
    holder: Any = changed
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return changed


def objections(name: str, objects: Sequence[Manifest], step: int) -> Iterator[Objection]:
    """What the rules say of one file once a value is unknown: of every `step`-th value."""
    before = {(f.rule, f.field) for f in check(objects, STRICT)}
    every = [(n, path) for n, item in enumerate(objects) for path in places(item)]
    # Another start in each file, so that a step does not always meet the same fields.
    for n, path in every[len(name) % step :: step]:
        item = objects[n]
        changed = [*objects[:n], without(item, path, Unknown()), *objects[n + 1 :]]
        for finding in check(changed, STRICT):
            if (finding.rule, finding.field) not in before:
                place = f"{item['kind']} {field_of(path)}"
                yield Objection(name, place, finding.rule, finding.message)


def main() -> None:
    """Print every objection, and how many each rule has."""
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    found = [o for name, items in corpus().items() for o in objections(name, items, step)]
    for one in found:
        print(f"{one.file}: {one.place}: {one.rule}: {one.message}")
    print(Counter(one.rule for one in found))


if __name__ == "__main__":
    main()
