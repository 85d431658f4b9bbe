"""NetworkPolicies let through what serving needs: names, requests, the picker, the group, KV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.engines import Program
from policies.graph import Graph, Item
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import Pod
from policies.pools import labels_of, numbers_of, picker_of
from policies.rules.references import backends
from policies.rules.shared import of_item, of_pod, pods_of_group
from policies.rules.storage import fetched_weights
from policies.rules.transfer import asked_ports, way_of
from policies.traffic import (
    Entry,
    entries,
    lets_port,
    may_come_from,
    numbers_at,
    reaches,
    selecting,
)
from policies.tree import mapping, sequence, string_map

_DOCS = "https://kubernetes.io/docs/concepts/services-networking/network-policies/"


def _judged(inventory: Inventory) -> Iterator[Pod]:
    return (pod for pod in inventory.pods if pod.spec.get("hostNetwork") is not True)


@rule(
    "network-dns",
    "error",
    "Pods that may go out may ask for names",
    "A policy that allows some egress and forgets DNS stops every connection that is made by name.",
    "Allow UDP and TCP port 53 to the cluster's DNS.",
    _DOCS,
    whole_set=True,
)
def network_dns(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod in _judged(inventory):
        policies = selecting(inventory.graph, pod, "Egress")
        rules = list(entries(policies, "Egress"))
        if not rules or any(
            lets_port(entry, port, None, protocol)
            for entry in rules
            for port, protocol in ((53, "UDP"), (53, "TCP"), (5353, "UDP"), (1053, "UDP"))
        ):
            continue
        names = ", ".join(sorted({item.name for item in policies}))
        yield of_pod(
            pod,
            (),
            f"may open connections by {names}, and not ask for names: port 53 is not allowed",
            "allow UDP and TCP port 53 to the cluster's DNS",
        )


@rule(
    "network-serving",
    "error",
    "Somebody may reach the engine's port",
    "A policy that allows other ports than the one that the engine serves on makes every request "
    "wait until it times out.",
    "Allow the engine's port from gateway, picker and scraper.",
    _DOCS,
    whole_set=True,
)
def network_serving(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        pod, port = program.container.pod, program.port
        if program.mode != "server" or port is None or pod.spec.get("hostNetwork") is True:
            continue
        if program.container.kind != "container" or pod.role == "worker" or not pod.long_running:
            continue
        policies = selecting(inventory.graph, pod, "Ingress")
        if not policies or _fronted(pod, program):
            continue
        rules = list(entries(policies, "Ingress"))
        # Without any rule everything is denied on purpose, and what is allowed stands elsewhere.
        if rules and not any(lets_port(entry, port, pod) for entry in rules):
            names = ", ".join(sorted({item.name for item in policies}))
            yield of_pod(
                pod,
                (),
                f"serves on port {port}, which {names} lets nobody reach",
                f"allow port {port} from the gateway, the picker and the scraper",
            )
    yield from _behind_gateways(inventory)


def _behind_gateways(inventory: Inventory) -> Iterator[Violation]:
    """Pods that a route leads to, and that nobody of the Gateway's namespace may reach."""
    graph = inventory.graph
    told: set[tuple[int, object, int]] = set()
    for route in graph.of_kind("HTTPRoute"):
        parents = [mapping(ref) for ref in sequence(route.spec.get("parentRefs"))]
        homes = sorted(
            str(ref.get("namespace") or route.namespace)
            for ref in parents
            if (ref.get("kind") or "Gateway") == "Gateway"
        )
        for _, backend in backends(route):
            for pod, port in _targets(inventory, route, backend) if homes else ():
                rules = list(entries(selecting(graph, pod, "Ingress"), "Ingress"))
                open_to = [e for e in rules if lets_port(e, port, pod)]
                reached = any(may_come_from(graph, e, home) for e in open_to for home in homes)
                # Without any rule for the port `network-serving` itself speaks, or all is denied.
                if not open_to or reached or (pod.index, pod.path, port) in told:
                    continue
                told.add((pod.index, pod.path, port))
                yield of_pod(
                    pod,
                    (),
                    f"is asked on port {port} by the Gateway in namespace {homes[0]}, from where "
                    "no NetworkPolicy lets anybody in",
                    f"allow port {port} from the Gateway's pods in namespace {homes[0]}",
                )


def _targets(
    inventory: Inventory, route: Item, backend: Mapping[str, Any]
) -> Iterator[tuple[Pod, int]]:
    """Pods behind a backend with the ports that the Gateway asks: engines, and their picker."""
    graph = inventory.graph
    namespace = str(backend.get("namespace") or route.namespace)
    kind, name = str(backend.get("kind") or "Service"), str(backend.get("name"))
    item = graph.find(kind, namespace, name)
    if item is not None and kind == "Service":
        yield from _behind_service(inventory, item, backend.get("port"))
    if item is None or kind != "InferencePool":
        return
    for pod in graph.selected(namespace, labels_of(item.spec)):
        yield from ((pod, port) for port in numbers_of(item.spec) if pod.role != "worker")
    _, ref = picker_of(item.spec)
    service = graph.find("Service", namespace, str(ref.get("name")))
    port = mapping(ref.get("port")).get("number", 9002)
    if service is not None and isinstance(port, int):
        for pod in graph.selected(namespace, string_map(service.spec.get("selector"))):
            yield pod, port


def _behind_service(inventory: Inventory, service: Item, port: object) -> Iterator[tuple[Pod, int]]:
    """Pods with an engine behind one port of a Service, and the port that they are asked on."""
    labels = string_map(service.spec.get("selector"))
    for entry in map(mapping, sequence(service.spec.get("ports"))):
        if entry.get("port") != port:
            continue
        for pod in inventory.graph.selected(service.namespace, labels):
            if any(program.mode == "server" for program in inventory.of_pod(pod)):
                yield from ((pod, number) for number in numbers_at(entry, pod))


def _fronted(pod: Pod, program: Program) -> bool:
    """Another container of the pod takes the requests for the engine."""
    own = {str(mapping(port).get("containerPort")) for port in _ports(program)}
    others = [c for c in pod.containers if c is not program.container]
    ports = {
        str(mapping(port).get("containerPort"))
        for container in others
        if container.kind in ("container", "sidecar")
        for port in sequence(container.spec.get("ports"))
    }
    return bool(ports - own)


def _ports(program: Program) -> Iterator[object]:
    yield from sequence(program.container.spec.get("ports"))


@rule(
    "network-picker",
    "error",
    "The picker may read the engines' metrics",
    "A picker that cannot scrape the pods of its pool chooses blindly, or none at all.",
    "Allow the engine's port from the picker, in its egress and in the engine's ingress.",
    _DOCS,
    whole_set=True,
)
def network_picker(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    for pool in graph.of_kind("InferencePool"):
        _, ref = picker_of(pool.spec)
        service = graph.find("Service", pool.namespace, str(ref.get("name")))
        if service is None:
            continue
        pickers = graph.selected(pool.namespace, string_map(service.spec.get("selector")))
        chosen = graph.selected(pool.namespace, labels_of(pool.spec))
        engines = [pod for pod in chosen if pod.role != "worker"]
        for port in numbers_of(pool.spec):
            for picker in pickers:
                why = next((w for pod in engines if (w := reaches(graph, picker, pod, port))), None)
                if why:
                    yield of_item(
                        pool, ("spec",),
                        f"has a picker that cannot read its pods' metrics on port {port}: "
                        f"{why} does not allow it", f"allow port {port} between the two",
                    )  # fmt: skip


@rule(
    "network-group",
    "error",
    "Pods of a group reach each other on every port",
    "NCCL, Gloo and Ray choose their ports themselves: a group whose policy names ports, or "
    "forgets the group, hangs when its ranks meet.",
    "Allow all ports between the pods of the group, in both directions.",
    _DOCS,
    whole_set=True,
)
def network_group(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    groups: dict[tuple[int, object], list[Pod]] = {}
    for pod in _judged(inventory):
        size = pods_of_group(pod)
        if size is not None and size > 1 and _computes(inventory, pod):
            groups.setdefault((pod.index, pod.path[:-2]), []).append(pod)
    for pods in groups.values():
        pairs = [(a, b) for a in pods for b in pods if a is not b or len(pods) == 1]
        for source, target in pairs:
            why = reaches(graph, source, target, None)
            if why:
                yield of_pod(
                    target,
                    (),
                    f"cannot be reached by the {source.role}s of its group on every port: {why} "
                    "does not allow it",
                    "allow all ports between the pods of the group: a rule with their labels and "
                    "without ports",
                )
                break


def _computes(inventory: Inventory, pod: Pod) -> bool:
    return any(p.accelerators for p in inventory.of_pod(pod))


@rule(
    "network-transfer",
    "error",
    "Prefill and decode reach each other",
    "Decode fetches KV from prefill over ports of its own: NIXL's side channel, one for each data "
    "rank; the bootstrap server of SGLang and Mooncake, and then ports that both choose by "
    "themselves. Without them every request is computed twice, or fails.",
    "Allow the side channel's or the bootstrap's port between prefill and decode, and all ports "
    "for the transfer.",
    _DOCS,
    whole_set=True,
)
def network_transfer(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    alike: dict[tuple[str, str], list[Program]] = {}
    for program in inventory.programs:
        way = way_of(program) if program.mode != "none" else None
        if way is not None:
            alike.setdefault((program.container.pod.namespace, way[0]), []).append(program)
    for programs in alike.values():
        for asked in programs:
            yield from _unasked(graph, asked, programs)


def _unasked(graph: Graph, asked: Program, alike: Sequence[Program]) -> Iterator[Violation]:
    """The first of those that hand over KV alike which cannot ask an engine for it."""
    there = asked.container.pod
    for asker in alike:
        here = asker.container.pod
        if asker is asked or here is there or not _one_release(asker, asked, alike):
            continue
        for port in asked_ports(asker, asked):
            why = reaches(graph, here, there, port)
            if why:
                shown = "every port" if port is None else f"port {port}"
                yield of_pod(
                    there,
                    (),
                    f"cannot be asked for KV by {here.kind} {here.name} on {shown}: {why} does "
                    "not allow it",
                    f"allow {shown} and the ports of the transfer between the two",
                )
                return


def _one_release(a: Program, b: Program, every: Sequence[Program]) -> bool:
    """Whether two of the programs that hand over KV serve the same thing.

    Another model is another release; so is another instance that has prefill and decode itself.
    """
    if not _names(a) & _names(b):
        return False
    here, there = _instance(a), _instance(b)
    if not here or not there or here == there:
        return True
    return sum(_instance(program) == there for program in every) < 2


def _names(program: Program) -> set[str]:
    """What a program calls its model."""
    served = program.line.value("served-model-name")
    given = served if isinstance(served, list) else [served]
    names = {name for name in given if isinstance(name, str)}
    return names or {str(program.line.model)}


def _instance(program: Program) -> str:
    return str(program.container.pod.labels.get("app.kubernetes.io/instance") or "")


_STORE = re.compile(r"(?<![a-z0-9])(s3|gs|az|abfs)://[A-Za-z0-9$]")
_INSIDE = re.compile(r"\.svc\b|https?://[a-z0-9-]+(?=[:/]|$)|localhost|127\.0\.0\.1")


def _fetched(program: Program) -> str | None:
    """What a program fetches over the internet when it starts; None where nothing says so."""
    if program.played:
        return None  # our simulator makes its weights up
    text = program.command.text
    values = " ".join(value or "" for value in program.container.env.values())
    if _INSIDE.search(f"{text} {values}"):
        return None  # the store may be in the cluster
    found = _STORE.search(text) or _STORE.search(values)
    if found:
        return f"{found[1]}:// objects"
    return fetched_weights(program)


@rule(
    "network-store",
    "error",
    "Pods that fetch weights may reach them",
    "An object store and the hub are outside the cluster: where policies let a pod out to named "
    "pods only, its download waits until it times out, and starts again.",
    "Allow TCP port 443 to the store's addresses (ipBlock), or to every address.",
    _DOCS,
    whole_set=True,
)
def network_store(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    seen: set[int] = set()
    for program in inventory.programs:
        pod = program.container.pod
        if pod.spec.get("hostNetwork") is True or id(pod) in seen:
            continue
        policies = selecting(inventory.graph, pod, "Egress")
        rules = list(entries(policies, "Egress"))
        # Without any rule everything is denied on purpose, and what is allowed stands elsewhere.
        if not rules or any(_leads_out(entry) for entry in rules):
            continue
        what = _fetched(program)
        if what is not None:
            seen.add(id(pod))
            names = ", ".join(sorted({item.name for item in policies}))
            yield of_pod(
                pod,
                (),
                f"fetches {what}, and {names} lets it reach nothing outside the cluster on port "
                "443",
                "allow TCP port 443 to the store's addresses, or to every address",
            )


def _leads_out(entry: Entry) -> bool:
    """Whether a rule lets HTTPS out of the cluster."""
    outside = entry.peers is None or any("ipBlock" in mapping(peer) for peer in entry.peers)
    return outside and lets_port(entry, 443, None)


@rule(
    "network-open",
    "warning",
    "Engines do not accept everybody",
    "A rule without `from` lets every pod of the cluster in, on ports that run code for whoever "
    "reaches them too.",
    "Name the gateway, the picker and the scraper in `from`.",
    _DOCS,
    whole_set=True,
)
def network_open(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    seen: set[tuple[int, int]] = set()
    for program in inventory.programs:
        pod = program.container.pod
        if program.engine is None or program.mode == "none" or not program.needs_gpu:
            continue
        for item in selecting(inventory.graph, pod, "Ingress"):
            for position, entry in enumerate(sequence(item.spec.get("ingress"))):
                found = mapping(entry)
                if found.get("from") or found.get("ports") or (item.index, position) in seen:
                    continue
                seen.add((item.index, position))
                yield of_item(
                    item, ("spec", "ingress", position),
                    f"lets everybody reach every port of {pod.kind} {pod.name}",
                    "name those who may in `from`, and the port in `ports`",
                )  # fmt: skip


ALL = (
    network_dns, network_serving, network_picker, network_group, network_transfer, network_store,
    network_open,
)  # fmt: skip
