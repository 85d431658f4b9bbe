"""What must hold where NVIDIA's network operator offers RDMA devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenworks.spec.environment import Environment
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.sourced import Sourced

RESOURCE: Final = "rdma/hca"
_OPERATOR: Final[FieldPath] = ("spec", "platform", "networkOperator", "enabled")
_ELSEWHERE: Final = {
    "aws": "AWS has EFA, whose plugin nodeSoftware installs",
    "local": "this machine's nodes have no adapters",
    "kind": "kind's nodes have no adapters",
}


def check_rdma(environment: Sourced[Environment]) -> Iterator[Problem]:
    """Every problem with the network operator."""
    spec = environment.document.spec
    if not spec.platform.network_operator.enabled:
        return
    if spec.cluster.provider in _ELSEWHERE:
        yield environment.problem(
            _OPERATOR,
            f"found true, but {_ELSEWHERE[spec.cluster.provider]}",
            "false",
            "remove it; provider existing may have it",
        )
        return
    yield from _devices(environment)


def _devices(environment: Sourced[Environment]) -> Iterator[Problem]:
    """One policy shares the adapters of every pool."""
    pools = environment.document.spec.node_pools
    shares = {
        name: pool.rdma.per_node
        for name, pool in pools.items()
        if pool.rdma is not None and pool.rdma.resource == RESOURCE
    }
    if not shares:
        yield environment.problem(
            _OPERATOR,
            f"found true, but no pool has rdma with resource {RESOURCE}",
            "false, or a pool with rdma",
            "add rdma to the pools whose nodes have adapters",
        )
        return
    first, number = next(iter(shares.items()))
    for name, other in shares.items():
        if other != number:
            yield environment.problem(
                ("spec", "nodePools", name, "rdma", "perNode"),
                f"found {other}, but pool {first} has {number}, and the network operator gives "
                "every node as many shares",
                str(number),
                "write one number for all pools",
            )
