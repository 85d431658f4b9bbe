"""Releases come after what they need, always in the same order."""

from __future__ import annotations

import random

from tokenworks.render import ordered
from tokenworks.render.release import Release

RELEASES = [
    Release("crds", "crds", "", ()),
    Release("operator", "operators", "", (), ("crds",)),
    Release("queues", "platform", "", (), ("operator",)),
    Release("alpha", "platform", "", (), ("queues",)),
    Release("gateway", "platform", "", (), ("operator",)),
    Release("model", "models", "", (), ("alpha", "gateway")),
]


def test_each_comes_after_its_needs_however_they_are_given() -> None:
    orders: set[tuple[str, ...]] = set()
    for seed in range(20):
        shuffled = random.Random(seed).sample(RELEASES, len(RELEASES))
        names = tuple(r.name for r in ordered(shuffled))
        orders.add(names)
        for release in RELEASES:
            assert all(names.index(n) < names.index(release.name) for n in release.needs)
    assert len(orders) == 1


def test_a_need_that_is_not_installed_is_no_obstacle() -> None:
    alone = Release("model", "models", "", (), ("queues",))
    assert ordered([alone]) == (alone,)
