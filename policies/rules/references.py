"""Names that lead somewhere: both ends of a reference are in the set, or are said to be missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.engines import Program
from policies.graph import Graph, Item
from policies.inventory import Inventory
from policies.model import Context, Path, Severity, Violation, rule
from policies.pods import Container, Pod, descend, own_labels
from policies.pools import labels_of, picker_of, ports_of
from policies.rules.shared import INTERNAL, absent, instead, of_item, of_pod
from policies.tree import at, mapping, sequence, string_map

_CONCEPTS = "https://kubernetes.io/docs/concepts"
_ROUTES = ("HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute")
_ROUTE_DOCS = "https://gateway-api.sigs.k8s.io/reference/spec/"
_POOL_DOCS = "https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/"


# --- what pods read --------------------------------------------------------------


def _config_maps(pod: Pod) -> Iterator[tuple[str, str, Path, bool]]:
    """Kind, name and path of every ConfigMap and Secret that a pod reads, and if it must exist."""
    for position, volume in enumerate(sequence(pod.spec.get("volumes"))):
        path = (*pod.path, "volumes", position)
        yield from _volume(mapping(volume), path)
        for n, source in enumerate(
            sequence(mapping(mapping(volume).get("projected")).get("sources"))
        ):
            yield from _sources(mapping(source), (*path, "projected", "sources", n))
    for container in pod.containers:
        yield from _container(container)


def _volume(volume: Mapping[str, Any], path: Path) -> Iterator[tuple[str, str, Path, bool]]:
    for key, field, kind in (
        ("configMap", "name", "ConfigMap"),
        ("secret", "secretName", "Secret"),
    ):
        source = mapping(volume.get(key))
        if isinstance(source.get(field), str):
            yield kind, str(source[field]), (*path, key, field), source.get("optional") is not True


def _sources(source: Mapping[str, Any], path: Path) -> Iterator[tuple[str, str, Path, bool]]:
    for key, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        inner = mapping(source.get(key))
        if isinstance(inner.get("name"), str):
            yield kind, str(inner["name"]), (*path, key, "name"), inner.get("optional") is not True


def _container(container: Container) -> Iterator[tuple[str, str, Path, bool]]:
    keys = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))
    refs = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
    for position, item in enumerate(sequence(container.spec.get("env"))):
        source, path = mapping(mapping(item).get("valueFrom")), container.place(("env", position))
        for key, kind in keys:
            yield from _named(source, key, kind, (*path, "valueFrom"))
    for position, item in enumerate(sequence(container.spec.get("envFrom"))):
        for key, kind in refs:
            yield from _named(mapping(item), key, kind, container.place(("envFrom", position)))


def _named(
    holder: Mapping[str, Any], key: str, kind: str, path: Path
) -> Iterator[tuple[str, str, Path, bool]]:
    inner = mapping(holder.get(key))
    if isinstance(inner.get("name"), str):
        yield kind, str(inner["name"]), (*path, key, "name"), inner.get("optional") is not True


@rule(
    "missing-config",
    "warning",
    "ConfigMaps and Secrets that pods read exist",
    "A pod does not start before the ConfigMap and the Secret it reads are there: it stays in "
    "CreateContainerConfigError, and no log says why.",
    "Add the object, correct the name, or say optional: true.",
    f"{_CONCEPTS}/configuration/configmap/",
    whole_set=True,
)
def missing_config(inventory: Inventory, context: Context) -> Iterator[Violation]:
    for pod in inventory.pods:
        for kind, name, path, needed in _config_maps(pod):
            if not needed:
                continue
            severity = absent(inventory, context, kind, pod.namespace, name)
            near = inventory.graph.near(kind, pod.namespace, name)
            # Secrets are made outside Git, and what a controller makes pods of it may bring with
            # them: only one that is called nearly the same is meant.
            elsewhere = kind == "Secret" or pod.custom
            if severity is None or (elsewhere and near is None) or _made(name):
                continue
            yield Violation(
                pod.index,
                path,
                f"{pod.title} reads {kind} {name}, which namespace {pod.namespace} does not have"
                f"{instead(inventory, kind, pod.namespace, name)}",
                f"add the {kind}, or correct the name",
                severity,
            )
    yield from _missing_keys(inventory)


def _made(name: str) -> bool:
    """Controllers make these in every namespace."""
    return name in ("kube-root-ca.crt", "istio-ca-root-cert", "openshift-service-ca.crt")


def _missing_keys(inventory: Inventory) -> Iterator[Violation]:
    """Keys of ConfigMaps that are there without them."""
    for pod in inventory.pods:
        for container in pod.containers:
            for position, item in enumerate(sequence(container.spec.get("env"))):
                ref = mapping(mapping(mapping(item).get("valueFrom")).get("configMapKeyRef"))
                found = inventory.graph.find("ConfigMap", pod.namespace, str(ref.get("name")))
                if found is None or ref.get("optional") is True:
                    continue
                keys = {*mapping(found.manifest.get("data")), *mapping(
                    found.manifest.get("binaryData")
                )}  # fmt: skip
                if keys and str(ref.get("key")) not in keys:
                    yield Violation(
                        pod.index,
                        container.place(("env", position, "valueFrom", "configMapKeyRef", "key")),
                        f"{container.title} reads the key {ref.get('key')} of ConfigMap "
                        f"{found.name}, which has {', '.join(sorted(map(str, keys))[:5])}",
                        "correct the key, or add it",
                        "error",
                    )


@rule(
    "missing-service-account",
    "warning",
    "Service accounts exist, and their bindings lead to roles",
    "Pods of a missing account are not created; a binding to a role or an account that is not "
    "there grants nothing.",
    "Add the object, or correct the name.",
    f"{_CONCEPTS}/security/service-accounts/",
    whole_set=True,
)
def missing_service_account(inventory: Inventory, context: Context) -> Iterator[Violation]:
    for pod in inventory.pods:
        name = pod.spec.get("serviceAccountName")
        if not isinstance(name, str) or name == "default":
            continue
        severity = absent(inventory, context, "ServiceAccount", pod.namespace, name)
        if severity:
            yield of_pod(
                pod,
                ("serviceAccountName",),
                f"runs as service account {name}, which namespace {pod.namespace} does not have"
                f"{instead(inventory, 'ServiceAccount', pod.namespace, name)}",
                "add the ServiceAccount, or correct the name",
                severity,
            )
    for item in inventory.graph.of_kind("RoleBinding", "ClusterRoleBinding"):
        yield from _binding(inventory, context, item)


_OWN_ROLES = frozenset({"admin", "edit", "view", "cluster-admin"})


def _binding(inventory: Inventory, context: Context, item: Item) -> Iterator[Violation]:
    for path, kind, home, name in _ends(item):
        severity = absent(inventory, context, kind, home, name)
        if severity:
            grants = f"grants to service account {home}/{name}"
            what = grants if kind == "ServiceAccount" else f"binds {kind} {name}"
            yield of_item(
                item,
                path,
                f"{what}, which is not there{instead(inventory, kind, home, name)}",
                f"add the {kind}, or correct the name",
                severity,
            )


def _ends(item: Item) -> Iterator[tuple[Path, str, str, str]]:
    """What a binding joins: where it is written, kind, namespace and name. Without what every
    cluster has."""
    role = mapping(item.manifest.get("roleRef"))
    kind, name = str(role.get("kind")), role.get("name")
    home = "" if kind == "ClusterRole" else item.namespace
    own = kind == "ClusterRole" and (name in _OWN_ROLES or str(name).startswith("system:"))
    if isinstance(name, str) and not own:
        yield ("roleRef", "name"), kind, home, name
    for position, entry in enumerate(sequence(item.manifest.get("subjects"))):
        subject = mapping(entry)
        account = subject.get("name")
        home = str(subject.get("namespace") or item.namespace or "default")
        if subject.get("kind") == "ServiceAccount" and account != "default":
            yield ("subjects", position, "name"), "ServiceAccount", home, str(account)


@rule(
    "missing-class",
    "warning",
    "Classes exist",
    "A pod, a claim or a gateway of a class that is not there waits for ever, or is refused.",
    "Add the class, or correct its name.",
    f"{_CONCEPTS}/scheduling-eviction/pod-priority-preemption/",
    whole_set=True,
)
def missing_class(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    keys = (("priorityClassName", "PriorityClass"), ("runtimeClassName", "RuntimeClass"))
    for pod in inventory.pods:
        for key, kind in keys:
            name = pod.spec.get(key)
            if isinstance(name, str) and not name.startswith("system-"):
                found = _classless(inventory, kind, name)
                if found:
                    yield of_pod(pod, (key,), *found)
    for item, path, kind in _of_class(inventory):
        name = at(item.manifest, *path)
        found = _classless(inventory, kind, name) if isinstance(name, str) else None
        if found:
            yield of_item(item, path, *found)


def _of_class(inventory: Inventory) -> Iterator[tuple[Item, tuple[str, ...], str]]:
    """Objects that name a class, where they do, and its kind."""
    for item in inventory.graph.of_kind("PersistentVolumeClaim"):
        yield item, ("spec", "storageClassName"), "StorageClass"
    for item in inventory.graph.of_kind("Gateway"):
        yield item, ("spec", "gatewayClassName"), "GatewayClass"
    for item in inventory.graph.of_kind("NodePool"):
        ref = ("spec", "template", "spec", "nodeClassRef")
        if at(item.manifest, *ref, "kind") == "EC2NodeClass":
            yield item, (*ref, "name"), "EC2NodeClass"


def _classless(inventory: Inventory, kind: str, name: str) -> tuple[str, str, Severity] | None:
    """Message, remedy and severity for a class that is not there; clusters bring classes too, so
    that only one of nearly the same name is meant."""
    near = inventory.graph.near(kind, "", name)
    if not name or near is None or inventory.graph.find(kind, "", name) is not None:
        return None
    hint = instead(inventory, kind, "", name)
    return f"names {kind} {name}, which is not there{hint}", f"write {near}", "error"


# --- Services ----------------------------------------------------------------------


def _services(inventory: Inventory) -> Iterator[tuple[Item, dict[str, str]]]:
    for item in inventory.graph.of_kind("Service"):
        selector = string_map(item.spec.get("selector"))
        if item.group == "" and selector:
            yield item, selector


@rule(
    "service-selector",
    "warning",
    "Services select pods",
    "A Service that selects nothing answers nothing; a selector is changed in one place and "
    "forgotten in the other.",
    "Give the Service the labels of the pod template.",
    f"{_CONCEPTS}/services-networking/service/",
    whole_set=True,
)
def service_selector(inventory: Inventory, context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    for item, selector in _services(inventory):
        own = own_labels(selector)
        if not own or graph.hidden(item.namespace) or graph.selected(item.namespace, own):
            continue
        here = graph.pods_in(item.namespace)
        free = [pod for pod in here if not _served(inventory, pod)]
        if not here or (not free and not context.whole):
            continue
        yield of_item(
            item,
            ("spec", "selector"),
            f"selects {_shown(own)}, which no pod of namespace {item.namespace} carries",
            "write the labels of the pod template",
            "error" if context.whole or len(here) == 1 else None,
        )


def _served(inventory: Inventory, pod: Pod) -> bool:
    """Whether a Service or pool of the set selects the pod, or it asks for none."""
    if not pod.long_running or pod.kind == "DaemonSet":
        return True
    for item in inventory.graph.of_namespace("Service", pod.namespace):
        selector = string_map(item.spec.get("selector"))
        if selector and own_labels(selector).items() <= pod.labels.items():
            return True
    return _pooled(inventory, pod)


def _shown(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


_INJECTED = ("model.aibrix.ai/sidecar-injection", "dapr.io/enabled")
"""Annotations by which a webhook adds a container: vllm-project/aibrix pkg/webhook/
sidecar_injection.go, docs.dapr.io; read 2026-12-01."""


def _gets_more(pod: Pod) -> bool:
    """Whether a webhook adds a container to the pod."""
    holders: list[object] = [pod.object, descend(pod.object, pod.path[:-1])]
    return any(
        at(holder, "metadata", "annotations", key) == "true"
        for holder in holders
        for key in _INJECTED
    )


def _declared(inventory: Inventory, pod: Pod) -> tuple[set[str], set[int], bool]:
    """Names and numbers of a pod's ports, and whether every container declares its own, or is an
    engine whose port is known."""
    known = {id(p.container.spec) for p in inventory.of_pod(pod) if _is_plain_server(p)}
    names: set[str] = set()
    numbers: set[int] = set()
    complete = not _gets_more(pod)
    for container in pod.containers:
        if container.kind in ("init", "ephemeral"):
            continue
        ports = sequence(container.spec.get("ports"))
        told = bool(ports) or id(container.spec) in known
        complete = complete and told and not container.completed
        for port in ports:
            entry = mapping(port)
            if entry.get("name"):
                names.add(str(entry["name"]))
            if isinstance(entry.get("containerPort"), int):
                numbers.add(int(entry["containerPort"]))
    return names, numbers, complete


def _is_plain_server(program: Program) -> bool:
    """Whether it serves on one port, which its command line says."""
    plain = program.line.engine in ("vllm", "sglang", "tgi", "llamacpp")
    return plain and program.mode == "server" and program.port is not None


def _opens(program: Program, number: int) -> bool:
    """Whether a program may open a port that it does not declare: what it is told, or groups do."""
    told = [*program.line.words, *(value or "" for value in program.container.env.values())]
    said = re.compile(rf"(?<!\d){number}(?!\d)")
    return number in INTERNAL or any(said.search(text) for text in told)


def _programs(inventory: Inventory, pod: Pod) -> list[Program]:
    return list(inventory.of_pod(pod))


def listens(inventory: Inventory, pods: list[Pod], port: object) -> str | None:
    """Why none of the pods serves on a port; None where one may."""
    unclear = not isinstance(port, int | str) or re.search(r"[${}<>]", str(port))
    if not pods or any(pod.completed for pod in pods) or unclear:
        return None
    facts = [_declared(inventory, pod) for pod in pods]
    if isinstance(port, str) and not port.isdigit():
        every = sorted({name for names, _, _ in facts for name in names})
        shown = f" ({', '.join(every)})" if every else ""
        return None if port in every else f"no container has a port called {port}{shown}"
    number = int(port) if isinstance(port, int | str) else -1
    served = {p.port for pod in pods for p in _programs(inventory, pod) if p.mode == "server"}
    declared = {n for _, numbers, _ in facts for n in numbers}
    if number in served | declared or not all(complete for _, _, complete in facts):
        return None
    # A program that we do not know opens what it is told to, beside what it declares.
    unsure = not declared or not _all_plain(inventory, pods)
    if unsure and any(_opens(p, number) for pod in pods for p in _programs(inventory, pod)):
        return None
    known = declared or {port for port in served if port is not None}
    return f"its pods serve on {', '.join(map(str, sorted(known)))}"


@rule(
    "service-port",
    "error",
    "Services lead to ports that pods serve",
    "A Service whose target port no container serves refuses every connection, and its pods count "
    "as ready all the same.",
    "Write the name or the number of the container's port.",
    f"{_CONCEPTS}/services-networking/service/",
    whole_set=True,
)
def service_port(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item, selector in _services(inventory):
        pods = inventory.graph.selected(item.namespace, own_labels(selector))
        pods = [pod for pod in pods if not _other_role(selector, pod)]
        for position, port in enumerate(sequence(item.spec.get("ports"))):
            entry = mapping(port)
            key = "targetPort" if "targetPort" in entry else "port"
            why = listens(inventory, pods, entry.get(key))
            if why and item.spec.get("clusterIP") != "None":
                told = why.startswith("no ") or _all_plain(inventory, pods)
                yield of_item(
                    item,
                    ("spec", "ports", position, key),
                    f"leads to port {entry.get(key)} of {pods[0].kind} {pods[0].name}, but "
                    + (why if told else why.replace(" serve on ", " declare only ")),
                    "write a port that the container serves"
                    + ("" if told else ", or declare it there"),
                    None if told else "warning",
                )


def _all_plain(inventory: Inventory, pods: list[Pod]) -> bool:
    """Whether it is known of every container what it serves on: others may open ports that they
    do not declare."""
    return all(
        _is_plain_server(program)
        for pod in pods
        for program in inventory.of_pod(pod)
        if program.container.kind in ("container", "sidecar")
    )


def _other_role(selector: Mapping[str, str], pod: Pod) -> bool:
    """A Service for leaders does not ask workers."""
    index = selector.get("leaderworkerset.sigs.k8s.io/worker-index")
    return index == "0" and pod.role == "worker" and any(
        part == "leaderTemplate" for part in _siblings(pod)
    )  # fmt: skip


def _siblings(pod: Pod) -> Iterator[str]:
    template = mapping(mapping(pod.object.get("spec")).get("leaderWorkerTemplate"))
    yield from (str(key) for key in template)


# --- routes ------------------------------------------------------------------------


def backends(item: Item) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every backend of a route, filters' mirrors included."""
    for n, entry in enumerate(sequence(item.spec.get("rules"))):
        for m, backend in enumerate(sequence(mapping(entry).get("backendRefs"))):
            yield ("spec", "rules", n, "backendRefs", m), mapping(backend)
        for m, found in enumerate(sequence(mapping(entry).get("filters"))):
            mirror = mapping(mapping(found).get("requestMirror")).get("backendRef")
            if mirror is not None:
                path = ("spec", "rules", n, "filters", m, "requestMirror", "backendRef")
                yield path, mapping(mirror)


@rule(
    "route-backend",
    "warning",
    "Routes lead to backends that exist",
    "A route to a Service or pool that is not there answers 500; one to a port that the Service "
    "does not have, too.",
    "Add the backend, or correct name, namespace and port.",
    _ROUTE_DOCS,
    whole_set=True,
)
def route_backend(inventory: Inventory, context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind(*_ROUTES):
        for path, backend in backends(item):
            kind = str(backend.get("kind") or "Service")
            namespace = str(backend.get("namespace") or item.namespace)
            if kind in ("Service", "InferencePool"):
                yield from _backend(
                    inventory, context, item, path, kind=kind, namespace=namespace,
                    name=str(backend.get("name")), port=backend.get("port"),
                )  # fmt: skip
    for item in inventory.graph.of_kind("Ingress"):
        for path, service in _ingress_services(item):
            port = mapping(service.get("port"))
            yield from _backend(
                inventory, context, item, path, kind="Service", namespace=item.namespace,
                name=str(service.get("name")), port=port.get("number") or port.get("name"),
            )  # fmt: skip


def _ingress_services(item: Item) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    default = mapping(mapping(item.spec.get("defaultBackend")).get("service"))
    if default:
        yield ("spec", "defaultBackend", "service"), default
    for n, entry in enumerate(sequence(item.spec.get("rules"))):
        for m, found in enumerate(sequence(mapping(mapping(entry).get("http")).get("paths"))):
            service = mapping(mapping(mapping(found).get("backend")).get("service"))
            if service:
                yield ("spec", "rules", n, "http", "paths", m, "backend", "service"), service


def entrances(graph: Graph) -> Iterator[tuple[Item, Path, str, str, object]]:
    """Where requests come in from outside: the object, the path of its backend, and of the Service
    that it leads to the namespace, the name, and the port as a number or a name."""
    for item in graph.of_kind("Ingress"):
        for path, service in _ingress_services(item):
            port = mapping(service.get("port"))
            given = port.get("number", port.get("name"))
            yield item, path, item.namespace, str(service.get("name")), given
    for item in graph.of_kind("HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute"):
        for path, backend in backends(item):
            if (backend.get("kind") or "Service") == "Service":
                home = str(backend.get("namespace") or item.namespace)
                yield item, path, home, str(backend.get("name")), backend.get("port")


def _backend(
    inventory: Inventory, context: Context, item: Item, path: Path, *, kind: str, namespace: str,
    name: str, port: object,
) -> Iterator[Violation]:  # fmt: skip
    severity = absent(inventory, context, kind, namespace, name)
    if severity:
        yield of_item(
            item,
            (*path, "name"),
            f"leads to {kind} {name}, which namespace {namespace} does not have"
            f"{instead(inventory, kind, namespace, name)}",
            f"add the {kind}, or correct name and namespace",
            severity,
        )
        return
    found = inventory.graph.find(kind, namespace, name)
    if found is None or kind != "Service" or port is None:
        return
    ports = [mapping(entry) for entry in sequence(found.spec.get("ports"))]
    known = {str(entry.get(key)) for entry in ports for key in ("port", "name")}
    if ports and str(port) not in known:
        shown = ", ".join(str(entry.get("port")) for entry in ports)
        yield of_item(
            item,
            (*path, "port"),
            f"leads to port {port} of Service {name}, which has {shown}",
            "write a port of the Service",
            "error",
        )


@rule(
    "route-gateway",
    "warning",
    "Routes hang on gateways and listeners that exist",
    "A route whose gateway or listener is not there is accepted and serves nothing.",
    "Correct name, namespace or sectionName of parentRefs.",
    _ROUTE_DOCS,
    whole_set=True,
)
def route_gateway(inventory: Inventory, context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind(*_ROUTES):
        for position, parent in enumerate(sequence(item.spec.get("parentRefs"))):
            ref = mapping(parent)
            if (ref.get("kind") or "Gateway") != "Gateway":
                continue
            namespace = str(ref.get("namespace") or item.namespace)
            name, path = str(ref.get("name")), ("spec", "parentRefs", position)
            severity = absent(inventory, context, "Gateway", namespace, name)
            if severity:
                yield of_item(
                    item,
                    (*path, "name"),
                    f"hangs on Gateway {name}, which namespace {namespace} does not have"
                    f"{instead(inventory, 'Gateway', namespace, name)}",
                    "correct name and namespace of the gateway",
                    severity,
                )
            gateway = inventory.graph.find("Gateway", namespace, name)
            if gateway is not None:
                yield from _listener(item, path, ref, gateway)


def _listener(item: Item, path: Path, ref: Mapping[str, Any], gateway: Item) -> Iterator[Violation]:
    listeners = [mapping(entry) for entry in sequence(gateway.spec.get("listeners"))]
    wanted = ref.get("sectionName")
    chosen = [entry for entry in listeners if wanted in (None, entry.get("name"))]
    if listeners and not chosen:
        shown = ", ".join(str(entry.get("name")) for entry in listeners)
        yield of_item(
            item,
            (*path, "sectionName"),
            f"hangs on listener {wanted} of Gateway {gateway.name}, which has {shown}",
            "write the name of a listener",
            "error",
        )
    elif chosen and item.namespace != gateway.namespace:
        allowed = [
            mapping(mapping(entry.get("allowedRoutes")).get("namespaces")).get("from") or "Same"
            for entry in chosen
        ]
        if all(choice == "Same" for choice in allowed):
            yield of_item(
                item,
                path,
                f"hangs on Gateway {gateway.namespace}/{gateway.name}, whose listeners take routes "
                "of their own namespace only",
                "set allowedRoutes.namespaces on the listener, or move the route",
                "error",
            )


# --- pools ---------------------------------------------------------------------------


@rule(
    "pool-selector",
    "warning",
    "Pools select engines, on the port they serve",
    "A pool without pods answers 503 to every request; a pool with the wrong port, too.",
    "Give the pool the labels and the port of the engine's pod template.",
    _POOL_DOCS,
    whole_set=True,
)
def pool_selector(inventory: Inventory, context: Context) -> Iterator[Violation]:
    graph = inventory.graph
    for item in graph.of_kind("InferencePool"):
        labels = labels_of(item.spec)
        own = own_labels(labels)
        pods = graph.selected(item.namespace, own)
        here = [
            pod
            for pod in (
                p.container.pod
                for p in inventory.in_namespace(item.namespace)
                if p.mode == "server"
            )
            if not _pooled(inventory, pod)
        ]
        if own and not pods and here and not graph.hidden(item.namespace):
            yield of_item(
                item,
                ("spec", "selector"),
                f"selects {_shown(own)}, which no pod of namespace {item.namespace} carries",
                "write the labels of the engine's pod template",
                "error" if context.whole or len(here) == 1 else None,
            )
        for path, port in ports_of(item.spec):
            meant = [pod for pod in pods if not _other_role(labels, pod)]
            why = listens(inventory, meant, port)
            if why:
                yield of_item(
                    item, path, f"sends to port {port}, but {why}",
                    "write the port that the engine serves", "error",
                )  # fmt: skip
                continue
            for stray in meant:
                if len(meant) > 1 and listens(inventory, [stray], port):
                    yield of_item(
                        item, ("spec", "selector"),
                        f"selects {stray.kind} {stray.name} too, which does not serve port {port}",
                        "give the engines a label that only they have, and select that",
                    )  # fmt: skip


def _pooled(inventory: Inventory, pod: Pod) -> bool:
    return any(
        labels and labels.items() <= pod.labels.items()
        for labels, _ in inventory.pools_in(pod.namespace)
    )


@rule(
    "pool-picker",
    "warning",
    "Pools name a picker that exists, by its port",
    "Without its picker a pool fails every request, or picks at random.",
    "Correct name and port of endpointPickerRef.",
    _POOL_DOCS,
    whole_set=True,
)
def pool_picker(inventory: Inventory, context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("InferencePool"):
        key, ref = picker_of(item.spec)
        if not ref or (ref.get("kind") or "Service") != "Service":
            continue
        name = str(ref.get("name"))
        port = ref.get("portNumber") or mapping(ref.get("port")).get("number")
        here = inventory.graph.find("Service", item.namespace, name)
        if here is None and not context.whole and not _picks(inventory, item.namespace, name):
            continue  # a chart of its own brings it
        yield from _backend(
            inventory, context, item, ("spec", key), kind="Service", namespace=item.namespace,
            name=name, port=port,
        )  # fmt: skip


def _picks(inventory: Inventory, namespace: str, name: str) -> bool:
    """Whether the set holds a Service that was meant: of nearly that name, or a picker's."""
    if inventory.graph.near("Service", namespace, name):
        return True
    return any(
        mapping(port).get("port") == 9002
        for item in inventory.graph.of_namespace("Service", namespace)
        for port in sequence(item.spec.get("ports"))
    )


# --- scalers and queues ----------------------------------------------------------------


@rule(
    "scaler-target",
    "warning",
    "Autoscalers lead to what they scale, one to each",
    "A scaler without target does nothing; two of them on one target undo each other.",
    "Correct kind and name of scaleTargetRef; keep one scaler for a target.",
    "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/"
    "horizontal-pod-autoscaler-v2/",
    whole_set=True,
)
def scaler_target(inventory: Inventory, context: Context) -> Iterator[Violation]:
    seen: dict[tuple[str, str, str], Item] = {}
    for item in inventory.graph.of_kind("HorizontalPodAutoscaler", "ScaledObject"):
        ref = mapping(item.spec.get("scaleTargetRef"))
        kind, name = str(ref.get("kind") or "Deployment"), str(ref.get("name"))
        severity = absent(inventory, context, kind, item.namespace, name)
        if severity:
            yield of_item(
                item,
                ("spec", "scaleTargetRef", "name"),
                f"scales {kind} {name}, which namespace {item.namespace} does not have"
                f"{instead(inventory, kind, item.namespace, name)}",
                "correct kind and name of the target",
                severity,
            )
        other = seen.setdefault((item.namespace, kind, name), item)
        if other is not item:
            yield of_item(
                item,
                ("spec", "scaleTargetRef"),
                f"scales {kind} {name}, which {other.kind} {other.name} scales too",
                "keep one of the two",
                "error",
            )


@rule(
    "queue-chain",
    "warning",
    "Queues lead to quota: local queue, cluster queue, flavor",
    "Workloads of a queue that leads nowhere wait for ever, without a pod that could say why.",
    "Correct the name, or add the queue or flavor.",
    "https://kueue.sigs.k8s.io/docs/concepts/",
    whole_set=True,
)
def queue_chain(inventory: Inventory, context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("LocalQueue"):
        name = str(item.spec.get("clusterQueue"))
        yield from _missing(
            inventory, context, item, ("spec", "clusterQueue"), kind="ClusterQueue", namespace="",
            name=name,
        )  # fmt: skip
    for item in inventory.graph.of_kind("ClusterQueue"):
        for n, group in enumerate(sequence(item.spec.get("resourceGroups"))):
            for m, flavor in enumerate(sequence(mapping(group).get("flavors"))):
                path = ("spec", "resourceGroups", n, "flavors", m, "name")
                name = str(mapping(flavor).get("name"))
                yield from _missing(
                    inventory, context, item, path, kind="ResourceFlavor", namespace="", name=name
                )
    for item in inventory.graph.items:
        labels = mapping(mapping(item.manifest.get("metadata")).get("labels"))
        name = labels.get("kueue.x-k8s.io/queue-name")
        if isinstance(name, str) and item.kind != "LocalQueue":
            path = ("metadata", "labels", "kueue.x-k8s.io/queue-name")
            yield from _missing(
                inventory, context, item, path, kind="LocalQueue", namespace=item.namespace,
                name=name,
            )  # fmt: skip


def _missing(
    inventory: Inventory, context: Context, item: Item, path: Path, *, kind: str, namespace: str,
    name: str,
) -> Iterator[Violation]:  # fmt: skip
    severity = absent(inventory, context, kind, namespace, name)
    if severity:
        where = f"namespace {namespace}" if namespace else "the set"
        yield of_item(
            item,
            path,
            f"leads to {kind} {name}, which {where} does not have"
            f"{instead(inventory, kind, namespace, name)}",
            f"add the {kind}, or correct the name",
            severity,
        )


ALL = (
    missing_config, missing_service_account, missing_class, service_selector, service_port,
    route_backend, route_gateway, pool_selector, pool_picker, scaler_target, queue_chain,
)  # fmt: skip
