"""Probes of containers that serve models: present, honest, and patient with a busy engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from policies.commands import Command, command_of
from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Path, Rule, Severity, Violation
from policies.pods import DYNAMO, descend
from policies.tree import at, integer, is_mapping, mapping, sequence
from tokenworks.catalog.commandline import grammars

_LINK = (
    "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liv"
    "eness-readiness-startup-probes/"
)
_LEAST_WINDOW = 60
"""Seconds a busy engine may stay silent before it is restarted."""
_LONGEST_WINDOW = 3600
"""Seconds after which a hung engine is better replaced by hand."""
_LONGEST_READINESS = 600
"""Seconds for which a probe that waits for a start may keep a hung engine in service."""
_LEAST_STARTUP = 120
"""Seconds below which no GPU engine has loaded weights: the default is 30."""
_PATIENCE = 5
"""Seconds that any busy engine may take to answer a probe."""
_LONGEST_DELAY = 60
"""Seconds of initial delay that liveness may have; more of it is a startup probe in disguise."""
_HANDLERS = ("httpGet", "exec", "tcpSocket", "grpc")


@dataclass(frozen=True)
class _Probe:
    """One probe with Kubernetes' defaults applied; None where a number cannot be known."""

    program: Program
    key: str
    spec: Mapping[str, Any]
    elsewhere: Path = ()
    """Its path, where it stands outside of the container."""

    @property
    def path(self) -> Path:
        """Path of the probe."""
        return self.elsewhere or (*self.program.container.path, self.key)

    @property
    def timeout(self) -> int | None:
        """Seconds one attempt may take."""
        return integer(self.spec.get("timeoutSeconds"), 1)

    @property
    def delay(self) -> int | None:
        """Seconds before the first attempt."""
        return integer(self.spec.get("initialDelaySeconds"), 0)

    @property
    def window(self) -> int | None:
        """Seconds of failures that it takes to act."""
        period = integer(self.spec.get("periodSeconds"), 10)
        failures = integer(self.spec.get("failureThreshold"), 3)
        return None if period is None or failures is None else period * failures

    def violation(
        self, message: str, remedy: str, *field: str, severity: Severity | None = None
    ) -> Violation:
        """A violation at the probe, or at one of its fields."""
        return Violation(
            self.program.container.pod.index,
            (*self.path, *field),
            f"{self.program.title} {message}",
            remedy,
            severity,
        )


def _find(kind: str, inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.serving():
        key = f"{kind}Probe"
        probe = _Probe(program, key, mapping(program.container.spec.get(key)))
        if not any(handler in probe.spec for handler in _HANDLERS):
            absent = not program.container.completed or _nobody_adds(inventory, probe)
            if absent and not _ready_at_once(program, kind):
                yield _missing(probe, kind)
            continue
        yield from _lies(probe, kind)
        yield from _TIMING[kind](probe)
    for program in inventory.programs:
        # Dynamo's operator probes what it starts, unless somebody writes other probes.
        if program.container.pod.kind in DYNAMO and not inventory.serves(program):
            yield from _instead_of_dynamos(program, kind)


_RUNTIMES = frozenset({"ServingRuntime", "ClusterServingRuntime"})


def _nobody_adds(inventory: Inventory, probe: _Probe) -> bool:
    """Whether a container of a KServe runtime stays without a probe: no InferenceService of the set
    that names the runtime brings one, and there is one.

    KServe merges the fields of `predictor.model` into the runtime's container; a readiness probe
    it may add by itself (kserve/kserve pkg/controller/v1beta1/inferenceservice, read 2026-12-01).
    """
    pod = probe.program.container.pod
    if pod.kind not in _RUNTIMES or probe.key == "readinessProbe":
        return False
    models = [
        mapping(at(item.spec, "predictor", "model"))
        for item in inventory.graph.of_kind("InferenceService")
        if pod.kind == "ClusterServingRuntime" or item.namespace == pod.namespace
    ]
    name = at(pod.object, "metadata", "name")
    using = [model for model in models if model.get("runtime") == name]
    return bool(using) and not any(probe.key in model for model in using)


def _instead_of_dynamos(program: Program, kind: str) -> Iterator[Violation]:
    """What is wrong with a probe that takes the place of the operator's own."""
    container, key = program.container, f"{kind}Probe"
    beside = (*container.pod.path[:-1], key)
    holder: object = descend(container.pod.object, container.pod.path[:-1])
    own = is_mapping(container.spec.get(key))
    if program.engine is None or not (own or is_mapping(mapping(holder).get(key))):
        return
    spec = mapping(container.spec.get(key) if own else mapping(holder).get(key))
    probe = _Probe(program, key, spec, () if own else beside)
    if kind != "startup" and "tcpSocket" in spec:
        # Its worker tells how it is on a port of its own, by HTTP.
        port = mapping(spec["tcpSocket"]).get("port", "system")
        path = "/live" if kind == "liveness" else "/health"
        yield probe.violation(
            f"has a {key} that opens a TCP port only, which a stuck engine still accepts",
            f"let {key} ask the worker: httpGet {{path: {path}, port: {port}}}",
            "tcpSocket",
        )
    if kind != "readiness" and any(handler in spec for handler in _HANDLERS):
        yield from _TIMING[kind](probe)


_WHY = {
    "startup": (
        "nothing waits for its download and load",
        "add startupProbe: httpGet {asked}, periodSeconds: 10, timeoutSeconds: {timeout} and "
        "failureThreshold: the seconds it takes to start, divided by 10",
    ),
    "readiness": (
        "requests reach it before it can answer",
        "add readinessProbe: httpGet {asked}, periodSeconds: 5, timeoutSeconds: {timeout}",
    ),
    "liveness": (
        "a hung engine is never restarted",
        "add livenessProbe: httpGet {asked}, periodSeconds: 15, "
        "timeoutSeconds: {timeout}, failureThreshold: 6",
    ),
}


def _missing(probe: _Probe, kind: str) -> Violation:
    consequence, remedy = _WHY[kind]
    return Violation(
        probe.program.container.pod.index,
        probe.path,
        f"{probe.program.title} has no {probe.key}: {consequence}",
        remedy.replace("{timeout}", str(_patience(probe.program))).replace(
            "{asked}", _asked(probe.program, kind)
        ),
    )


_PATHS = {
    "nim": {"startup": "/v1/health/ready", "readiness": "/v1/health/ready",
            "liveness": "/v1/health/live"},
}  # fmt: skip
"""Of engines without a grammar: https://docs.nvidia.com/nim/large-language-models/latest, API."""


def _asked(program: Program, kind: str) -> str:
    """`{path: /health, port: http}`: the engine's own path, and its port as the pod names it."""
    name = program.engine.name if program.engine else ""
    grammar = grammars().get(program.line.engine or name.replace(".", ""))
    paths = _PATHS.get(name) or (grammar.facts["paths"] if grammar else {})
    asked = _asked_already(program)
    known = program.plain or program.words or name in _PATHS
    if asked.get("path") and asked.get("port") and not known:
        # Nobody says what its image starts; whoever wrote that probe knows.
        return f"{{path: {asked['path']}, port: {asked['port']}}}"
    path = paths.get(kind) or asked.get("path") or "/health"
    return f"{{path: {path}, port: {_port(program, asked)}}}"


def _asked_already(program: Program) -> Mapping[str, Any]:
    """What another probe of the container asks by HTTP."""
    probes = (mapping(program.container.spec.get(f"{kind}Probe")) for kind in _WHY)
    asked = (mapping(probe.get("httpGet")) for probe in probes)
    return next((request for request in asked if request), mapping(None))


def _port(program: Program, asked: Mapping[str, Any]) -> str:
    """What a probe calls the port of the engine: its name where it has one; of programs that we
    do not know the port that another probe asks, or the only one."""
    declared = [mapping(port) for port in sequence(program.container.spec.get("ports"))]
    names = {port.get("containerPort"): str(port.get("name") or "") for port in declared}
    served = program.port
    if served is None:
        served = next((n for n, name in names.items() if name == "http"), None)
    if served is None and asked.get("port"):
        return str(asked["port"])
    if served is None and len(names) == 1:
        served = next(iter(names))
    return names.get(served) or ("http" if served is None else str(served))


def _ready_at_once(program: Program, kind: str) -> bool:
    """A simulator loads nothing, so that nothing needs to wait for it; ours plays that it does."""
    engine, image = program.engine, program.container.image
    simulates = engine is not None and engine.name == "simulator"
    return kind == "startup" and simulates and "tokenworks/" not in image


def _patience(program: Program) -> int:
    return program.engine.probe_seconds if program.engine else _PATIENCE


# --- probes that lie -------------------------------------------------------


def _lies(probe: _Probe, kind: str) -> Iterator[Violation]:
    honest = f"let {probe.key} ask the engine: httpGet {_asked(probe.program, kind)}"
    if "exec" in probe.spec:
        if reason := _told_by_exec(probe):
            yield probe.violation(f"has a {probe.key} that {reason}", honest, "exec")
        elif _keyed(probe.program) and _asks_behind_key(probe):
            yield probe.violation(
                f"has a {probe.key} that asks a path under /v1, which wants the API key", honest,
                "exec",
            )  # fmt: skip
    elif "tcpSocket" in probe.spec and _speaks_http(probe.program):
        reason = "opens a TCP port only, which a stuck engine still accepts"
        yield probe.violation(f"has a {probe.key} that {reason}", honest, "tcpSocket")
    elif "httpGet" in probe.spec:
        yield from _locked_path(probe, kind)


def _told_by_exec(probe: _Probe) -> str | None:
    """Why the command of an exec probe says nothing of the engine; None where it asks it."""
    return _exec_lie(command_of(mapping(probe.spec["exec"]), {})) if "exec" in probe.spec else None


def _speaks_http(program: Program) -> bool:
    return program.engine is not None and "grpc" not in program.command.text


_ALWAYS_TRUE = re.compile(
    r"^\s*(true|:|exit\s+0|/bin/true|/usr/bin/true)\s*;?\s*$"
    r"|(\|\||;|&&)\s*(true|:|exit\s+0|/bin/true)\s*;?\s*$"
)
_ASKS = re.compile(r"\b(curl|wget|httpx?|requests|urllib|urlopen|grpc_health_probe|nc)\b")
_NO_QUESTION = (
    (re.compile(r"^\s*echo\b[^;|&]*$"), "always succeeds"),
    (
        re.compile(r"(^|[\s;|&/(])(pgrep|pidof|ps)\b"),
        "looks for a process, which a stuck engine still is",
    ),
    (
        # What a program says of itself and grep looks at, such as `ollama ps | grep`, is asked.
        re.compile(
            r"(^|[;&(]|\b(then|if|!))\s*(/\S*/)?(grep|egrep|tail|cat\b[^;&|]*\|\s*e?grep)\b"
        ),
        "reads a log, which says what was and not what is",
    ),
)
_CURL_FAILS = re.compile(r"(^|\s)(-[a-zA-Z]*f[a-zA-Z]*|--fail(-with-body)?)(\s|$)")


def _exec_lie(command: Command) -> str | None:
    text = command.script if command.script is not None else command.text
    if _ALWAYS_TRUE.search(text):
        return "always succeeds"
    if not _ASKS.search(text):
        return next((reason for pattern, reason in _NO_QUESTION if pattern.search(text)), None)
    tests_status = re.search(r"http_code|-w\b|grep", text)
    if re.search(r"\bcurl\b", text) and not _CURL_FAILS.search(text) and not tests_status:
        return "runs curl without --fail, which succeeds on HTTP 503"
    return None


def _keyed(program: Program) -> bool:
    """Whether the engine answers paths under /v1 to those with its key only."""
    return program.given("api-key") is not None or "VLLM_API_KEY" in program.container.env


def _asks_behind_key(probe: _Probe) -> bool:
    text = command_of(mapping(probe.spec["exec"]), {}).text.lower()
    return re.search(r":\d+/v1\b|localhost/v1\b", text) is not None and "authorization" not in text


def _locked_path(probe: _Probe, kind: str) -> Iterator[Violation]:
    """A path behind the API key answers 401 for ever, so the pod never gets ready or dies."""
    request = mapping(probe.spec["httpGet"])
    path = str(request.get("path") or "/")
    names = {str(mapping(h).get("name")).lower() for h in sequence(request.get("httpHeaders"))}
    program = probe.program
    if _keyed(program) and path.startswith("/v1") and "authorization" not in names:
        outcome = "never passes" if kind != "liveness" else "kills it"
        yield probe.violation(
            f"has a {probe.key} on {path}, which wants the API key: it {outcome}",
            f"let {probe.key} ask /health, which is open",
            "httpGet",
            "path",
        )


# --- timing ----------------------------------------------------------------


def _startup_timing(probe: _Probe) -> Iterator[Violation]:
    if _patience(probe.program) > _PATIENCE:
        # Its health check takes a second even when idle, so it would never start.
        yield from _impatient(probe, "warning")
    window, delay = probe.window, probe.delay
    if window is None or delay is None or not probe.program.needs_gpu:
        return
    if window + delay < _LEAST_STARTUP:
        yield probe.violation(
            f"may take only {window + delay} s to start (periodSeconds x failureThreshold): "
            "download and load take minutes, so it is restarted for ever",
            "set failureThreshold to the start-up time, from weights and bandwidth, divided by "
            "periodSeconds",
        )


def _readiness_timing(probe: _Probe) -> Iterator[Violation]:
    yield from _impatient(probe, "warning")
    spec = mapping(probe.program.container.spec.get("livenessProbe"))
    restarts = _Probe(probe.program, "livenessProbe", spec).window if spec else None
    windows = [probe.window or 0, *([restarts] if restarts is not None else [])]
    if min(windows) > _LONGEST_READINESS:  # what restarts it takes it out of service, too
        yield probe.violation(
            f"keeps requests for {min(windows)} s when it no longer answers (periodSeconds x "
            "failureThreshold)",
            "set readinessProbe.failureThreshold to 3, and give the start-up time to startupProbe",
            severity="warning",
        )


def _liveness_timing(probe: _Probe) -> Iterator[Violation]:
    yield from _impatient(probe, "error")
    window, delay = probe.window, probe.delay
    started = mapping(probe.program.container.spec.get("startupProbe"))
    # Dynamo's operator adds one that waits two hours: ai-dynamo/dynamo, deploy/operator/internal/
    # dynamo/component_worker.go, read 2026-11-30.
    by_operator = probe.program.container.pod.kind in DYNAMO
    waits = by_operator or any(handler in started for handler in _HANDLERS)
    if delay is not None and delay > _LONGEST_DELAY and waits:
        yield probe.violation(
            f"has a livenessProbe with initialDelaySeconds {delay} beside a startupProbe, which "
            "waits already: after a quick start nobody looks for as long",
            "remove initialDelaySeconds",
            "initialDelaySeconds",
            severity="warning",
        )
    elif delay is not None and delay > _LONGEST_DELAY:
        yield probe.violation(
            f"has a livenessProbe with initialDelaySeconds {delay}: too short for a slow start, "
            "too long for a quick one",
            "remove initialDelaySeconds and give the start-up time to startupProbe",
            "initialDelaySeconds",
            # A preset may bring a startup probe, which waits already.
            severity="warning" if probe.program.container.completed else None,
        )
    if window is None:
        return
    if window > _LONGEST_WINDOW:
        yield probe.violation(
            f"is restarted after {window} s without an answer, which is as good as never",
            "set livenessProbe periodSeconds x failureThreshold to some minutes",
            severity="warning",
        )
        return
    if window < _LEAST_WINDOW:
        yield probe.violation(
            f"is restarted after {window} s without an answer (periodSeconds x "
            f"failureThreshold): a busy engine needs at least {_LEAST_WINDOW} s",
            f"set livenessProbe periodSeconds x failureThreshold to {_LEAST_WINDOW} or more",
        )
        return
    spec = mapping(probe.program.container.spec.get("readinessProbe"))
    readiness = _Probe(probe.program, "readinessProbe", spec).window if spec else None
    if readiness is not None and window <= readiness:
        yield probe.violation(
            f"is restarted after {window} s, no later than readinessProbe takes it out of "
            f"service ({readiness} s): it never gets the chance to recover",
            "make livenessProbe periodSeconds x failureThreshold longer than readinessProbe's",
        )


def _impatient(probe: _Probe, severity: Severity) -> Iterator[Violation]:
    timeout, least = probe.timeout, _patience(probe.program)
    if "tcpSocket" in probe.spec or _told_by_exec(probe):
        return  # The kernel answers, or nobody is asked.
    if timeout is not None and timeout <= 1 and least > _PATIENCE:
        yield probe.violation(
            f"has a {probe.key} with timeoutSeconds {timeout}, which never passes: the health "
            "check takes a second even when nothing else runs",
            f"set {probe.key}.timeoutSeconds to {least} or more",
            "timeoutSeconds",
        )
    elif timeout is not None and timeout < least:
        what = "kills" if probe.key == "livenessProbe" else "fails"
        yield probe.violation(
            f"has a {probe.key} with timeoutSeconds {timeout}, which {what} it when it is busy",
            f"set {probe.key}.timeoutSeconds to {least} or more",
            "timeoutSeconds",
            severity=severity,
        )


_TIMING = {
    "startup": _startup_timing,
    "readiness": _readiness_timing,
    "liveness": _liveness_timing,
}

STARTUP = Rule(
    id="startup-probe",
    severity="error",
    title="Engines have a startup probe with a budget",
    reason="Download and load take minutes. Without a startup probe, liveness kills the pod while "
    "it loads, or an initial delay long enough for the slowest start blinds it afterwards.",
    remedy="Give every serving container a startupProbe on /health whose periodSeconds x "
    "failureThreshold covers download and load.",
    find=partial(_find, "startup"),
    link=f"{_LINK}#define-startup-probes",
)
READINESS = Rule(
    id="readiness-probe",
    severity="error",
    title="Engines have an honest readiness probe",
    reason="Pods without one get requests while they load and while they are stuck; probes that "
    "always succeed, read logs or only open the port say nothing about the engine.",
    remedy="Give every serving container a readinessProbe on /health with a timeout of at least "
    "5 s (SGLang: 10 s).",
    find=partial(_find, "readiness"),
    link=f"{_LINK}#define-readiness-probes",
)
LIVENESS = Rule(
    id="liveness-probe",
    severity="error",
    title="Engines have a patient liveness probe",
    reason="The default timeout of 1 s and window of 30 s kill engines that are merely busy, and "
    "their load moves to the next one; without any probe a hung engine keeps its GPU for ever.",
    remedy="Give every serving container a livenessProbe on /health: timeout at least 5 s (SGLang: "
    "10 s), periodSeconds x failureThreshold at least 60 s and longer than readiness', no "
    "initialDelaySeconds above 60 s.",
    find=partial(_find, "liveness"),
    link=f"{_LINK}#configure-probes",
)
