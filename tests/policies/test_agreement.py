"""`check` and the Pulumi pack say the same, word for word, of the corpus and of its breaks."""

from __future__ import annotations

import pytest

from policies import RULES
from tests.policies.agreement import STRICT, Agreement, agreement, packed_rules, resource
from tests.policies.builders import deployment, engine, pod
from tests.policies.mutations import BREAKS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> Agreement:
    return agreement(breaks=1)


def test_the_pack_says_what_check_says(
    found: Agreement, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{found.table()}")
    assert found.apart == []


def test_every_rule_is_said_by_both(found: Agreement) -> None:
    assert found.sets > len(BREAKS)
    assert {rule.id for rule in RULES} == found.both.keys()


def test_a_difference_would_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.policies.agreement.packed", lambda *_: ["[drain] never said"])
    counted = agreement(breaks=0)
    assert counted.pack["drain"] == counted.sets
    assert len(counted.apart) >= counted.sets


def test_resources_are_as_the_wire_brings_them() -> None:
    item = deployment(pod(engine(startupProbe=None)))
    assert packed_rules(item, STRICT) >= {"startup-probe"}
    assert isinstance(resource(0, item).props["spec"]["progressDeadlineSeconds"], float)
