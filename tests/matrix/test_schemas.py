"""Every object of every allowed cell fits the schemas of the pinned versions, nothing skipped."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.charts.rendering import Object, Objects
from tests.matrix.cells import Cell
from tests.matrix.crds import every_object, pods_of_groups, schemas
from tokenworks.check.conform import validate_schemas

pytestmark = [pytest.mark.helm, pytest.mark.kubeconform]


@pytest.fixture(scope="module")
def folder(renderer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return schemas(renderer, tmp_path_factory.mktemp("schemas"))


@pytest.fixture(scope="module")
def objects(matrix: Mapping[Cell, Objects]) -> list[Object]:
    found = list(every_object(matrix).values())
    inside = [pod for cell, item in found for pod in pods_of_groups(cell, item)]
    return [*(item for _, item in found), *inside]


def test_every_object_fits_its_schema(
    objects: list[Object], kubeconform: Path, folder: Path
) -> None:
    assert validate_schemas(objects, kubeconform, folder) == []


def test_every_kind_of_workload_is_among_them(objects: list[Object]) -> None:
    kinds = {item["kind"] for item in objects}
    assert kinds >= {
        "Deployment", "LeaderWorkerSet", "RoleBasedGroup", "InferencePool", "HTTPRoute",
        "DestinationRule", "NetworkPolicy", "Pod",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["Deployment", "LeaderWorkerSet", "RoleBasedGroup"])
def test_a_misspelt_field_would_be_found(
    kind: str, objects: list[Object], kubeconform: Path, folder: Path
) -> None:
    broken = copy.deepcopy(next(item for item in objects if item["kind"] == kind))
    spec = broken["spec"]
    (spec["roles"][0] if kind == "RoleBasedGroup" else spec)["replica"] = 1
    (finding,) = validate_schemas([broken], kubeconform, folder)
    assert "unknown field 'replica'" in finding.message
