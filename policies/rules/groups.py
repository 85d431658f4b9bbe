"""Groups of pods that live and die together, and find each other while they start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Path, Violation, rule
from policies.pods import Pod
from policies.rules.shared import of_item, of_pod, pods_of_group
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
                f"a group whose ranks compute together restarts pod by pod ({'.'.join(field)} "
                f"{policy})",
                f"set {'.'.join(field)} to RecreateGroupOnPodRestart"
                if "leaderWorkerTemplate" in path
                else f"set {'.'.join(field)} to RecreateRoleInstanceOnPodRestart",
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


_LEADER = re.compile(r"\$[({]?\w*LEADER_ADDRESS\b[)}]?|\.svc\b")


@rule(
    "host-dns",
    "error",
    "Pods on the host's network ask the cluster's names",
    "With hostNetwork the default policy ClusterFirst becomes the node's own: names of Services "
    "and of other pods of the group are unknown, and ranks wait for each other until they time "
    "out.",
    "Set dnsPolicy: ClusterFirstWithHostNet beside hostNetwork.",
    "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy",
    whole_set=True,
)
def host_dns(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod in inventory.pods:
        policy = pod.spec.get("dnsPolicy")
        if pod.spec.get("hostNetwork") is not True or policy not in (None, "ClusterFirst"):
            continue
        names = [item.name for item in inventory.graph.of_namespace("Service", pod.namespace)]
        for program in inventory.of_pod(pod):
            asked = _asked(program, names)
            if asked and (program.mode != "none" or program.accelerators):
                yield of_pod(
                    pod,
                    ("dnsPolicy",),
                    f"is on the host's network and looks for {asked}, which the node's name "
                    "servers do not know",
                    "set dnsPolicy: ClusterFirstWithHostNet",
                )
                break


def _asked(program: Program, services: Sequence[str]) -> str | None:
    """A name of the cluster that a program is given."""
    given = [*program.line.words, *(value or "" for value in program.container.env.values())]
    for text in given:
        found = _LEADER.search(text)
        if found:
            return found[0] if "LEADER" in found[0] else text
        host = re.match(r"(?:[a-z]+://)?([a-z0-9-]+)(?::\d+)?(?:/|$)", text.rpartition("=")[2])
        if host and host[1] in services and ":" in text:
            return host[1]
    return None


ALL = (group_restart, group_rollout, leader_name, host_dns)
