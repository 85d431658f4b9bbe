"""A small environment on AWS, and what its infrastructure registers."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from components.aws.infrastructure import Infrastructure, InfrastructureArgs
from tests.components.recorder import Registered, run
from tokenworks.render.aws import AwsPlan, plan_of
from tokenworks.spec.environment import Environment
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant

ACCOUNT = "123456789012"
P5: dict[str, Any] = {
    "gpu": "nvidia-h100-80gb",
    "gpusPerNode": 8,
    "nodes": 2,
    "rdma": {"resource": "vpc.amazonaws.com/efa", "perNode": 32},
    "localStorage": {"path": "/mnt/k8s-disks/0/weights"},
    "labels": {"tokenworks.dev/pool": "p5"},
    "taints": [{"key": "nvidia.com/gpu"}],
    "aws": {"instanceType": "p5.48xlarge", "zones": ["us-east-1a"]},
}
G6: dict[str, Any] = {
    "gpu": "nvidia-l4-24gb",
    "gpusPerNode": 1,
    "nodes": 4,
    "labels": {"tokenworks.dev/pool": "g6"},
    "aws": {"instanceType": "g6.xlarge", "minNodes": 1},
}


def changed(pool: dict[str, Any], **aws: Any) -> dict[str, Any]:
    """The pool with other settings on AWS."""
    return {**pool, "aws": {**pool["aws"], **aws}}


def plan(pools: dict[str, Any] | None = None, **aws: Any) -> AwsPlan:
    """A plan; `aws` goes over the cluster's settings."""
    cluster = {
        "account": ACCOUNT,
        "region": "us-east-1",
        "zones": ["us-east-1a", "us-east-1b"],
        "nodeRelease": "1.35.6-20260728",
        "access": {"admins": [f"arn:aws:iam::{ACCOUNT}:role/admin"]},
        "systemPool": {"instanceType": "m7i.2xlarge"},
        "costCenter": "inference",
        **aws,
    }
    document = Environment.model_validate(
        {
            "apiVersion": "tokenworks.dev/v1alpha1",
            "kind": "Environment",
            "metadata": {"name": "test"},
            "spec": {
                "cluster": {"provider": "aws", "aws": cluster},
                "nodePools": pools if pools is not None else {"p5": P5, "g6": G6},
                "gateway": {"hostname": "llm.example.com"},
            },
        }
    )
    tenant = Tenant.model_validate(
        {
            "apiVersion": "tokenworks.dev/v1alpha1",
            "kind": "Tenant",
            "metadata": {"name": "research"},
            "spec": {"quota": {}},
        }
    )
    return plan_of(Stack(document, (), (tenant,)))


def built(pools: dict[str, Any] | None = None, **aws: Any) -> dict[str, Registered]:
    """What the infrastructure of such an environment registers, by name."""
    return dict(_built(json.dumps([pools, aws])))


@cache
def _built(settings: str) -> dict[str, Registered]:
    """The same settings register the same: once is enough for all tests of a file."""
    pools, aws = json.loads(settings)
    wanted = plan(pools, **aws)

    def program() -> Any:
        return Infrastructure("test", InfrastructureArgs(wanted, 65532)).kubeconfig

    return run(program)


def of(found: dict[str, Registered], token: str) -> list[Registered]:
    """Those of a type, named `eks:NodeGroup` for `aws:eks/nodeGroup:NodeGroup`."""
    service, _, kind = token.partition(":")
    return [
        r
        for r in found.values()
        if r.token.startswith(f"aws:{service}/") and r.token.endswith(f":{kind}")
    ]


def inputs(found: dict[str, Registered], token: str) -> dict[str, Any]:
    """Inputs of the one resource of a type."""
    (one,) = of(found, token)
    return one.inputs
