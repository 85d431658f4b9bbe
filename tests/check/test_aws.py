"""Node images without a release: said while looking, refused when applying."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.check.apply import findings, when_applied
from tokenworks.check.context import context_of, unresolved_revisions
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


def test_a_release_is_no_finding() -> None:
    stack = load_stack(ROOT, "staging")
    known = Stack(stack.environment, (), ())
    assert list(unresolved_revisions(known, context_of(known, ()))) == []
