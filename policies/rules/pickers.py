"""Pools, routes, rights and gateways speak of the same thing, in the same group."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pools import labels_of, picker_of
from policies.rules.references import backends
from policies.rules.shared import of_item
from policies.tree import mapping, sequence, string_map, strings

_DOCS = "https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/"
_STABLE, _EARLY = "inference.networking.k8s.io", "inference.networking.x-k8s.io"
_FIELDS = {
    _STABLE: {"targetPortNumber": "targetPorts", "extensionRef": "endpointPickerRef"},
    _EARLY: {"targetPorts": "targetPortNumber", "endpointPickerRef": "extensionRef"},
}


@rule(
    "pool-group",
    "error",
    "Pools have one API group everywhere",
    "inference.networking.k8s.io and inference.networking.x-k8s.io are two kinds with one name: a "
    "route to the other one finds nothing, and fields of the other one are dropped.",
    "Use inference.networking.k8s.io/v1 in the pool, in backendRefs, in roles and in Argo CD's "
    "health checks.",
    _DOCS,
    whole_set=True,
)
def pool_group(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("InferencePool"):
        for wrong, right in _FIELDS.get(item.group, {}).items():
            if wrong in item.spec and right not in item.spec:
                yield of_item(
                    item, ("spec", wrong), f"has {wrong}, which {item.group} does not know",
                    f"write {right}, or change apiVersion",
                )  # fmt: skip
    for item in inventory.graph.of_kind("HTTPRoute", "GRPCRoute"):
        for path, backend in backends(item):
            name = str(backend.get("name"))
            home = str(backend.get("namespace") or item.namespace)
            if backend.get("kind") != "InferencePool":
                continue
            group = str(backend.get("group") or "")
            pools = [
                pool
                for pool in inventory.graph.of_namespace("InferencePool", home)
                if pool.name == name
            ]
            if group not in (_STABLE, _EARLY):
                yield of_item(
                    item, (*path, "group"),
                    f"leads to InferencePool {name} of group {group or 'core'}, where there is "
                    "none", f"write group: {pools[0].group if pools else _STABLE}",
                )  # fmt: skip
            elif pools and all(pool.group != group for pool in pools):
                yield of_item(
                    item, (*path, "group"),
                    f"leads to InferencePool {name} of group {group}, which is of "
                    f"{pools[0].group}", f"write group: {pools[0].group}",
                )  # fmt: skip
    yield from _health(inventory)


_HEALTH = re.compile(r"resource\.customizations\.health\.(inference\.[\w.-]+)_InferencePool")


def _health(inventory: Inventory) -> Iterator[Violation]:
    """Argo CD's health check of pools, where it is for the other group alone."""
    groups = {item.group for item in inventory.graph.of_kind("InferencePool")}
    for item in inventory.graph.of_kind("ConfigMap"):
        data = mapping(item.manifest.get("data"))
        checked = {m[1]: str(key) for key in data if (m := _HEALTH.fullmatch(str(key)))}
        if checked and groups and groups.isdisjoint(checked):
            group, key = next(iter(checked.items()))
            yield of_item(
                item, ("data", key),
                f"checks the health of pools of {group}, and the pools are of "
                f"{', '.join(sorted(groups))}: they count as healthy whatever they say",
                f"write the check for {sorted(groups)[0]}_InferencePool",
            )  # fmt: skip


@rule(
    "pool-rights",
    "error",
    "Pickers may read the pools that are there",
    "A picker without rights on the pool's own group logs errors and picks nothing.",
    "Add the group of the pool to the role.",
    _DOCS,
    whole_set=True,
)
def pool_rights(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    groups = {item.group for item in inventory.graph.of_kind("InferencePool")}
    if not groups:
        return
    for item in inventory.graph.of_kind("Role", "ClusterRole"):
        named = [
            (position, set(strings(mapping(entry).get("apiGroups"))))
            for position, entry in enumerate(sequence(item.manifest.get("rules")))
            if "inferencepools" in strings(mapping(entry).get("resources"))
        ]
        every: set[str] = set()
        for _, given in named:
            every |= given
        home = groups
        if item.kind != "ClusterRole":
            pools = inventory.graph.of_namespace("InferencePool", item.namespace)
            home = {pool.group for pool in pools}
        if named and "*" not in every and home and every.isdisjoint(home):
            yield of_item(
                item, ("rules", named[0][0], "apiGroups"),
                f"grants inferencepools of {', '.join(sorted(every))}, and the pools are of "
                f"{', '.join(sorted(home))}", f"add {sorted(home)[0]} to apiGroups",
            )  # fmt: skip


@rule(
    "pool-protocol",
    "error",
    "Pools speak the protocols of engines and pickers",
    "An engine that answers HTTP/1.1 refuses h2c, and a picker that speaks gRPC is not understood "
    "over HTTP/1.1: every request through the pool fails.",
    "Leave the pool's appProtocol out, or write http; kubernetes.io/h2c is for engines that serve "
    "gRPC. Write grpc on the port of the picker's Service.",
    _DOCS,
    whole_set=True,
)
def pool_protocol(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("InferencePool"):
        if item.spec.get("appProtocol") != "kubernetes.io/h2c":
            continue
        pods = inventory.graph.selected(item.namespace, labels_of(item.spec))
        plain = [
            program
            for pod in pods
            for program in inventory.of_pod(pod)
            if program.mode == "server"
            and program.line.engine in ("vllm", "sglang", "trtllm", "llamacpp")
            and program.line.value("grpc") is not True
            and "grpc" not in program.command.text
        ]
        if plain:
            yield of_item(
                item, ("spec", "appProtocol"),
                f"speaks h2c to {plain[0].title}, which answers HTTP/1.1",
                "remove appProtocol, or write http",
            )  # fmt: skip
    yield from _pickers(inventory)


_NO_GRPC = frozenset({"http", "HTTP", "https", "HTTPS", "kubernetes.io/ws", "kubernetes.io/wss"})


def _pickers(inventory: Inventory) -> Iterator[Violation]:
    """Services of pickers whose port says another protocol than gRPC, which gateways speak."""
    graph = inventory.graph
    istio = _istio(inventory)
    for pool in graph.of_kind("InferencePool"):
        _, ref = picker_of(pool.spec)
        service = graph.find("Service", pool.namespace, str(ref.get("name")))
        asked = ref.get("portNumber") or mapping(ref.get("port")).get("number", 9002)
        ports = enumerate(map(mapping, sequence(service.spec.get("ports")))) if service else ()
        for position, port in ports:
            said, name = port.get("appProtocol"), str(port.get("name") or "")
            if service is None or port.get("port") != asked:
                continue
            if said in _NO_GRPC:
                yield of_item(
                    service, ("spec", "ports", position, "appProtocol"),
                    f"is the picker of InferencePool {pool.name}, which is asked by gRPC, and its "
                    f"port says {said}", "write appProtocol: grpc",
                )  # fmt: skip
            elif istio and said is None and re.match(r"https?(-|$)", name):
                yield of_item(
                    service, ("spec", "ports", position, "name"),
                    f"is the picker of InferencePool {pool.name}, which is asked by gRPC, and "
                    f"Istio reads HTTP/1.1 from the name of its port ({name})",
                    "call the port grpc, or write appProtocol: grpc",
                )  # fmt: skip


@rule(
    "picker-tls",
    "warning",
    "Istio is told that the picker speaks TLS",
    "Pickers serve a certificate of their own; without a DestinationRule Istio's gateway does not "
    "trust it, and every request fails.",
    "Add a DestinationRule for the picker's Service: tls mode SIMPLE, insecureSkipVerify true.",
    "https://istio.io/latest/docs/tasks/traffic-management/ingress/gateway-api-inference-extension/",
    whole_set=True,
)
def picker_tls(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    if not _istio(inventory):
        return
    rules = {str(item.spec.get("host")).split(".")[0] for item in graph.of_kind("DestinationRule")}
    for pool in graph.of_kind("InferencePool"):
        key, ref = picker_of(pool.spec)
        name = str(ref.get("name"))
        service = graph.find("Service", pool.namespace, name)
        if (
            service is None
            or name in rules
            or "*" in rules
            or _plain(inventory, pool.namespace, service.spec)
        ):
            continue
        yield of_item(
            pool, ("spec", key),
            f"has the picker {name}, whose certificate Istio does not trust: no DestinationRule "
            "is for it", f"add a DestinationRule for {name} with tls: {{mode: SIMPLE, "
            "insecureSkipVerify: true}",
        )  # fmt: skip


def _istio(inventory: Inventory) -> bool:
    """Whether a gateway of the set is Istio's."""
    return any(
        str(item.spec.get("gatewayClassName")).startswith("istio")
        for item in inventory.graph.of_kind("Gateway")
    )


def _plain(inventory: Inventory, namespace: str, spec: object) -> bool:
    """The picker serves without TLS."""
    pods = inventory.graph.selected(namespace, string_map(mapping(spec).get("selector")))
    return any(
        (program.command.flag("secure-serving") or "").lower() == "false"
        for pod in pods
        for program in inventory.of_pod(pod)
    )


ALL = (pool_group, pool_rights, pool_protocol, picker_tls)
