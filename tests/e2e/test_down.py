"""What is left when everything is taken down: nothing."""

from __future__ import annotations

import pytest

from tests.e2e.platform import Platform, snapshot

pytestmark = [pytest.mark.e2e, pytest.mark.last]


def test_down_leaves_the_machine_as_it_was(platform: Platform, before: dict[str, set[str]]) -> None:
    platform.run("down", "local")
    left = platform.kubectl("get", "deployments,statefulsets,leaderworkersets", "-A", "-o", "name")
    assert left.strip() == ""
    namespaces = platform.kubectl("get", "namespaces", "-o", "name")
    assert "research" not in namespaces
    platform.run("local", "down")
    after = snapshot()
    added = {kind: sorted(after[kind] - before[kind]) for kind in after}
    removed = {kind: sorted(before[kind] - after[kind]) for kind in after}
    assert added == {kind: [] for kind in after}
    assert removed == {kind: [] for kind in after}
