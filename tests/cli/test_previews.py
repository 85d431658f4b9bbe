"""What a preview would have made becomes a state that Pulumi takes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tokenworks.cli.previews import Step, _ordered, changes

STACK = "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"
PROVIDER = "urn:pulumi:s::p::pulumi:providers:aws::named"
HIDDEN = "urn:pulumi:s::p::pulumi:providers:aws::default"


def step(name: str, kind: str = "aws:ec2/vpc:Vpc", op: str = "create", **state: Any) -> Step:
    urn = f"urn:pulumi:s::p::{kind}::{name}"
    return {"op": op, "urn": urn, "newState": {"urn": urn, "type": kind, "custom": True, **state}}


STEPS: list[Step] = [
    {"op": "create", "urn": STACK, "newState": {"urn": STACK, "type": "pulumi:pulumi:Stack"}},
    {
        "op": "create",
        "urn": PROVIDER,
        "newState": {"urn": PROVIDER, "type": "pulumi:providers:aws"},
    },
    step("outer", "x:y:Outer", parent=STACK),
    step("inner", parent="urn:pulumi:s::p::x:y:Outer::outer", provider=f"{PROVIDER}::1-2"),
    step("alone", parent=STACK, provider=f"{HIDDEN}::3"),
]


@pytest.mark.parametrize("seed", range(20))
def test_parents_and_providers_come_first_whenever_they_were_told(seed: int) -> None:
    steps = list(STEPS)
    random.Random(seed).shuffle(steps)
    order = [state["urn"] for state in _ordered(steps)]
    # A provider that a resource has by default is told of by nobody.
    assert sorted(order) == sorted([HIDDEN, *(item["urn"] for item in STEPS)])
    for state in (item["newState"] for item in STEPS):
        before = order[: order.index(state["urn"])]
        named = (state.get("parent"), str(state.get("provider", "")).rpartition("::")[0])
        assert all(other in before for other in named if other)


def test_resources_of_aws_that_change_are_told_by_operation() -> None:
    steps = [step("a"), step("b", op="same"), step("c", op="replace"), step("d", "x:y:Z")]
    assert changes(steps) == {"create": {"a"}, "replace": {"c"}}
