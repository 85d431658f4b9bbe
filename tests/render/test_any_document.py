"""Whatever loads can be rendered: no limit of a chart's values is found out later."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.charts.documents import ENVIRONMENT, MODEL, TENANT
from tokenworks.errors import UsageError
from tokenworks.render.model import model_ready_seconds, model_values
from tokenworks.render.platform import istio_values, kueue_values, lws_values
from tokenworks.render.values import (
    gateway_values,
    queues_values,
    tenant_values,
)
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Stack

pytestmark = pytest.mark.slow

Place = tuple[str | int, ...]
FILES = {
    "environment.yaml": ("Environment", ENVIRONMENT),
    "models/demo.yaml": ("ModelRelease", MODEL),
    "tenants/research.yaml": ("Tenant", TENANT),
}
MORE: dict[str, dict[str, Any]] = {
    "environment.yaml": {
        "platform": {
            "kueue": {"podsReadyTimeout": "3h", "requests": {"cpu": "1", "memory": "1Gi"}},
            "leaderWorkerSet": {"requests": {"cpu": "1", "memory": "1Gi"}},
        },
        "gateway": {
            "hostname": "llm.example.com", "requestTimeout": "200s", "idleTimeout": "200s",
            "maxRequestBody": "10Mi", "maxConnections": 100, "port": 80,
            "controllerRequests": {"cpu": "1", "memory": "1Gi"},
        },
    },
    "models/demo.yaml": {
        "resources": {
            "gpus": 2, "cpu": "16", "memory": "96Gi", "ephemeralStorage": "200Gi",
            "sharedMemory": "8Gi",
        },
        "caches": {"prefix": True, "weights": {"kind": "ephemeral", "size": "80G"}},
        "route": {"timeout": "100s", "profile": "latency"},
    },
    "tenants/research.yaml": {"namespace": "research"},
}  # fmt: skip
"""Fields that the shared documents leave out."""

NUMBERS = (0, 1, 2, 7, 16, 1000, 10_000, 65535, 1_000_000, 100_000_000, 2**53, -1)
TEXTS = (
    "0", "0.001", "10000", "99999999m", "1000M", "1Pi",
    "0s", "1ms", "1s", "24h", "168h", "99999h99999h99999h99999h",
    "1k", "1Ki", "1Mi", "4095Mi", "4Gi", "1024Ti", "999999999999Ti",
    "a" * 40, "a" * 63, "no", "unresolved",
)  # fmt: skip
MAPS = ({}, *({f"a{n}": "x" for n in range(count)} for count in (8, 9, 100)))
LISTS = ([], *([{"key": f"a{n}"} for n in range(count)] for count in (8, 9)))
EXTREMES: dict[type, tuple[Any, ...]] = {
    int: NUMBERS, float: NUMBERS, bool: (True, False), str: TEXTS, dict: MAPS, list: LISTS,
}  # fmt: skip
"""By the type of what stands there: the rest is a mistake that loading finds by the type."""


def documents() -> dict[str, dict[str, Any]]:
    """Every file's document, with every field that has no other meaning for the rest."""
    environment = copy.deepcopy(ENVIRONMENT["spec"])
    for pool in environment["nodePools"].values():
        pool["gpu"] = "nvidia-h100-80gb"
    spec = {"environment.yaml": environment}
    return {
        file: {
            "apiVersion": "tokenworks.dev/v1alpha1",
            "kind": kind,
            "metadata": document["metadata"],
            "spec": {**spec.get(file, document["spec"]), **MORE[file]},
        }
        for file, (kind, document) in FILES.items()
    }


def places(node: Any, path: Place = ()) -> Iterator[Place]:
    """Every field."""
    pairs: Any = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def replaced(document: dict[str, Any], path: Place, value: Any) -> dict[str, Any]:
    """A copy with another value in the field."""
    result = copy.deepcopy(document)
    at(result, path[:-1])[path[-1]] = value
    return result


def at(node: Any, path: Place) -> Any:
    """What stands there."""
    for part in path:
        node = node[part]
    return node


def values(stack: Stack) -> None:
    """All values that rendering computes."""
    queues_values(stack)
    gateway_values(stack)
    for upstream in (kueue_values, lws_values, istio_values):
        upstream(stack)
    for tenant in stack.tenants:
        tenant_values(stack, tenant)
    for model in stack.models:
        model_values(stack, model)
        assert 0 < model_ready_seconds(model) < 2**31


CASES = [
    (file, path)
    for file, document in documents().items()
    for path in places(document)
    if path[0] == "spec" or "labels" in path
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents as they are, which load."""
    root = tmp_path_factory.mktemp("root")
    for file, document in documents().items():
        path = root / "stacks" / "lab" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    values(load_stack(root, "lab"))
    return root


@pytest.mark.parametrize(
    ("file", "path"), CASES, ids=lambda v: ".".join(map(str, v)) if isinstance(v, tuple) else ""
)
def test_what_loads_has_values(file: str, path: Place, root: Path) -> None:
    written = root / "stacks" / "lab" / file
    good = written.read_bytes()
    try:
        for extreme in EXTREMES[type(at(documents()[file], path))]:
            written.write_text(json.dumps(replaced(documents()[file], path, extreme)))
            try:
                stack = load_stack(root, "lab")
            except UsageError:
                continue
            values(stack)
    finally:
        written.write_bytes(good)
