"""What is asked for metrics lets the one who asks in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.engines import repository_of
from policies.graph import Graph, Item, matches
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import Pod, descend
from policies.rules.shared import of_pod
from policies.traffic import Entry, called, entries, lets_port, numbers_at, selecting
from policies.tree import at, integer, mapping, sequence, string_map, strings

_DOCS = "https://prometheus-operator.dev/docs/platform/troubleshooting/"
_SCRAPERS = re.compile(
    r"(?:^|/)(?:prometheus|vmagent|vmsingle|grafana-agent|agent|alloy|opentelemetry-collector[\w-]*"
    r"|otelcol[\w-]*|datadog-agent|telegraf)$"
)
_SCRAPING = ("Prometheus", "PrometheusAgent", "VMAgent", "OpenTelemetryCollector", "PodMonitoring")
_NAME = "kubernetes.io/metadata.name"


@rule(
    "network-scraper",
    "warning",
    "What is scraped lets the scraper in",
    "Policies that name the gateway and forget the scraper leave the engine without metrics: "
    "dashboards are empty, alerts stay silent, and an autoscaler that asks for them never scales.",
    "Allow the port of the metrics from the scraper's namespace.",
    _DOCS,
    whole_set=True,
)
def network_scraper(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    homes = _homes(inventory)
    told: set[tuple[int, object, int]] = set()
    for pod, port, who in _scraped(graph):
        policies = selecting(graph, pod, "Ingress")
        rules = list(entries(policies, "Ingress"))
        # Without any rule everything is denied on purpose, and what is allowed stands elsewhere.
        if not rules or pod.spec.get("hostNetwork") is True:
            continue
        open_to = [entry for entry in rules if lets_port(entry, port, pod)]
        if any(_may_be(inventory, entry, homes) for entry in open_to):
            continue
        if not open_to and port in _served(inventory, pod):
            continue  # network-serving says so
        if (pod.index, pod.path, port) in told:
            continue
        told.add((pod.index, pod.path, port))
        names = ", ".join(sorted({item.name for item in policies}))
        yield of_pod(
            pod,
            (),
            f"is scraped on port {port} ({who}), and {names} lets no scraper in",
            f"allow port {port} from the namespace of the scraper",
        )


def _served(inventory: Inventory, pod: Pod) -> set[int | None]:
    return {program.port for program in inventory.of_pod(pod) if program.mode == "server"}


# --- who is scraped ----------------------------------------------------------


def _scraped(graph: Graph) -> Iterator[tuple[Pod, int, str]]:
    """Pods that are asked for metrics, the port, and what says so."""
    for monitor in graph.of_kind("PodMonitor"):
        yield from _monitored(graph, monitor)
    for monitor in graph.of_kind("ServiceMonitor"):
        for service in graph.of_kind("Service"):
            own = string_map(at(service.manifest, "metadata", "labels"))
            if _within(monitor, service.namespace) and _picks(monitor, own):
                yield from _through(graph, monitor, service)
    yield from _annotated(graph)


def _monitored(graph: Graph, monitor: Item) -> Iterator[tuple[Pod, int, str]]:
    """Pods that a monitor chooses, and their ports."""
    for pod in graph.pods:
        if pod.labels_known and _within(monitor, pod.namespace) and _picks(monitor, pod.labels):
            for endpoint in map(mapping, sequence(monitor.spec.get("podMetricsEndpoints"))):
                yield from ((pod, port, monitor.title) for port in _ports(endpoint, pod))


def _annotated(graph: Graph) -> Iterator[tuple[Pod, int, str]]:
    """Pods whose annotations, or those of their Service, ask for it."""
    for pod in graph.pods:
        notes = string_map(at(descend(pod.object, pod.path[:-1]), "metadata", "annotations"))
        for port in _noted(notes, pod):
            yield pod, port, "prometheus.io/scrape"
    for service in graph.of_kind("Service"):
        notes = string_map(at(service.manifest, "metadata", "annotations"))
        labels = string_map(service.spec.get("selector"))
        for pod in graph.selected(service.namespace, labels):
            for port in _noted(notes, pod):
                yield pod, port, f"prometheus.io/scrape of {service.title}"


def _noted(notes: Mapping[str, str], pod: Pod) -> Iterator[int]:
    """The port that annotations name; without one, the only port that the pod has."""
    if notes.get("prometheus.io/scrape", "").lower() != "true":
        return
    given = notes.get("prometheus.io/port")
    if given is not None:
        number = integer(given, 0)
        yield from (number,) if number else ()
        return
    numbers = {
        integer(mapping(port).get("containerPort"), 0)
        for container in pod.containers
        for port in sequence(container.spec.get("ports"))
    }
    if len(numbers) == 1 and (number := numbers.pop()):
        yield number


def _picks(monitor: Item, labels: Mapping[str, str]) -> bool:
    return matches(mapping(monitor.spec.get("selector")), labels)


def _within(monitor: Item, namespace: str) -> bool:
    """Whether a monitor looks into a namespace."""
    spaces = mapping(monitor.spec.get("namespaceSelector"))
    names = strings(spaces.get("matchNames"))
    if spaces.get("any") is True:
        return True
    return namespace in names if names else namespace == monitor.namespace


def _ports(endpoint: Mapping[str, Any], pod: Pod) -> list[int]:
    """The ports of an endpoint in one pod."""
    for key in ("port", "portNumber", "targetPort"):
        value = endpoint.get(key)
        if isinstance(value, str) and not value.isdecimal():
            return list(dict.fromkeys(called(pod, value)))
        number = integer(value, 0)
        if number:
            return [number]
    return []


def _through(graph: Graph, monitor: Item, service: Item) -> Iterator[tuple[Pod, int, str]]:
    """Pods behind a Service that a monitor chooses, and their ports."""
    pods = graph.selected(service.namespace, string_map(service.spec.get("selector")))
    for endpoint in map(mapping, sequence(monitor.spec.get("endpoints"))):
        for pod in pods:
            name = endpoint.get("port")
            numbers = _ports({"targetPort": endpoint.get("targetPort")}, pod) if not name else [
                number
                for entry in map(mapping, sequence(service.spec.get("ports")))
                if entry.get("name") == name
                for number in numbers_at(entry, pod)
            ]  # fmt: skip
            yield from ((pod, number, monitor.title) for number in numbers)


# --- who may be let in -------------------------------------------------------


def _scraping(pod: Pod) -> bool:
    return any(_SCRAPERS.search(repository_of(c.image).lower()) for c in pod.containers)


def _homes(inventory: Inventory) -> frozenset[str]:
    """Namespaces in which the set has a scraper; empty where it has none, and it is elsewhere."""
    graph = inventory.graph
    operated = {item.namespace for item in graph.of_kind(*_SCRAPING)}
    return frozenset(operated | {pod.namespace for pod in inventory.pods if _scraping(pod)})


def _may_be(inventory: Inventory, entry: Entry, homes: frozenset[str]) -> bool:
    """Whether one of those that a rule lets in may be the scraper."""
    if entry.peers is None:
        return True
    home = entry.policy.namespace
    return any(_is_scraper(inventory, mapping(peer), home, homes) for peer in entry.peers)


def _is_scraper(
    inventory: Inventory, peer: Mapping[str, Any], home: str, homes: frozenset[str]
) -> bool:
    """Whether it may be; said to be somebody else only where the set itself shows who it is."""
    spaces = peer.get("namespaceSelector")
    if "ipBlock" in peer:
        return True
    if spaces is not None:
        named = _named(mapping(spaces))
        if named is None:
            return True
        return bool(named & homes) if homes else not named <= _gateways(inventory)
    if homes and home not in homes:
        return False
    selector = mapping(peer.get("podSelector"))
    pods = inventory.graph.pods_in(home)
    known = [pod for pod in pods if pod.labels_known and matches(selector, pod.labels)]
    everybody = not any(selector.values())
    return everybody or not known or any(_scraping(pod) for pod in known)


def _named(selector: Mapping[str, Any]) -> frozenset[str] | None:
    """The namespaces that a selector names; None where it goes by anything but their names."""
    labels = string_map(selector.get("matchLabels"))
    if labels.keys() == {_NAME} and not selector.get("matchExpressions"):
        return frozenset(labels.values())
    found = [mapping(entry) for entry in sequence(selector.get("matchExpressions"))]
    if not labels and len(found) == 1 and found[0].get("key") == _NAME:
        return (
            frozenset(strings(found[0].get("values"))) if found[0].get("operator") == "In" else None
        )
    return None


def _gateways(inventory: Inventory) -> frozenset[str]:
    """Namespaces of the gateways that the set has, or that its routes name."""
    graph = inventory.graph
    named = {
        str(mapping(ref).get("namespace") or route.namespace)
        for route in graph.of_kind("HTTPRoute", "GRPCRoute")
        for ref in sequence(route.spec.get("parentRefs"))
        if (mapping(ref).get("kind") or "Gateway") == "Gateway"
    }
    return frozenset(named | {item.namespace for item in graph.of_kind("Gateway")})


ALL = (network_scraper,)
