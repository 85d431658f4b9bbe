"""Karpenter: its controller, and a NodePool with its EC2NodeClass for each pool it makes."""

from __future__ import annotations

from typing import Any, Final

from tokenworks.catalog.bill import bill, upstream_values
from tokenworks.catalog.engines import load_engines
from tokenworks.render.aws.interfaces import interfaces
from tokenworks.render.aws.plan import GPU, AwsPlan, PoolPlan, plan_of
from tokenworks.render.aws.user_data import user_data
from tokenworks.render.helm import RenderTools
from tokenworks.render.platform import charted, crd_release, crds
from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack

_CAPACITY: Final = {
    "on-demand": "on-demand",
    "spot": "spot",
    "reservation": "reserved",
    "capacity-block": "reserved",
}
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}


def karpenter_values(plan: AwsPlan) -> dict[str, Any]:
    """Values of the upstream chart for this environment."""
    values, image = upstream_values("karpenter"), bill().image("karpenter", "controller")
    digest = "" if image.digest in (None, "unresolved") else image.digest
    values["controller"]["image"] = {
        "repository": image.repository, "tag": image.tag, "digest": digest,
    }  # fmt: skip
    values["settings"] |= {
        "clusterName": plan.cluster,
        "interruptionQueue": f"{plan.cluster}-interruptions",
    }
    if any(huge_pages(pool) for pool in plan.managed_by("karpenter")):
        values["settings"]["featureGates"] = {"nodeOverlay": True}
    return values


def karpenter(stack: Stack, tools: RenderTools) -> list[Release]:
    """CRDs, controller and pools; nothing where no pool is Karpenter's."""
    plan = plan_of(stack)
    pools = plan.managed_by("karpenter")
    if not pools:
        return []
    user = load_engines().engine("vllm").user
    objects = charted("karpenter", karpenter_values(plan), tools)
    made = tuple(o for pool in pools for o in pool_objects(plan, pool, user))
    return [
        crd_release("karpenter-crds", crds(bill().components["karpenter"], tools)),
        Release("karpenter", "operators", "karpenter", objects, ("karpenter-crds",)),
        Release("karpenter-pools", "platform", "", made, ("karpenter", "karpenter-crds")),
    ]


def pool_objects(plan: AwsPlan, pool: PoolPlan, user: int) -> list[Manifest]:
    """Everything that Karpenter is told of a pool."""
    overlay = [node_overlay(pool)] if huge_pages(pool) else []
    return [node_class(plan, pool, user), node_pool(pool), *overlay]


def node_class(plan: AwsPlan, pool: PoolPlan, user: int) -> Manifest:
    """What a node of the pool is made of."""
    spec: dict[str, Any] = {
        "role": plan.node_role,
        "amiSelectorTerms": [{"alias": _image(plan)}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": plan.cluster}}],
        "securityGroupSelectorTerms": _groups(plan, pool),
        "metadataOptions": {
            "httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1,
        },
        "blockDeviceMappings": [{
            "deviceName": "/dev/xvda",
            "ebs": {
                "volumeType": "gp3", "volumeSize": f"{pool.root_gigabytes}Gi", "encrypted": True,
                "kmsKeyID": plan.volumes_key, "deleteOnTermination": True,
            },
        }],
        "tags": {**plan.tags, "tokenworks.dev/pool": pool.name},
    }  # fmt: skip
    if pool.raid:
        spec["instanceStorePolicy"] = "RAID0"
    if pool.folder is not None:
        spec["userData"] = user_data(raid=False, folder=pool.folder, owner=user)
    if pool.efa_cards:
        spec["networkInterfaces"] = [
            {"networkCardIndex": i.card, "deviceIndex": i.device, "interfaceType": i.kind}
            for i in interfaces(pool.efa_cards)
        ]
    if pool.placement_group is not None:
        spec["placementGroupSelector"] = {"name": pool.placement_group}
    if pool.reservation is not None:
        spec["capacityReservationSelectorTerms"] = [{"id": pool.reservation}]
    return _object("karpenter.k8s.aws/v1", "EC2NodeClass", pool.name, spec)


def node_pool(pool: PoolPlan) -> Manifest:
    """Which nodes the pool may have, and when they go."""
    requirements = {
        "node.kubernetes.io/instance-type": [pool.instance_type],
        "topology.kubernetes.io/zone": list(pool.zones),
        "karpenter.sh/capacity-type": [_CAPACITY[pool.purchase]],
        "kubernetes.io/arch": [_ARCHITECTURES[pool.architecture]],
    }
    template = {
        "metadata": {"labels": pool.labels},
        "spec": {
            "nodeClassRef": {
                "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name,
            },
            "taints": [_taint(t.key, t.value, t.effect) for t in pool.taints],
            "requirements": [
                {"key": key, "operator": "In", "values": values}
                for key, values in requirements.items()
            ],
            # A node goes when it is empty, not when it is old: somebody is being answered there.
            "expireAfter": "Never",
        },
    }  # fmt: skip
    spec = {
        "template": template,
        "limits": {GPU: str(pool.most * pool.gpus)},
        # Never a node with a model on it: loading took minutes, and requests would break off.
        "disruption": {
            "consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m",
            "budgets": [{"nodes": "1"}],
        },
    }  # fmt: skip
    return _object("karpenter.sh/v1", "NodePool", pool.name, spec)


def huge_pages(pool: PoolPlan) -> dict[str, str]:
    """What a node of the pool reserves of them."""
    return {name: size for name, size in pool.resources.items() if name.startswith("hugepages-")}


def node_overlay(pool: PoolPlan) -> Manifest:
    """Huge pages, which no instance type has of itself: pods with EFA ask for them, and without
    this Karpenter finds no node that they would fit on."""
    name = {"key": "karpenter.sh/nodepool", "operator": "In", "values": [pool.name]}
    spec = {"requirements": [name], "capacity": huge_pages(pool)}
    return _object("karpenter.sh/v1alpha1", "NodeOverlay", pool.name, spec)


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> Manifest:
    labels = {"app.kubernetes.io/part-of": "tokenworks"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def _image(plan: AwsPlan) -> str:
    """The release of the images by its date, which is all that Karpenter wants of it."""
    release = plan.release
    return f"al2023@v{release.rpartition('-')[2]}" if release else "al2023@latest"


def _groups(plan: AwsPlan, pool: PoolPlan) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = [{"tags": {"aws:eks:cluster-name": plan.cluster}}]
    if pool.efa_cards:
        groups.append({"tags": {"tokenworks.dev/efa": plan.cluster}})
    return groups
