"""Argo CD itself judges objects in every state by the checks that it is given."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.toolchain import ensure
from tokenworks.catalog.health import health_checks

pytestmark = pytest.mark.e2e

_TABLE: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "argocd_health.yaml").read_text()
)
CASES = {f"{k['kind']}, {c['state']}": (k["kind"], c) for k in _TABLE for c in k["cases"]}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ConfigMap that carries the checks."""
    data = {f"resource.customizations.health.{k}": v for k, v in health_checks().items()}
    file = tmp_path_factory.mktemp("argocd") / "argocd-cm.json"
    metadata = {
        "name": "argocd-cm", "namespace": "argocd",
        "labels": {"app.kubernetes.io/part-of": "argocd"},
    }  # fmt: skip
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    file.write_text(json.dumps(whole))
    return file


def judged(settings: Path, manifest: dict[str, Any], folder: Path) -> str:
    file = folder / "object.json"
    file.write_text(json.dumps(manifest))
    argocd = ensure("argocd")["argocd"]
    command = [argocd, "admin", "settings", "resource-overrides", "health", file]
    done = subprocess.run(
        [*command, "--argocd-cm-path", settings], capture_output=True, text=True, check=False,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(CASES))
def test_health(name: str, settings: Path, tmp_path: Path) -> None:
    (api, case) = CASES[name]
    version, _, kind = api.rpartition("/")
    manifest = {
        "apiVersion": version, "kind": kind,
        "metadata": {"name": "x", "namespace": "y", "generation": 2},
        "spec": case.get("spec", {}), "status": case["status"],
    }  # fmt: skip
    said = judged(settings, manifest, tmp_path)
    assert f"STATUS: {case['health']}\n" in said
    message = said.partition("MESSAGE: ")[2]
    assert case["says"] in message


def test_every_check_is_tried_in_more_than_one_state() -> None:
    tried: dict[str, set[str]] = {}
    for api, case in CASES.values():
        version, _, kind = api.rpartition("/")
        tried.setdefault(f"{version.partition('/')[0]}_{kind}", set()).add(case["health"])
    assert tried.keys() == health_checks().keys()
    assert all({"Healthy", "Progressing"} <= states for states in tried.values())
