"""Documents in, values of the charts gateway, queues and tenant out (those of `model`: model.py).

Pure: the same stack gives the same values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import load_routing
from tokenworks.catalog.network import load_networks
from tokenworks.render.aws.load_balancer import service_annotations
from tokenworks.render.model import DNS, DOMAIN, GATEWAY, LISTENER, MONITORING, TENANT_LABEL
from tokenworks.render.quantities import mebibytes
from tokenworks.render.roles import GPU, SERVING
from tokenworks.spec.common import quantity_value
from tokenworks.spec.environment import NodePool
from tokenworks.spec.layout import layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Quota, Tenant
from tokenworks.spec.topology_rules import pool_network
from tokenworks.spec.values import (
    FlavorValues,
    GatewayNetwork,
    GatewayValues,
    Limits,
    Listener,
    PoolQuota,
    QueueOfTenant,
    QueuesValues,
    RouterValues,
    SmallResources,
    TenantValues,
)

PRIORITIES: Final = {SERVING: 1000, "batch": 0}
COHORT: Final = "tokenworks"
_UNCOUNTED: Final = {"cpu": "1M", "memory": "1Pi", "ephemeral-storage": "1Pi"}
"""Quota of what is not rationed. A resource without quota would admit no pod at all."""


def tenant_namespace(tenant: Tenant) -> str:
    """The namespace the tenant's models run in."""
    return tenant.namespace


def _serves(model: ModelRelease) -> bool:
    """Whether the release has pods at all."""
    return any(role.replicas > 0 for role in layout(model.spec))


# Gateway


def _router_resources(max_body: str) -> SmallResources:
    """The router holds whole bodies: room for sixteen of the largest, parsed or not."""
    memory = quantity_value("128Mi") + 16 * quantity_value(max_body)
    return SmallResources(cpu="100m", memory=mebibytes(memory))


def gateway_values(stack: Stack) -> GatewayValues:
    """Values of the chart `gateway`."""
    gateway, routing = stack.environment.spec.gateway, load_routing()
    return GatewayValues(
        labels=stack.environment.metadata.labels,
        name=GATEWAY,
        class_name=gateway.implementation,
        service_type=gateway.service_type,
        service_annotations=service_annotations(stack),
        listener=Listener(name=LISTENER, port=gateway.port, hostname=gateway.hostname),
        models={name: m.spec.tenant for m in stack.models if _serves(m) for name in m.names},
        limits=Limits(
            idle_timeout=gateway.idle_timeout,
            max_request_bytes=int(quantity_value(gateway.max_request_body)),
            max_connections=gateway.max_connections,
            max_streams=100,
        ),
        router=RouterValues(
            image=bill().image("inference-extension", "bbr"),
            replicas=1,
            header=routing.model_header,
            timeout="10s",
            verbosity=routing.router_verbosity,
            resources=_router_resources(gateway.max_request_body),
        ),
        network=GatewayNetwork(
            dns_namespace=DNS,
            monitoring_namespace=MONITORING,
            cluster_domain=DOMAIN,
            controller_namespace="istio-system",
        ),
    )


# Queues


def _rdma_resources(pools: Mapping[str, NodePool]) -> list[str]:
    return sorted({pool.rdma.resource for pool in pools.values() if pool.rdma})


def _hugepages(pools: Mapping[str, NodePool]) -> dict[str, str]:
    """Huge pages that pods with RDMA devices ask for: not rationed, but a quota has to be there."""
    networks = {pool_network(pool) for pool in pools.values()} - {None}
    names = {name for n in networks for name in load_networks()[str(n)].hugepages}
    return dict.fromkeys(sorted(names), "1Pi")


def _nominal(
    pool: NodePool, quota: Quota, rdma: Iterable[str], uncounted: Mapping[str, str]
) -> dict[str, str]:
    devices = dict.fromkeys(rdma, "0")
    if pool.rdma:
        share = math.ceil(quota.gpus * pool.rdma.per_node / pool.gpus_per_node)
        devices[pool.rdma.resource] = str(share)
    return {**uncounted, GPU: str(quota.gpus), **devices}


def queues_values(stack: Stack) -> QueuesValues:
    """Values of the chart `queues`: one flavor a node pool, one queue a tenant, one cohort."""
    pools = stack.environment.spec.node_pools
    rdma, uncounted = _rdma_resources(pools), {**_UNCOUNTED, **_hugepages(pools)}
    tenants = {
        tenant.metadata.name: QueueOfTenant(
            pools={
                name: PoolQuota(
                    nominal=_nominal(pools[name], quota, rdma, uncounted), borrow=quota.borrow
                )
                for name, quota in tenant.spec.quota.items()
            }
        )
        for tenant in stack.tenants
        if tenant.spec.quota
    }
    return QueuesValues(
        labels=stack.environment.metadata.labels,
        cohort=COHORT,
        resources=(*uncounted, GPU, *rdma),
        flavors={
            name: FlavorValues(node_labels=pool.labels, taints=pool.taints, topology=pool.topology)
            for name, pool in pools.items()
        },
        tenants=tenants,
        priorities=dict(PRIORITIES),
    )


# Tenants


def tenant_values(stack: Stack, tenant: Tenant) -> TenantValues:
    """Values of the chart `tenant`."""
    queued = stack.environment.spec.platform.kueue.enabled and bool(tenant.spec.quota)
    return TenantValues(
        labels={
            **tenant.metadata.labels,
            **tenant.spec.cost_labels,
            TENANT_LABEL: tenant.metadata.name,
        },
        queue=tenant.metadata.name if queued else None,
    )
