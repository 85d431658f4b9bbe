"""What an AWS account refuses although each value by itself is right: names that are taken, things
said twice, things of another account or region. Without these an `up` would stop half way."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Final

from tokenworks.spec.aws import LONGEST_TAG, NODE_TEMPLATE, AwsCluster, AwsPool
from tokenworks.spec.environment import Environment, NodePool
from tokenworks.spec.problems import FieldPath, Problem
from tokenworks.spec.sourced import Sourced

_CLUSTER: Final[FieldPath] = ("spec", "cluster", "aws")
SYSTEM: Final = "system"
"""Name of the node group without GPUs, and what its nodes' label tokenworks.dev/pool says."""
_POOL_LABEL: Final = "tokenworks.dev/pool"
_RESERVED_LABELS: Final = re.compile(
    r"(.+\.)?(kubernetes\.io|k8s\.io|eks\.amazonaws\.com|karpenter\.sh|karpenter\.k8s\.aws)/.*"
)
"""Node groups and kubelets refuse the first three (kubernetes/cloud-provider-aws/issues/242, read
2026-11-30), Karpenter's CRDs the others (aws/karpenter-provider-aws v1.14.1, pkg/apis/crds)."""


_OUR_LABELS: Final = (
    "nvidia.com/gpu.present", "tokenworks.dev/efa", "k8s.amazonaws.com/accelerator",
)  # fmt: skip


def check_account(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """Every problem of this kind."""
    yield from _principals(environment, cluster)
    yield from _networks(environment, cluster)
    yield from _secrets(environment, cluster)
    for name, pool in environment.document.spec.node_pools.items():
        yield from _pool_name(environment, name)
        yield from _pool_labels(environment, name, pool)
        yield from _pool_taints(environment, name, pool)
        yield from _tags(environment, name, pool)
    yield from _reservations(environment, cluster)


def _principals(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """A principal has one access entry (EKS user guide, "Create access entries", read
    2026-11-30)."""
    access, seen = cluster.access, dict[str, str]()
    for field, roles in (("admins", access.admins), ("viewers", access.viewers)):
        for place, role in enumerate(roles):
            if role in seen:
                yield environment.problem(
                    (*_CLUSTER, "access", field, place),
                    f"found {role}, which is among {seen[role]} already",
                    "each role once: EKS gives a role one entry",
                    "remove one",
                )
            seen.setdefault(role, field)


def _networks(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """Networks that reach the endpoint are outside the VPC, and each is a rule of its own."""
    vpc = ipaddress.ip_network(cluster.network.cidr)
    given = cluster.access.networks
    for place, text in enumerate(given):
        path: FieldPath = (*_CLUSTER, "access", "networks", place)
        if ipaddress.ip_network(text).overlaps(vpc):
            yield environment.problem(
                path,
                f"found {text}, which overlaps network.cidr ({vpc}): who is in the VPC reaches the "
                "endpoint anyway, and others with its addresses do not",
                "networks outside the VPC",
                "remove it, or choose another network.cidr",
            )
        elif text in given[:place]:
            yield environment.problem(path, f"found {text} twice", "each once", "remove one")


def _secrets(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """ECR reads secrets of its own account and region (ECR user guide, "Creating a pull through
    cache rule", read 2026-11-30)."""
    for prefix, cached in cluster.registry_cache.items():
        if cached.credentials is None:
            continue
        region, account = _home(cached.credentials)
        if (region, account) != (cluster.region, cluster.account):
            yield environment.problem(
                (*_CLUSTER, "registryCache", prefix, "credentials"),
                f"found a secret of account {account} in {region}, and ECR reads those of its own "
                "account and region",
                f"a secret of account {cluster.account} in {cluster.region}",
                "make the secret there",
            )


def _home(arn: str) -> Sequence[str]:
    """Region and account of an ARN."""
    return arn.split(":")[3:5]


def _pool_name(environment: Sourced[Environment], name: str) -> Iterator[Problem]:
    if name == SYSTEM:
        yield environment.problem(
            ("spec", "nodePools", name),
            f"found a pool named {SYSTEM}, which the node group without GPUs is called",
            f"any name but {SYSTEM}",
            "rename it",
        )


def _pool_labels(environment: Sourced[Environment], name: str, pool: NodePool) -> Iterator[Problem]:
    for key, value in pool.labels.items():
        path: FieldPath = ("spec", "nodePools", name, "labels", key)
        if _RESERVED_LABELS.fullmatch(key):
            yield environment.problem(
                path,
                "found a label that Kubernetes, EKS or Karpenter set themselves, and refuse from "
                "others",
                "labels of your own",
                f"use a domain of your own, such as {_POOL_LABEL}",
            )
        elif key in _OUR_LABELS:
            yield environment.problem(
                path,
                "found a label that every node gets by what it has, and device plugins go by",
                "labels of your own",
                "remove it",
            )
        elif key == _POOL_LABEL and value == SYSTEM:
            yield environment.problem(
                path,
                f"found {SYSTEM}, by which operators find the nodes without GPUs",
                f"any value but {SYSTEM}",
                f"write {name}",
            )


def _tags(environment: Sourced[Environment], name: str, pool: NodePool) -> Iterator[Problem]:
    """Labels and taints of a node group are told the autoscaler by tags, whose keys hold theirs."""
    if pool.aws is None or pool.aws.manager != "node-group":
        return
    given: list[tuple[FieldPath, str, str]] = [
        *((("labels", key), key, "label") for key in pool.labels),
        *((("taints", n, "key"), taint.key, "taint") for n, taint in enumerate(pool.taints)),
    ]
    for path, key, kind in given:
        most = LONGEST_TAG - len(f"{NODE_TEMPLATE}/{kind}/")
        if len(key) > most:
            yield environment.problem(
                ("spec", "nodePools", name, *path),
                f"found {len(key)} characters, and the tag that tells the autoscaler of it has "
                f"{LONGEST_TAG} at most",
                f"at most {most}",
                "shorten it, or choose manager karpenter",
            )


def _pool_taints(environment: Sourced[Environment], name: str, pool: NodePool) -> Iterator[Problem]:
    """A tag tells the autoscaler a taint's one effect, and EKS takes each taint once."""
    keys = [taint.key for taint in pool.taints]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            yield environment.problem(
                ("spec", "nodePools", name, "taints", place, "key"),
                f"found {key} twice",
                "each key once: a tag tells the autoscaler one effect of it",
                "remove one",
            )


def _reservations(environment: Sourced[Environment], cluster: AwsCluster) -> Iterator[Problem]:
    """A reservation is of one instance type in one zone, and either a capacity block or not."""
    seen: dict[str, tuple[str, AwsPool]] = {}
    for name, pool in environment.document.spec.node_pools.items():
        aws = pool.aws
        if aws is None or aws.reservation is None:
            continue
        first, other = seen.setdefault(aws.reservation, (name, aws))
        here, there = _place(aws, cluster), _place(other, cluster)
        if here != there:
            yield environment.problem(
                ("spec", "nodePools", name, "aws", "reservation"),
                f"found {aws.reservation}, which pool {first} has for {' '.join(there)}, and this "
                f"pool is {' '.join(here)}",
                "a reservation for one instance type, in one zone, bought in one way",
                "name this pool's own reservation",
            )


def _place(aws: AwsPool, cluster: AwsCluster) -> tuple[str, ...]:
    """What a reservation has one of."""
    return (aws.instance_type, aws.purchase, *(aws.zones or cluster.zones))
