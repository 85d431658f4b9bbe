"""Groups of pods that live and die together, and find each other while they start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.inventory import Inventory
from policies.model import Context, Path, Violation, rule
from policies.pods import Pod
from policies.rules.shared import of_item, pods_of_group
from policies.tree import mapping, sequence, string_map

_LWS = "https://lws.sigs.k8s.io/docs/concepts/"
_PATTERNS = frozenset({"leaderWorkerTemplate", "leaderWorkerPattern", "customComponentsPattern"})
_GROUPED = re.compile(r"\bray\s+start\b|multi-node-serving\.sh|run_cluster\.sh")


def _groups(inventory: Inventory) -> Iterator[tuple[Pod, Path, object]]:
    """Each group of more than one pod that computes: one of its pods, its path, its template."""
    seen: set[tuple[int, Path]] = set()
    for program in inventory.programs:
        pod = program.container.pod
        at = next((n for n, part in enumerate(pod.path) if part in _PATTERNS), None)
        size = pods_of_group(pod)
        if at is None or size is None or size < 2 or not program.accelerators:
            continue
        path = pod.path[: at + 1]
        if (pod.index, path) in seen:
            continue
        seen.add((pod.index, path))
        yield pod, path, _under(pod.object, path)


def _under(value: object, path: Path) -> object:
    for part in path:
        value = sequence(value)[part] if isinstance(part, int) else mapping(value).get(part)
    return value


@rule(
    "group-restart",
    "error",
    "A group restarts as a whole",
    "Ranks that lost one of them hang in the next collective call: the group looks healthy and "
    "answers nothing.",
    "Leave restartPolicy at RecreateGroupOnPodRestart.",
    _LWS,
)
def group_restart(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod, path, template in _groups(inventory):
        # RoleBasedGroups write it one level down, in `restartPolicyConfig`; that one counts.
        config = mapping(mapping(template).get("restartPolicyConfig")).get("type")
        policy = config or mapping(template).get("restartPolicy")
        field = ("restartPolicyConfig", "type") if config else ("restartPolicy",)
        if policy in ("None", "Default"):
            yield Violation(
                pod.index,
                (*path, *field),
                f"a group whose ranks compute together restarts pod by pod (restartPolicy "
                f"{policy})",
                "set restartPolicy to RecreateGroupOnPodRestart"
                if "leaderWorkerTemplate" in path
                else "set restartPolicy to RecreateRoleInstanceOnPodRestart",
            )


@rule(
    "group-rollout",
    "warning",
    "Rollouts of groups count in groups",
    "A percentage of two or three groups rounds to none or to all of them, and each group holds "
    "whole nodes.",
    "Write absolute numbers: maxUnavailable 1, maxSurge 0.",
    _LWS,
)
def group_rollout(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod, path, _ in _groups(inventory):
        holder = mapping(_under(pod.object, path[:-1]))
        strategy = mapping(holder.get("rolloutStrategy"))
        for key in ("rollingUpdateConfiguration", "rollingUpdate"):
            for name in ("maxUnavailable", "maxSurge"):
                value = mapping(strategy.get(key)).get(name)
                if isinstance(value, str) and value.endswith("%") and value not in ("0%", "100%"):
                    yield Violation(
                        pod.index,
                        (*path[:-1], "rolloutStrategy", key, name),
                        f"a rollout counts groups in percent ({name} {value})",
                        f"write {name} as a number of groups",
                    )


@rule(
    "leader-name",
    "error",
    "Names of ranks resolve before they are ready",
    "Ranks look for the first one before any of them is ready; a Service that hides pods until "
    "then makes them wait for each other for ever.",
    "Set publishNotReadyAddresses: true on the headless Service of the ranks.",
    "https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1/",
    whole_set=True,
)
def leader_name(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("Service"):
        if (
            item.spec.get("clusterIP") != "None"
            or item.spec.get("publishNotReadyAddresses") is True
        ):
            continue
        selector = string_map(item.spec.get("selector"))
        for pod in inventory.graph.selected(item.namespace, selector):
            if pod.kind == "StatefulSet" and _meets(inventory, pod):
                named = mapping(pod.object.get("spec")).get("serviceName")
                if named in (None, item.name):
                    yield of_item(
                        item,
                        ("spec", "publishNotReadyAddresses"),
                        f"hides the ranks of {pod.kind} {pod.name} from each other until they are "
                        "ready",
                        "set publishNotReadyAddresses: true",
                    )


def _meets(inventory: Inventory, pod: Pod) -> bool:
    """Its ranks wait for each other when they start."""
    for program in inventory.of_pod(pod):
        if program.accelerators and _GROUPED.search(" ".join(program.line.words)):
            return True
        if program.world is not None and program.world.nodes != 1:
            return True
    return False


ALL = (group_restart, group_rollout, leader_name)
