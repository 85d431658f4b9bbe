"""Each chart by itself: Helm, its defaults, an API server that has the operators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.cluster.spec import paths
from tests.charts.rendering import CHARTS, NAMES, Helm, Object
from tests.e2e.platform import Platform, ask, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.helm]

BY_HAND = "by-hand"
MINE = "app.kubernetes.io/instance=demo"
PRIORITIES = "workloadpriorityclasses.kueue.x-k8s.io"


@dataclass(frozen=True)
class Cluster:
    """Helm and the platform's API server, in a namespace of its own."""

    helm: Helm
    platform: Platform

    def run(self, *arguments: str | Path) -> str:
        """One helm command; fails the test when it fails."""
        where = ("--namespace", BY_HAND, "--kubeconfig", paths("local").kubeconfig)
        done = self.helm.run(*arguments, *where)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def left(self) -> list[str]:
        """What the release wrote and is still there, of every kind that is served."""
        kinds = self.platform.kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
        asked = ",".join(kind for kind in kinds if kind != "endpoints")  # each look warns of them
        found = self.platform.kubectl("get", asked, "-A", "-l", MINE, "-o", "name")
        return [name for name in found.split() if "/" in name]


@pytest.fixture(scope="module")
def cluster(platform: Platform, helm: Path) -> Iterator[Cluster]:
    platform.kubectl("create", "namespace", BY_HAND)
    platform.kubectl("label", "namespace", BY_HAND, f"tokenworks.dev/tenant={BY_HAND}")
    yield Cluster(Helm(helm), platform)
    platform.kubectl("delete", "namespace", BY_HAND, "--wait=true")


@contextmanager
def without_priorities(platform: Platform, folder: Path) -> Iterator[None]:
    """The platform's own priorities out of the way: they bear the names of the chart's defaults."""
    kept: list[Object] = platform.get(PRIORITIES)["items"]
    for item in kept:
        meta = item["metadata"]
        said = ("name", "labels", "annotations")
        item["metadata"] = {key: meta[key] for key in said if key in meta}
    path = folder / "priorities.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": kept}))
    platform.kubectl("delete", "-f", str(path), "--wait=true")
    try:
        yield
    finally:
        platform.kubectl("create", "-f", str(path))


@contextmanager
def installed(cluster: Cluster, chart: str) -> Iterator[None]:
    """The chart, installed as anybody would; nothing of it stays."""
    try:
        said = cluster.run("install", "demo", CHARTS / chart, "--wait", "--timeout", "5m")
        assert "STATUS: deployed" in said
        assert "NOTES:" in said
        assert cluster.left()
        yield
    finally:
        cluster.run("uninstall", "demo", "--ignore-not-found", "--wait", "--timeout", "5m")
    eventually(f"nothing of {chart} is left", lambda: cluster.left() == [])


@pytest.mark.parametrize("chart", [name for name in NAMES if name != "model"])
def test_a_chart_installs_with_its_defaults(chart: str, cluster: Cluster, tmp_path: Path) -> None:
    queues = chart == "queues"
    with without_priorities(cluster.platform, tmp_path) if queues else nullcontext():  # noqa: SIM117
        with installed(cluster, chart):
            if chart == "gateway":
                gateway = cluster.platform.get("gateway", "-n", BY_HAND, "gateway")
                conditions = {c["type"]: c["status"] for c in gateway["status"]["conditions"]}
                assert conditions["Accepted"] == "True"


def test_a_model_with_its_defaults_answers(cluster: Cluster, url: str) -> None:
    with installed(cluster, "model"):
        answer = eventually(
            "its route is followed",
            lambda: (said := ask(url, "hello", "simulator")).status_code == 200 and said,
        )
        assert answer.headers["x-served-by"].startswith("demo-")
    assert ask(url, "hello", "simulator").status_code in (404, 503)
