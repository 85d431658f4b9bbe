"""Node images without a release, and types that a region has not: said while looking."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tokenworks.catalog.aws import instances
from tokenworks.check.apply import findings, when_applied
from tokenworks.check.context import context_of, unresolved_revisions
from tokenworks.check.rules import about, explain, rule_ids
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Stack

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def unresolved() -> Stack:
    """staging, whose node release nobody has looked up."""
    stack = load_stack(ROOT, "staging")
    spec = stack.environment.spec
    assert spec.cluster.aws is not None
    aws = spec.cluster.aws.model_copy(update={"node_release": "unresolved"})
    cluster = spec.cluster.model_copy(update={"aws": aws})
    whole = stack.environment.model_copy(
        update={"spec": spec.model_copy(update={"cluster": cluster})}
    )
    return Stack(whole, (), (), sources=stack.sources)


def test_a_preview_warns(unresolved: Stack) -> None:
    (finding,) = unresolved_revisions(unresolved, context_of(unresolved, ()))
    assert (finding.rule, finding.severity) == ("unresolved-node-release", "warning")
    assert finding.file == "stacks/staging/environment.yaml"


@pytest.mark.fieldnote(59)
def test_up_refuses(unresolved: Stack) -> None:
    assert when_applied(unresolved) == "error"
    assert [f.severity for f in findings(unresolved, (), ())] == ["error"]


def elsewhere(stack: Stack, region: str, purchase: str) -> list[str]:
    """Findings where the pool p5 is in a region, bought so."""
    spec = stack.environment.spec
    assert spec.cluster.aws is not None
    p5 = spec.node_pools["p5"]
    assert p5.aws is not None
    there = spec.cluster.aws.model_copy(
        update={"region": region, "node_release": "1.35.6-20260728"}
    )
    pool = p5.model_copy(update={"aws": p5.aws.model_copy(update={"purchase": purchase})})
    whole = spec.model_copy(update={
        "cluster": spec.cluster.model_copy(update={"aws": there}), "node_pools": {"p5": pool},
    })  # fmt: skip
    environment = stack.environment.model_copy(update={"spec": whole})
    moved = Stack(environment, (), (), sources=stack.sources)
    return [f.message for f in findings(moved, (), ())]


@pytest.mark.parametrize(
    ("region", "purchase", "found"),
    [
        ("us-east-1", "on-demand", False),
        ("ap-northeast-1", "reservation", False),
        ("ap-northeast-1", "capacity-block", False),
        ("eu-north-1", "spot", False),
        ("eu-west-1", "on-demand", True),
        ("eu-west-1", "spot", True),
        ("eu-west-1", "capacity-block", True),
        # Of which no list has any price.
        ("me-south-1", "on-demand", False),
    ],
)
def test_a_type_that_the_region_probably_has_not_is_said(
    unresolved: Stack, region: str, purchase: str, found: bool
) -> None:
    said = elsewhere(unresolved, region, purchase)
    assert said == (
        [
            f"AWS's lists have no price for p5.48xlarge ({purchase}) in {region}: it is probably "
            "not sold there"
        ]
        if found
        else []
    )


def test_a_type_without_any_price_may_be_anywhere() -> None:
    assert instances().sold_in("p5e.48xlarge", "on-demand", "eu-west-1")
    assert not instances().sold_in("p5e.48xlarge", "capacity-block", "eu-west-1")


def test_every_rule_that_check_names_by_itself_is_explained() -> None:
    """Formats for tools print what each rule of a finding wants."""
    folder = ROOT / "src" / "tokenworks" / "check"
    text = "\n".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    named = set(re.findall(r'Finding\(\s*"([a-z-]+)"', text))
    assert {"unresolved-node-release", "instance-type-elsewhere"} <= named
    assert named <= set(rule_ids())
    assert all(about(rule) and explain(rule) for rule in named)


def test_a_release_is_no_finding() -> None:
    stack = load_stack(ROOT, "staging")
    known = Stack(stack.environment, (), ())
    assert list(unresolved_revisions(known, context_of(known, ()))) == []
