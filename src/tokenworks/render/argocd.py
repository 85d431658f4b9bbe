"""Argo CD itself, from the manifests of its own module."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from tokenworks.catalog.alerts import alert_groups
from tokenworks.catalog.bill import bill, upstream_values
from tokenworks.catalog.health import health_checks
from tokenworks.render.helm import RenderTools, parse
from tokenworks.render.platform import (
    crd_release,
    crds,
    image_reference,
    namespace_object,
)
from tokenworks.render.release import Release
from tokenworks.spec.environment import Alerts, ArgoCd, Requests
from tokenworks.spec.stack import Manifest, Stack

COMPONENT: Final = "argocd"
_PARTS: Final = (
    "base/config",
    "base/redis",
    "base/repo-server",
    "base/application-controller-roles",
    "base/application-controller",
    "base/applicationset-controller",
    "cluster-rbac/application-controller",
)
"""Without its web server, its single sign-on and its notifications: Pulumi and Git say what there
is, and kubectl shows it."""
_CLUSTER_WIDE: Final = ("ClusterRole", "ClusterRoleBinding")
_PLUGINS: Final = ("copyutil", "var-files", "plugins")
"""Container and volumes with which plugins of the repository server would render."""
_ASKED: Final = ("argocd-application-controller", "argocd-repo-server")
_HEALTH: Final = {
    "argocd-application-controller": ("/healthz", 8082),
    "argocd-repo-server": ("/healthz?full=true", 8084),
}
_PORTS: Final = {"redis": 6379, "argocd-applicationset-controller": 8080}
"""Ports of what has nothing to ask for its health (v3.6.1: its manager is given no check)."""
_REDIS: Final = """\
exec redis-server - <<END
save ""
appendonly no
requirepass $REDIS_PASSWORD
END
"""
"""Its configuration on standard input: arguments are there for everybody on the node to read."""


def settings_of(stack: Stack) -> ArgoCd:
    """Where the environment's Argo CD finds what it applies; only where it delivers."""
    found = stack.environment.spec.argocd
    assert found is not None, "the document was checked"
    return found


def argocd(stack: Stack, tools: RenderTools, longest: float) -> list[Release]:
    """Argo CD and its CRDs.

    Args:
        stack: the environment's documents.
        tools: where the module lies.
        longest: seconds that all it delivers may take until they are ready.
    """
    component = bill().components[COMPONENT]
    assert component.module and component.namespace
    root = tools.module_dir(component.module) / "manifests"
    settings = settings_of(stack)
    objects = [_adapted(o, settings, longest) for part in _PARTS for o in _read(root / part)]
    whole = (namespace_object(component.namespace, _RESTRICTED), *objects)
    made = [
        crd_release("argocd-crds", crds(component, tools)),
        Release("argocd", "operators", component.namespace, whole, ("argocd-crds",)),
    ]
    if settings.alerts is not None:
        told = _alerts(settings.alerts, component.namespace)
        made.append(Release("argocd-alerts", "operators", component.namespace, told, ("argocd",)))
    return made


_TELLING: Final = ("argocd-metrics", "argocd-applicationset-controller")
"""Services that tell of applications and of their sets, on the port `metrics`."""
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}


def _alerts(asked: Alerts, namespace: str) -> tuple[Manifest, ...]:
    """The alerts, and what has Prometheus read the metrics that they are about."""

    def made(kind: str, name: str, spec: Manifest) -> Manifest:
        labels = {"app.kubernetes.io/part-of": "tokenworks", **asked.labels}
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        return {
            "apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": metadata,
            "spec": spec,
        }  # fmt: skip

    def monitor(service: str) -> Manifest:
        selector = {"matchLabels": {"app.kubernetes.io/name": service}}
        return made(
            "ServiceMonitor", service, {"selector": selector, "endpoints": [{"port": "metrics"}]}
        )

    rule = made("PrometheusRule", "argocd", {"groups": alert_groups(COMPONENT)})
    return (rule, *(monitor(service) for service in _TELLING))


def _read(folder: Path) -> list[Manifest]:
    found = (o for file in sorted(folder.glob("*.yaml")) for o in parse(file.read_text()))
    return [manifest for manifest in found if manifest["kind"] != "Kustomization"]


def _adapted(manifest: Manifest, settings: ArgoCd, longest: float) -> Manifest:
    """One of upstream's objects: in its namespace, configured, pinned and bounded."""
    meta: Manifest = dict(manifest["metadata"])
    if manifest["kind"] not in _CLUSTER_WIDE:
        meta["namespace"] = bill().components[COMPONENT].namespace
    whole = {**manifest, "metadata": meta}
    if manifest["kind"] == "ConfigMap":
        return _configured(whole, settings, longest)
    if manifest["kind"] in ("RoleBinding", "ClusterRoleBinding"):
        return _bound(whole)
    return _pinned(whole, settings) if "template" in whole.get("spec", {}) else whole


def _bound(manifest: Manifest) -> Manifest:
    namespace = bill().components[COMPONENT].namespace
    subjects = [{**subject, "namespace": namespace} for subject in manifest["subjects"]]
    return {**manifest, "subjects": subjects}


def _configured(manifest: Manifest, settings: ArgoCd, longest: float) -> Manifest:
    own = _config_of(str(manifest["metadata"]["name"]), settings, longest)
    return {**manifest, "data": {**(manifest.get("data") or {}), **own}} if own else manifest


def _config_of(name: str, settings: ArgoCd, longest: float) -> dict[str, str]:
    if name == "argocd-cm":
        checks = {f"resource.customizations.health.{k}": v for k, v in health_checks().items()}
        return {
            **checks,
            "admin.enabled": "false",
            "timeout.reconciliation": settings.poll,
            # Otherwise applications look at the repository up to a minute later than they should.
            "timeout.reconciliation.jitter": "0s",
        }
    if name == "argocd-cmd-params-cm":
        return {
            # The API server says what applying would change: defaults and webhooks count.
            "controller.diff.server.side": "true",
            # A wave waits for its pods: as long as they may take, and no longer.
            "controller.sync.timeout.seconds": str(math.ceil(longest)),
            # Only with it a set looks again when an application of it is synced or healthy; none
            # of ours has a RollingSync, which would switch automatic sync off.
            "applicationsetcontroller.enable.progressive.syncs": "true",
            "applicationsetcontroller.enable.leader.election": "true",
            # Git alone says what there is: no set asks a code host for repositories.
            "applicationsetcontroller.enable.scm.providers": "false",
        }
    return {}


def _pinned(manifest: Manifest, settings: ArgoCd) -> Manifest:
    """A workload with pinned images and bounded containers, without what renders by plugins."""
    template: Manifest = manifest["spec"]["template"]
    spec: Manifest = {**template["spec"], "enableServiceLinks": False}
    for key in ("initContainers", "containers"):
        kept = [c for c in spec.get(key, []) if c["name"] not in _PLUGINS]
        spec[key] = [_container(container, settings) for container in kept]
    if not spec["initContainers"]:
        del spec["initContainers"]
    volumes = [v for v in spec.get("volumes", []) if v["name"] not in _PLUGINS]
    if volumes:
        spec["volumes"] = [_volume(volume) for volume in volumes]
    return {
        **manifest,
        "spec": {**manifest["spec"], "template": {**template, "spec": spec}},
    }


def _volume(volume: Manifest) -> Manifest:
    if "emptyDir" not in volume:
        return volume
    return {**volume, "emptyDir": {"sizeLimit": upstream_values(COMPONENT)["scratch"]}}


def _container(container: Manifest, settings: ArgoCd) -> Manifest:
    name = str(container["name"])
    redis = name == "redis"
    changed: Manifest = {
        **container,
        "image": image_reference(bill().image(COMPONENT, "redis" if redis else "argocd")),
        "imagePullPolicy": "IfNotPresent",
        "resources": _resources(name, settings.requests),
    }
    if "volumeMounts" in container:
        mounts = [m for m in container["volumeMounts"] if m["name"] not in _PLUGINS]
        changed["volumeMounts"] = mounts
    if name == "argocd-repo-server":
        # No project asks for signed commits, and a keyring that is not used is not made.
        changed["env"] = [*container["env"], {"name": "ARGOCD_GPG_ENABLED", "value": "false"}]
    if redis:
        changed |= {"command": ["sh", "-c"], "args": [_REDIS]}
    return {**changed, **_probes(name)}


def _resources(name: str, asked: Requests | None) -> Manifest:
    found: Manifest = upstream_values(COMPONENT)[name]
    if asked is None or name not in _ASKED:
        return found
    return {**found, "requests": {"cpu": asked.cpu, "memory": asked.memory}}


def _probes(name: str) -> dict[str, Any]:
    """Probes that say when a process is ready and when it hangs; a busy one is given time."""
    if name in _PORTS:
        test: Manifest = {"tcpSocket": {"port": _PORTS[name]}}
        return {
            "readinessProbe": {**test, "periodSeconds": 5, "timeoutSeconds": 5},
            "livenessProbe": {**test, "periodSeconds": 20, "timeoutSeconds": 10},
        }
    if name not in _HEALTH:
        return {}
    path, port = _HEALTH[name]
    return {
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 5, "timeoutSeconds": 5,
        },
        "livenessProbe": {
            "httpGet": {"path": path, "port": port},
            "periodSeconds": 30, "timeoutSeconds": 10, "failureThreshold": 5,
        },
    }  # fmt: skip
