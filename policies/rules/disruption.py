"""Nodes that can be drained, and are not emptied in the middle of a load."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.engines import is_accelerator
from policies.graph import Item, matches
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import Pod
from policies.rules.shared import of_item, replicas_of
from policies.tree import at, integer, mapping, sequence, string_map, strings


@rule(
    "disruption-budget",
    "error",
    "Disruption budgets let nodes be drained",
    "A budget that allows no pod to go blocks every drain: upgrades of nodes wait for ever, until "
    "somebody deletes the pod by hand.",
    "Set maxUnavailable 1; a single replica needs a second one, or a planned stop.",
    "https://kubernetes.io/docs/tasks/run-application/configure-pdb/",
    whole_set=True,
)
def disruption_budget(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("PodDisruptionBudget"):
        selector = mapping(item.spec.get("selector"))
        pods = [
            pod
            for pod in inventory.graph.pods_in(item.namespace)
            if selector and matches(selector, pod.labels)
        ]
        replicas = sum(replicas_of(pod) for pod in pods if pod.role != "worker") or None
        problem = _blocks(item.spec, replicas)
        if problem:
            key = "maxUnavailable" if "maxUnavailable" in item.spec else "minAvailable"
            yield of_item(
                item, ("spec", key), f"lets no pod go ({problem}): it blocks every drain",
                "set maxUnavailable: 1 and run a replica more than must answer",
            )  # fmt: skip


def _blocks(spec: Mapping[str, Any], replicas: int | None) -> str | None:
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most in (0, "0", "0%"):
        return f"maxUnavailable {most}"
    if least == "100%":
        return "minAvailable 100%"
    if isinstance(least, str) and least.endswith("%"):
        percent = integer(least[:-1], 0)
        needed = math.ceil(percent * replicas / 100) if percent and replicas else 0
        return f"minAvailable {least} of {replicas}" if replicas and needed >= replicas else None
    number = integer(least, 0)
    if least is not None and number and replicas is not None and number >= replicas:
        return f"minAvailable {number} of {replicas}"
    return None


_KEEP = "karpenter.sh/do-not-disrupt"


@rule(
    "consolidation",
    "warning",
    "Nodes are not emptied while models load on them",
    "Consolidation moves pods to fewer nodes whenever it saves something: a model that took "
    "minutes to load begins anew, and its streams are cut.",
    "Set consolidationPolicy WhenEmpty in pools of GPUs, or keep serving pods with the annotation "
    "karpenter.sh/do-not-disrupt.",
    "https://karpenter.sh/docs/concepts/disruption/",
    whole_set=True,
)
def consolidation(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pool in inventory.graph.of_kind("NodePool"):
        disruption = mapping(pool.spec.get("disruption"))
        policy = str(disruption.get("consolidationPolicy") or "WhenEmptyOrUnderutilized")
        # v1beta1 calls the same policy WhenUnderutilized.
        if pool.group != "karpenter.sh" or policy == "WhenEmpty" or not _has_gpus(pool):
            continue
        if disruption.get("consolidateAfter") == "Never" or _closed(disruption):
            continue
        engines = [
            p.container.pod for p in inventory.programs if p.mode != "none" and p.accelerators
        ]
        if engines and all(_kept(pod) for pod in engines):
            continue
        yield of_item(
            pool, ("spec", "disruption", "consolidationPolicy"),
            f"empties nodes with GPUs whenever it saves something ({policy})",
            "set consolidationPolicy: WhenEmpty",
        )  # fmt: skip


def _closed(disruption: Mapping[str, Any]) -> bool:
    """A budget that never lets a node of the pool go."""
    return any(
        mapping(budget).get("nodes") in ("0", "0%", 0) and "schedule" not in mapping(budget)
        for budget in sequence(disruption.get("budgets"))
    )


def _has_gpus(pool: Item) -> bool:
    template = mapping(at(pool.spec, "template", "spec"))
    if any(is_accelerator(str(name)) for name in mapping(pool.spec.get("limits"))):
        return True
    if any(
        "nvidia.com/gpu" in str(mapping(t).get("key")) for t in sequence(template.get("taints"))
    ):
        return True
    for entry in sequence(template.get("requirements")):
        found = mapping(entry)
        key = str(found.get("key"))
        if "instance-gpu" in key and found.get("operator") != "DoesNotExist":
            return True
        if found.get("operator") in ("NotIn", "DoesNotExist"):
            continue
        given = strings(found.get("values"))
        if key in _FAMILIES and any(_FAMILY.match(value) for value in given):
            return True
        if key.endswith("/instance-category") and given and set(given) <= _CATEGORIES:
            return True
    return False


_FAMILIES = ("karpenter.k8s.aws/instance-family", "node.kubernetes.io/instance-type")
_FAMILY = re.compile(r"(p|g)[3-9]|trn\d|inf\d")
_CATEGORIES = frozenset({"p", "g", "gr", "trn", "inf"})
"""Of instances that all hold accelerators."""


def _kept(pod: Pod) -> bool:
    value: object = pod.object
    for part in pod.path[:-1]:
        value = sequence(value)[part] if isinstance(part, int) else mapping(value).get(part)
    return string_map(at(value, "metadata", "annotations")).get(_KEEP) == "true"


ALL = (disruption_budget, consolidation)
