"""What each chart installs by default, and values as Helm lays them onto that."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from tokenworks.render.model import model_values
from tokenworks.render.values import (
    gateway_values,
    queues_values,
    tenant_values,
)
from tokenworks.spec.caches import Caches, WeightsCache
from tokenworks.spec.common import Document, Metadata
from tokenworks.spec.environment import Cluster, Component, Environment, EnvironmentSpec, Kueue
from tokenworks.spec.environment import Platform as PlatformSpec
from tokenworks.spec.model import (
    Engine,
    ModelRelease,
    ModelReleaseSpec,
    Startup,
    Weights,
)
from tokenworks.spec.resources import Resources
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant, TenantSpec


def _default_stack() -> Stack:
    """A cluster with nothing but the gateway, and one simulated model without a GPU."""
    environment = Environment(
        metadata=Metadata(name="default"),
        spec=EnvironmentSpec(
            cluster=Cluster(provider="existing", context="default"),
            platform=PlatformSpec(
                kueue=Kueue(enabled=False), leader_worker_set=Component(enabled=False)
            ),
        ),
    )
    model = ModelRelease(
        metadata=Metadata(name="simulator"),
        spec=ModelReleaseSpec(
            tenant="default",
            model=Weights(uri="dummy://simulator", size="1Mi", max_context=8192),
            engine=Engine(name="simulator"),
            resources=Resources(gpus=0, cpu="100m", memory="256Mi", ephemeral_storage="256Mi"),
            caches=Caches(weights=WeightsCache(kind="none")),
            startup=Startup(load="60s", drain="30s"),
        ),
    )
    tenant = Tenant(metadata=Metadata(name="default"), spec=TenantSpec())
    return Stack(environment=environment, models=(model,), tenants=(tenant,))


@cache
def default_values() -> dict[str, Document]:
    """Values of each chart's values.yaml: made by the functions that render environments."""
    stack = _default_stack()
    model = model_values(stack, stack.models[0])
    tenant = tenant_values(stack, stack.tenants[0])
    return {
        "model": model.model_copy(update={"labels": {}}),
        "gateway": gateway_values(stack).model_copy(update={"models": {}}),
        "queues": queues_values(stack),
        "tenant": tenant.model_copy(update={"labels": {}}),
    }


def helm_values(chart: str, document: Document) -> dict[str, Any]:
    """The values as a file for Helm, which lays them onto the chart's own.

    What the chart has by default and the document has not is null, so that nothing of the
    chart's example (a flag, a tag) is left among what the document says.
    """
    return _laid_on(_data(default_values()[chart]), _data(document))


def _data(document: Document) -> dict[str, Any]:
    return document.model_dump(by_alias=True, mode="json", exclude_none=True)


def _laid_on(defaults: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {key: None for key in defaults if key not in data}
    for key, value in data.items():
        below = _map(value)
        mapping = isinstance(value, dict)
        result[key] = _laid_on(_map(defaults.get(key)), below) if mapping else value
    return result


def _map(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
