"""The whole set of objects as rules want it: flattened, with its pods and what they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from policies.engines import Program, helps, idle, program_of
from policies.graph import Graph
from policies.model import Manifest
from policies.mounted import Mounts
from policies.pods import Pod, flatten, leads_to, pods_of
from policies.pools import labels_of, numbers_of
from policies.rayserve import served
from policies.tree import at, integer, mapping, sequence, string_map

_RAY = "ray.io/"
"""KubeRay writes the probes of its pods itself."""


@dataclass(frozen=True)
class Inventory:
    """Objects, pod templates and programs, computed once for all rules."""

    objects: tuple[Manifest, ...]
    pods: tuple[Pod, ...]
    programs: tuple[Program, ...]
    """One for each container of each pod."""
    pools: tuple[tuple[str, dict[str, str], frozenset[int]], ...]
    """InferencePools: namespace, pod labels, target ports."""
    served: tuple[Program, ...] = ()
    """Engines that no container starts by its own command line: their flags, weights and model are
    judged like those of others; probes, ports and limits are those of the pod that they run in."""

    def engines(self) -> Iterator[Program]:
        """Everything that serves a model or helps to, whoever starts it."""
        every = (*self.programs, *self.served)
        return (p for p in every if p.engine is not None and p.mode != "none")

    @cached_property
    def graph(self) -> Graph:
        """The objects by kind and name."""
        return Graph.of(self.objects, self.pods)

    @cached_property
    def by_pod(self) -> dict[int, tuple[Program, ...]]:
        """Programs of each pod, by the pod's position in `pods`."""
        found: dict[int, list[Program]] = {}
        positions = {id(pod): position for position, pod in enumerate(self.pods)}
        for program in self.programs:
            found.setdefault(positions[id(program.container.pod)], []).append(program)
        return {position: tuple(programs) for position, programs in found.items()}

    def of_pod(self, pod: Pod) -> tuple[Program, ...]:
        """The programs of one pod."""
        return self._by_identity.get(id(pod), ())

    @cached_property
    def _by_identity(self) -> dict[int, tuple[Program, ...]]:
        return {id(self.pods[position]): programs for position, programs in self.by_pod.items()}

    def in_namespace(self, namespace: str) -> tuple[Program, ...]:
        """The programs of one namespace."""
        return self._by_namespace.get(namespace, ())

    @cached_property
    def _by_namespace(self) -> dict[str, tuple[Program, ...]]:
        found: dict[str, list[Program]] = {}
        for program in self.programs:
            found.setdefault(program.container.pod.namespace, []).append(program)
        return {namespace: tuple(programs) for namespace, programs in found.items()}

    def of_object(self, index: int) -> tuple[Program, ...]:
        """The programs of one object."""
        return self._by_object.get(index, ())

    @cached_property
    def _by_object(self) -> dict[int, tuple[Program, ...]]:
        found: dict[int, list[Program]] = {}
        for program in self.programs:
            found.setdefault(program.container.pod.index, []).append(program)
        return {index: tuple(programs) for index, programs in found.items()}

    def pools_in(self, namespace: str) -> list[tuple[dict[str, str], frozenset[int]]]:
        """Pod labels and target ports of the pools of one namespace."""
        return self._pools.get(namespace, [])

    @cached_property
    def _pools(self) -> dict[str, list[tuple[dict[str, str], frozenset[int]]]]:
        found: dict[str, list[tuple[dict[str, str], frozenset[int]]]] = {}
        for namespace, labels, targets in self.pools:
            found.setdefault(namespace, []).append((labels, targets))
        return found

    @classmethod
    def of(cls, objects: Sequence[Manifest]) -> Inventory:
        """The inventory of a set of objects; `List` objects count as their items."""
        flat = flatten(objects)
        pods = tuple(pod for index, item in enumerate(flat) for pod in pods_of(index, item))
        mounts = Mounts.of(flat)
        programs = tuple(program_of(mounts.seen(c)) for pod in pods for c in pod.containers)
        others = tuple(program_of(c) for c in served(pods))
        return cls(tuple(flat), pods, programs, tuple(_pools(flat)), others)

    def serving(self) -> Iterator[Program]:
        """The programs that answer requests for models, for as long as their pod lives."""
        return (program for program in self.programs if self.serves(program))

    def serves(self, program: Program) -> bool:
        """Whether it answers requests for models, for as long as its pod lives."""
        container = program.container
        if container.kind not in ("container", "sidecar"):
            return False
        if not container.pod.long_running:
            # A pod that nobody starts again serves too: where a Service leads to it, and where it
            # waits for the server, and not for something that asks it.
            alone = container.pod.kind == "Pod" and program.mode == "server"
            return alone and (program.stays or self._led_to(program))
        if program.mode != "none":
            followed = program.mode == "member" and program.follows
            return program.mode == "server" or (followed and self._led_to(program))
        if idle(container, program.command) or helps(container):
            return False
        return self._pooled(program) or self._holds_gpu(program)

    def _pooled(self, program: Program) -> bool:
        pod = program.container.pod
        ports = _ports(program)
        return any(
            labels and labels.items() <= pod.labels.items() and not ports.isdisjoint(targets)
            for labels, targets in self.pools_in(pod.namespace)
        )

    def _holds_gpu(self, program: Program) -> bool:
        """A program we do not know that holds an accelerator in a pod that stays."""
        pod = program.container.pod
        if not program.accelerators or str(pod.object.get("apiVersion")).startswith(_RAY):
            return False
        if pod.role == "worker":
            return self._led_to(program)  # a rank like any other, until somebody asks it
        # Node software, training and tests serve nobody as long as they open no port.
        return bool(_ports(program)) or (pod.kind != "DaemonSet" and self._asked(program))

    def _asked(self, program: Program) -> bool:
        """Whether a Service leads to its pod, or a probe asks it."""
        pod, spec = program.container.pod, program.container.spec
        if any(spec.get(key) for key in ("startupProbe", "readinessProbe", "livenessProbe")):
            return True
        return any(
            item.get("kind") == "Service"
            and _namespace(item) == pod.namespace
            and leads_to(string_map(mapping(item.get("spec")).get("selector")), pod)
            for item in self.objects
        )

    def _led_to(self, program: Program) -> bool:
        """Whether a Service leads to a port of the program."""
        pod, ports = program.container.pod, _ports(program)
        for item in self.objects:
            if item.get("kind") != "Service" or _namespace(item) != pod.namespace:
                continue
            spec = mapping(item.get("spec"))
            selector = string_map(spec.get("selector"))
            if leads_to(selector, pod):
                listed = [mapping(port) for port in sequence(spec.get("ports"))]
                targets = {port.get("targetPort", port.get("port")) for port in listed}
                if targets & ports or any(isinstance(target, str) for target in targets):
                    return bool(ports)
        return False


def _namespace(item: Manifest) -> str:
    return str(at(item, "metadata", "namespace") or "default")


def _ports(program: Program) -> frozenset[int]:
    ports = sequence(program.container.spec.get("ports"))
    numbers = (mapping(port).get("containerPort") for port in ports)
    found = (integer(number, 0) for number in numbers if isinstance(number, int | float))
    return frozenset(number for number in found if number is not None)


def _pools(objects: Sequence[Manifest]) -> Iterator[tuple[str, dict[str, str], frozenset[int]]]:
    for item in objects:
        if item.get("kind") != "InferencePool":
            continue
        spec = mapping(item.get("spec"))
        yield _namespace(item), labels_of(spec), frozenset(numbers_of(spec))
