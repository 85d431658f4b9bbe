"""What a set of NetworkPolicies lets through, as a question with an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from policies.graph import Graph, Item, matches
from policies.pods import Pod
from policies.tree import at, integer, mapping, sequence, string_map, strings

Direction = Literal["Ingress", "Egress"]


@dataclass(frozen=True)
class Entry:
    """One rule of one policy."""

    policy: Item
    peers: Sequence[Any] | None
    """None: everybody."""
    ports: Sequence[Any] | None
    """None: every port."""


def selecting(graph: Graph, pod: Pod, direction: Direction) -> list[Item]:
    """Policies that isolate a pod in one direction."""
    found: list[Item] = []
    for item in graph.of_namespace("NetworkPolicy", pod.namespace):
        if direction not in _directions(item):
            continue
        selector = mapping(item.spec.get("podSelector"))
        bare = not selector.get("matchLabels") and not selector.get("matchExpressions")
        if bare or (pod.labels_known and matches(selector, pod.labels)):
            found.append(item)
    return found


def _directions(item: Item) -> tuple[str, ...]:
    given = strings(item.spec.get("policyTypes"))
    return given or (("Ingress", "Egress") if "egress" in item.spec else ("Ingress",))


def entries(policies: Sequence[Item], direction: Direction) -> Iterator[Entry]:
    """The rules of some policies."""
    key, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    for item in policies:
        for entry in sequence(item.spec.get(key)):
            found = mapping(entry)
            yield Entry(
                item, sequence(found.get(peers)) or None, sequence(found.get("ports")) or None
            )


def lets_port(entry: Entry, port: int, pod: Pod | None, protocol: str = "TCP") -> bool:
    """Whether a rule's ports include one; `pod` is the receiver, for names of ports."""
    if entry.ports is None:
        return True
    return any(_is_port(mapping(found), port, pod, protocol) for found in entry.ports)


def _is_port(found: Mapping[str, Any], port: int, pod: Pod | None, protocol: str) -> bool:
    if (found.get("protocol") or "TCP") != protocol:
        return False
    value, end = found.get("port"), found.get("endPort")
    if value is None:
        return True
    if isinstance(value, int):
        return value <= port <= (end if isinstance(end, int) else value)
    return pod is None or port in called(pod, str(value))


def called(pod: Pod, name: str) -> Iterator[int]:
    """Numbers of a pod's ports of one name."""
    for container in pod.containers:
        for found in sequence(container.spec.get("ports")):
            if mapping(found).get("name") == name:
                number = integer(mapping(found).get("containerPort"), 0)
                if number is not None:
                    yield number


def numbers_at(entry: Mapping[str, Any], pod: Pod) -> list[int]:
    """The ports of a pod to which a Service's port leads."""
    target = entry.get("targetPort", entry.get("port"))
    if isinstance(target, str) and not target.isdecimal():
        return list(dict.fromkeys(called(pod, target)))
    number = integer(target, 0)
    return [number] if number else []


def lets_peer(graph: Graph, entry: Entry, peer: Pod) -> bool:
    """Whether a rule names a pod; address blocks name none."""
    if entry.peers is None:
        return True
    return any(
        _is_peer(graph, mapping(found), entry.policy.namespace, peer) for found in entry.peers
    )


def _is_peer(graph: Graph, found: Mapping[str, Any], home: str, peer: Pod) -> bool:
    if "ipBlock" in found:
        return False
    spaces = found.get("namespaceSelector")
    if spaces is None:
        if peer.namespace != home:
            return False
    elif not matches(mapping(spaces), _labels(graph, peer.namespace)):
        return False
    pods = found.get("podSelector")
    return pods is None or _may_match(mapping(pods), peer)


_ADDED = re.compile(
    r"(?:.*\.)?(?:workloads\.x-k8s\.io|disaggregatedset\.x-k8s\.io|leaderworkerset\.sigs\.k8s\.io|"
    r"apps\.kubernetes\.io|statefulset\.kubernetes\.io|ray\.io|nvidia\.com|serving\.kserve\.io)/.+"
)
"""Labels that controllers add to pods, with values that nobody wrote down."""


def _may_match(selector: Mapping[str, Any], peer: Pod) -> bool:
    """Whether a pod has, or may get, the labels that are asked for."""
    if matches(selector, peer.labels):
        return True
    if not peer.labels_known:
        return True
    later = {
        key: value
        for key, value in string_map(selector.get("matchLabels")).items()
        if key not in peer.labels and _ADDED.fullmatch(key)
    }
    rest = mapping(selector.get("matchLabels")).items() - later.items()
    return bool(later) and matches({**selector, "matchLabels": dict(rest)}, peer.labels)


def may_come_from(graph: Graph, entry: Entry, namespace: str) -> bool:
    """Whether a rule may let pods of a namespace in, whatever their labels are.

    Labels of a namespace that is not among the objects are not known, but for its name.
    """
    if entry.peers is None:
        return True
    known = graph.find("Namespace", "", namespace) is not None
    for peer in map(mapping, entry.peers):
        spaces = peer.get("namespaceSelector")
        if "ipBlock" in peer or (spaces is None and entry.policy.namespace == namespace):
            return True
        if spaces is None:
            continue
        selector = mapping(spaces)
        named = set(mapping(selector.get("matchLabels"))) | {
            str(mapping(e).get("key")) for e in sequence(selector.get("matchExpressions"))
        }
        guessed = not known and not named <= {"kubernetes.io/metadata.name"}
        if guessed or matches(selector, _labels(graph, namespace)):
            return True
    return False


def _labels(graph: Graph, namespace: str) -> dict[str, str]:
    item = graph.find("Namespace", "", namespace)
    own = string_map(at(item.manifest, "metadata", "labels")) if item else {}
    return {"kubernetes.io/metadata.name": namespace, **own}


def reaches(graph: Graph, source: Pod, target: Pod, port: int | None) -> str | None:
    """Why one pod cannot connect to another; None where it can. `port` None: any port at all."""
    ways: tuple[tuple[Direction, Pod, Pod], ...] = (
        ("Egress", source, target),
        ("Ingress", target, source),
    )
    for direction, here, there in ways:
        policies = selecting(graph, here, direction)
        if not policies or _lets(graph, policies, direction, there, port=port, target=target):
            continue
        names = ", ".join(sorted({item.name for item in policies}))
        return f"{direction} of {names}"
    return None


def _lets(
    graph: Graph, policies: list[Item], direction: Direction, peer: Pod, *, port: int | None,
    target: Pod,
) -> bool:  # fmt: skip
    for entry in entries(policies, direction):
        if not lets_peer(graph, entry, peer):
            continue
        if (entry.ports is None) if port is None else lets_port(entry, port, target):
            return True
        if port is None and _nearly_all(entry):
            return True
    return False


def _nearly_all(entry: Entry) -> bool:
    """Ranges that hold every port that programs choose by themselves."""
    for found in entry.ports or ():
        value, end = mapping(found).get("port"), mapping(found).get("endPort")
        if value is None and (mapping(found).get("protocol") or "TCP") == "TCP":
            return True
        if isinstance(value, int) and isinstance(end, int) and value <= 1024 and end >= 65535:
            return True
    return False
