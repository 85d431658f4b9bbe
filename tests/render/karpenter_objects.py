"""NodePools, EC2NodeClasses and NodeOverlays of every way to have a pool made by Karpenter."""

from __future__ import annotations

from typing import Any

from tests.components.aws.environments import G6, P5, changed, plan
from tokenworks.render.aws.karpenter import pool_objects

RESERVED = "cr-0123456789abcdef0"
_KARPENTER = {"manager": "karpenter", "minNodes": 0}
POOLS: dict[str, dict[str, Any]] = {
    "g6-on-demand": changed(G6, **_KARPENTER),
    "g6-spot": changed(G6, **_KARPENTER, purchase="spot"),
    "g6-close": changed(G6, **_KARPENTER, zones=["us-east-1b"], placementGroup=True),
    "p5-on-demand": changed(P5, **_KARPENTER),
    "p5-reserved": changed(P5, **_KARPENTER, purchase="reservation", reservation=RESERVED),
    "p5-block": changed(P5, **_KARPENTER, purchase="capacity-block", reservation=RESERVED),
}


def karpenter_objects(**aws: Any) -> list[dict[str, Any]]:
    """Everything that Karpenter is told of each pool; `aws` goes over the cluster's settings."""
    found = plan(POOLS, **aws)
    return [o for pool in found.pools for o in pool_objects(found, pool, 65532)]
