"""The API server, with the CRDs and webhooks of the platform, takes every object of the matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.charts.rendering import Helm, Object, Objects
from tests.e2e.platform import NAMESPACE, Platform, eventually
from tests.matrix import crds
from tests.matrix.cells import Cell
from tests.matrix.rendering import rendered
from tokenworks.catalog.reduced import reduced_crds

pytestmark = [pytest.mark.e2e, pytest.mark.helm]


@pytest.fixture(scope="module")
def objects(helm: Path) -> list[Object]:
    """Every object once, each under a name of its own."""
    matrix: Mapping[Cell, Objects] = rendered(Helm(helm))
    found = [item for _, item in crds.every_object(matrix).values()]
    return [_named(item, f"dry-{n}") for n, item in enumerate(found)]


def _named(item: Object, name: str) -> Object:
    metadata = {**item["metadata"], "name": name, "namespace": NAMESPACE}
    return {**item, "metadata": metadata}


def _file(folder: Path, objects: list[Object]) -> str:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


@pytest.fixture(scope="module")
def served(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """The platform, with the kinds that it does not bring itself."""
    path = _file(tmp_path_factory.mktemp("crds"), [dict(crd) for crd in reduced_crds()])
    platform.kubectl("apply", "-f", path)
    eventually(
        "RoleBasedGroups are served",
        lambda: "rolebasedgroups" in platform.kubectl("api-resources", "-o", "name"),
    )
    yield platform
    platform.kubectl("delete", "-f", path, "--wait=true")


def test_the_api_server_takes_every_object(
    served: Platform, objects: list[Object], tmp_path: Path
) -> None:
    said = served.kubectl(
        "create", "--dry-run=server", "-o", "name", "-f", _file(tmp_path, objects)
    )
    warnings = {line for line in said.splitlines() if line.startswith("Warning: ")}
    assert len(set(said.splitlines()) - warnings) == len(objects)
    # The namespace of this environment has no release with weights on a node's disk, and is
    # restricted; one that has is not (`render._pod_security`).
    assert all('restricted volume types (volume "weights"' in line for line in warnings), warnings


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "RoleBasedGroup", "Deployment"])
def test_a_wrong_type_would_be_refused(
    kind: str, served: Platform, objects: list[Object], tmp_path: Path
) -> None:
    item = json.loads(json.dumps(next(o for o in objects if o["kind"] == kind)))
    spec = item["spec"]
    (spec["roles"][0] if kind == "RoleBasedGroup" else spec)["replicas"] = "two"
    done = served.run(
        "local", "kubectl", "create", "--dry-run=server", "-f", _file(tmp_path, [item]), check=False
    )
    assert done.returncode != 0
    assert "replicas" in done.stdout
