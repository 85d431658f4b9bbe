"""How many pods and GPUs an object asks for, and how many more while it is rolled out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from policies.engines import is_accelerator
from policies.pods import Pod, pods_of
from policies.tree import at, mapping, quantity, sequence
from tokenworks.review.snapshot import Pool
from tokenworks.spec.stack import Manifest


@dataclass(frozen=True)
class Part:
    """Replicas of one pod, or of one group of pods."""

    replicas: int
    pods: int
    """Of one replica."""
    gpus: int
    """Of one replica."""
    pool: str | None
    """The pool whose labels its pods select; None: none of the environment's."""
    surge: int
    """Replicas that a rollout starts before it stops as many."""
    at_once: int
    """Replicas that a rollout has stopped at any time, at most; at least 1."""
    kept_back: int = 0
    """Replicas that a rollout leaves as they are (`partition`)."""

    @property
    def all_gpus(self) -> int:
        """GPUs of all replicas."""
        return self.replicas * self.gpus


Path = tuple[str, ...]
_REPLICAS: Final[Mapping[str, Path]] = {
    "Deployment": ("spec", "replicas"),
    "StatefulSet": ("spec", "replicas"),
    "ReplicaSet": ("spec", "replicas"),
    "LeaderWorkerSet": ("spec", "replicas"),
    "Job": ("spec", "parallelism"),
}
"""Kinds whose pods can be counted, and where they say how many."""
_ROLLING: Final[Mapping[str, Path]] = {
    "Deployment": ("spec", "strategy", "rollingUpdate"),
    "StatefulSet": ("spec", "updateStrategy", "rollingUpdate"),
    "LeaderWorkerSet": ("spec", "rolloutStrategy", "rollingUpdateConfiguration"),
}
_SURGE: Final = {"Deployment": "25%"}
"""What an absent maxSurge means; elsewhere 0."""
_UNAVAILABLE: Final = {"Deployment": "25%"}
"""What an absent maxUnavailable means; elsewhere 1."""


def parts_of(manifest: Manifest, pools: Mapping[str, Pool]) -> tuple[Part, ...]:
    """The pods that the object asks for; nothing where a controller decides how many."""
    pods = list(pods_of(0, manifest))
    kind = str(manifest.get("kind"))
    if kind == "RoleBasedGroup":
        return tuple(_roles(manifest, pods, pools))
    if kind not in _REPLICAS or not pods:
        return ()
    replicas = _count(at(manifest, *_REPLICAS[kind]), 1)
    size = _count(at(manifest, "spec", "leaderWorkerTemplate", "size"), 1)
    rolling = mapping(at(manifest, *_ROLLING.get(kind, ("none",))))
    recreate = at(manifest, "spec", "strategy", "type") == "Recreate"
    made = _part(
        kind, pods, pools, replicas=replicas, size=size, rolling=rolling, all_at_once=recreate
    )
    return (made,)


def _part(
    kind: str,
    pods: list[Pod],
    pools: Mapping[str, Pool],
    *,
    replicas: int,
    size: int,
    rolling: Mapping[str, Any],
    all_at_once: bool = False,
) -> Part:
    surge = _share(rolling.get("maxSurge", _SURGE.get(kind, 0)), replicas, up=True)
    unavailable = _share(
        rolling.get("maxUnavailable", _UNAVAILABLE.get(kind, 1)), replicas, up=False
    )
    return Part(
        replicas,
        size,
        _group_gpus(pods, size),
        next((name for pod in pods for name in _pool_of(pod, pools)), None),
        0 if all_at_once else surge,
        replicas if all_at_once else max(1, unavailable),
        min(replicas, _count(rolling.get("partition"), 0)),
    )


def _roles(manifest: Manifest, pods: list[Pod], pools: Mapping[str, Pool]) -> Iterator[Part]:
    for position, entry in enumerate(map(mapping, sequence(at(manifest, "spec", "roles")))):
        mine = [pod for pod in pods if pod.path[:3] == ("spec", "roles", position)]
        if not mine:
            continue
        size = _count(at(entry, "leaderWorkerPattern", "size"), 1)
        rolling = mapping(at(entry, "rolloutStrategy", "rollingUpdate"))
        replicas = _count(entry.get("replicas"), 1)
        yield _part("Role", mine, pools, replicas=replicas, size=size, rolling=rolling)


def _group_gpus(pods: Iterable[Pod], size: int) -> int:
    """GPUs of one replica: its leader, and workers that are like it unless they are described."""
    by_role = {pod.role: gpus_of(pod) for pod in pods}
    worker = by_role.get("worker", by_role.get("pod", by_role.get("leader", 0)))
    leader = by_role.get("leader", worker)
    return leader + (size - 1) * worker


def gpus_of(pod: Pod) -> int:
    """GPUs that the containers of a pod hold together."""
    running = (container.spec for container in pod.containers if container.kind != "init")
    limits = (mapping(at(spec, "resources", "limits")) for spec in running)
    found = (quantity(v) for held in limits for name, v in held.items() if is_accelerator(name))
    return sum(int(value) for value in found if value is not None)


def _pool_of(pod: Pod, pools: Mapping[str, Pool]) -> Iterator[str]:
    selected = mapping(pod.spec.get("nodeSelector"))
    for name, pool in pools.items():
        if pool.labels and pool.labels.items() <= selected.items():
            yield name


def _count(value: object, absent: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else absent


def _share(value: object, replicas: int, *, up: bool) -> int:
    """An absolute number, or a percentage of the replicas, rounded as Kubernetes does."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}%", value):
        exact = int(value[:-1]) * replicas / 100
        return math.ceil(exact) if up else math.floor(exact)
    return _count(value, 0)
