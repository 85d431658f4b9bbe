"""Engine pods of the matrix, whichever object makes them: what the tests of this room look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tests.charts.rendering import Object, Objects
from tests.matrix.cells import Cell
from tests.matrix.judging import release_of
from tests.matrix.rendering import distinct
from tokenworks.catalog.commandline import CommandLine, read
from tokenworks.catalog.engines import Engine, load_engines
from tokenworks.render.command import version_of
from tokenworks.spec.common import quantity_value
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease

Part = Literal["only", "leader", "worker", "member"]
GPU = "nvidia.com/gpu"


@dataclass(frozen=True, repr=False)
class Pod:
    """One pod template with an engine in it."""

    cell: Cell
    workload: Object
    role: str
    """engine, prefill or decode."""
    part: Part
    """The only pod of a replica; of a group: its first, the others, or (with one template) all."""
    template: Object
    all: Objects
    """Everything of the release."""

    def __repr__(self) -> str:
        return (
            f"{self.cell.program} {self.cell.topology} {self.cell.column}: {self.role} {self.part}"
        )

    @property
    def spec(self) -> Object:
        """The pod's spec."""
        return self.template["spec"]

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        return self.template["metadata"]["labels"]

    @cached_property
    def engine(self) -> Object:
        """The engine's container."""
        return next(c for c in self.spec["containers"] if c["name"] == "engine")

    @property
    def containers(self) -> list[Object]:
        """Every container, those before the engine first."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @cached_property
    def env(self) -> Mapping[str, str | None]:
        """Variables of the engine; None for what comes from elsewhere."""
        return {e["name"]: e.get("value") for e in self.engine["env"]}

    @cached_property
    def line(self) -> CommandLine:
        """The engine's command line, also where the simulator plays it."""
        command = self.engine["command"]
        if self.cell.played:
            command = [*self.facts.command]
        return read(command, self.engine.get("args", []), self.env)

    @property
    def facts(self) -> Engine:
        """What the catalog knows of the engine."""
        return load_engines().engine(self.cell.engine)

    @cached_property
    def model(self) -> ModelRelease:
        """The document."""
        return release_of(self.cell)[1]

    @property
    def version(self) -> str:
        """The engine's release."""
        return version_of(self.model)

    @cached_property
    def layout(self) -> RoleLayout:
        """What the document says of the role."""
        return next(role for role in layout(self.model.spec) if role.name == self.role)

    @property
    def gpus(self) -> int:
        """GPUs of this pod."""
        return int(self.engine["resources"]["limits"].get(GPU, 0))

    @property
    def size(self) -> int:
        """Pods of one replica."""
        spec = self.workload["spec"]
        if self.workload["kind"] == "LeaderWorkerSet":
            return int(spec["leaderWorkerTemplate"]["size"])
        if self.workload["kind"] == "RoleBasedGroup":
            pattern = role_of(self.workload, self.role).get("leaderWorkerPattern", {"size": 1})
            return int(pattern["size"])
        return 1

    @property
    def memory(self) -> float:
        """Bytes that the engine may use."""
        return quantity_value(self.engine["resources"]["limits"]["memory"])

    def volume(self, path: str) -> Object | None:
        """The volume that the engine has at a path."""
        names = [m["name"] for m in self.engine["volumeMounts"] if m["mountPath"] == path]
        return next((v for v in self.spec["volumes"] if v["name"] in names), None)

    def probes(self) -> Mapping[str, Object]:
        """The engine's probes, by their field."""
        names = ("startupProbe", "readinessProbe", "livenessProbe")
        return {name: self.engine[name] for name in names}

    @property
    def silent(self) -> bool:
        """Whether it answers no HTTP: ranks of vLLM behind the first pod."""
        native = self.cell.engine == "vllm" and not self.layout.all_serve
        return self.part == "worker" and native


def role_of(group: Object, name: str) -> Object:
    """A role of a RoleBasedGroup."""
    return next(role for role in group["spec"]["roles"] if role["name"] == name)


def engine_pods(matrix: Mapping[Cell, Objects]) -> list[Pod]:
    """Every pod template with an engine; cells that render alike are looked at once."""
    return [pod for cell, objects in distinct(matrix) for pod in pods_of(cell, objects)]


def pods_of(cell: Cell, objects: Objects) -> Iterator[Pod]:
    """Those of one cell."""
    for workload in objects.all:
        for role, part, template in _templates(workload):
            if any(c["name"] == "engine" for c in template["spec"]["containers"]):
                yield Pod(cell, workload, role, part, template, objects)


def _templates(workload: Object) -> Iterator[tuple[str, Part, Object]]:
    spec: dict[str, Any] = workload.get("spec", {})
    if workload["kind"] == "Deployment":
        yield _role(spec["template"]), "only", spec["template"]
    elif workload["kind"] == "LeaderWorkerSet":
        group = spec["leaderWorkerTemplate"]
        yield _role(group["leaderTemplate"]), "leader", group["leaderTemplate"]
        yield _role(group["workerTemplate"]), "worker", group["workerTemplate"]
    elif workload["kind"] == "RoleBasedGroup":
        for role in spec["roles"]:
            alone = role.get("standalonePattern")
            part: Part = "only" if alone else "member"
            yield role["name"], part, (alone or role["leaderWorkerPattern"])["template"]


def _role(template: Object) -> str:
    return template["metadata"]["labels"].get("tokenworks.dev/role", "")
