"""Schemas for every kind that a cell renders to: the pinned CRDs, and our reduced ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from local.toolchain import module_dir
from tests.charts.rendering import Object, Objects
from tests.matrix.cells import Cell, environment
from tests.matrix.rendering import distinct
from tokenworks.catalog.bill import bill
from tokenworks.catalog.reduced import reduced_crds
from tokenworks.check.schemas import build_schemas
from tokenworks.render import platform
from tokenworks.render.helm import RenderTools
from tokenworks.spec.environment import Environment
from tokenworks.spec.stack import Stack

NAMESPACE = "research"


def schemas(renderer: Path, folder: Path) -> Path:
    """The folder of schemas."""
    tools = RenderTools(renderer, module_dir)
    stack = Stack(Environment.model_validate(environment("0.10.0")), (), ())
    crds = [o for release in platform.gateway_api(tools) for o in release.objects]
    crds += [o for release in platform.leader_worker_set(stack, tools) for o in release.objects]
    crds += platform.crds(bill().components["istio"], tools)
    openapi = module_dir("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3"
    return build_schemas(openapi, [*reduced_crds(), *crds], folder)


def every_object(matrix: Mapping[Cell, Objects]) -> dict[str, tuple[Cell, Object]]:
    """Each object once, however many cells have it, with the first of them."""
    found: dict[str, tuple[Cell, Object]] = {}
    for cell, objects in distinct(matrix):
        for item in objects.all:
            found.setdefault(repr(item), (cell, placed(item)))
    return found


def placed(item: Object) -> Object:
    """In the tenant's namespace, if it names none."""
    metadata: dict[str, Any] = item["metadata"]
    return {**item, "metadata": {"namespace": NAMESPACE, **metadata}}


def pods_of_groups(cell: Cell, item: Object) -> Iterator[Object]:
    """Pod templates inside a RoleBasedGroup as pods: its schema leaves them open."""
    if item["kind"] != "RoleBasedGroup":
        return
    for role in item["spec"]["roles"]:
        pattern = role.get("standalonePattern") or role["leaderWorkerPattern"]
        name = f"{cell.engine}-{role['name']}"
        yield {"apiVersion": "v1", "kind": "Pod", **_named(pattern["template"], name)}


def _named(template: Object, name: str) -> Object:
    return {**template, "metadata": {**template["metadata"], "name": name}}
