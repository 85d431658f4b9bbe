"""`up`: what comes before what."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tokenworks.cli import deploy, engine
from tokenworks.cli import local as local_commands
from tokenworks.errors import TokenworksError
from tokenworks.spec.environment import Environment
from tokenworks.spec.load import load_stack

ROOT = Path(__file__).parents[2]


class StopError(Exception):
    """The rest is not of interest."""


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a first `up` of a local environment does, up to Pulumi."""
    seen: list[str] = []

    def checked(_stack: Any) -> tuple[()]:
        seen.append("check")
        return ()

    def build(environment: Environment, others: Iterable[str]) -> None:
        seen.append(f"build {environment.metadata.name}: {' '.join(others)}")

    def stop(_stack: Any) -> Any:
        raise StopError

    monkeypatch.setattr(deploy, "load", lambda name: load_stack(ROOT, name))
    monkeypatch.setattr(deploy, "_checked", checked)
    monkeypatch.setattr(local_commands, "build", build)
    monkeypatch.setattr(local_commands, "bring_up", lambda *_: seen.append("cluster"))
    monkeypatch.setattr(engine, "engines_of", stop)
    return seen


def test_everything_is_built_at_once_before_there_is_a_cluster(done: list[str]) -> None:
    """The longest first, so that another is built beside it, and no cluster runs beside both."""
    with pytest.raises(StopError):
        deploy.up("local")
    assert done == ["check", f"build local: {' '.join(engine.PROGRAMS)}", "cluster"]
    assert engine.PROGRAMS[0] == "pulumi-resource-kubernetes"


def test_nothing_is_built_for_what_is_refused(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_stack: Any) -> Any:
        raise TokenworksError("1 finding(s)")

    monkeypatch.setattr(deploy, "_checked", refused)
    with pytest.raises(TokenworksError):
        deploy.up("local")
    assert done == []


def test_a_cluster_that_is_there_gets_none(done: list[str]) -> None:
    with pytest.raises(StopError):
        deploy.up("dev", yes=True)
    assert done == ["check"]
