"""Offline previews: what is said, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenworks.cli import offline
from tokenworks.cli.deploy import down, up
from tokenworks.cli.deploy import preview as preview_command
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.load import load_stack
from tokenworks.spec.stacks import load_pulumi_stack, pulumi_stacks

ROOT = Path(__file__).resolve().parents[2]


def test_nothing_is_applied_through_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(offline.VARIABLE, "kubernetes:1,aws:12345")
    for command in (lambda: up("staging"), lambda: down("staging")):
        with pytest.raises(UsageError, match="another program would play AWS"):
            command()
    with pytest.raises(UsageError, match="Unset it"):
        preview_command("staging")


def test_other_programs_may_be_debugged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(offline.VARIABLE, "kubernetes:12345")
    offline.refuse_standin()
    monkeypatch.delenv(offline.VARIABLE)
    offline.refuse_standin()


def test_an_environment_elsewhere_needs_no_stand_in() -> None:
    with pytest.raises(UsageError, match="leave out --offline"):
        offline.preview(load_stack(ROOT, "dev"), [])


def test_outputs_are_those_that_were_recorded_and_no_cluster_is_reached() -> None:
    outputs = offline.recorded("prod-infrastructure")
    assert outputs["weights"]["fileSystemId"].startswith("fs-")
    assert outputs["kubeconfig"] == "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def test_a_record_that_is_missing_says_how_to_make_it() -> None:
    with pytest.raises(TokenworksError, match="pulumi stack output --json --stack nowhere"):
        offline.recorded("nowhere")


def test_stacks_of_environments() -> None:
    assert pulumi_stacks(load_stack(ROOT, "staging")) == ("staging",)
    names = ("prod-infrastructure", "prod-platform", "prod-serving")
    assert pulumi_stacks(load_stack(ROOT, "prod")) == names


def test_a_pulumi_stack_tells_its_environment_and_layers() -> None:
    stack, layers = load_pulumi_stack(ROOT, "prod-platform")
    assert (stack.name, layers) == ("prod", ("platform",))
    stack, layers = load_pulumi_stack(ROOT, "staging")
    assert (stack.name, layers) == ("staging", ("infrastructure", "platform", "serving"))


@pytest.mark.parametrize("name", ["prod", "staging-serving"])
def test_a_stack_that_an_environment_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has no Pulumi stack"):
        load_pulumi_stack(ROOT, name)


def test_an_environment_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown environment"):
        load_pulumi_stack(ROOT, "nowhere-serving")
