"""Streams that are not cut, and prompts that are not refused, on the way to an engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.engines import Program, repository_of
from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Path, Severity, Violation, rule
from policies.rules.shared import of_item
from policies.tree import integer, is_mapping, is_sequence, mapping, quantity, sequence, string_map

_DOCS = "https://gateway-api.sigs.k8s.io/geps/gep-1742/"
_LEAST = 60
"""Seconds that no long answer fits into; gateways' own defaults are 15 and 60."""
_DURATION = re.compile(r"([0-9]{1,5}(h|m|s|ms)){1,4}")
_PARTS = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds(value: object) -> float | None:
    """A duration as Go and the Gateway API write it, in seconds; None for anything else."""
    parts = _PARTS.findall(value) if isinstance(value, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != value:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _serves(inventory: Inventory, namespace: str, backend: Mapping[str, Any]) -> bool:
    """Whether a backend leads to engines."""
    kind, name = backend.get("kind") or "Service", str(backend.get("name"))
    home = str(backend.get("namespace") or namespace)
    if kind == "InferencePool":
        return True
    return kind == "Service" and serves_models(inventory, home, name)


def serves_models(inventory: Inventory, namespace: str, name: str) -> bool:
    """Whether a Service of the set selects engines, or a router in front of some."""
    service = inventory.graph.find("Service", namespace, name)
    if service is None:
        return False
    selector = string_map(service.spec.get("selector"))
    programs = inventory.in_namespace(namespace)
    behind = [p for p in programs if selector.items() <= p.container.pod.labels.items()]
    if not selector or not behind:
        return False
    routed = any(map(_asks_engines, behind)) and any(p.mode == "server" for p in programs)
    return routed or any(program.mode == "server" for program in behind)


_ROUTER_IMAGE = re.compile(r"(?:^|[/-])(?:router|sgl-model-gateway)$")
_ROUTER_COMMAND = re.compile(r"\b(?:sglang_router|vllm-router|vllm_router|launch_router)\b")


def _asks_engines(program: Program) -> bool:
    """Whether it hands requests on to engines, and their answers back."""
    image = repository_of(program.container.image).lower()
    return bool(_ROUTER_IMAGE.search(image) or _ROUTER_COMMAND.search(program.command.text))


def _rules(inventory: Inventory) -> Iterator[tuple[Item, Path, Mapping[str, Any]]]:
    """Rules of HTTPRoutes that lead to engines."""
    for item in inventory.graph.of_kind("HTTPRoute"):
        for position, entry in enumerate(sequence(item.spec.get("rules"))):
            refs = [mapping(ref) for ref in sequence(mapping(entry).get("backendRefs"))]
            if any(_serves(inventory, item.namespace, ref) for ref in refs):
                yield item, ("spec", "rules", position), mapping(entry)


@rule(
    "route-timeout",
    "warning",
    "Routes to engines leave time for a whole answer",
    "Gateways stop a request after 15 or 60 s unless they are told otherwise: long answers are cut "
    "in the middle of the stream.",
    "Give every rule timeouts.request of some minutes, such as 300s.",
    _DOCS,
    whole_set=True,
)
def route_timeout(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item, path, entry in _rules(inventory):
        timeouts = mapping(entry.get("timeouts"))
        request = timeouts.get("request")
        if request is None:
            if not _elsewhere(inventory, item):
                yield of_item(
                    item, (*path, "timeouts"),
                    "leads to engines without timeouts.request: the gateway's own default cuts "
                    "long answers", "add timeouts: {request: 300s} to the rule",
                )  # fmt: skip
        else:
            yield from _short(item, (*path, "timeouts", "request"), request, "timeouts.request")
    yield from _virtual_services(inventory)
    yield from _ingresses(inventory)
    yield from _traffic_policies(inventory)


def _elsewhere(inventory: Inventory, route: Item) -> bool:
    """A policy of the gateway gives the route its time."""
    for item in inventory.graph.of_kind(
        "BackendTrafficPolicy", "TrafficPolicy", "GCPBackendPolicy", "AgentgatewayPolicy"
    ):
        text = str(item.manifest.get("spec"))
        if "imeout" in text and (route.name in text or item.kind == "GCPBackendPolicy"):
            return True
    return False


def _short(
    item: Item, path: Path, value: object, what: str, severity: Severity = "error"
) -> Iterator[Violation]:
    found = seconds(value)
    if found is not None and 0 < found <= _LEAST:
        yield of_item(
            item, path, f"stops every answer after {value} ({what})",
            f"set {what} to the longest answer, such as 300s", severity,
        )  # fmt: skip


def _virtual_services(inventory: Inventory) -> Iterator[Violation]:
    """Istio's own routes have no timeout unless one is written."""
    for item in inventory.graph.of_kind("VirtualService"):
        for n, entry in enumerate(sequence(item.spec.get("http"))):
            http = mapping(entry)
            hosts = [
                str(mapping(mapping(route).get("destination")).get("host")).split(".")
                for route in sequence(http.get("route"))
            ]
            homes = [(h[1] if len(h) > 1 else item.namespace, h[0]) for h in hosts]
            if any(serves_models(inventory, home, name) for home, name in homes):
                yield from _short(
                    item, ("spec", "http", n, "timeout"), http.get("timeout"), "timeout"
                )


def _ingresses(inventory: Inventory) -> Iterator[Violation]:
    for item, place, notes, controller in _model_ingresses(inventory):
        if controller == "nginx":
            key = "nginx.ingress.kubernetes.io/proxy-read-timeout"
            given = integer(notes.get(key), 60)
            if given is not None and given <= _LEAST:
                yield of_item(
                    item, place,
                    f"stops streams that are silent for {given} s (proxy-read-timeout)",
                    f'set the annotation {key}: "300"', "error" if key in notes else None,
                )  # fmt: skip
        if controller == "alb":
            key = "alb.ingress.kubernetes.io/load-balancer-attributes"
            match = re.search(r"idle_timeout\.timeout_seconds=(\d{1,9})", notes.get(key, ""))
            given = int(match[1]) if match else 60
            if given <= _LEAST:
                yield of_item(
                    item, place,
                    f"stops streams that are silent for {given} s (idle_timeout)",
                    f"set the annotation {key}: idle_timeout.timeout_seconds=300",
                )  # fmt: skip


_Notes = Mapping[str, str]


def _model_ingresses(inventory: Inventory) -> Iterator[tuple[Item, Path, _Notes, str]]:
    """Ingresses to engines, where their annotations stand, and the controller that serves them.

    NVIDIA's operator makes one of `spec.expose.ingress`: NVIDIA/k8s-nim-operator,
    api/apps/v1alpha1/common_types.go, read 2026-12-01.
    """
    for item in inventory.graph.of_kind("NIMService"):
        given = mapping(mapping(item.spec.get("expose")).get("ingress"))
        if given.get("enabled") is True:
            notes = string_map(given.get("annotations"))
            place = ("spec", "expose", "ingress", "annotations")
            for controller in _controllers(mapping(given.get("spec")), notes):
                yield item, place, notes, controller
    for item in inventory.graph.of_kind("Ingress"):
        names = [
            str(mapping(mapping(mapping(path).get("backend")).get("service")).get("name"))
            for entry in sequence(item.spec.get("rules"))
            for path in sequence(mapping(mapping(entry).get("http")).get("paths"))
        ]
        names.append(
            str(mapping(mapping(item.spec.get("defaultBackend")).get("service")).get("name"))
        )
        if not any(serves_models(inventory, item.namespace, name) for name in names):
            continue
        notes = string_map(mapping(item.manifest.get("metadata")).get("annotations"))
        for controller in _controllers(item.spec, notes):
            yield item, ("metadata", "annotations"), notes, controller


def _controllers(spec: Mapping[str, Any], notes: _Notes) -> Iterator[str]:
    """The controllers that an Ingress is written for."""
    named = str(spec.get("ingressClassName") or notes.get("kubernetes.io/ingress.class"))
    for controller in ("nginx", "alb"):
        prefix = f"{controller}.ingress.kubernetes.io/"
        if controller in named or any(note.startswith(prefix) for note in notes):
            yield controller


def _traffic_policies(inventory: Inventory) -> Iterator[Violation]:
    """Envoy Gateway and kgateway: timeouts beside the route."""
    if not inventory.pools and not any(p.mode == "server" for p in inventory.programs):
        return
    for item in inventory.graph.of_kind("BackendTrafficPolicy", "TrafficPolicy"):
        spec = item.spec
        for path in (("timeout", "http", "requestTimeout"), ("timeouts", "request")):
            value: Any = spec
            for part in path:
                value = mapping(value).get(part)
            yield from _short(item, ("spec", *path), value, ".".join(path), "warning")


@rule(
    "route-retry",
    "error",
    "No try is shorter than the request",
    "A limit for one try caps the whole answer silently where there is no retry; one above the "
    "limit of the request is refused.",
    "Leave backendRequest out, or set it to timeouts.request; retry only what may be asked twice.",
    _DOCS,
)
def route_retry(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("HTTPRoute"):
        for n, entry in enumerate(sequence(item.spec.get("rules"))):
            timeouts = mapping(mapping(entry).get("timeouts"))
            yield from _try(
                item, ("spec", "rules", n, "timeouts", "backendRequest"),
                timeouts.get("backendRequest"), timeouts.get("request"), "backendRequest",
            )  # fmt: skip
    for item in inventory.graph.of_kind("VirtualService"):
        for n, entry in enumerate(sequence(item.spec.get("http"))):
            http = mapping(entry)
            yield from _try(
                item, ("spec", "http", n, "retries", "perTryTimeout"),
                mapping(http.get("retries")).get("perTryTimeout"), http.get("timeout"),
                "perTryTimeout",
            )  # fmt: skip


def _try(item: Item, path: Path, one: object, whole: object, what: str) -> Iterator[Violation]:
    single, total = seconds(one), seconds(whole)
    if single is None or single == 0:
        return
    if total and single > total:
        yield of_item(
            item, path, f"gives one try {one}, more than the whole request ({whole})",
            f"set {what} to at most {whole}",
        )  # fmt: skip
    elif total and single < total:
        yield of_item(
            item, path, f"ends every try after {one}, although the request may take {whole}",
            f"set {what} to {whole}, or leave it out", "warning",
        )  # fmt: skip


@rule(
    "duration-syntax",
    "error",
    "Durations are written as the Gateway API reads them",
    "A duration such as 1.5m, 300 or 1d is refused, and the route with it.",
    "Write whole numbers with h, m, s or ms: 90s, 1m30s.",
    "https://gateway-api.sigs.k8s.io/geps/gep-2257/",
)
def duration_syntax(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("HTTPRoute", "GRPCRoute"):
        if item.group != "gateway.networking.k8s.io":
            continue
        for path, value in _durations(item.spec, ("spec",)):
            if not isinstance(value, str) or not _DURATION.fullmatch(value):
                yield of_item(
                    item, path, f"has {value} where a duration must be",
                    "write it as 300s, 5m or 1m30s",
                )  # fmt: skip


_KEYS = frozenset({"request", "backendRequest", "backoff", "absoluteTimeout", "idleTimeout"})
_HOLDERS = frozenset({"timeouts", "retry", "sessionPersistence"})


def _durations(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    if is_mapping(value):
        held = path[-1] in _HOLDERS
        for key, child in value.items():
            if held and key in _KEYS:
                yield (*path, key), child
            else:
                yield from _durations(child, (*path, key))
    elif is_sequence(value):
        for position, child in enumerate(value):
            yield from _durations(child, (*path, position))


_BODY = {
    "nginx.ingress.kubernetes.io/proxy-body-size",
    "nginx.ingress.kubernetes.io/client-max-body-size", "nginx.org/client-max-body-size",
    "haproxy.org/request-max-body-size",
}  # fmt: skip
_LIMITS = frozenset({"bufferLimit", "maxRequestSize", "max_request_bytes", "maxRequestBodyBytes"})
_BYTES_PER_TOKEN = 4


@rule(
    "body-limit",
    "warning",
    "Bodies may be as long as the longest prompt",
    "A gateway answers 413 to a prompt that the model could read: a token is about 4 bytes.",
    "Set the limit to at least 4 bytes for each token of the context.",
    "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/"
    "#custom-max-body-size",
    whole_set=True,
)
def body_limit(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    longest = max((_context_length(p.line.flags) for p in inventory.programs), default=0)
    if not longest:
        return
    needed = longest * _BYTES_PER_TOKEN
    kinds = (
        "ClientTrafficPolicy",
        "BackendTrafficPolicy",
        "TrafficPolicy",
        "EnvoyFilter",
        "Ingress",
    )
    for item in inventory.graph.of_kind(*kinds):
        for path, value in _body_limits(item):
            limit = _bytes(value)
            if limit is not None and 0 < limit < needed:
                yield of_item(
                    item, path,
                    f"refuses bodies above {value}, and a prompt of {longest} tokens has about "
                    f"{needed} bytes", f"set the limit to {-(-needed // 2**20)} MiB or more",
                )  # fmt: skip


def _context_length(flags: Mapping[str, Any]) -> int:
    for name in ("max-model-len", "context-length", "max-seq-len"):
        value = getattr(flags.get(name), "value", None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0


def _body_limits(item: Item) -> Iterator[tuple[Path, object]]:
    notes = mapping(mapping(item.manifest.get("metadata")).get("annotations"))
    for key, value in notes.items():
        if key in _BODY:
            yield ("metadata", "annotations", key), value
    yield from _named(item.spec, ("spec",))


def _named(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    if is_mapping(value):
        for key, child in value.items():
            if key in _LIMITS and not is_mapping(child):
                yield (*path, key), child
            else:
                yield from _named(child, (*path, key))
    elif is_sequence(value):
        for position, child in enumerate(value):
            yield from _named(child, (*path, position))


def _bytes(value: object) -> int | None:
    text = str(value)
    match = re.fullmatch(r"(\d{1,18})([kKmMgG])", text)
    if match:
        return int(match[1]) * {"k": 2**10, "m": 2**20, "g": 2**30}[match[2].lower()]
    found = quantity(text)
    return None if found is None else int(found)


ALL = (route_timeout, route_retry, duration_syntax, body_limit)
