"""Webhooks that are away do not keep the cluster from mending itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.graph import Graph, Item, matches
from policies.inventory import Inventory
from policies.model import Context, Path, Violation, rule
from policies.rules.shared import of_item
from policies.tree import at, mapping, sequence, string_map, strings

_DOCS = (
    "https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/"
)
_NAME = "kubernetes.io/metadata.name"
_SYSTEM = "kube-system"


@rule(
    "webhook-outage",
    "error",
    "No webhook is asked about the pods that would bring it back",
    "A webhook that fails closed and guards its own namespace, or kube-system, cannot come back "
    "after an outage: its own pods, or those of the network and the names, are refused because it "
    "does not answer. Queues such as Kueue are such webhooks, and every engine waits with them.",
    "Leave the webhook's own namespace and kube-system out by namespaceSelector, with NotIn on "
    "kubernetes.io/metadata.name.",
    _DOCS,
    whole_set=True,
)
def webhook_outage(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    for item in graph.of_kind("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for position, webhook in enumerate(map(mapping, sequence(item.manifest.get("webhooks")))):
            if not _closed(webhook) or not _asks_about_pods(webhook):
                continue
            home = str(at(webhook, "clientConfig", "service", "namespace") or "")
            for namespace in dict.fromkeys(name for name in (home, _SYSTEM) if name):
                if _certainly_in(graph, webhook, namespace):
                    yield _said(item, ("webhooks", position), webhook, namespace, own=home)
                    break


def _said(
    item: Item, path: Path, webhook: Mapping[str, Any], namespace: str, *, own: str
) -> Violation:
    name = webhook.get("name")
    whose = f"namespace {own}, where it runs itself" if namespace == own else _SYSTEM
    left_out = ", ".join(dict.fromkeys((_SYSTEM, own or _SYSTEM)))
    return of_item(
        item,
        (*path, "namespaceSelector"),
        f"refuses pods of {whose}, whenever webhook {name} does not answer (failurePolicy Fail)",
        f"add a namespaceSelector: {_NAME} NotIn [{left_out}]",
        "error" if namespace == own else "warning",
    )


def _closed(webhook: Mapping[str, Any]) -> bool:
    """Whether nothing is admitted while it does not answer; an address outside is nobody's pod."""
    inside = bool(at(webhook, "clientConfig", "service"))
    return inside and (webhook.get("failurePolicy") or "Fail") == "Fail"


def _asks_about_pods(webhook: Mapping[str, Any]) -> bool:
    """Whether it is asked about every pod that is made."""
    if webhook.get("objectSelector") or webhook.get("matchConditions"):
        return False
    for entry in map(mapping, sequence(webhook.get("rules"))):
        groups, resources = strings(entry.get("apiGroups")), strings(entry.get("resources"))
        operations = strings(entry.get("operations"))
        if not {"", "*"} & set(groups) or not {"pods", "*", "*/*"} & set(resources):
            continue
        if {"CREATE", "*"} & set(operations) and entry.get("scope") != "Cluster":
            return True
    return False


def _certainly_in(graph: Graph, webhook: Mapping[str, Any], namespace: str) -> bool:
    """Whether a namespace is selected, whatever other labels it has."""
    selector = mapping(webhook.get("namespaceSelector"))
    found = graph.find("Namespace", "", namespace)
    if found is not None:
        own = string_map(at(found.manifest, "metadata", "labels"))
        return matches(selector, {_NAME: namespace, **own})
    keys = set(mapping(selector.get("matchLabels"))) | {
        str(mapping(entry).get("key")) for entry in sequence(selector.get("matchExpressions"))
    }
    return keys <= {_NAME} and matches(selector, {_NAME: namespace})


ALL = (webhook_outage,)
