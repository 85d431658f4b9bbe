"""The offline preview as users type it: policies on, and nowhere to go."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.offline.previews import edited
from tests.repo.tree import ROOT
from tokenworks.cli import context, offline
from tokenworks.cli.deploy import preview
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.stacks import LAYERS

NOWHERE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
"""A network of its own: loopback, and no route."""


def efa_anywhere(spec: Any) -> None:
    """A pool with EFA whose nodes may stand anywhere in their zone."""
    pool = spec["nodePools"]["g6e"]
    pool["rdma"] = {"resource": "vpc.amazonaws.com/efa", "perNode": 2}
    pool["aws"] = {
        "instanceType": "g6e.24xlarge", "zones": ["us-east-1a"], "placementGroup": False,
    }  # fmt: skip


def offline_preview(environment: str, folder: Path, state: Path) -> tuple[str, str]:
    """What the command says and warns of, where there is neither account nor network."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "KUBE", "PULUMI_"))}
    words = ["-m", "tokenworks.cli", "preview", environment, "--offline"]
    done = subprocess.run(
        [*NOWHERE, sys.executable, "-P", *words],
        cwd=folder,
        env={
            **kept,
            "PYTHONPATH": f"{folder / 'src'}:{folder}",
            "TOKENWORKS_STATE": str(state),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "with a stand-in for the AWS provider" in done.stderr
    assert "AWS resources type-checked" in done.stderr
    return done.stdout, done.stderr


@pytest.mark.pulumi
@pytest.mark.helm
@pytest.mark.timeout(600)
def test_it_needs_neither_account_nor_network_and_judges_what_aws_gets(
    tmp_path: Path, state: Path
) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    with edited(folder, "staging") as document:
        efa_anywhere(document["spec"])
    said, _ = offline_preview("staging", folder, state)
    assert "[aws-efa-placement] ec2:LaunchTemplate staging-nodes-g6e-nodes-template" in said


@pytest.mark.pulumi
@pytest.mark.helm
@pytest.mark.timeout(600)
def test_stacks_that_read_each_other_need_no_network_either(state: Path) -> None:
    said, told = offline_preview("prod", ROOT, state)
    stacks = [f"prod-{layer}" for layer in LAYERS]
    assert [line for line in told.splitlines() if line.startswith("stack prod")] == [
        f"stack {name}:" for name in stacks
    ]
    assert [name for name in stacks if f"tokenworks-{name} " not in said] == []


# What cannot work is said before anything starts


def wrong_instance_type(spec: Any) -> None:
    spec["nodePools"]["g6e"]["aws"]["instanceType"] = "g6e.13xlarge"


def zone_outside_the_region(spec: Any) -> None:
    spec["cluster"]["aws"]["zones"] = ["us-east-1a", "eu-west-1b"]


def efa_over_two_zones(spec: Any) -> None:
    spec["nodePools"]["p5"]["aws"]["zones"] = ["us-east-1a", "us-east-1b"]


def karpenter_with_efa_through_dra(spec: Any) -> None:
    spec["nodePools"]["p5"]["aws"]["manager"] = "karpenter"
    spec["cluster"]["aws"]["nodeSoftware"] = {"efa": "dra"}


def spot_for_a_group(spec: Any) -> None:
    aws = spec["nodePools"]["p5"]["aws"]
    del aws["reservation"]
    aws["purchase"] = "spot"


def block_without_reservation(spec: Any) -> None:
    del spec["nodePools"]["p5"]["aws"]["reservation"]


def more_interfaces_than_there_are(spec: Any) -> None:
    spec["nodePools"]["p5"]["rdma"]["perNode"] = 33


def fewer_at_most_than_at_least(spec: Any) -> None:
    spec["nodePools"]["g6e"]["aws"] = {"instanceType": "g6e.12xlarge", "minNodes": 3}


def images_that_never_were(spec: Any) -> None:
    spec["cluster"]["aws"]["nodeRelease"] = "1.35.6-20260717"


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (wrong_instance_type, "spec.nodePools.g6e.aws.instanceType: unknown instance type"),
        (zone_outside_the_region, "spec.cluster.aws.zones[1]: found eu-west-1b"),
        (efa_over_two_zones, "spec.nodePools.p5.aws.zones: EFA over 2 zones"),
        (karpenter_with_efa_through_dra, "spec.cluster.aws.nodeSoftware.efa: found dra"),
        (spot_for_a_group, "spec.pool: a replica is 2 pods, and pool p5 is spot"),
        (block_without_reservation, "spec.nodePools.p5.aws.reservation: is missing"),
        (more_interfaces_than_there_are, "spec.nodePools.p5.rdma.perNode: found 33"),
        (fewer_at_most_than_at_least, "spec.nodePools.g6e.aws.minNodes: found 3"),
        (images_that_never_were, "spec.cluster.aws.nodeRelease: found 1.35.6-20260717"),
    ],
)
def test_one_mistake_is_one_line_before_any_engine_starts(
    edit: Callable[[Any], None], field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with edited(tmp_path, "staging") as document:
        edit(document["spec"])
    monkeypatch.setattr(context, "root", lambda: tmp_path)
    monkeypatch.setattr(offline, "standin", _must_not_start)
    monkeypatch.setattr(offline.engine, "engine_of", _must_not_start)
    with pytest.raises(DocumentErrors) as raised:
        preview("staging", without=True)
    title, line = str(raised.value).splitlines()
    assert title == "stacks/staging: 1 problem"
    assert field in line
    assert raised.value.exit_code == 2


def _must_not_start(*_arguments: Any, **_options: Any) -> None:
    raise AssertionError(f"something starts, at {ROOT}")
