"""The real engine and program on staging and prod, without account, cluster or network."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.offline.previews import edited, previewed, summary
from tests.repo.tree import ROOT
from tokenworks.cli import engine, offline
from tokenworks.cli.previews import UNKNOWN, Step, operations, remember, steps_of
from tokenworks.errors import TokenworksError
from tokenworks.spec.load import load_stack

pytestmark = [pytest.mark.pulumi, pytest.mark.helm, pytest.mark.timeout(600)]
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True, scope="module")
def _own_state() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="tw-") as short, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENWORKS_STATE", short)
        yield


@pytest.mark.parametrize(
    ("name", "stacks"),
    [
        ("staging", ["staging"]),
        ("prod", ["prod-infrastructure", "prod-platform", "prod-serving"]),
    ],
)
def test_the_tree_is_the_reviewed_one(name: str, stacks: list[str]) -> None:
    """A difference is either wanted (`python -m tests.offline.previews` writes it) or a fault."""
    found = dict(previewed(name))
    assert list(found) == stacks
    for stack, steps in found.items():
        assert {step["op"] for step in steps} <= {"create", "read"}
        assert summary(steps) == (GOLDEN / f"{stack}.txt").read_text()
    assert class_keys(found) == [UNKNOWN], "by number, which is not known yet"
    waits = waited_for(found[stacks[0]])
    assert (f"{name}-nodes-system-nodes-group" in waits) is (stacks == [name])
    assert (f"{name}-controllers-cluster-autoscaler-association" in waits) is (stacks == [name])


def waited_for(steps: list[Step]) -> set[str]:
    """What is there before anything on the cluster, where one stack makes both."""
    providers = [s["newState"] for s in steps if s["newState"]["type"].endswith(":kubernetes")]
    return {urn.rpartition("::")[2] for p in providers for urn in p.get("dependencies", [])}


def class_keys(found: dict[str, list[Step]]) -> list[str]:
    """What StorageClasses call the key of disks: its number, known once it is made."""
    states = [step["newState"] for steps in found.values() for step in steps]
    classes = [s["inputs"] for s in states if s["type"].endswith(":StorageClass")]
    return [inputs["parameters"]["kmsKeyId"] for inputs in classes]


@dataclass(frozen=True)
class Baseline:
    """prod's infrastructure as a preview made it, and the engine to preview changes with."""

    pulumi: engine.Engine
    steps: list[Step]


@pytest.fixture(scope="module")
def baseline(_own_state: None) -> Iterator[Baseline]:
    with offline.standin() as port:
        pulumi = next(offline.engines(load_stack(ROOT, "prod"), port))
        yield Baseline(pulumi, steps_of(pulumi, ROOT))


def after(baseline: Baseline, folder: Path, edit: Callable[[Any], None]) -> list[str]:
    """Every operation of a change of prod's document on what the baseline made, components too."""
    remember(baseline.pulumi, baseline.steps)
    with edited(folder, "prod") as document:
        edit(document["spec"])
    found = [s for s in steps_of(baseline.pulumi, folder) if s["op"] != "same"]
    named = ((s["op"], s["newState"]["type"], s["urn"].rpartition("::")[2]) for s in found)
    return sorted(" ".join(each) for each in named)


def nothing(spec: Any) -> None:
    """The document as it is."""
    del spec


def another_instance_type(spec: Any) -> None:
    spec["nodePools"]["g6e"]["aws"]["instanceType"] = "g6e.24xlarge"


def efa(spec: Any) -> None:
    pool = spec["nodePools"]["g6e"]
    pool["aws"] |= {"instanceType": "g6e.24xlarge", "zones": ["us-east-1a"]}
    pool["rdma"] = {"resource": "vpc.amazonaws.com/efa", "perNode": 2}


def another_pool(spec: Any) -> None:
    pool = copy.deepcopy(spec["nodePools"]["g6e"])
    pool["labels"] = {"tokenworks.dev/pool": "extra"}
    spec["nodePools"]["extra"] = pool


G6E = "prod-nodes-g6e-nodes"


def test_without_a_change_nothing_changes(baseline: Baseline, tmp_path: Path) -> None:
    assert after(baseline, tmp_path, nothing) == []


def test_another_instance_type_updates_the_template(baseline: Baseline, tmp_path: Path) -> None:
    assert after(baseline, tmp_path, another_instance_type) == [
        f"update aws:ec2/launchTemplate:LaunchTemplate {G6E}-template",
    ]


def test_efa_needs_one_zone_and_a_group_of_its_own(baseline: Baseline, tmp_path: Path) -> None:
    """The node group moves into one zone, which only a new one can."""
    assert after(baseline, tmp_path, efa) == [
        "create aws:autoscaling/tag:Tag prod-nodes-g6e-nodes-label-tokenworks.dev/efa",
        "create aws:autoscaling/tag:Tag prod-nodes-g6e-nodes-resources-hugepages-2Mi",
        "create aws:autoscaling/tag:Tag prod-nodes-g6e-nodes-resources-vpc.amazonaws.com/efa",
        "create aws:ec2/placementGroup:PlacementGroup prod-nodes-g6e-placement-group",
        "create tokenworks:aws:PlacementGroup prod-nodes-g6e-placement",
        "replace aws:eks/nodeGroup:NodeGroup prod-nodes-g6e-nodes-group",
        "update aws:ec2/launchTemplate:LaunchTemplate prod-nodes-g6e-nodes-template",
    ]


def test_another_pool_touches_no_other(baseline: Baseline, tmp_path: Path) -> None:
    assert after(baseline, tmp_path, another_pool) == [
        "create aws:autoscaling/tag:Tag prod-nodes-extra-nodes-label-k8s.amazonaws.com/accelerator",
        "create aws:autoscaling/tag:Tag prod-nodes-extra-nodes-label-nvidia.com/gpu.present",
        "create aws:autoscaling/tag:Tag prod-nodes-extra-nodes-label-tokenworks.dev/pool",
        "create aws:autoscaling/tag:Tag prod-nodes-extra-nodes-resources-ephemeral-storage",
        "create aws:autoscaling/tag:Tag prod-nodes-extra-nodes-resources-nvidia.com/gpu",
        "create aws:autoscaling/tag:Tag prod-nodes-extra-nodes-taint-nvidia.com/gpu",
        "create aws:ec2/launchTemplate:LaunchTemplate prod-nodes-extra-nodes-template",
        "create aws:eks/nodeGroup:NodeGroup prod-nodes-extra-nodes-group",
        "create tokenworks:aws:GpuPool prod-nodes-extra",
        "create tokenworks:aws:NodeGroup prod-nodes-extra-nodes",
    ]


def test_the_way_between_two_checkouts_is_a_list_of_operations(tmp_path: Path) -> None:
    with edited(tmp_path, "prod") as document:
        efa(document["spec"])
    found = operations("prod", ROOT, tmp_path)
    assert ("replace", "aws:eks/nodeGroup:NodeGroup", f"{G6E}-group") in [
        (operation.what, operation.kind, operation.name) for operation in found
    ]
    assert all("g6e" in operation.name for operation in found)


def test_an_environment_of_one_stack_is_compared_too(tmp_path: Path) -> None:
    """Its records have a provider of which a preview tells nothing."""
    with edited(tmp_path, "staging") as document:
        document["spec"]["cluster"]["aws"]["network"]["nat"] = "per-zone"
    found = operations("staging", ROOT, tmp_path)
    assert {operation.what for operation in found} == {"create"}
    assert any(operation.kind == "aws:ec2/natGateway:NatGateway" for operation in found)


def test_other_stacks_cannot_be_compared(tmp_path: Path) -> None:
    with edited(tmp_path, "prod") as document:
        document["spec"]["stacks"] = "one"
    with pytest.raises(TokenworksError, match="divided into other stacks"):
        operations("prod", ROOT, tmp_path)


def test_what_a_stack_needs_of_another_and_does_not_find_is_named(
    baseline: Baseline, tmp_path: Path
) -> None:
    pulumi = baseline.pulumi.of("prod-platform")
    engine.select(pulumi)
    offline.remember(baseline.pulumi, {"kubeconfig": "x"})
    del tmp_path
    with pytest.raises(TokenworksError) as raised:
        steps_of(pulumi, ROOT)
    assert "stack prod-infrastructure has no output volumesKey, weights, certificate" in str(
        raised.value
    )


def test_a_canary_in_the_settings_is_nowhere_in_clear(baseline: Baseline) -> None:
    """A secret of the stack's settings stays out of state, preview and rendered files."""
    canary = "canary-3f1c9a7e52"
    engine.run(baseline.pulumi, ["config", "set", "--secret", "canary", canary], quiet=True)
    remember(baseline.pulumi, baseline.steps)
    said = json.dumps(steps_of(baseline.pulumi, ROOT))
    files = [f for f in baseline.pulumi.folder.rglob("*") if f.is_file()]
    assert canary not in said
    assert [str(f) for f in files if canary.encode() in f.read_bytes()] == []
    assert any(f.name.startswith("Pulumi.prod-infrastructure") for f in files)
