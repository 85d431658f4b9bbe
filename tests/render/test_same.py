"""Whoever renders our charts, the objects are the same: our program, Helm 4 and Helm 3."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.toolchain import ensure, module_dir
from tests.charts.examples import examples
from tests.charts.rendering import CHARTS, Helm, Objects
from tests.matrix.cells import Cell
from tests.matrix.rendering import distinct, values_of
from tests.matrix.rendering import rendered as of_helm_4
from tokenworks.render import RenderTools, render
from tokenworks.render.charts import Renderer, Request
from tokenworks.render.helm import KUBE_VERSION, parse, values_text
from tokenworks.spec.load import environment_names, load_stack

pytestmark = [pytest.mark.helm, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
AT_ONCE = 4

Found = tuple[dict[str, Any], ...]
Rendered = Mapping[Request, Found]


ANEW = {"Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
"""Kinds in which the load balancer controller's chart has certificates that it makes anew each
time. Its release is without them."""


def of_chart(chart: str, values: Mapping[str, Any]) -> Request:
    return Request(CHARTS / chart, "demo", "research", KUBE_VERSION, values_text(values))


@pytest.fixture(scope="module")
def ours(renderer: Path) -> Rendered:
    """Every chart of every environment, ours and those of others; and every example."""
    seen: dict[Request, Found] = {}
    real = Renderer.objects

    def noted(self: Renderer, request: Request) -> Found:
        seen[request] = real(self, request)
        return seen[request]

    with pytest.MonkeyPatch.context() as patch, Renderer(renderer) as running:
        patch.setattr(Renderer, "objects", noted)
        for name in environment_names(ROOT):
            render(load_stack(ROOT, name), RenderTools(renderer, module_dir))
        for example in examples():
            values = yaml.safe_load((example / "values.yaml").read_text()) or {}
            running.objects(of_chart(example.parent.name, values))
    return seen


@pytest.fixture(scope="module")
def matrix(helm: Path) -> Mapping[Cell, Objects]:
    """Objects of every allowed cell, by `helm template` of Helm 4."""
    return of_helm_4(Helm(helm))


@pytest.fixture(scope="module")
def cells(matrix: Mapping[Cell, Objects], renderer: Path) -> Rendered:
    """Every cell of the matrix, once for those that are alike."""
    with Renderer(renderer) as running, ThreadPoolExecutor(AT_ONCE) as pool:
        requests = [of_chart("model", values_of(cell)) for cell, _ in distinct(matrix)]
        return dict(zip(requests, pool.map(running.objects, requests), strict=True))


def of_program(program: Path) -> Callable[[Request], Found]:
    """How a program called helm renders."""

    def rendered(request: Request) -> Found:
        with tempfile.TemporaryDirectory() as folder:
            values = Path(folder) / "values.yaml"
            values.write_text(request.values)
            done = subprocess.run(
                [
                    program, "template", request.name, request.chart, "--values", values,
                    "--namespace", request.namespace, "--kube-version", request.kube_version,
                    "--skip-tests",
                ],
                env={"HOME": folder, "PATH": "/usr/bin:/bin", "GOGC": "off", "GOMAXPROCS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )  # fmt: skip
        assert done.returncode == 0, f"{request.chart.name} {request.name}: {done.stderr}"
        return parse(done.stdout)

    return rendered


def text_of(request: Request, found: Found) -> str:
    """The objects, in their order and that of their keys."""
    anew = ANEW if request.chart.name == "aws-load-balancer-controller" else set[str]()
    return json.dumps([item for item in found if item["kind"] not in anew])


def differing(rendered: Rendered, other: Callable[[Request], Found]) -> Iterable[str]:
    """Charts and releases whose objects, or the order of whose keys, are not the same."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (request, mine), theirs in zip(
            rendered.items(), pool.map(other, rendered), strict=True
        ):
            if text_of(request, mine) != text_of(request, theirs):
                yield f"{request.chart.name} {request.name} {request.values[:200]}"


def test_helm_4_renders_the_same(ours: Rendered, helm: Path) -> None:
    assert len({request.chart.name for request in ours}) >= 10
    assert list(differing(ours, of_program(helm))) == []


def test_helm_4_renders_the_matrix_the_same(
    matrix: Mapping[Cell, Objects], cells: Rendered
) -> None:
    theirs = [tuple(objects.all) for _, objects in distinct(matrix)]
    different = [
        cell
        for (cell, _), mine, other in zip(distinct(matrix), cells.values(), theirs, strict=True)
        if json.dumps(mine) != json.dumps(other)
    ]
    assert different == []


def test_helm_3_renders_our_charts_the_same(ours: Rendered, cells: Rendered) -> None:
    of_us = {request: found for request, found in ours.items() if CHARTS in request.chart.parents}
    assert {request.chart.name for request in of_us} == {"model", "gateway", "queues", "tenant"}
    helm3 = of_program(ensure("helm3")["helm3"])
    assert list(differing({**of_us, **cells}, helm3)) == []


def test_the_programs_are_what_they_are_called(helm: Path) -> None:
    for program, version in ((helm, "v4."), (ensure("helm3")["helm3"], "v3.")):
        done = subprocess.run([program, "version", "--short"], capture_output=True, check=True)
        assert done.stdout.decode().startswith(version)
