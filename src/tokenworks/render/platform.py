"""What an environment installs besides models: CRDs, operators, queues, gateway, tenants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import yaml

from tokenworks.catalog.bill import BilledComponent, bill, upstream_values
from tokenworks.kept import code, digest
from tokenworks.render.helm import RenderTools, parse, template
from tokenworks.render.release import Release, RemoteChart
from tokenworks.spec.common import Image, duration_seconds
from tokenworks.spec.environment import Requests
from tokenworks.spec.stack import Manifest, Stack


def namespace_object(name: str, labels: dict[str, str] | None = None) -> Manifest:
    """A Namespace, which charts cannot bring for themselves."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/part-of": "tokenworks", **(labels or {})},
        },
    }


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.yaml")) if path.is_dir() else [path]


def slim(schema: Any) -> Any:
    """A CRD without its prose: two thirds of its bytes, which every state file, diff and
    server-side apply would carry; `kubectl explain` keeps fields and types."""
    if isinstance(schema, dict):
        fields = cast("dict[str, Any]", schema).items()
        return {k: slim(v) for k, v in fields if not (k == "description" and isinstance(v, str))}
    if isinstance(schema, list):
        return [slim(v) for v in cast("list[Any]", schema)]
    return schema


def crds(component: BilledComponent, tools: RenderTools) -> tuple[Manifest, ...]:
    """CRDs (and what guards them) of a component, from its module's files."""
    assert component.module is not None
    root = tools.module_dir(component.module)
    texts = [p.read_text("utf-8") for part in component.crds for p in _files(root / part)]
    if tools.kept is None:
        return _crds(texts)
    key = digest("crds", code(), *texts)
    found = tools.kept.objects(key)
    if found is None:
        found = _crds(texts)
        tools.kept.keep_objects(key, found)
    return found


def _crds(texts: Iterable[str]) -> tuple[Manifest, ...]:
    found = (o for text in texts for o in parse(text) if o["kind"] != "Kustomization")
    return tuple(slim(o) if _is_crd(o) else o for o in found)


def image_reference(image: Image) -> str:
    """`repository:tag@digest`, as far as each is known."""
    tag = f":{image.tag}" if image.tag else ""
    known = image.digest not in (None, "unresolved")
    return f"{image.repository}{tag}" + (f"@{image.digest}" if known else "")


def _tag(image: Image) -> str:
    """What charts call the tag: it may carry a digest."""
    return image_reference(image).removeprefix(f"{image.repository}:")


def _requests(values: dict[str, Any], key: str, requests: Requests | None) -> None:
    if requests is not None:
        values[key] = {"requests": {"cpu": requests.cpu, "memory": requests.memory}}


def kueue_values(stack: Stack) -> dict[str, Any]:
    """Values of the upstream Kueue chart for this environment."""
    values, kueue = upstream_values("kueue"), stack.environment.spec.platform.kueue
    image = bill().image("kueue", "manager")
    manager = values["controllerManager"]["manager"]
    manager["image"] |= {"repository": image.repository, "tag": _tag(image)}
    if kueue.requests is not None:
        asked = {"cpu": kueue.requests.cpu, "memory": kueue.requests.memory}
        manager["resources"] = {"requests": asked}
    config = values["managerConfig"]["controllerManagerConfigYaml"]
    # Kueue's own default evicts what loads longer than half an hour.
    timeout = f"{int(duration_seconds(kueue.pods_ready_timeout))}s"
    config["waitForPodsReady"] = {
        "timeout": timeout,
        "recoveryTimeout": timeout,
        "blockAdmission": False,
    }
    # The stubs of PyYAML leave parameters untyped.
    text = yaml.dump(config, sort_keys=True)  # pyright: ignore[reportUnknownMemberType]
    values["managerConfig"]["controllerManagerConfigYaml"] = text
    return values


def lws_values(stack: Stack) -> dict[str, Any]:
    """Values of the upstream LeaderWorkerSet chart for this environment."""
    values, image = upstream_values("lws"), bill().image("lws", "manager")
    values["image"]["manager"] |= {"repository": image.repository, "tag": _tag(image)}
    _requests(values, "resources", stack.environment.spec.platform.leader_worker_set.requests)
    return values


def istio_values(stack: Stack) -> dict[str, Any]:
    """Values of the upstream istiod chart for this environment."""
    values, pilot = upstream_values("istio"), bill().image("istio", "pilot")
    hub, _, name = pilot.repository.rpartition("/")
    values |= {"image": name}
    values["global"] |= {"hub": hub, "tag": _tag(pilot)}
    _requests(values, "resources", stack.environment.spec.gateway.controller_requests)
    return values


def chart_objects(
    key: str, values: dict[str, Any], tools: RenderTools, name: str | None = None
) -> tuple[Manifest, ...]:
    """Objects of an upstream chart, for a namespace that is there already."""
    component = bill().components[key]
    assert component.module and component.chart and component.namespace
    chart = tools.module_dir(component.module) / component.chart
    return template(tools, chart, name or key, component.namespace, values)


def charted(
    key: str, values: dict[str, Any], tools: RenderTools, name: str | None = None
) -> tuple[Manifest, ...]:
    """Objects of an upstream chart, its Namespace first."""
    namespace = bill().components[key].namespace
    assert namespace is not None
    return (namespace_object(namespace), *chart_objects(key, values, tools, name))


def _is_crd(manifest: Manifest) -> bool:
    return manifest["kind"] == "CustomResourceDefinition"


def crd_release(name: str, objects: tuple[Manifest, ...]) -> Release:
    """A release of CRDs."""
    return Release(name, "crds", "", objects)


def remote_release(key: str, values: dict[str, Any], labels: dict[str, str]) -> Release:
    """An operator whose chart no module holds: its Namespace, and the chart by reference."""
    component = bill().components[key]
    assert component.repository and component.chart and component.namespace
    chart = RemoteChart(
        key, component.repository, component.chart, component.version, component.namespace, values
    )
    objects = (namespace_object(component.namespace, labels),)
    return Release(key, "operators", component.namespace, objects, charts=(chart,))


def gateway_api(tools: RenderTools) -> list[Release]:
    """CRDs of the Gateway API and its Inference Extension: one owner, one channel."""
    components = bill().components
    return [
        crd_release("gateway-api-crds", crds(components["gateway-api"], tools)),
        crd_release("inference-extension-crds", crds(components["inference-extension"], tools)),
    ]


def istio(stack: Stack, tools: RenderTools) -> list[Release]:
    """Istio as the gateway's control plane."""
    needs = ("gateway-api-crds", "inference-extension-crds", "istio-crds")
    objects = charted("istio", istio_values(stack), tools, "istiod")
    return [
        crd_release("istio-crds", crds(bill().components["istio"], tools)),
        Release("istiod", "operators", "istio-system", objects, needs),
    ]


def kueue(stack: Stack, tools: RenderTools) -> list[Release]:
    """Kueue; its chart keeps the CRDs among its templates, which would delete them with it."""
    objects = charted("kueue", kueue_values(stack), tools)
    own = tuple(o for o in objects if not _is_crd(o))
    return [
        crd_release("kueue-crds", tuple(slim(o) for o in objects if _is_crd(o))),
        Release("kueue", "operators", "kueue-system", own, ("kueue-crds",)),
    ]


def leader_worker_set(stack: Stack, tools: RenderTools) -> list[Release]:
    """LeaderWorkerSet."""
    objects = charted("lws", lws_values(stack), tools)
    return [
        crd_release("lws-crds", crds(bill().components["lws"], tools)),
        Release("lws", "operators", "lws-system", objects, ("lws-crds",)),
    ]
