"""Rollouts that finish, and shutdowns that let streams finish."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.commands import command_of
from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Rule, Violation
from policies.pods import Container, Pod
from policies.tree import at, integer, mapping

_LINK = (
    "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#"
    "rolling-update-deployment"
)
_BUFFER = 5
"""Seconds between the engine's own shutdown and the kill."""


# --- surge -----------------------------------------------------------------


def _surge(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    seen: set[int] = set()
    for program in inventory.programs:
        pod = program.container.pod
        if not program.accelerators or pod.index in seen:
            continue
        if pod.patch and at(pod.object, "spec", "strategy") is None:
            continue
        seen.add(pod.index)
        if pod.kind == "Deployment":
            yield from _deployment(program)
        elif pod.kind == "LeaderWorkerSet":
            yield from _group(pod)
        elif pod.custom and _rolls_as_deployments(pod):
            yield from _deployment(program)


def _rolls_as_deployments(pod: Pod) -> bool:
    """A custom resource that writes a Deployment's strategy down, such as RayClusterFleet."""
    rolling = mapping(at(pod.object, "spec", "strategy", "rollingUpdate"))
    return "maxSurge" in rolling and "maxUnavailable" in rolling


def surge_of(pod: Pod) -> int:
    """Pods that a Deployment's rollout starts before it stops one; 0 where it stops one first."""
    strategy = mapping(at(pod.object, "spec", "strategy"))
    replicas = integer(at(pod.object, "spec", "replicas"), 1)
    if str(strategy.get("type") or "RollingUpdate") != "RollingUpdate" or not replicas:
        return 0
    rolling = mapping(strategy.get("rollingUpdate"))
    surge = _share(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    return surge if surge and unavailable == 0 else 0


def _deployment(program: Program) -> Iterator[Violation]:
    pod = program.container.pod
    replicas, surge = integer(at(pod.object, "spec", "replicas"), 1), surge_of(pod)
    if surge:
        more = surge * (program.gpus or 1)
        free, them = ("a free GPU", "a GPU") if more == 1 else (f"{more} free GPUs", f"{more} GPUs")
        yield Violation(
            pod.index,
            ("spec", "strategy"),
            f"a rollout of {replicas} replica(s) starts a pod before it stops one (maxSurge "
            f"{surge}, maxUnavailable 0): without {free} it never ends",
            f"set strategy.rollingUpdate to maxSurge: 0, maxUnavailable: 1, or keep {them} free",
        )


def _group(pod: Pod) -> Iterator[Violation]:
    path = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
    rolling = mapping(at(pod.object, *path))
    replicas = integer(at(pod.object, "spec", "replicas"), 1) or 1
    surge = _share(rolling.get("maxSurge", 0), replicas, up=True)
    if surge and _share(rolling.get("maxUnavailable", 1), replicas, up=False) == 0:
        yield Violation(
            pod.index,
            path,
            f"a rollout starts {surge} group(s) before it stops one (maxUnavailable 0): without "
            "the GPUs of a whole group free it never ends",
            "set maxSurge: 0, maxUnavailable: 1, or keep a group's GPUs free",
        )


def _share(value: object, replicas: int, *, up: bool) -> int | None:
    """An absolute number, or a percentage of the replicas, rounded as Kubernetes does."""
    if isinstance(value, str) and value.endswith("%"):
        percent = integer(value[:-1], 0)
        if percent is None:
            return None
        exact = percent * replicas / 100
        return math.ceil(exact) if up else math.floor(exact)
    return integer(value, 0)


SURGE = Rule(
    id="surge",
    severity="warning",
    title="Rollouts of GPU pods need no spare GPU",
    reason="With 1 to 3 replicas the default rolling update surges one pod and stops none: the new "
    "pod waits for the GPU that the old one holds, for ever.",
    remedy="Set maxSurge 0 and maxUnavailable 1, or keep as many GPUs free as one pod asks for.",
    find=_surge,
    link=_LINK,
)


# --- drain -----------------------------------------------------------------


def _drain(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.serving():
        container, pod = program.container, program.container.pod
        grace = integer(pod.spec.get("terminationGracePeriodSeconds"), 30)
        hook = at(container.spec, "lifecycle", "preStop")
        if not mapping(hook):
            if container.completed or pod.of_knative or _outlives_a_pause(container):
                continue
            yield Violation(
                pod.index,
                container.place(("lifecycle", "preStop")),
                f"{program.title} has no preStop: it stops while the gateway still sends to it",
                "add lifecycle.preStop: sleep {seconds: 10}, so that the picker drops the pod "
                "first",
            )
            continue
        if _only_says(mapping(hook)):
            yield Violation(
                pod.index,
                container.place(("lifecycle", "preStop")),
                f"{program.title} has a preStop that does not wait: it stops while the gateway "
                "still sends to it",
                "write lifecycle.preStop: sleep {seconds: 10}, so that the picker drops the pod "
                "first",
            )
            continue
        yield from _sum(program, mapping(hook), grace)


_SAYS = re.compile(r"\s*(echo|printf|date|true|:|logger|touch)\b[^|&;]*")


def _only_says(hook: Mapping[str, Any]) -> bool:
    """Whether a hook ends at once, whatever it prints."""
    if "sleep" in hook:
        return integer(at(hook, "sleep", "seconds"), 1) == 0
    command = command_of(mapping(hook.get("exec")), {})
    text = command.script if command.script is not None else command.text
    parts = [part for part in re.split(r"&&|;|\n", text) if part.strip()]
    return bool(parts) and all(_SAYS.fullmatch(part) for part in parts)


def _outlives_a_pause(container: Container) -> bool:
    """Whether it is a native sidecar of containers that pause: it is told after they ended."""
    return container.kind == "sidecar" and any(
        mapping(mapping(other.spec.get("lifecycle")).get("preStop"))
        for other in container.pod.containers
        if other.kind == "container"
    )


def _sum(program: Program, hook: Mapping[str, Any], grace: int | None) -> Iterator[Violation]:
    waits, pod = _pre_stop_seconds(hook), program.container.pod
    shutdown = integer(program.given("shutdown-timeout"), 0)
    if waits is None or shutdown is None or grace is None:
        return
    needed = waits + shutdown + _BUFFER
    if grace < needed:
        yield Violation(
            pod.index,
            (*pod.path, "terminationGracePeriodSeconds"),
            f"{program.title} is killed after {grace} s, but preStop ({waits} s), its shutdown "
            f"timeout ({shutdown} s) and a buffer ({_BUFFER} s) need {needed} s",
            f"set terminationGracePeriodSeconds to {needed} or more, plus the longest answer",
            "error",
        )


def _pre_stop_seconds(hook: Mapping[str, Any]) -> int | None:
    """Seconds the hook waits, as far as its text says; None when it does not."""
    if "sleep" in hook:
        return integer(at(hook, "sleep", "seconds"), 0)
    text = command_of(mapping(hook.get("exec")), {}).text
    numbers = re.findall(r"\bsleep\s+(\d+)\b", text)
    return sum(map(int, numbers)) if numbers else None


DRAIN = Rule(
    id="drain",
    severity="warning",
    title="Engines drain before they stop",
    reason="Without a pause before SIGTERM the picker still sends requests to a pod that stops; a "
    "grace period shorter than preStop plus shutdown cuts the streams it was meant to save.",
    remedy="Add a preStop sleep, and a terminationGracePeriodSeconds above preStop plus the "
    "engine's shutdown timeout plus 5 s.",
    find=_drain,
    link="https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/",
    across=True,
)
