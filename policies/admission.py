"""The rules that one object shows by itself, as admission policies that the API server runs.

Each is a ValidatingAdmissionPolicy with its binding: errors are denied, warnings are said. They
are narrower than the rules in Python and never wider: an expression sees one object, no command
line as a shell reads it, and no other object. `elsewhere` says of every other rule why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from policies.model import Context, Manifest, Rule
from policies.profiles import weigh
from policies.waivers import PREFIX as PREFIX_OF_ANNOTATIONS
from policies.waivers import valid

PREFIX: Final = "tokenworks-"
_BUILT_IN: Final = (
    ("", "v1", "pods"), ("apps", "v1", "deployments"), ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"), ("apps", "v1", "replicasets"), ("batch", "v1", "jobs"),
    ("batch", "v1", "cronjobs"),
)  # fmt: skip
_GROUPS: Final = ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets")
_OWN: Final = (
    "!has(object.metadata.ownerReferences) || "
    "!object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)
"""What a controller made was judged as its template."""


_ANY: Final = Context()


@dataclass(frozen=True)
class Check:
    """What must hold for an object of some kinds: an expression over it."""

    resources: tuple[tuple[str, str, str], ...]
    holds: str


def _data() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("engines.json").read_text())


# --- words that RE2 understands ----------------------------------------------------------


def re2(pattern: str) -> str:
    """A pattern without looking around, which matches the same names."""
    text = pattern.replace("(?!)", "[^\\s\\S]")
    text = text.replace("[^/]*(?<![a-z0-9])", "([^/]*[^a-z0-9/])?")
    text = text.replace("(?![a-z0-9])[^/]*", "([^a-z0-9/][^/]*)?")
    text = text.replace("(?<![a-z0-9])", "(^|[^a-z0-9])").replace("(?![a-z0-9])", "([^a-z0-9]|$)")
    return re.sub(r"\(\?!(?:[^()]|\([^()]*\))*\)", "", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _image(patterns: Sequence[str]) -> str:
    """The repository of a container's image is one of these; tag and digest may follow."""
    joined = "|".join(re2(p).removesuffix("$") for p in patterns)
    return f"c.image.lowerAscii().split('@')[0].matches({_quoted(f'({joined})(:[^/]*)?$')})"


_COMMAND = (
    "((has(c.command) ? c.command : []) + (has(c.args) ? c.args : [])).join(' ').lowerAscii()"
)


def _command(patterns: Sequence[str]) -> str:
    joined = "|".join(f"({re2(p)})" for p in patterns)
    return f"{_COMMAND}.matches({_quoted(joined)})"


def _engine(*, gpu: bool = False) -> str:
    """Container `c` certainly starts an engine."""
    data = _data()
    engines = [e for e in data["engines"] if e["gpu"] or not gpu]
    named = _image([e["image"] for e in engines])
    started = _command([e["command"] for e in engines if e["command"] != "(?!)"])
    other, tool = _image([data["notEngines"]["image"]]), _command([data["notEngines"]["command"]])
    simulated = _image([e["image"] for e in data["engines"] if not e["gpu"]])
    found = f"!{tool} && ({started} || {named} && !{other} && !has(c.command))"
    return f"({found} && !{simulated})" if gpu else f"({found})"


def _server() -> str:
    """Container `c` certainly answers requests, in a pod that stays."""
    silent = (
        f"{_COMMAND}.matches('--headless|ray +start|multi-node-serving|--node[-_]rank"
        "|trtllm-llmapi-launch')"
    )
    return f"({_engine()} && !{silent})"


_ACCELERATORS = (
    "(has(c.resources) && (has(c.resources.claims) || "
    "(has(c.resources.limits) && c.resources.limits.exists(k, k.matches({names}))) || "
    "(has(c.resources.requests) && c.resources.requests.exists(k, k.matches({names})))))"
)


def _accelerated() -> str:
    data = _data()["accelerators"]
    names = [re.escape(name).replace("\\-", "-") for name in data["names"]]
    return _ACCELERATORS.replace("{names}", _quoted(f"^({'|'.join([*names, data['pattern']])})$"))


_ON_CPU = (
    "(c.image.lowerAscii().split('@')[0].matches('(^|[^a-z0-9])cpu([^a-z0-9]|$)') || "
    f"{_COMMAND}.matches('--device[= ]cpu') || "
    "(has(c.env) && c.env.exists(e, e.name == 'VLLM_CPU_KVCACHE_SPACE' || "
    "e.name == 'VLLM_TARGET_DEVICE')))"
)

# --- pods and containers -------------------------------------------------------------------

_SPECS = (
    "object.kind == 'Pod' ? [object.spec] : "
    "object.kind == 'CronJob' ? [object.spec.jobTemplate.spec.template.spec] : "
    "object.kind == 'LeaderWorkerSet' ? ([object.spec.leaderWorkerTemplate.workerTemplate.spec] + "
    "(has(object.spec.leaderWorkerTemplate.leaderTemplate) ? "
    "[object.spec.leaderWorkerTemplate.leaderTemplate.spec] : [])) : "
    "[object.spec.template.spec]"
)
_STAYS = (
    "object.kind != 'Job' && object.kind != 'CronJob' && "
    "(!has(p.restartPolicy) || p.restartPolicy == 'Always')"
)
_EVERY = "p.containers + (has(p.initContainers) ? p.initContainers : [])"
_RUNNING = (
    "p.containers + (has(p.initContainers) ? p.initContainers.filter(i, "
    "has(i.restartPolicy) && i.restartPolicy == 'Always') : [])"
)


def _each(test: str, containers: str = _RUNNING) -> str:
    """A test of container `c`, for every container of every pod `p`."""
    return f"variables.pods.all(p, ({containers}).all(c, {test}))"


def _simulator() -> str:
    """Container `c` loads nothing."""
    return _image([next(e["image"] for e in _data()["engines"] if e["name"] == "simulator")])


def _probe(kind: str, more: str = "true", exempt: str = "false") -> Check:
    field = f"c.{kind}Probe"
    handler = " || ".join(f"has({field}.{h})" for h in ("httpGet", "exec", "tcpSocket", "grpc"))
    silent = f"!({_STAYS}) || !{_server()} || {exempt}"
    test = f"{silent} || (has({field}) && ({handler}) && ({more}))"
    return Check((*_BUILT_IN, _GROUPS), _each(test))


def _number(field: str, name: str, default: int) -> str:
    return f"(has({field}.{name}) ? {field}.{name} : {default})"


def _liveness() -> Check:
    field = "c.livenessProbe"
    window = f"{_number(field, 'periodSeconds', 10)} * {_number(field, 'failureThreshold', 3)}"
    slow = _command([next(e["command"] for e in _data()["engines"] if e["name"] == "sglang")])
    named = _image([next(e["image"] for e in _data()["engines"] if e["name"] == "sglang")])
    least = f"(({slow} || {named}) ? 10 : 5)"
    delay = f"({_number(field, 'initialDelaySeconds', 0)} <= 60 || has(c.startupProbe))"
    patient = f"({_number(field, 'timeoutSeconds', 1)} >= {least} || has({field}.tcpSocket))"
    return _probe("liveness", f"{patient} && {window} >= 60 && {delay}")


def _without_digest(context: Context) -> str:
    """Image of container `c` that needs none: made on this machine, put there by Istio, or (while
    that is only warned of) called `unresolved` in the documents."""
    names = {"auto", *context.local_images}
    if context.unresolved != "error":
        names |= context.unresolved_images
    short = {re.sub(r"^docker\.io/(library/)?", "", name) for name in names}
    whole = {name for name in names | short if ":" in name.rpartition("/")[2] or name == "auto"}
    every = sorted((names | short) - whole)
    tests = [f"c.image in [{', '.join(map(_quoted, sorted(whole)))}]"]
    tests += [f"c.image == {_quoted(n)} || c.image.startsWith({_quoted(n + ':')})" for n in every]
    return " || ".join(tests)


_NODE_CLASSES: Final = (("karpenter.k8s.aws", "v1", "ec2nodeclasses"),)


def _node_image() -> Check:
    """Parameters of SSM are left out: which of them move is told by their names alone."""
    moves = (
        "has(t.alias) ? t.alias.lowerAscii().endsWith('@latest') : "
        "!has(t.id) && !has(t.ssmParameter) && has(t.name) && t.name.matches('[*?]')"
    )
    terms = "object.spec.amiSelectorTerms"
    return Check(_NODE_CLASSES, f"!has({terms}) || !{terms}.exists(t, {moves})")


def _node_metadata() -> Check:
    options = "object.spec.metadataOptions"
    hops = f"{options}.httpPutResponseHopLimit"
    return Check(
        _NODE_CLASSES,
        f"!has({options}) || (has({options}.httpEndpoint) && "
        f"{options}.httpEndpoint == 'disabled') || "
        f"((!has({options}.httpTokens) || {options}.httpTokens == 'required') && "
        f"(!has({hops}) || {hops} <= 1))",
    )


def _checks(context: Context = _ANY) -> Mapping[str, Check]:
    """One for each rule that can be asked here."""
    workloads = (*_BUILT_IN, _GROUPS)
    rdma = "k.matches('^rdma/.+$')"
    asks = f"(has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, {rdma}))"
    added = (
        "(has(c.securityContext) && has(c.securityContext.capabilities) && "
        "has(c.securityContext.capabilities.add) && "
        "c.securityContext.capabilities.add.exists(n, n == 'IPC_LOCK' || n == 'ALL'))"
    )
    privileged = (
        "(has(c.securityContext) && has(c.securityContext.privileged) && "
        "c.securityContext.privileged)"
    )
    other_user = (
        "(has(c.securityContext) && (has(c.securityContext.runAsUser) || "
        "has(c.securityContext.runAsNonRoot))) || (has(p.securityContext) && "
        "(has(p.securityContext.runAsUser) || has(p.securityContext.runAsNonRoot)))"
    )
    off = " || ".join(
        f"(e.name == '{name}' && has(e.value) && e.value == '{value}')"
        for name, value in (("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "Socket"))
    )
    group = "object.spec.leaderWorkerTemplate"
    rolling = "object.spec.rolloutStrategy.rollingUpdateConfiguration"
    percent = " && ".join(
        f"(!has({rolling}.{name}) || type({rolling}.{name}) == int || "
        f"!string({rolling}.{name}).matches('^[1-9][0-9]?%$'))"
        for name in ("maxUnavailable", "maxSurge")
    )
    big = f"!has({group}.size) || {group}.size < 2"
    queue = "'kueue.x-k8s.io/queue-name'"
    template = "object.spec.template.metadata"
    surge = (
        "has(object.spec.strategy) && (has(object.spec.strategy.type) && "
        "object.spec.strategy.type == 'Recreate' || has(object.spec.strategy.rollingUpdate) && "
        "has(object.spec.strategy.rollingUpdate.maxSurge) && "
        "string(object.spec.strategy.rollingUpdate.maxSurge) in ['0', '0%'] || "
        "has(object.spec.strategy.rollingUpdate) && "
        "has(object.spec.strategy.rollingUpdate.maxUnavailable) && "
        "!(string(object.spec.strategy.rollingUpdate.maxUnavailable) in ['0', '0%', '25%']))"
    )
    pdb = "object.spec"
    fabric = (
        "has(object.spec.networkInterfaces) && object.spec.networkInterfaces.exists(i, "
        "has(i.interfaceType) && i.interfaceType.startsWith('efa'))"
    )
    close = (
        "has(object.spec.placementGroupSelector) || "
        "has(object.spec.capacityReservationSelectorTerms)"
    )
    return {
        "startup-probe": _probe("startup", exempt=_simulator()),
        "readiness-probe": _probe("readiness"),
        "liveness-probe": _liveness(),
        "gpu-limits": Check(
            workloads,
            _each(
                f"!{_engine(gpu=True)} || {_accelerated()} || {_ON_CPU} || "
                "c.image.matches('[$<{]')",
                "p.containers",
            ),
        ),
        "image-digest": Check(
            workloads, _each(f"c.image.contains('@sha') || {_without_digest(context)}", _EVERY)
        ),
        "service-links": Check(
            workloads,
            f"variables.pods.all(p, has(p.enableServiceLinks) && !p.enableServiceLinks || "
            f"!p.containers.exists(c, {_engine()}))",
        ),
        "privileged-engine": Check(
            workloads, _each(f"!{privileged} || !({_engine()})", "p.containers")
        ),
        "drain": Check(
            workloads,
            _each(
                f"!({_STAYS}) || !{_server()} || (has(c.lifecycle) && has(c.lifecycle.preStop))",
                "p.containers",
            ),
        ),
        "surge": Check(
            (("apps", "v1", "deployments"),),
            "has(object.spec.replicas) && (object.spec.replicas == 0 || object.spec.replicas > 3) "
            f"|| ({surge}) || !object.spec.template.spec.containers.exists(c, {_accelerated()})",
        ),
        "ipc-lock": Check(
            workloads,
            _each(f"!{asks} || {added} || {privileged} || {other_user}", "p.containers"),
        ),
        "rdma-unused": Check(
            workloads,
            _each(f"!{asks} || !has(c.env) || !c.env.exists(e, {off})", "p.containers"),
        ),
        "group-restart": Check(
            (_GROUPS,),
            f"{big} || !has({group}.restartPolicy) || "
            f"!({group}.restartPolicy in ['None', 'Default']) || "
            f"!variables.pods.exists(p, p.containers.exists(c, {_accelerated()}))",
        ),
        "group-rollout": Check(
            (_GROUPS,),
            f"{big} || !has(object.spec.rolloutStrategy) || !has({rolling}) || ({percent}) || "
            f"!variables.pods.exists(p, p.containers.exists(c, {_accelerated()}))",
        ),
        "queue-label": Check(
            tuple(r for r in _BUILT_IN if r[2] not in ("pods", "cronjobs")),
            f"!has({template}) || !has({template}.labels) || !({queue} in {template}.labels) || "
            f"has(object.metadata.labels) && {queue} in object.metadata.labels",
        ),
        "disruption-budget": Check(
            (("policy", "v1", "poddisruptionbudgets"),),
            f"!(has({pdb}.maxUnavailable) && string({pdb}.maxUnavailable) in ['0', '0%']) && "
            f"!(has({pdb}.minAvailable) && string({pdb}.minAvailable) == '100%')",
        ),
        "efa-placement": Check(_NODE_CLASSES, f"!({fabric}) || {close}"),
        "node-image": _node_image(),
        "node-metadata": _node_metadata(),
    }


def local_rules() -> frozenset[str]:
    """Rules that are asked in admission too."""
    return frozenset(_checks())


# --- why not ---------------------------------------------------------------------------------

_COMMAND_LINES = (
    "it reads command lines as an engine and a shell do, which CEL cannot: argument files, quotes "
    "and variables decide"
)
_SERVER = "the API server refuses such objects by itself"
_BY_COMMAND = frozenset(
    {
        "shell-pid1", "world-size", "idle-gpus", "group-size", "argument-split", "shell-words",
        "entry-twice",
        "argument-quotes", "argument-json", "flag-value", "model-memory", "model-context",
        "unknown-flag", "unexpanded-variable", "undefined-variable", "side-channel",
        "port-overlap", "kv-load-failure", "remote-code",
        "cache-mount", "model-revision", "hub-offline", "shutdown-flag",
        "probe-port", "container-port", "probe-path", "shared-memory", "hardened-caches",
        "nonroot-home", "progress-deadline", "ephemeral-limit", "rdma-missing",
    }
)  # fmt: skip


_OWN_REASONS: Final = {
    "metric-average": "it reads queries in a language of their own (PromQL)",
    "route-retry": "it reads several kinds of routes, whose CRDs not every cluster has, and what "
    "they mean for streams",
}


def elsewhere(rule: Rule) -> str | None:
    """Why a rule is not asked in admission; None where it is."""
    if rule.id in _checks():
        return None
    if rule.whole_set:
        return "it compares objects with each other, and admission sees one at a time"
    if rule.id in _BY_COMMAND:
        return _COMMAND_LINES
    if rule.id in ("missing-volume", "string-values", "duration-syntax"):
        return _SERVER
    if rule.id in _OWN_REASONS:
        return _OWN_REASONS[rule.id]
    return "what it looks for may stand anywhere in an object, which CEL cannot walk"


# --- objects ---------------------------------------------------------------------------------


def admission(rules: Sequence[Rule], context: Context) -> list[Manifest]:
    """Policies and bindings for the rules that can be asked, as strict as the context says.

    Namespaces of operators, and those of Kubernetes itself, are left alone.
    """
    made: list[Manifest] = []
    checks = _checks(context)
    left_alone = sorted({"kube-system", "kube-public", *context.platform_namespaces})
    for rule in rules:
        severity = weigh(rule.id, rule.severity, context)
        if rule.id not in checks or severity is None:
            continue
        name = f"{PREFIX}{rule.id}"
        made.append(_policy(name, rule, checks[rule.id], left_alone, context))
        made.append(_binding(name, "Deny" if severity == "error" else "Warn"))
    return made


def _waived(rule: str, context: Context) -> list[dict[str, str]]:
    """Conditions by which waivers count: annotations that say enough and whose day has not passed
    when this is written, and those of the environment's document."""
    key = f"object.metadata.annotations['{PREFIX_OF_ANNOTATIONS}{rule}']"
    there = f"'{PREFIX_OF_ANNOTATIONS}{rule}' in object.metadata.annotations"
    shape = r"^\\s*[^;\\s][^;]*;\\s*[^;\\s][^;]*;\\s*[0-9]{4}-[0-9]{2}-[0-9]{2}\\s*(;.*)?$"
    day = f"{key}.split(';')[2].trim() >= '{context.today}'"
    found = [
        {
            "name": "not-waived",
            "expression": f"!has(object.metadata.annotations) || !({there}) || "
            f"!({key}.matches('{shape}') && {day})",
        }
    ]
    named = [
        _is_named(waiver.object)
        for waiver in context.waivers
        if waiver.rule == rule and valid(waiver, context) is None
    ]
    if named:
        found.append(
            {"name": "not-waived-by-the-environment", "expression": f"!({' || '.join(named)})"}
        )
    return found


def _is_named(text: str) -> str:
    """Whether the object is `Kind namespace/name`, or `Kind name` in any namespace."""
    kind, _, rest = text.partition(" ")
    namespace, separator, name = rest.rpartition("/")
    test = (
        f"(object.kind == {_quoted(kind)} && has(object.metadata.name) && "
        f"object.metadata.name == {_quoted(name)}"
    )
    if separator:
        test += (
            " && has(object.metadata.namespace) && "
            f"object.metadata.namespace == {_quoted(namespace)}"
        )
    return f"{test})"


def _policy(
    name: str, rule: Rule, check: Check, left_alone: Sequence[str], context: Context
) -> Manifest:
    groups: dict[tuple[str, str], list[str]] = {}
    for group, version, resource in check.resources:
        groups.setdefault((group, version), []).append(resource)
    matched = [
        {
            "apiGroups": [group], "apiVersions": [version], "resources": resources,
            "operations": ["CREATE", "UPDATE"],
        }
        for (group, version), resources in groups.items()
    ]  # fmt: skip
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": matched,
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name", "operator": "NotIn",
                            "values": list(left_alone),
                        }
                    ]
                },
            },
            "matchConditions": [
                {"name": "not-made-by-a-controller", "expression": _OWN},
                *_waived(rule.id, context),
            ],
            "variables": [{"name": "pods", "expression": _SPECS}]
            if "variables.pods" in check.holds
            else [],
            "validations": [
                {
                    "expression": check.holds,
                    "message": f"[{rule.id}] {rule.title}. Remedy: {rule.remedy}",
                    "reason": "Invalid",
                }
            ],
        },
    }  # fmt: skip


def _binding(name: str, action: str) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": [action]},
    }
