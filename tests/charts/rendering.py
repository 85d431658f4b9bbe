"""Charts rendered to objects, so that tests assert on fields and never on text."""

from __future__ import annotations

import copy
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.charts.documents import full_values
from tokenworks.render.defaults import default_values
from tokenworks.render.helm import values_text

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "charts"
NAMES = ("model", "gateway", "queues", "tenant")

Object = dict[str, Any]
Values = dict[str, Any]


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
    """`over` laid onto a copy of `base`, map by map."""
    result: Values = copy.deepcopy(dict(base))
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else copy.deepcopy(value)
    return result


def defaults(chart: str) -> Values:
    """The chart's values.yaml, as data."""
    return default_values()[chart].model_dump(by_alias=True, mode="json")


def bases(chart: str) -> tuple[Values, ...]:
    """Values under which, taken together, every field matters."""
    return full_values()[chart]


@dataclass(frozen=True)
class Helm:
    """Helm, and what it says."""

    program: Path

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """One helm command, in an empty home."""
        with tempfile.TemporaryDirectory() as home:
            return subprocess.run(
                [self.program, *arguments],
                # A process of a tenth of a second needs no garbage collector.
                env={"HOME": home, "PATH": "/usr/bin:/bin", "GOGC": "off", "GOMAXPROCS": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )

    def template(
        self, chart: str, values: Mapping[str, Any] | str | None = None, *, name: str = "demo"
    ) -> subprocess.CompletedProcess[str]:
        """`helm template` with a values file: as data, as text, or none."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "values.yaml"
            path.write_text(values if isinstance(values, str) else values_text(values or {}))
            arguments = [name, CHARTS / chart, "--namespace", "research", "--values", path]
            return self.run("template", *arguments)

    def text(self, chart: str, values: Mapping[str, Any] | str | None = None) -> str:
        """What the chart renders to; fails when it does not."""
        done = self.template(chart, values)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, chart: str, values: Mapping[str, Any] | str | None = None) -> Objects:
        """What the chart renders to."""
        return _objects(
            self, chart, values if isinstance(values, str) else values_text(values or {})
        )


@cache
def _objects(helm: Helm, chart: str, values: str) -> Objects:
    """Tests read objects and never change them, so one rendering serves all."""
    loaded = yaml.load_all(helm.text(chart, values), Loader=yaml.CSafeLoader)
    return Objects([o for o in loaded if o])


@dataclass(frozen=True)
class Objects:
    """Rendered objects."""

    all: Sequence[Object]

    def of(self, kind: str) -> list[Object]:
        """Every object of a kind."""
        return [o for o in self.all if o["kind"] == kind]

    def one(self, kind: str, name: str = "demo") -> Object:
        """The one object of that kind and name."""
        found = [o for o in self.of(kind) if o["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} of {kind} {name}"
        return found[0]

    def pod(self, deployment: str = "demo") -> Object:
        """Spec of a Deployment's pods."""
        return self.one("Deployment", deployment)["spec"]["template"]["spec"]

    def container(self, deployment: str = "demo") -> Object:
        """The one container of a Deployment."""
        (container,) = self.pod(deployment)["containers"]
        return container

    def env(self, deployment: str = "demo") -> dict[str, Any]:
        """Literal environment of the one container."""
        return {e["name"]: e.get("value") for e in self.container(deployment).get("env", [])}
