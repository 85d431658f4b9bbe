"""The API server, with the CRDs of the pinned Karpenter, takes every pool that it is to make."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.toolchain import module_dir
from tests.e2e.platform import Platform, eventually
from tests.render.karpenter_objects import POOLS, karpenter_objects
from tokenworks.catalog.bill import bill

pytestmark = pytest.mark.e2e
Object = dict[str, Any]
KINDS = ("ec2nodeclasses.karpenter.k8s.aws", "nodepools.karpenter.sh", "nodeoverlays.karpenter.sh")


@pytest.fixture(scope="module")
def served(platform: Platform) -> Iterator[Platform]:
    """The platform, with Karpenter's kinds as its module has them, rules in CEL included."""
    karpenter = bill().components["karpenter"]
    assert karpenter.module is not None
    folder = str(module_dir(karpenter.module) / karpenter.crds[0])
    platform.kubectl("apply", "--server-side", "-f", folder)
    for kind in KINDS:
        platform.kubectl("wait", "--for=condition=Established", f"crd/{kind}", "--timeout=60s")
    eventually(
        "NodePools are served",
        lambda: "nodepools" in platform.kubectl("api-resources", "-o", "name"),
    )
    yield platform
    # Not awaited: of a kind that was only just stored, the API server tries later and later.
    platform.kubectl("delete", "-f", folder, "--wait=false")


def _file(folder: Path, objects: list[Object]) -> str:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


def _dry(platform: Platform, folder: Path, objects: list[Object], check: bool) -> Any:
    file = _file(folder, objects)
    return platform.run(
        "local", "kubectl", "create", "--dry-run=server", "-o", "name", "-f", file, check=check
    )


def test_the_api_server_takes_every_pool(served: Platform, tmp_path: Path) -> None:
    objects = karpenter_objects()
    said = _dry(served, tmp_path, objects, check=True).stdout
    with_efa = [name for name in POOLS if name.startswith("p5")]
    assert len(said.splitlines()) == len(objects) == 2 * len(POOLS) + len(with_efa)


def _same_place_twice(node_class: Object) -> None:
    interfaces = node_class["spec"]["networkInterfaces"]
    interfaces[1]["deviceIndex"] = 0


def _two_ways_to_name_a_reservation(node_class: Object) -> None:
    node_class["spec"]["capacityReservationSelectorTerms"][0]["tags"] = {"a": "b"}


def _an_alias_without_a_version(node_class: Object) -> None:
    node_class["spec"]["amiSelectorTerms"] = [{"alias": "al2023"}]


def test_an_overlay_that_would_change_memory_is_refused(served: Platform, tmp_path: Path) -> None:
    overlay = next(o for o in karpenter_objects() if o["kind"] == "NodeOverlay")
    overlay["spec"]["capacity"]["memory"] = "1Ti"
    done = _dry(served, tmp_path, [overlay], check=False)
    assert done.returncode != 0
    assert "is invalid" in done.stdout


@pytest.mark.parametrize(
    "spoil", [_same_place_twice, _two_ways_to_name_a_reservation, _an_alias_without_a_version]
)
def test_what_breaks_a_rule_of_the_kind_would_be_refused(
    spoil: Callable[[Object], None], served: Platform, tmp_path: Path
) -> None:
    (item,) = [
        o for o in karpenter_objects()
        if o["kind"] == "EC2NodeClass" and o["metadata"]["name"] == "p5-reserved"
    ]  # fmt: skip
    spoil(item)
    done = _dry(served, tmp_path, [item], check=False)
    assert done.returncode != 0
    assert "is invalid" in done.stdout
