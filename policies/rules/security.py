"""Engines that nobody outside reaches, see their own GPUs only, and run no code of strangers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policies.doors import Door, asks_nobody, door_of
from policies.engines import Program
from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Path, Severity, Violation, rule
from policies.pods import descend, leads_to
from policies.rules.references import entrances
from policies.rules.shared import (
    COMMIT,
    INTERNAL,
    RAY_PORTS,
    about,
    env_path,
    flag_path,
    hub_model,
    of_item,
)
from policies.rules.storage import fetched_by_kserve
from policies.tree import mapping, sequence, string_map
from policies.weights import named_weights

_PODS = "https://kubernetes.io/docs/concepts/security/pod-security-standards/"
_VLLM = "https://docs.vllm.ai/en/stable/usage/security/"


@rule(
    "privileged-engine",
    "error",
    "Engines are not privileged",
    "A privileged container sees every GPU of its node, allotted or not, and the node itself.",
    "Remove privileged; ask for the devices and add the capabilities that are needed.",
    _PODS,
)
def privileged_engine(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        context = mapping(program.container.spec.get("securityContext"))
        if context.get("privileged") is not True or program.container.kind == "init":
            continue
        if program.mode == "none" and not program.accelerators:
            continue
        if program.container.pod.kind == "DaemonSet" and program.mode == "none":
            continue
        yield about(
            program, ("securityContext", "privileged"),
            "is privileged: it sees every GPU of its node, and the node",
            "remove privileged; for RDMA, ask for the device and add IPC_LOCK",
        )  # fmt: skip


@rule(
    "engine-exposed",
    "error",
    "No load balancer leads straight to an engine",
    "What bypasses the gateway has no identity, no limit and no timeout, and reaches a pod that "
    "may be busy or draining.",
    "Make the Service ClusterIP and let the gateway's route lead to it.",
    "https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-"
    "types",
    whole_set=True,
)
def engine_exposed(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("Service"):
        kind = item.spec.get("type")
        selector = string_map(item.spec.get("selector"))
        if kind not in ("LoadBalancer", "NodePort") or item.group or not selector:
            continue
        reached = [
            program
            for program in inventory.in_namespace(item.namespace)
            if leads_to(selector, program.container.pod)
        ]
        led = next(_led(inventory, reached), None)
        if led is not None and not _fronted([led.program]):
            yield of_item(
                item, ("spec", "type"),
                f"is of type {kind} and leads straight to {led.program.title}{led.why}",
                f"make it ClusterIP, and let a gateway's route lead to it{led.remedy}",
                led.severity,
            )  # fmt: skip
    for program in inventory.programs:
        if (program.engine is None or program.mode == "none") and not _open(inventory, program):
            continue
        for position, port in enumerate(sequence(program.container.spec.get("ports"))):
            if isinstance(mapping(port).get("hostPort"), int) and (
                program.container.pod.spec.get("hostNetwork") is not True
            ):
                yield about(
                    program, ("ports", position, "hostPort"),
                    f"opens port {mapping(port)['hostPort']} on its node",
                    "remove hostPort, and let a gateway's route lead to it", "warning",
                )  # fmt: skip


@dataclass(frozen=True)
class _Led:
    """A program that everybody reaches, and what is said of it."""

    program: Program
    why: str = ""
    remedy: str = ""
    severity: Severity | None = None


def _led(inventory: Inventory, reached: Sequence[Program]) -> Iterator[_Led]:
    """Of the programs behind a Service those that it should not lead to, the worst first."""
    serving = [program for program in reached if inventory.serves(program)]
    yield from (_Led(program) for program in serving if program.mode == "server")
    for program in reached:
        door = _open(inventory, program)
        if door is not None and program.container.pod.long_running:
            yield _Led(program, f" ({door.name}), which asks nobody for a key", f"; {door.remedy}")
    # Of a program that we do not know a GPU says that it computes, and not what it asks for.
    for program in serving:
        if program.mode == "none" and program.accelerators:
            yield _Led(program, ", which holds a GPU", severity="warning")


def _open(inventory: Inventory, program: Program) -> Door | None:
    """The program, where it certainly serves everybody."""
    door = door_of(program)
    return door if door is not None and asks_nobody(program, door, inventory.graph) else None


def _fronted(engines: list[Program]) -> bool:
    """A proxy of the same pod stands in front of the engine."""
    pod = engines[0].container.pod
    names = ("oauth", "auth-proxy", "kube-rbac-proxy", "nginx", "envoy")
    return any(any(name in c.image for name in names) for c in pod.containers)


@rule(
    "group-port-exposed",
    "error",
    "Ports of a group stay inside",
    "Ray, the ranks' rendezvous and the transfer of KV run code, or believe everything, for "
    "whoever reaches them.",
    "Keep these ports out of load balancers, node ports, Ingresses and routes.",
    _VLLM,
    whole_set=True,
)
def group_port_exposed(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("Service"):
        if item.group or item.spec.get("type") not in ("LoadBalancer", "NodePort"):
            continue
        for position, port in enumerate(sequence(item.spec.get("ports"))):
            entry = mapping(port)
            number = entry.get("targetPort", entry.get("port"))
            if not isinstance(number, int):
                number = entry.get("port")
            what = INTERNAL.get(number) if isinstance(number, int) else None
            if what and _grouped(inventory, item.namespace, string_map(item.spec.get("selector"))):
                yield of_item(
                    item, ("spec", "ports", position),
                    f"leads from outside to {what} (port {number})",
                    "remove the port, or make the Service ClusterIP",
                )  # fmt: skip
    yield from _led_inside(inventory)
    yield from _ray_heads(inventory)


def _led_inside(inventory: Inventory) -> Iterator[Violation]:
    """Ingresses and routes to a port of a group."""
    for item, path, namespace, name, port in entrances(inventory.graph):
        service = inventory.graph.find("Service", namespace, name)
        if service is None:
            # KubeRay makes the head's Service, under this name.
            number, grouped = port, name.endswith("-head-svc") and port in RAY_PORTS
        else:
            number = _target(service, port)
            selector = string_map(service.spec.get("selector"))
            grouped = _grouped(inventory, namespace, selector)
        what = INTERNAL.get(number) if isinstance(number, int) else None
        if what and grouped:
            yield of_item(
                item, path, f"leads from outside to {what} (port {number} of Service {name})",
                "remove this backend, and ask it from inside: kubectl port-forward",
            )  # fmt: skip


def _target(service: Item, port: object) -> object:
    """The number behind a port of a Service: its target's, or its own where that has a name."""
    for entry in map(mapping, sequence(service.spec.get("ports"))):
        if port in (entry.get("port"), entry.get("name")):
            target = entry.get("targetPort", entry.get("port"))
            return target if isinstance(target, int) else entry.get("port")
    return None


_HEADS: tuple[Path, ...] = (
    ("spec", "headGroupSpec"),
    ("spec", "rayClusterConfig", "headGroupSpec"),
    ("spec", "rayClusterSpec", "headGroupSpec"),
)


def _ray_heads(inventory: Inventory) -> Iterator[Violation]:
    """Heads whose Service, or Ingress, KubeRay opens to the outside."""
    for item in inventory.graph.of_kind("RayCluster", "RayService", "RayJob"):
        for path in _HEADS:
            head = mapping(descend(item.manifest, path))
            kind = head.get("serviceType")
            if kind in ("LoadBalancer", "NodePort"):
                yield of_item(
                    item, (*path, "serviceType"),
                    f"opens Ray's head, its dashboard and its client port by a {kind}",
                    "leave serviceType at ClusterIP",
                )  # fmt: skip
            if head.get("enableIngress") is True:
                yield of_item(
                    item, (*path, "enableIngress"),
                    "leads from outside to Ray's dashboard, which runs jobs for whoever reaches it",
                    "leave enableIngress out, and ask the dashboard by kubectl port-forward",
                )  # fmt: skip


def _grouped(inventory: Inventory, namespace: str, selector: dict[str, str]) -> bool:
    if any(key.startswith("ray.io/") for key in selector):
        return True
    return any(
        leads_to(selector, program.container.pod)
        and (
            program.engine is not None
            or program.accelerators
            or "ray start" in program.command.text
        )
        for program in inventory.in_namespace(namespace)
        if selector
    )


@rule(
    "remote-code",
    "error",
    "Code of a model is run only at a pinned revision",
    "--trust-remote-code runs what the model's owner pushed last, with the pod's credentials and "
    "on the cluster's network.",
    "Pin --revision (and --code-revision) to a commit that somebody has read, or leave the flag "
    "out.",
    _VLLM,
)
def remote_code(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    unpinned = _fetched_by_others(inventory)
    for program in inventory.engines():
        if program.engine is not None and program.engine.name == "nim":
            yield from _nim_code(program)
            continue
        if program.line.value("trust-remote-code") is not True:
            continue
        model, pin = hub_model(program), "add --revision with the commit"
        if model is None and program.container.pod.index in unpinned:
            model, pin = unpinned[program.container.pod.index]
        revision = program.line.value("revision")
        if model is None or (isinstance(revision, str) and COMMIT.fullmatch(revision)):
            continue
        yield about(
            program, flag_path(program, "trust-remote-code"),
            f"runs code of {model} at no pinned revision",
            f"{pin}, or remove --trust-remote-code",
        )  # fmt: skip


def _fetched_by_others(inventory: Inventory) -> dict[int, tuple[str, str]]:
    """Weights without a commit that a controller fetches, so that the engine finds a folder: by
    object, the model and what pins it."""
    found = {
        index: (model, f"write hf://{model}:COMMIT")
        for index, _, model, uri in fetched_by_kserve(inventory)
        if not COMMIT.fullmatch(uri.partition("hf://")[2].partition(":")[2])
    }
    for index, manifest in enumerate(inventory.objects):
        for weights in named_weights(manifest):
            if not COMMIT.fullmatch(weights.revision):
                found[index] = weights.model, weights.remedy
    return found


_NIM_SWITCHES = ("NIM_TRUST_CUSTOM_CODE", "NIM_FORCE_TRUST_REMOTE_CODE")
_NIM_MODELS = ("NIM_MODEL_PATH", "NIM_MODEL_NAME")
_NIM_HUB = re.compile(r"hf://([\w.-]+/[\w.-]+)(?::(.*))?")


def _nim_code(program: Program) -> Iterator[Violation]:
    """Code beside weights of the hub; that of a NIM's own model came with its image."""
    env = program.container.env
    on = ("1", "true", "yes", "on")
    switch = next((name for name in _NIM_SWITCHES if (env.get(name) or "").lower() in on), None)
    model = next((found for name in _NIM_MODELS if (found := env.get(name))), "")
    match = _NIM_HUB.fullmatch(model)
    if switch is not None and match is not None and not COMMIT.fullmatch(match[2] or ""):
        yield about(
            program, env_path(program, switch),
            f"runs code of {match[1]} at no pinned revision",
            f"write the commit behind the name (hf://{match[1]}:COMMIT), or remove {switch}",
        )  # fmt: skip


ALL = (privileged_engine, engine_exposed, group_port_exposed, remote_code)
