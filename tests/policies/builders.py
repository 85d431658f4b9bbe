"""Objects for policy tests: one pod spec, carried by every kind that can hold it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from policies import Context, Finding, check

DIGEST = "sha256:" + "0123456789abcdef" * 4
LABELS = {"app": "llama"}
Object = dict[str, Any]

HEALTH = {"path": "/health", "port": 8000}


def engine(**changes: Any) -> Object:
    """A container that breaks no rule; `changes` replace fields, None removes one."""
    container: Object = {
        "name": "engine",
        "image": f"vllm/vllm-openai:v0.26.0@{DIGEST}",
        "args": ["--model", "/models/llama-3.1-8b"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}},
        "startupProbe": {
            "httpGet": HEALTH, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 90,
        },
        "readinessProbe": {"httpGet": HEALTH, "periodSeconds": 5, "timeoutSeconds": 5},
        "livenessProbe": {
            "httpGet": HEALTH, "periodSeconds": 15, "timeoutSeconds": 5, "failureThreshold": 6,
        },
        "lifecycle": {"preStop": {"sleep": {"seconds": 15}}},
    }  # fmt: skip
    return _changed(container, changes)


def pod(*containers: Object, **changes: Any) -> Object:
    """A pod spec that breaks no rule, with one engine unless containers are given."""
    spec: Object = {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 150,
        "containers": list(containers) or [engine()],
    }
    return _changed(spec, changes)


def _changed(base: Object, changes: Object) -> Object:
    merged = {**base, **changes}
    return copy.deepcopy({key: value for key, value in merged.items() if value is not None})


def named(api_version: str, kind: str, **rest: Any) -> Object:
    """An object called llama in namespace team-a."""
    meta = {"name": "llama", "namespace": "team-a"}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **rest}


def _template(spec: Object) -> Object:
    return {"metadata": {"labels": dict(LABELS)}, "spec": spec}


def deployment(spec: Object, **rest: Any) -> Object:
    """A Deployment whose rollout needs no spare GPU."""
    rolling = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    body = {
        "strategy": rolling,
        "progressDeadlineSeconds": 1800,
        "selector": {"matchLabels": LABELS},
        "template": _template(spec),
        **rest,
    }
    return named("apps/v1", "Deployment", spec=body)


def _workload(kind: str) -> Callable[[Object], Object]:
    return lambda spec: named("apps/v1", kind, spec={"template": _template(spec)})


def bare_pod(spec: Object) -> Object:
    """A Pod."""
    made = named("v1", "Pod", spec=spec)
    made["metadata"]["labels"] = dict(LABELS)
    return made


def leader(spec: Object) -> Object:
    """A LeaderWorkerSet with the pod spec as its leader, and a headless worker."""
    args = ["/models/llama-3.1-8b", "--headless"]
    worker = pod(engine(args=args, startupProbe=None, readinessProbe=None,
                        livenessProbe=None, lifecycle=None))  # fmt: skip
    template = {"leaderTemplate": _template(spec), "workerTemplate": _template(worker)}
    body = {"leaderWorkerTemplate": template}
    return named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec=body)


def worker(spec: Object) -> Object:
    """A LeaderWorkerSet with the pod spec as its worker."""
    template = {"leaderTemplate": _template(pod()), "workerTemplate": _template(spec)}
    body = {"leaderWorkerTemplate": template}
    return named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec=body)


def custom(spec: Object) -> Object:
    """A custom resource with a pod template somewhere inside."""
    roles = [{"name": "decode", "template": _template(spec)}]
    return named("example.com/v1", "ServingGroup", spec={"roles": roles})


def listed(spec: Object) -> Object:
    """A List with a Deployment in it."""
    return {"apiVersion": "v1", "kind": "List", "items": [deployment(spec)]}


def short_list(spec: Object) -> Object:
    """A DeploymentList whose items leave out what the list says."""
    item = deployment(spec)
    del item["apiVersion"], item["kind"]
    return {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [item]}


CARRIERS: dict[str, Callable[[Object], Object]] = {
    "Deployment": deployment,
    "StatefulSet": _workload("StatefulSet"),
    "DaemonSet": _workload("DaemonSet"),
    "ReplicaSet": _workload("ReplicaSet"),
    "Pod": bare_pod,
    "leader": leader,
    "worker": worker,
    "custom": custom,
    "List": listed,
    "DeploymentList": short_list,
}


def job(spec: Object) -> Object:
    """A Job."""
    return named(
        "batch/v1", "Job", spec={"template": _template({"restartPolicy": "Never", **spec})}
    )


def cron_job(spec: Object) -> Object:
    """A CronJob."""
    body = {"jobTemplate": {"spec": {"template": _template(spec)}}}
    return named("batch/v1", "CronJob", spec=body)


def network_policy(selector: Object | None = None, **spec: Any) -> Object:
    """A NetworkPolicy for everything in both directions, unless told otherwise."""
    body = {"podSelector": selector or {}, "policyTypes": ["Ingress", "Egress"], **spec}
    return named("networking.k8s.io/v1", "NetworkPolicy", spec=_changed(body, {}))


def found(rule: str, *objects: Object, context: Context | None = None) -> list[Finding]:
    """Findings of one rule."""
    findings = check(objects, context or Context())
    return [finding for finding in findings if finding.rule == rule]
