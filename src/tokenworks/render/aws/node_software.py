"""What runs on nodes with devices: plugins, metrics, labels; one owner for each."""

from __future__ import annotations

from typing import Any, Final

from tokenworks.catalog.aws.registries import regional
from tokenworks.catalog.bill import bill, upstream_values
from tokenworks.render.aws.daemons import (
    NAMESPACE,
    Daemon,
    Folder,
    daemon_set,
    labels_of,
    tolerations,
)
from tokenworks.render.aws.plan import EFA_LABEL, GPU_LABEL, AwsPlan, plan_of
from tokenworks.render.helm import RenderTools
from tokenworks.render.model import MONITORING
from tokenworks.render.platform import (
    chart_objects,
    crd_release,
    crds,
    image_reference,
    namespace_object,
)
from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack

_SOCKETS: Final = Folder("/var/lib/kubelet/device-plugins")
_INTERFACES: Final = Folder("/dev/infiniband")
"""Where the plugin finds EFA's devices; without it there are none to offer."""
_DISCOVERY: Final = "node-feature-discovery"
_DISCOVERY_CRDS: Final = f"{_DISCOVERY}-crds"
_DRIVER: Final = "dra-driver-nvidia-gpu"
_METRICS_PORT: Final = 9400
# A node whose driver is still loading must not end a plugin for ever.
_PATIENCE: Final = {"name": "FAIL_ON_INIT_ERROR", "value": "false"}


def node_software(stack: Stack, tools: RenderTools) -> list[Release]:
    """What the environment's document gives to us; the rest is its other owner's."""
    plan = plan_of(stack)
    found: list[Release] = []
    needs: tuple[str, ...] = ()
    objects = _plugins(plan, tools)
    if plan.pools and plan.spec.node_software.metrics == "dcgm-exporter":
        objects += _metrics(plan)
    if plan.pools and plan.spec.node_software.labels == "feature-discovery":
        objects += [*_discovery(plan, tools), _gpu_discovery(plan)]
        found = [crd_release(_DISCOVERY_CRDS, crds(bill().components[_DISCOVERY], tools))]
        needs = (_DISCOVERY_CRDS,)
    if not objects:
        return []
    # They mount folders of the host.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    whole = (namespace_object(NAMESPACE, labels), *objects)
    return [*found, Release("node-software", "operators", NAMESPACE, whole, needs)]


# Device plugins


def _plugins(plan: AwsPlan, tools: RenderTools) -> list[Manifest]:
    software, objects = plan.spec.node_software, list[Manifest]()
    if plan.pools and software.gpus == "device-plugin":
        objects.append(_nvidia(plan))
    if plan.pools and software.gpus == "dra":
        objects += chart_objects(_DRIVER, driver_values(plan), tools)
    if plan.has_efa and software.efa == "device-plugin":
        objects.append(_efa(plan))
    return objects


def _nvidia(plan: AwsPlan) -> Manifest:
    image = image_reference(bill().image("nvidia-device-plugin", "plugin"))
    container: dict[str, Any] = {"name": "plugin", "image": image, "env": [_PATIENCE]}
    return daemon_set(Daemon("nvidia-device-plugin", container, GPU_LABEL, plan.pools, (_SOCKETS,)))


def driver_values(plan: AwsPlan) -> dict[str, Any]:
    """Values of the chart whose DeviceClass serves requests for nvidia.com/gpu."""
    return _charted(_DRIVER, "plugin", "kubeletPlugin", plan)


def _charted(key: str, image: str, part: str, plan: AwsPlan) -> dict[str, Any]:
    """Our values of an upstream chart: the image of the bill, and a part of it on GPU nodes."""
    values, billed = upstream_values(key), bill().image(key, image)
    tag = image_reference(billed).removeprefix(f"{billed.repository}:")
    values[part] |= {"nodeSelector": {GPU_LABEL: "true"}, "tolerations": tolerations(plan.pools)}
    return {**values, "image": {"repository": billed.repository, "tag": tag}}


def _efa(plan: AwsPlan) -> Manifest:
    image = image_reference(regional(bill().image("efa-device-plugin", "plugin"), plan.spec.region))
    pools = tuple(pool for pool in plan.pools if pool.efa_cards)
    container = {"name": "plugin", "image": image}
    folders = (_SOCKETS, _INTERFACES)
    daemon = daemon_set(Daemon("efa-device-plugin", container, EFA_LABEL, pools, folders))
    # It asks the metadata service, which answers the node alone: pods are a hop too far.
    daemon["spec"]["template"]["spec"]["hostNetwork"] = True
    return daemon


# Metrics


def _metrics(plan: AwsPlan) -> list[Manifest]:
    """The exporter, by which pods and their GPUs are told together, and who may ask it."""
    name = "dcgm-exporter"
    env: list[dict[str, Any]] = [
        {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
        {"name": "DCGM_EXPORTER_LISTEN", "value": f":{_METRICS_PORT}"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    probe = {
        "httpGet": {"path": "/health", "port": _METRICS_PORT}, "timeoutSeconds": 5,
        "initialDelaySeconds": 45,
    }  # fmt: skip
    container = {
        "name": "exporter",
        "image": image_reference(bill().image(name, "exporter")),
        "env": env,
        "ports": [{"name": "metrics", "containerPort": _METRICS_PORT, "protocol": "TCP"}],
        "readinessProbe": {**probe, "periodSeconds": 10},
        "livenessProbe": {**probe, "periodSeconds": 20, "failureThreshold": 6},
    }
    pods = Folder("/var/lib/kubelet/pod-resources", read_only=True)
    daemon = Daemon(name, container, GPU_LABEL, plan.pools, (pods,), memory="512Mi")
    exporter, policy = daemon_set(daemon), _policy(name)
    if plan.spec.node_software.gpus != "dra":
        return [exporter, _service(name), policy]
    # Which device of the driver is which GPU, and whose, only the API server tells.
    env.append({"name": "KUBERNETES_ENABLE_DRA", "value": "true"})
    told = {"serviceAccountName": name, "automountServiceAccountToken": True}
    exporter["spec"]["template"]["spec"] |= told
    policy["spec"]["egress"] = [_to_api_server(), _to_dns()]
    return [*_reader(name), exporter, _service(name), policy]


def _to_api_server() -> Manifest:
    return {"ports": [{"protocol": "TCP", "port": 443}]}


def _to_dns() -> Manifest:
    system = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"to": [{"namespaceSelector": system}], "ports": ports}


def _reader(name: str) -> list[Manifest]:
    """An account that may read pods and what drivers offer."""
    account = {"name": name, "namespace": NAMESPACE, "labels": labels_of(name)}
    role, everywhere = f"{NAMESPACE}-{name}", "rbac.authorization.k8s.io"
    meta, verbs = {"name": role, "labels": labels_of(name)}, ["get", "list", "watch"]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": f"{everywhere}/v1",
            "kind": "ClusterRole",
            "metadata": meta,
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
                {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": verbs},
            ],
        },
        {
            "apiVersion": f"{everywhere}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": everywhere, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        },
    ]


def _service(name: str) -> Manifest:
    port = {"name": "http-metrics", "port": _METRICS_PORT, "targetPort": "metrics"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of(name)},
        "spec": {
            # Every exporter is asked by itself.
            "clusterIP": "None",
            "selector": {"app.kubernetes.io/name": name},
            "ports": [{**port, "protocol": "TCP"}],
        },
    }


def _policy(name: str) -> Manifest:
    """Only monitoring asks; the exporter itself talks to nobody."""
    monitoring = {"matchLabels": {"kubernetes.io/metadata.name": MONITORING}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of(name)},
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{
                "from": [{"namespaceSelector": monitoring}],
                "ports": [{"protocol": "TCP", "port": _METRICS_PORT}],
            }],
        },
    }  # fmt: skip


# Labels


def discovery_values(plan: AwsPlan) -> dict[str, Any]:
    """Values of the upstream chart: workers where GPUs are, the rest on nodes that stay."""
    return _charted(_DISCOVERY, "discovery", "worker", plan)


def _discovery(plan: AwsPlan, tools: RenderTools) -> tuple[Manifest, ...]:
    return chart_objects(_DISCOVERY, discovery_values(plan), tools)


def _gpu_discovery(plan: AwsPlan) -> Manifest:
    """It looks at the GPUs and writes a file, which node feature discovery makes labels of."""
    container = {
        "name": "discovery",
        "image": image_reference(bill().image("nvidia-device-plugin", "plugin")),
        "command": ["gpu-feature-discovery"],
        "env": [
            _PATIENCE,
            # Labels that never change by themselves: no timestamp among them.
            {"name": "GFD_NO_TIMESTAMP", "value": "true"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
    }
    folders = (
        Folder("/etc/kubernetes/node-feature-discovery/features.d", made=True),
        Folder("/sys", read_only=True),
    )
    return daemon_set(Daemon("gpu-feature-discovery", container, GPU_LABEL, plan.pools, folders))
