"""One break for each rule, made by program in good manifests: every break must be noticed.

python -m tests.policies.mutations        prints the table
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policies import RULES, Context, Manifest, check
from policies.inventory import Inventory
from policies.pods import descend
from tokenworks.check.read import read_paths

CORPUS = Path(__file__).parent / "corpus"
Object = dict[str, Any]
Break = Callable[[list[Object]], Iterator[None]]
"""Breaks one place after the other, in place; the caller hands a fresh copy for each."""


@dataclass(frozen=True)
class Row:
    """What came of one rule's breaks."""

    rule: str
    breaks: int
    noticed: int
    missed: tuple[str, ...]


def corpus() -> dict[str, list[Manifest]]:
    """The good manifests, by the names of their files."""
    return {
        path.stem: [
            item.manifest for item in read_paths([str(path)], io.BytesIO()).objects
        ]
        for path in sorted(CORPUS.iterdir())
    }  # fmt: skip


def containers(objects: Sequence[Object], serving: bool = True) -> list[Object]:
    """Containers of engines that are written in full, as they stand in the objects."""
    inventory = Inventory.of(objects)
    programs = inventory.serving() if serving else iter(inventory.programs)
    found: list[Object] = []
    for program in programs:
        container = program.container
        if program.engine is None or container.completed or not program.needs_gpu:
            continue
        if not container.pod.places:
            # As it is written, and not with the script that it runs in its command.
            found.append(descend(container.pod.object, container.path))  # type: ignore[arg-type]
    return found


def pods(objects: Sequence[Object], serving: bool = True) -> list[Object]:
    """Pod specs of engines that are written in full."""
    inventory = Inventory.of(objects)
    wanted = {id(c) for c in containers(objects, serving)}
    return [
        pod.spec  # type: ignore[misc]
        for pod in inventory.pods
        if any(id(c.spec) in wanted for c in pod.containers)
    ]


def kinds(objects: Sequence[Object], *names: str) -> list[Object]:
    """The objects of some kinds."""
    return [item for item in objects if item["kind"] in names]


# --- ways to break -----------------------------------------------------------------------


def drop(field: str) -> Break:
    """A field of the engine's container is left out."""

    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects):
            if field in container:
                del container[field]
                yield

    return made


def put(field: str, value: Any, *, serving: bool = True) -> Break:
    """A field of the engine's container has another value."""

    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects, serving):
            container[field] = copy.deepcopy(value)
            yield

    return made


def env(name: str, value: Any) -> Break:
    """The engine has one variable more."""

    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects):
            entry = value if isinstance(value, dict) else {"value": value}
            container["env"] = [*container.get("env", []), {"name": name, **entry}]
            yield

    return made


def argument(*words: Any) -> Break:
    """The engine gets more words; only where it is started without a shell."""

    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects):
            if container.get("command", [""])[0] not in ("/bin/sh", "/bin/bash"):
                container["args"] = [*container.get("args", []), *words]
                yield

    return made


def of_vllm(*words: Any) -> Break:
    """The same for vLLM alone."""

    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects):
            shell = container.get("command", [""])[0] in ("/bin/sh", "/bin/bash")
            if "vllm" in container["image"] and not shell:
                container["args"] = [*container.get("args", []), *words]
                yield

    return made


def in_pod(field: str, value: Any) -> Break:
    """A field of the engine's pod has another value; None takes it away."""

    def made(objects: list[Object]) -> Iterator[None]:
        for spec in pods(objects):
            if value is None:
                spec.pop(field, None)
            else:
                spec[field] = copy.deepcopy(value)
            yield

    return made


def at(kind: str, path: str, value: Any) -> Break:
    """A field of an object of one kind has another value; keys and positions, with dots."""

    def made(objects: list[Object]) -> Iterator[None]:
        for item in kinds(objects, kind):
            holder: Any = item
            *before, last = [int(p) if p.isdigit() else p for p in path.split(".")]
            for part in before:
                holder = holder[part] if isinstance(part, int) else holder.setdefault(part, {})
            if value is None:
                holder.pop(last, None)
            else:
                holder[last] = copy.deepcopy(value)
            yield

    return made


def of_serving_queue(path: str, value: Any) -> Break:
    """The same for the ClusterQueue that a LocalQueue leads to."""

    def made(objects: list[Object]) -> Iterator[None]:
        led = {item["spec"]["clusterQueue"] for item in kinds(objects, "LocalQueue")}
        yield from at("ClusterQueue", path, value)(
            [item for item in objects if item["metadata"]["name"] in led]
        )

    return made


def also(*added: Object) -> Break:
    """One object more."""

    def made(objects: list[Object]) -> Iterator[None]:
        if containers(objects):
            objects.extend(copy.deepcopy(added))
            yield

    return made


def only(files: Sequence[str], change: Break) -> tuple[Sequence[str], Break]:
    """A break that makes sense in some files."""
    return files, change


def every(*changes: Break) -> Break:
    """Several ways to break the same rule, one after the other."""

    def made(objects: list[Object]) -> Iterator[None]:
        for change in changes:
            yield from change(objects)

    return made


def of_engines(path: str, value: Any) -> Break:
    """The same for Deployments of engines with GPUs."""

    def made(objects: list[Object]) -> Iterator[None]:
        served = {id(container) for container in containers(objects)}
        for item in kinds(objects, "Deployment"):
            spec = item["spec"]["template"]["spec"]
            if any(id(container) in served for container in spec["containers"]):
                yield from at("Deployment", path, value)([item])

    return made


# --- one for each rule ----------------------------------------------------------------------


def _gpus(factor: int) -> Break:
    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects):
            limits = container["resources"]["limits"]
            limits["nvidia.com/gpu"] = max(int(limits["nvidia.com/gpu"]) * factor // 4, 1)
            yield

    return made


def _claims_once(objects: list[Object]) -> Iterator[None]:
    for claim in kinds(objects, "PersistentVolumeClaim"):
        claim["spec"]["accessModes"] = ["ReadWriteOnce"]
        yield


def _unknown_keys(objects: list[Object]) -> Iterator[None]:
    for container in containers(objects):
        container["volumeMounts"] = [
            *container.get("volumeMounts", []), {"name": "absent", "mountPath": "/absent"},
        ]  # fmt: skip
        yield


def _shell(objects: list[Object]) -> Iterator[None]:
    for container in containers(objects):
        if "vllm" in container["image"] and container.get("command", [""])[0] != "/bin/sh":
            container["command"] = ["/bin/sh", "-c", "vllm serve /m | tee /tmp/log"]
            container.pop("args", None)
            yield


def _lost_words(objects: list[Object]) -> Iterator[None]:
    for container in containers(objects):
        container["command"], container["args"] = (
            ["/bin/sh", "-c", "exec vllm serve /m"],
            ["--port=8000"],
        )
        yield


def _said_twice(objects: list[Object]) -> Iterator[None]:
    for container in containers(objects):
        container.pop("command", None)
        container["image"] = f"vllm/vllm-openai:v0.26.0@sha256:{'0' * 64}"
        container["args"] = ["vllm", "serve", "/m"]
        yield


def _on_the_host(objects: list[Object]) -> Iterator[None]:
    for spec in pods(objects):
        spec["hostNetwork"] = True
        spec.pop("dnsPolicy", None)
        spec["containers"][0]["args"] = ["--dist-init-addr=$(LWS_LEADER_ADDRESS):5000"]
        yield


def _hub(*more: str) -> Break:
    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects):
            if "vllm/" in container["image"]:
                container["command"] = ["vllm", "serve"]
                container["args"] = ["Qwen/Qwen3-32B", *more]
                container["env"] = []
                container["volumeMounts"] = []
                yield

    return made


def _cache(path: str) -> Break:
    def made(objects: list[Object]) -> Iterator[None]:
        for container in containers(objects):
            if "vllm/" in container["image"] and container.get("volumeMounts"):
                container["command"] = ["vllm", "serve"]
                container["args"] = ["Qwen/Qwen3-32B"]
                container["env"] = [{"name": "HF_HOME", "value": "/data"}]
                container["volumeMounts"][0]["mountPath"] = path
                yield

    return made


def _unbounded(objects: list[Object]) -> Iterator[None]:
    for spec, container in zip(pods(objects), containers(objects), strict=False):
        spec["volumes"] = [*spec.get("volumes", []), {"name": "extra", "emptyDir": {}}]
        container["volumeMounts"] = [
            *container.get("volumeMounts", []), {"name": "extra", "mountPath": "/extra"},
        ]  # fmt: skip
        yield


def _small_shm(objects: list[Object]) -> Iterator[None]:
    for spec in pods(objects):
        for volume in spec.get("volumes", []):
            if volume["name"] == "shm":
                volume["emptyDir"] = {"medium": "Memory"}
                yield


def _ports_of_policies(objects: list[Object]) -> Iterator[None]:
    for policy in kinds(objects, "NetworkPolicy"):
        for entry in policy["spec"].get("ingress", []):
            for port in entry.get("ports", []):
                if port.get("port") in (8000, "http"):
                    port["port"] = 9999
                    yield


def _no_scraper(objects: list[Object]) -> Iterator[None]:
    for policy in kinds(objects, "NetworkPolicy"):
        if len(policy["spec"].get("ingress", [])) > 1:
            del policy["spec"]["ingress"][1]
            yield


def _closed_group(objects: list[Object]) -> Iterator[None]:
    for policy in kinds(objects, "NetworkPolicy"):
        if policy["metadata"]["name"].endswith("-group"):
            policy["spec"]["ingress"][0]["ports"] = [{"port": 6379}]
            yield


def _no_dns(objects: list[Object]) -> Iterator[None]:
    for policy in kinds(objects, "NetworkPolicy"):
        if policy["metadata"]["name"] == "dns" and containers(objects):
            policy["spec"]["egress"][0]["ports"] = [{"port": 443}]
            yield


def _small_gpus(objects: list[Object]) -> Iterator[None]:
    for spec, container in zip(pods(objects), containers(objects), strict=False):
        spec["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
        container["command"] = ["vllm", "serve"]
        container["args"] = ["/models/llama-3.3-70b"]
        yield


def _long(objects: list[Object]) -> Iterator[None]:
    for spec, container in zip(pods(objects), containers(objects), strict=False):
        spec["nodeSelector"] = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB"}
        container["command"] = ["vllm", "serve"]
        container["args"] = ["/models/llama-3.1-8b", "--max-model-len", "200000"]
        yield


def _old_driver(objects: list[Object]) -> Iterator[None]:
    objects.append(
        {
            "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpus"},
            "spec": {"driver": {"version": "570.124.06"}},
        }
    )  # fmt: skip
    for container in containers(objects):
        container["image"] = f"vllm/vllm-openai:v0.26.0-cu130@sha256:{'0' * 64}"
        yield


def _shut_in(objects: list[Object]) -> Iterator[None]:
    for policy in kinds(objects, "NetworkPolicy"):
        if "egress" in policy["spec"]:
            policy["spec"]["egress"] = [{"ports": [{"port": 53, "protocol": "UDP"}]}]
    for container in containers(objects):
        container["command"] = ["vllm", "serve"]
        container["args"] = ["s3://weights/llama-3.1-8b", "--load-format", "runai_streamer"]
        yield


def _no_policies(objects: list[Object]) -> Iterator[None]:
    if containers(objects):
        objects[:] = [item for item in objects if item["kind"] != "NetworkPolicy"]
        yield


def _misspelt_role(objects: list[Object]) -> Iterator[None]:
    for container in containers(objects):
        container["args"] = [
            str(word).replace("kv_both", "kv_bth") for word in container.get("args", [])
        ]
        yield


def _first(objects: list[Object], kind: str) -> Object:
    return next(item for item in objects if item["kind"] == kind)


def _route_for(objects: list[Object]) -> Iterator[None]:
    for route in kinds(objects, "HTTPRoute"):
        for entry in route["spec"]["rules"]:
            entry.pop("timeouts", None)
            yield


def _second_scaler(objects: list[Object]) -> Iterator[None]:
    for scaler in kinds(objects, "ScaledObject", "HorizontalPodAutoscaler"):
        other = copy.deepcopy(scaler)
        other["metadata"]["name"] = "second"
        objects.append(other)
        yield


def _service_type(kind: str) -> Break:
    def made(objects: list[Object]) -> Iterator[None]:
        served = containers(objects)
        for service in kinds(objects, "Service"):
            port = service["spec"]["ports"][0]["port"]
            name, headless = service["metadata"]["name"], service["spec"].get("clusterIP") == "None"
            named = name in ("llama", "llama-8b", "qwen", "prefill", "decode")
            if served and port in (8000, 30000) and named and not headless:
                service["spec"]["type"] = kind
                yield

    return made


ROUTED = ("gateway-istio", "vllm-hub-cache")
NIXL = ("pd-vllm-nixl", "disaggregated-set")
SPLIT = ("pd-sglang", "rbg-templates")
GROUPS = ("lws-vllm-ray", "lws-vllm-nnodes", "lws-sglang", "lws-wide-ep")
DESCRIBED = "described-servers"
SIMPLE = ("vllm-single-gpu", "ingress-nginx", "keda", "hpa-and-budget", "list")
META = {"namespace": "serving"}
SERVICE = {
    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "ray", **META},
    "spec": {"type": "LoadBalancer", "selector": {"app.kubernetes.io/name": "deepseek"},
             "ports": [{"port": 6379}]},
}  # fmt: skip
WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "queue"}, "webhooks": [{
        "name": "pods.queue.example.com",
        "clientConfig": {"service": {"name": "queue", "namespace": "queue-system"}},
        "rules": [{"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}]}],
}  # fmt: skip
BUDGET = {
    "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", **META},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {}}},
}  # fmt: skip
SCALER = {
    "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "x", **META},
    "spec": {"scaleTargetRef": {"name": "absent"}, "triggers": [
        {"type": "prometheus", "metadata": {"query": "avg(vllm:gpu_cache_usage_perc)"}}]},
}  # fmt: skip


def _surging_claim(objects: list[Object]) -> Iterator[None]:
    for item in kinds(objects, "Deployment"):
        item["spec"].pop("strategy")
        _first(objects, "PersistentVolumeClaim")["spec"]["accessModes"] = ["ReadWriteOnce"]
        yield


def _classed(objects: list[Object]) -> Iterator[None]:
    objects.append(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "serving"},
        }
    )
    for spec in pods(objects):
        spec["priorityClassName"] = "servin"
        yield


def _misled(objects: list[Object]) -> Iterator[None]:
    for route in kinds(objects, "HTTPRoute"):
        route["spec"]["rules"][0]["backendRefs"] = [
            {"name": "pickers", "port": 1},
            {"name": "qwe", "port": 1},
        ]
        yield


def _small_bodies(objects: list[Object]) -> Iterator[None]:
    note = "nginx.ingress.kubernetes.io/proxy-body-size"
    for container in containers(objects):
        container["args"] += ["--max-model-len", "131072"]
        _first(objects, "Ingress")["metadata"]["annotations"][note] = "64k"
        yield


def _queued_below(objects: list[Object]) -> Iterator[None]:
    for item in kinds(objects, "Deployment"):
        item["spec"]["template"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "x"
        yield


def _same_port(objects: list[Object]) -> Iterator[None]:
    for container in containers(objects):
        port = container["ports"][0]["containerPort"]
        for entry in container["env"]:
            if entry["name"] == "VLLM_NIXL_SIDE_CHANNEL_PORT":
                entry["value"] = str(port)
                yield


BREAKS: dict[str, Break | tuple[Sequence[str], Break]] = {
    "startup-probe": drop("startupProbe"),
    "readiness-probe": drop("readinessProbe"),
    "liveness-probe": drop("livenessProbe"),
    "probe-port": put(
        "readinessProbe", {"httpGet": {"path": "/health", "port": "web"}, "timeoutSeconds": 10}
    ),
    "container-port": only((*SIMPLE[1:], "hardened", "lws-vllm-nnodes"), of_vllm("--port", "9123")),
    "probe-path": put(
        "readinessProbe", {"httpGet": {"path": "/healthz", "port": "http"}, "timeoutSeconds": 10}
    ),
    "progress-deadline": of_engines("spec.progressDeadlineSeconds", 60),
    "shutdown-flag": only(
        ("hardened",), put("image", f"vllm/vllm-openai:v0.11.0@sha256:{'0' * 64}")
    ),
    "gpu-limits": every(
        put("resources", {"limits": {"memory": "64Gi"}}),
        at("ModelBooster", "spec.backend.workers.0.resources", {}),
        at("VLLMRuntime", "spec.deploymentConfig.resources", {}),
        at("ArksApplication", "spec.instanceSpec.resources.requests", {"nvidia.com/gpu": "2"}),
    ),
    "world-size": only(
        ("vllm-tp8-statefulset", "sglang-two-gpus", "trtllm", "vllm-hub-cache", DESCRIBED),
        every(_gpus(2), at("VLLMRuntime", "spec.vllmConfig.tensorParallelSize", 4)),
    ),
    "idle-gpus": only(
        ("vllm-tp8-statefulset", "sglang-two-gpus", "trtllm", "vllm-hub-cache"), _gpus(8)
    ),
    "group-size": only(
        ("lws-vllm-ray", "lws-vllm-nnodes"),
        at("LeaderWorkerSet", "spec.leaderWorkerTemplate.size", 3),
    ),
    "model-memory": only((*SIMPLE, "vllm-tp8-statefulset", "lws-vllm-ray"), _small_gpus),
    "model-context": only(SIMPLE, _long),
    "image-digest": every(
        put("image", "vllm/vllm-openai:latest"),
        at("ModelBooster", "spec.backend.workers.0.image", "vllm/vllm-openai:latest"),
        at("ArksApplication", "spec.runtimeImage", "vllm/vllm-openai:v0.26.0"),
        at("VLLMRuntime", "spec.deploymentConfig.image.name", "vllm/vllm-openai"),
    ),
    "image-driver": only(SIMPLE, _old_driver),
    "network-policy": _no_policies,
    "network-dns": only(SIMPLE, _no_dns),
    "network-serving": only(
        ("vllm-single-gpu", "vllm-tp8-statefulset", "ingress-nginx"), _ports_of_policies
    ),
    "network-picker": only(("gateway-istio",), _ports_of_policies),
    "network-group": only(GROUPS, _closed_group),
    "network-transfer": only(
        (*NIXL, *SPLIT), at("NetworkPolicy", "spec.ingress", [{"ports": [{"port": 8000}]}])
    ),
    "network-store": only(SIMPLE, _shut_in),
    "network-open": only(SIMPLE, at("NetworkPolicy", "spec", {"podSelector": {}, "ingress": [{}]})),
    "network-scraper": only(("monitored",), _no_scraper),
    "plain-secret": every(
        env("HF_TOKEN", "not-a-reference"),
        at("ModelBooster", "spec.backend.env", [{"name": "HF_TOKEN", "value": "no-reference"}]),
        at("ArksApplication", "spec.apiKey", "0a1b2c3d4e5f6a7b8c9d0e1f"),
        at("ModelDeployment", "spec.database.password", "no-reference"),
    ),
    "service-links": in_pod("enableServiceLinks", None),
    "shared-memory": _small_shm,
    "surge": of_engines("spec.strategy", {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
    "drain": drop("lifecycle"),
    "shell-pid1": _shell,
    "argument-split": argument("--max-model-len 8192"),
    "shell-words": _lost_words,
    "entry-twice": only(SIMPLE, _said_twice),
    "argument-quotes": argument("--served-model-name='x'"),
    "argument-json": of_vllm("--compilation-config", "{mode: 3}"),
    "flag-value": every(
        of_vllm("--max-num-seqs", "many"),
        at("ModelBooster", "spec.backend.workers.0.config.enforce-eager", True),
        at("VLLMRuntime", "spec.vllmConfig.extraArgs", ["--max-num-seqs", "many"]),
    ),
    "unknown-flag": every(
        of_vllm("--enable-prefix-cachign"),
        at("ModelBooster", "spec.backend.workers.0.config.maxModelLen", 8192),
        at("ModelDeployment", "spec.engine.args.max_modle_len", "8192"),
    ),
    "unexpanded-variable": argument("$MODEL_NAME"),
    "undefined-variable": only(SIMPLE, argument("--served-model-name", "$(NOWHERE)")),
    "string-values": argument("--max-num-seqs", 256),
    "claim-shared": only(
        ("sglang-two-gpus", "lws-vllm-ray", "gateway-istio", "keda"), _claims_once
    ),
    "claim-surge": only(("triton", "trtllm", "hardened"), _surging_claim),
    "missing-volume": only((*SIMPLE, "vllm-tp8-statefulset", *GROUPS), _unknown_keys),
    "missing-claim": at("PersistentVolumeClaim", "metadata.name", "weight"),
    "weights-download": _hub("--revision", "0" * 40),
    "cache-mount": only(
        ("vllm-single-gpu", "vllm-hub-cache", "keda"), _cache("/root/.cache/huggingface")
    ),
    "model-revision": every(
        _hub(),
        at("ModelBooster", "spec.backend.modelURI", "hf://Qwen/Qwen3-32B"),
        at("VLLMRuntime", "spec.model.modelURL", "Qwen/Qwen3-32B"),
        at("ModelDeployment", "spec.engine.args", {}),
    ),
    "hub-offline": only(("vllm-single-gpu", "keda"), _cache("/data")),
    "ephemeral-limit": _unbounded,
    "hardened-caches": only(
        (*SIMPLE, *GROUPS, *NIXL), put("securityContext", {"readOnlyRootFilesystem": True})
    ),
    "nonroot-home": only((*SIMPLE, *GROUPS), put("securityContext", {"runAsUser": 1000})),
    "missing-config": only(("benchmark-cronjob",), at("ConfigMap", "metadata.name", "batches")),
    "missing-service-account": only(
        ("gateway-istio",), at("ServiceAccount", "metadata.name", "pickers")
    ),
    "missing-class": only(SIMPLE, _classed),
    "service-selector": only(
        (*SIMPLE, "trtllm"), at("Service", "spec.selector", {"app.kubernetes.io/name": "lama"})
    ),
    "service-port": only(
        (*SIMPLE, "triton", "sglang-two-gpus"), at("Service", "spec.ports.0.targetPort", 12345)
    ),
    "route-backend": only(("gateway-istio", "vllm-hub-cache"), _misled),
    "route-gateway": only(
        ("gateway-istio",), at("HTTPRoute", "spec.parentRefs.0.sectionName", "https")
    ),
    "pool-selector": only(
        ("gateway-istio",), at("InferencePool", "spec.targetPorts.0.number", 8001)
    ),
    "pool-picker": only(
        ("gateway-istio",), at("InferencePool", "spec.endpointPickerRef.port.number", 9003)
    ),
    "scaler-target": only(("keda", "hpa-and-budget"), _second_scaler),
    "queue-chain": only(("kueue",), at("LocalQueue", "spec.clusterQueue", "gpu")),
    "route-timeout": only(ROUTED, _route_for),
    "route-retry": only(
        ROUTED,
        at("HTTPRoute", "spec.rules.0.timeouts", {"request": "600s", "backendRequest": "30s"}),
    ),
    "duration-syntax": only(ROUTED, at("HTTPRoute", "spec.rules.0.timeouts", {"request": "1.5m"})),
    "body-limit": only(("ingress-nginx",), _small_bodies),
    "pool-group": only(
        ("gateway-istio", "pd-vllm-nixl"),
        at("InferencePool", "apiVersion", "inference.networking.x-k8s.io/v1alpha2"),
    ),
    "pool-rights": only(
        ("gateway-istio",), at("Role", "rules.0.apiGroups", ["inference.networking.x-k8s.io"])
    ),
    "pool-protocol": only(
        ("gateway-istio",), at("InferencePool", "spec.appProtocol", "kubernetes.io/h2c")
    ),
    "picker-tls": only(("gateway-istio",), at("DestinationRule", "spec.host", "other")),
    "side-channel": only(NIXL, put("env", [])),
    "kv-roles": only(NIXL, _misspelt_role),
    "port-overlap": only(NIXL, _same_port),
    "kv-load-failure": only(NIXL, of_vllm("--kv-transfer-config.kv_connector", "NixlConnector")),
    "group-restart": only(
        GROUPS, at("LeaderWorkerSet", "spec.leaderWorkerTemplate.restartPolicy", "None")
    ),
    "group-rollout": only(
        GROUPS,
        at(
            "LeaderWorkerSet",
            "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable",
            "50%",
        ),
    ),
    "leader-name": only(("vllm-tp8-statefulset",), of_vllm("--nnodes=2", "--node-rank=$(RANK)")),
    "host-dns": only(GROUPS, _on_the_host),
    "queue-coverage": only(
        ("kueue",),
        of_serving_queue("spec.resourceGroups.0.coveredResources", ["cpu", "memory"]),
    ),
    "queue-label": only(SIMPLE, _queued_below),
    "serving-priority": only(
        ("kueue",), at("Deployment", "metadata.labels", {"kueue.x-k8s.io/queue-name": "serving"})
    ),
    "queue-preemption": only(
        ("kueue",),
        of_serving_queue("spec.preemption.withinClusterQueue", "LowerOrNewerEqualPriority"),
    ),
    "queue-cohort": only(
        ("kueue",), of_serving_queue("spec.preemption.reclaimWithinCohort", "Never")
    ),
    "webhook-outage": also(WEBHOOK),
    "metric-names": also(SCALER),
    "scale-on-cpu": only(
        ("hpa-and-budget",),
        at(
            "HorizontalPodAutoscaler",
            "spec.metrics",
            [{"type": "Resource", "resource": {"name": "cpu"}}],
        ),
    ),
    "metric-average": also(SCALER),
    "metric-ceiling": only(
        ("keda",),
        at(
            "ScaledObject",
            "spec.triggers.0.metadata",
            {"query": "avg(vllm:kv_cache_usage_perc)", "threshold": "80"},
        ),
    ),
    "disruption-budget": also(BUDGET),
    "consolidation": only(("karpenter-efa",), at("NodePool", "spec.disruption", {})),
    "ipc-lock": only(GROUPS, put("securityContext", {})),
    "rdma-unused": only(GROUPS, env("NCCL_IB_DISABLE", "1")),
    "rdma-missing": only(SIMPLE, env("NCCL_IB_HCA", "mlx5")),
    "efa-zone": only(("karpenter-efa",), at("NodePool", "spec.template.spec.requirements", [])),
    "efa-placement": only(
        ("karpenter-efa",), at("EC2NodeClass", "spec.placementGroupSelector", None)
    ),
    "efa-plugin": only(("karpenter-efa",), at("DaemonSet", "spec.template.spec.tolerations", [])),
    "node-image": only(
        ("karpenter-efa",), at("EC2NodeClass", "spec.amiSelectorTerms.0.alias", "al2023@latest")
    ),
    "node-metadata": only(
        ("karpenter-efa",), at("EC2NodeClass", "spec.metadataOptions.httpTokens", "optional")
    ),
    "privileged-engine": put("securityContext", {"privileged": True}, serving=False),
    "engine-exposed": _service_type("LoadBalancer"),
    "group-port-exposed": only(("lws-vllm-ray",), also(SERVICE)),
    "remote-code": _hub("--trust-remote-code"),
}


# --- counting --------------------------------------------------------------------------------


def mutants(rule: str, good: dict[str, list[Manifest]]) -> Iterator[tuple[str, list[Object]]]:
    """Every broken set of one rule, one break each, and where it was made."""
    given = BREAKS[rule]
    files, change = given if isinstance(given, tuple) else (tuple(good), given)
    for name in files:
        count = sum(1 for _ in change(copy.deepcopy(good[name])))
        for number in range(count):
            objects = copy.deepcopy(good[name])
            for position, _ in enumerate(change(objects)):
                if position == number:
                    break
            yield f"{name} #{number + 1}", objects


def row(rule: str, good: dict[str, list[Manifest]]) -> Row:
    """Break, check and count for one rule."""
    context = Context(profile="strict")
    missed: list[str] = []
    total = 0
    for where, objects in mutants(rule, good):
        total += 1
        if all(finding.rule != rule for finding in check(objects, context)):
            missed.append(where)
    return Row(rule, total, total - len(missed), tuple(missed))


def table() -> str:
    """Rule, breaks, noticed."""
    good = corpus()
    rows = [row(rule.id, good) for rule in RULES]
    lines = [f"{'rule':26} breaks noticed"]
    lines += [f"{r.rule:26} {r.breaks:6} {r.noticed:7} {' '.join(r.missed[:4])}" for r in rows]
    breaks, noticed = sum(r.breaks for r in rows), sum(r.noticed for r in rows)
    lines.append(f"{'all':26} {breaks:6} {noticed:7}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
