"""Objects that the cases of `cases/*.yaml` name in a few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.policies.builders import LABELS, Object, deployment, engine, named, network_policy, pod

Given = dict[str, Any]


def _call(kind: str, api: str, given: Given, spec: Object, **meta: Any) -> Object:
    made = named(api, kind, spec=spec)
    made["metadata"]["name"] = given.get("name", "llama")
    if "namespace" in given:
        made["metadata"]["namespace"] = given["namespace"]
    made["metadata"].update(meta)
    return made


def _engine(case: Given) -> Object:
    """A Deployment of the engine."""
    spec = pod(engine(**case["engine"]), **case.get("pod", {}))
    made = deployment(spec)
    for key in ("replicas", "progressDeadlineSeconds", "strategy"):
        if key in case:
            if case[key] is None:
                made["spec"].pop(key, None)
            else:
                made["spec"][key] = case[key]
    made["metadata"]["name"] = case.get("name", "llama")
    made["spec"]["template"]["metadata"]["labels"] = dict(case.get("labels", LABELS))
    if "own" in case:
        made["metadata"]["labels"] = case["own"]
    return made


def _plain(given: Given) -> Object:
    """A Deployment that serves no model."""
    made = deployment(pod({"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}))
    made["metadata"]["name"] = given["name"]
    made["spec"]["template"]["metadata"]["labels"] = {"app": given["name"]}
    return made


def _lws(given: Given) -> Object:
    """A group of pods with GPUs."""
    limits = {"limits": {"nvidia.com/gpu": given["gpus"]}}
    leader = engine(args=given["args"], resources=limits)
    worker = engine(command=["ray", "start", "--block"], args=None, resources=limits)
    template: Object = {
        "size": given["size"],
        "leaderTemplate": {
            "metadata": {"labels": dict(LABELS)}, "spec": pod(leader, **given.get("pod", {})),
        },
        "workerTemplate": {"metadata": {"labels": dict(LABELS)}, "spec": pod(worker)},
    }  # fmt: skip
    if "restartPolicy" in given:
        template["restartPolicy"] = given["restartPolicy"]
    spec: Object = {"leaderWorkerTemplate": template}
    if "rolling" in given:
        spec["rolloutStrategy"] = {"rollingUpdateConfiguration": given["rolling"]}
    return named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec=spec)


def _set(given: Given) -> Object:
    limits = {"limits": {"nvidia.com/gpu": 8}}
    spec = pod(engine(args=given["args"], resources=limits))
    template = {"metadata": {"labels": dict(LABELS)}, "spec": spec}
    return named("apps/v1", "StatefulSet", spec={"serviceName": "llama", "template": template})


def _service(given: Given) -> Object:
    spec: Object = {"selector": dict(LABELS), "ports": [{"port": 8000}]}
    spec.update({k: v for k, v in given.items() if k not in ("name", "namespace")})
    return _call("Service", "v1", given, spec)


def _pool(given: Given) -> Object:
    spec: Object = {
        "selector": {"matchLabels": dict(LABELS)},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
        **given,
    }
    return _call("InferencePool", "inference.networking.k8s.io/v1", {}, spec)


def _route(given: Given) -> Object:
    rule: Object = {"timeouts": {"request": "300s"}, "backendRefs": given.get("backendRefs", [])}
    if "timeouts" in given:
        rule["timeouts"] = given["timeouts"] or {}
    spec = {"parentRefs": given.get("parentRefs", []), "rules": [rule]}
    return _call("HTTPRoute", "gateway.networking.k8s.io/v1", {}, spec)


def _gateway(given: Given) -> Object:
    listener: Object = {"name": "http", "port": 80, "protocol": "HTTP"}
    if "from" in given:
        listener["allowedRoutes"] = {"namespaces": {"from": given["from"]}}
    spec = {"gatewayClassName": given.get("class", "istio"), "listeners": [listener]}
    return _call("Gateway", "gateway.networking.k8s.io/v1", {"name": "entry", **given}, spec)


def _policy(given: Given) -> Object:
    spec = {k: v for k, v in given.items() if k != "name"}
    selector = spec.pop("podSelector", None)
    made = network_policy(selector, **spec)
    made["metadata"]["name"] = given.get("name", "llama")
    return made


def _hpa(given: Given) -> Object:
    spec: Object = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment",
                           "name": given.get("target", "llama")},
        "maxReplicas": given.get("maxReplicas", 2),
        "metrics": given.get("metrics", [{"type": "External"}]),
    }  # fmt: skip
    return _call("HorizontalPodAutoscaler", "autoscaling/v2", given, spec)


def _scaled(given: Given) -> Object:
    trigger: Object = {"type": given.get("type", "prometheus")}
    trigger["metadata"] = {"query": given.get("query", "")}
    if "metricType" in given:
        trigger["metricType"] = given["metricType"]
    return _call(
        "ScaledObject", "keda.sh/v1alpha1", {},
        {"scaleTargetRef": {"name": "llama"}, "triggers": [trigger]},
    )  # fmt: skip


def _claim(given: Given) -> Object:
    spec = {"accessModes": given.get("modes", ["ReadWriteOnce"])}
    return _call("PersistentVolumeClaim", "v1", given, spec)


def _ingress(given: Given) -> Object:
    backend = {"service": {"name": "llama", "port": {"number": 8000}}}
    spec = {
        "ingressClassName": given["class"],
        "rules": [{"http": {"paths": [{"path": "/", "backend": backend}]}}],
    }
    notes = given.get("annotations", {})
    return _call("Ingress", "networking.k8s.io/v1", {}, spec, annotations=notes)


def _cluster(kind: str, api: str, name: str, spec: Object) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _cluster_queue(given: Given) -> Object:
    group: Object = {
        "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
        "flavors": [{"name": given.get("flavor", "h100")}],
    }
    if "gpus" in given:
        group["flavors"][0]["resources"] = [{"name": "nvidia.com/gpu", **given["gpus"]}]
    spec: Object = {"resourceGroups": [group]}
    if "cohort" in given:
        spec[given.get("by", "cohortName")] = given["cohort"]
    if "preemption" in given:
        spec["preemption"] = given["preemption"]
    return _cluster("ClusterQueue", "kueue.x-k8s.io/v1beta2", given.get("name", "shared"), spec)


def _node_pool(given: Given) -> Object:
    inner: Object = {
        "nodeClassRef": {"name": "gpus"},
        "taints": given.get("taints", [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]),
        "requirements": [],
    }
    if "zones" in given:
        inner["requirements"] = [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": given["zones"]}
        ]
    spec: Object = {"template": {"spec": inner}, "disruption": given.get("disruption", {})}
    return _cluster("NodePool", "karpenter.sh/v1", "gpus", spec)


def _efa_plugin(given: Given) -> Object:
    image = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.8"
    spec = {"containers": [{"name": "efa", "image": image}], "tolerations": given["tolerations"]}
    return named("apps/v1", "DaemonSet", spec={"template": {"spec": spec}})


def _role(given: Given) -> Object:
    made = named("rbac.authorization.k8s.io/v1", "Role")
    made["rules"] = [
        {"apiGroups": given["groups"], "resources": ["inferencepools"], "verbs": ["get"]}
    ]
    return made


MAKERS: Mapping[str, Callable[[Given], Object]] = {
    "plain": _plain,
    "lws": _lws,
    "set": _set,
    "service": _service,
    "pool": _pool,
    "route": _route,
    "gateway": _gateway,
    "policy": _policy,
    "hpa": _hpa,
    "scaled": _scaled,
    "claim": _claim,
    "ingress": _ingress,
    "object": lambda given: given,
    "configMap": lambda given: {
        **_call("ConfigMap", "v1", given, {}), "data": given["data"],
    },
    "secret": lambda given: _call("Secret", "v1", given, {}),
    "queue": lambda given: _call(
        "LocalQueue", "kueue.x-k8s.io/v1beta2", {"name": "team-a"},
        {"clusterQueue": given.get("cluster", "shared")},
    ),
    "clusterQueue": _cluster_queue,
    "flavor": lambda _: _cluster("ResourceFlavor", "kueue.x-k8s.io/v1beta2", "h100", {}),
    "role": _role,
    "budget": lambda given: _call(
        "PodDisruptionBudget", "policy/v1", {},
        {"selector": {"matchLabels": dict(LABELS)}, **given},
    ),
    "nodePool": _node_pool,
    "nodeClass": lambda given: _cluster(
        "EC2NodeClass", "karpenter.k8s.aws/v1", "gpus",
        {"networkInterfaces": [{"interfaceType": "efa-only"}], **given},
    ),
    "driver": lambda given: _cluster("ClusterPolicy", "nvidia.com/v1", "gpus", {"driver": given}),
    "efaPlugin": _efa_plugin,
}  # fmt: skip


def objects(case: Given) -> list[Object]:
    """The objects of one case."""
    made: list[Object] = []
    for item in case["objects"]:
        if "engine" in item:
            made.append(_engine(item))
        else:
            kind, given = next(iter(item.items()))
            made.append(MAKERS[kind](given))
    return made
