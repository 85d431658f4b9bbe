"""Every pod is selected by NetworkPolicies for both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.graph import matches
from policies.inventory import Inventory
from policies.model import Context, Manifest, Rule, Violation
from policies.pods import Pod
from policies.tree import at, mapping, strings

_LINK = "https://kubernetes.io/docs/concepts/services-networking/network-policies/"
_TEMPLATES = frozenset(
    {"ServingRuntime", "ClusterServingRuntime", "LLMInferenceServiceConfig", "PodTemplate"}
)
"""Kinds that make no pods by themselves."""
_DIRECTIONS = ("Ingress", "Egress")


@dataclass(frozen=True)
class _NetworkPolicy:
    namespace: str
    selector: Mapping[str, Any]
    directions: frozenset[str]


def _find(inventory: Inventory, context: Context) -> Iterator[Violation]:
    policies: dict[str, list[_NetworkPolicy]] = {}
    for item in inventory.objects:
        if item.get("kind") == "NetworkPolicy":
            found = _policy(item)
            policies.setdefault(found.namespace, []).append(found)
    for pod in inventory.pods:
        if pod.spec.get("hostNetwork") is True:
            yield Violation(
                pod.index,
                (*pod.path, "hostNetwork"),
                f"{pod.title} is on the host's network, where no NetworkPolicy protects it",
                "remove hostNetwork, or guard its ports with the node's firewall",
                "warning",
            )
        elif pod.kind in _TEMPLATES or pod.patch or (pod.made is not None and pod.made.bare):
            continue  # what is made of them is judged
        elif pod.namespace not in context.platform_namespaces:
            yield from _uncovered(pod, policies.get(pod.namespace, []))


def _uncovered(pod: Pod, policies: list[_NetworkPolicy]) -> Iterator[Violation]:
    covered = {
        direction
        for policy in policies
        if _selects(policy.selector, pod)
        for direction in policy.directions
    }
    missing = [direction for direction in _DIRECTIONS if direction not in covered]
    if not missing:
        return
    unsure = "" if pod.labels_known else ", and its controller chooses its labels"
    yield Violation(
        pod.index,
        pod.path,
        f"{pod.title} is selected by no NetworkPolicy for {' and '.join(missing)} in namespace "
        f"{pod.namespace}{unsure}",
        "add a NetworkPolicy that denies by default: podSelector: {}, policyTypes: [Ingress, "
        "Egress], and allow what the pods need",
    )


def _policy(item: Manifest) -> _NetworkPolicy:
    spec = mapping(item.get("spec"))
    directions = strings(spec.get("policyTypes"))
    if not directions:
        # What the API server fills in when policyTypes is absent.
        directions = _DIRECTIONS if "egress" in spec else _DIRECTIONS[:1]
    return _NetworkPolicy(
        str(at(item, "metadata", "namespace") or "default"),
        mapping(spec.get("podSelector")),
        frozenset(directions),
    )


def _selects(selector: Mapping[str, Any], pod: Pod) -> bool:
    if not pod.labels_known and (selector.get("matchLabels") or selector.get("matchExpressions")):
        return False
    return matches(selector, pod.labels)


RULE = Rule(
    id="network-policy",
    severity="error",
    title="Pods are covered by NetworkPolicies",
    reason="A pod that no NetworkPolicy selects accepts from and talks to everything. Engines open "
    "ports for their group that run code for whoever reaches them.",
    remedy="Give every namespace a NetworkPolicy with an empty podSelector and policyTypes Ingress "
    "and Egress, then allow DNS, the gateway, the picker and the scraper.",
    find=_find,
    whole_set=True,
    link=_LINK,
)
