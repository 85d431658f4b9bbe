"""Good manifests, broken in one place by program: the rule notices every break."""

from __future__ import annotations

import pytest

from policies import RULES, Manifest
from tests.policies.mutations import BREAKS, corpus, row


@pytest.fixture(scope="module")
def good() -> dict[str, list[Manifest]]:
    return corpus()


def test_every_rule_is_broken() -> None:
    assert list(BREAKS) == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", BREAKS)
def test_every_break_is_noticed(rule: str, good: dict[str, list[Manifest]]) -> None:
    found = row(rule, good)
    assert found.breaks
    assert found.missed == ()
