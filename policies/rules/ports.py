"""Probes and ports that meet the engine where it listens; start-up times that agree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.rules.shared import about
from policies.tree import at, integer, mapping, sequence
from tokenworks.catalog.commandline import grammars

_PROBES = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"
_KEYS = ("startupProbe", "readinessProbe", "livenessProbe")


def _requests(inventory: Inventory) -> Iterator[tuple[Program, str, str, Mapping[str, Any]]]:
    """Every HTTP, TCP or gRPC probe of an engine's container: key, handler, fields."""
    for program in inventory.programs:
        if program.engine is None or program.mode == "none" or program.container.completed:
            continue
        for key in _KEYS:
            probe = mapping(program.container.spec.get(key))
            for handler in ("httpGet", "tcpSocket", "grpc"):
                if mapping(probe.get(handler)):
                    yield program, key, handler, mapping(probe[handler])


def _ports(program: Program) -> tuple[set[str], set[int]]:
    """Names and numbers of the container's own ports."""
    ports = [mapping(port) for port in sequence(program.container.spec.get("ports"))]
    return {str(p["name"]) for p in ports if p.get("name")}, {
        int(p["containerPort"]) for p in ports if isinstance(p.get("containerPort"), int)
    }


def _others(program: Program) -> set[int]:
    """Ports of the pod's other containers."""
    return {
        int(mapping(port)["containerPort"])
        for container in program.container.pod.containers
        if container is not program.container
        for port in sequence(container.spec.get("ports"))
        if isinstance(mapping(port).get("containerPort"), int)
    }


@rule(
    "probe-port",
    "error",
    "Probes ask the port that the engine serves",
    "A probe of a port where nobody listens never passes: the pod never gets ready, or is killed.",
    "Name the container's port in the probe (port: http), and let that be the port of --port.",
    f"{_PROBES}#use-a-named-port",
    across=True,
)
def probe_port(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, key, handler, request in _requests(inventory):
        names, _ = _ports(program)
        port, path = request.get("port"), (key, handler, "port")
        if isinstance(port, str) and not port.isdigit():
            if port not in names:
                has = f" ({', '.join(sorted(names))})" if names else ""
                yield about(
                    program, path, f"has a {key} of port {port}, which its container does not "
                    f"have{has}", "name a port of the container",
                )  # fmt: skip
            continue
        number = integer(port, 0)
        served = program.port
        if not number or served is None or number == served or program.mode != "server":
            continue
        if number in _others(program) or _opens(program, number, f"/{request.get('path') or ''}"):
            continue
        yield about(
            program, path,
            f"has a {key} of port {number}, and serves on {served}",
            f"let {key} ask port {served}",
        )  # fmt: skip


def _opens(program: Program, number: int, path: str = "") -> bool:
    """Another server of the same container may listen there, and answer a path."""
    if program.engine is None or program.line.engine is None:
        return True
    if program.engine.name == "triton":
        # It opens these by itself; health is on neither.
        given = [program.line.value(name) for name in ("grpc-port", "metrics-port")]
        others = [given[0] or 8001, given[1] or 8002]
        return number in others and "/v2/health" not in path
    words = program.line.words
    text = " ".join(words)
    return (
        bool(re.search(rf"(?<!\d){number}(?!\d)", text))
        or any(value == str(number) for value in program.container.env.values())
        or program.engine.name == "nim"
    )


@rule(
    "container-port",
    "warning",
    "Declared ports are those that the engine serves",
    "A Service, a pool or a policy that uses the port's name leads to where nobody listens.",
    "Declare the containerPort that --port says, or that the engine takes where nothing is said.",
    "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#ports",
    across=True,
)
def container_port(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        _, numbers = _ports(program)
        served = program.port
        if program.mode != "server" or served is None or not numbers or served in numbers:
            continue
        if program.container.kind not in ("container", "sidecar") or served in _others(program):
            continue
        if program.container.completed or _opens_declared(program, numbers):
            continue
        yield about(
            program, ("ports",),
            f"serves on port {served} and declares {', '.join(map(str, sorted(numbers)))}",
            f"declare containerPort {served}, or "
            + (f"set --port to {min(numbers)}" if "port" in program.line.flags else "give --port"),
        )  # fmt: skip


def _opens_declared(program: Program, numbers: Set[int]) -> bool:
    """Whether another server may listen on what it declares: of Triton all of its ports are known,
    and of others they are not."""
    opened = [_opens(program, number) for number in numbers]
    known = program.engine is not None and program.engine.name == "triton"
    return all(opened) if known else any(opened)


_PATHS = {
    "vllm": ("/health", "/ping", "/load", "/version", "/v1/models", "/metrics", "/live", "/ready"),
    "sglang": (
        "/health", "/health_generate", "/ping", "/v1/models", "/metrics", "/get_model_info",
        "/model_info", "/server_info", "/get_server_info", "/v1/loads", "/get_load",
    ),
    "trtllm": ("/health", "/health_generate", "/v1/models", "/version", "/metrics"),
    "tgi": ("/", "/health", "/info", "/metrics", "/ping", "/v1/models"),
    "llamacpp": ("/health", "/v1/health", "/v1/models", "/models", "/metrics", "/props", "/slots"),
}  # fmt: skip
"""Paths that engines answer without a request body."""


@rule(
    "probe-path",
    "error",
    "Probes ask a path that the engine has",
    "An engine answers 404 to a path that it does not have: the pod never gets ready, or is "
    "killed.",
    "Ask /health, which the engine answers once it can serve, or another path that it has.",
    "https://docs.vllm.ai/en/stable/serving/openai_compatible_server/",
)
def probe_path(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, key, handler, request in _requests(inventory):
        paths = _PATHS.get(program.line.engine or "")
        path = str(request.get("path") or "/").partition("?")[0]
        prefix = program.line.value("root-path") or program.line.value("api-prefix")
        number = integer(request.get("port"), 0)
        elsewhere = bool(number) and number != program.port
        if handler != "httpGet" or paths is None or path in paths or prefix or elsewhere:
            continue
        if program.mode != "server" or "tokenworks" in program.container.image:
            continue
        named = request.get("port")
        if isinstance(named, str) and named.isdigit() is False and not _is_main(program, named):
            continue
        yield about(
            program, (key, handler, "path"),
            f"has a {key} of {path}, which it does not answer", "ask /health",
        )  # fmt: skip


def _is_main(program: Program, name: str) -> bool:
    return any(
        mapping(port).get("name") == name and mapping(port).get("containerPort") == program.port
        for port in sequence(program.container.spec.get("ports"))
    )


@rule(
    "progress-deadline",
    "warning",
    "Rollouts may take as long as a start",
    "A Deployment that is not ready in time is reported as failed while it still loads, and tools "
    "that wait for it stop or roll back.",
    "Set progressDeadlineSeconds above the startup probe's budget plus the image's pull.",
    "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds",
)
def progress_deadline(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.serving():
        pod = program.container.pod
        if pod.kind != "Deployment":
            continue
        deadline = integer(at(pod.object, "spec", "progressDeadlineSeconds"), 600)
        probe = mapping(program.container.spec.get("startupProbe"))
        if not probe or deadline is None:
            continue
        period = integer(probe.get("periodSeconds"), 10)
        failures = integer(probe.get("failureThreshold"), 3)
        delay = integer(probe.get("initialDelaySeconds"), 0)
        if period is None or failures is None or delay is None:
            continue
        budget = period * failures + delay
        if budget >= deadline:
            yield Violation(
                pod.index,
                ("spec", "progressDeadlineSeconds"),
                f"a rollout fails after {deadline} s, and {program.title} may take {budget} s to "
                "start",
                f"set progressDeadlineSeconds above {budget}, the image's pull included",
            )


@rule(
    "shutdown-flag",
    "error",
    "Shutdown timeouts are given to versions that know them",
    "An engine stops at a flag that it does not know: the one that should save streams keeps it "
    "from starting.",
    "Leave the flag out, or use an image of a version that has it.",
    "https://docs.vllm.ai/en/stable/cli/serve/",
)
def shutdown_flag(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        grammar = grammars().get(program.line.engine or "")
        drain = grammar.facts.get("drain") if grammar else None
        if not drain or drain["flag"] not in program.line.flags or program.played:
            continue
        tag = program.container.image.partition("@")[0].rpartition(":")[2]
        match = re.match(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})", tag)
        since = tuple(int(part) for part in str(drain["since"]).split("."))
        if match and tuple(int(part) for part in match.groups()) < since:
            yield about(
                program, ("args",),
                f"gets --{drain['flag']}, which {tag} does not know (since {drain['since']})",
                f"remove --{drain['flag']}, or use {drain['since']} or newer",
            )  # fmt: skip


ALL = (probe_port, container_port, probe_path, progress_deadline, shutdown_flag)
