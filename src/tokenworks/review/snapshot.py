"""One state of one environment as data: what its documents render, and what is known of that.

A snapshot is plain JSON, so that the code of another commit can make it and this code can read it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from policies import Finding
from policies.model import Waiver
from policies.pods import flatten
from tokenworks.check.context import context_of
from tokenworks.check.environment import CheckTools, check_environment
from tokenworks.errors import TokenworksError
from tokenworks.files import replace_bytes
from tokenworks.render import Release, RenderTools, render
from tokenworks.render.aws import plan_of
from tokenworks.render.aws.cost import items, total
from tokenworks.spec.load import load_stack
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.stack import Manifest, Stack

FORMAT: Final = 1
"""Raised when the JSON changes: a snapshot of another format cannot be read."""


@dataclass(frozen=True)
class Placed:
    """An object, and the release that renders it."""

    release: str
    manifest: Manifest


@dataclass(frozen=True)
class Pool:
    """Nodes of one shape."""

    gpu: str
    gpus_per_node: int
    nodes: int
    """At most."""
    labels: Mapping[str, str]

    @property
    def gpus(self) -> int:
        """GPUs of all its nodes."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class Cost:
    """Dollars a month for nodes whose price is known, and how many prices are not."""

    least: float
    most: float
    unknown: int
    as_of: str | None = None
    """The day of the spot prices in it, which make it an estimate; None: there are none."""


@dataclass(frozen=True)
class Snapshot:
    """One state of one environment."""

    environment: str
    objects: tuple[Placed, ...] = ()
    findings: tuple[Finding, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    today: str = ""
    """The day by which waivers expire, YYYY-MM-DD."""
    pools: Mapping[str, Pool] = field(default_factory=dict[str, Pool])
    cost: Cost | None = None
    """None where nodes have no price."""
    infrastructure: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the infrastructure is made of; empty where the environment has none."""
    broken: str = ""
    """Why there are no objects: what is wrong with the documents, one line a problem."""

    @property
    def manifests(self) -> list[Manifest]:
        """The objects alone."""
        return [item.manifest for item in self.objects]

    def to_json(self) -> str:
        """All of it, with the format it has."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, default=str)


@dataclass(frozen=True)
class Tools:
    """What taking a snapshot needs from the machine."""

    render: RenderTools
    check: CheckTools
    local_images: frozenset[str]


def take(root: Path, name: str, tools: Tools) -> Snapshot:
    """The environment of that name below `root`, by the code that runs.

    Documents or charts that are wrong make a snapshot that says so.
    """
    try:
        stack = load_stack(root, name)
        releases = render(stack, tools.render)
        return _taken(stack, releases, tools)
    except DocumentErrors as errors:
        return Snapshot(name, broken="\n".join(map(str, errors.problems)))
    except TokenworksError as error:
        return Snapshot(name, broken=str(error))


def _taken(stack: Stack, releases: Sequence[Release], tools: Tools) -> Snapshot:
    context = context_of(stack, tools.local_images)
    report = check_environment(stack, releases, context, tools.check)
    plan = plan_of(stack) if stack.environment.spec.cluster.aws is not None else None
    return Snapshot(
        stack.name,
        tuple(_objects(releases)),
        report.findings,
        context.waivers,
        context.today,
        {
            name: Pool(pool.gpu, pool.gpus_per_node, pool.nodes, dict(pool.labels))
            for name, pool in sorted(stack.environment.spec.node_pools.items())
        },
        None if plan is None else _cost(stack),
        {} if plan is None else _plain(plan),
    )


def _objects(releases: Iterable[Release]) -> Iterable[Placed]:
    """Every object, in a namespace where it has one to itself."""
    for release in releases:
        charts = (chart.manifest() for chart in release.charts)
        for manifest in flatten([*release.objects, *charts]):
            yield Placed(release.name, manifest)


def _cost(stack: Stack) -> Cost:
    found = items(plan_of(stack))
    least, most = total(found, most=False), total(found, most=True)
    return Cost(least.monthly, most.monthly, most.unknown, most.as_of)


def _plain(plan: Any) -> dict[str, Any]:
    """A plan as JSON would tell it."""
    given = dataclasses.asdict(plan)
    given["spec"] = plan.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    given["pools"] = [
        {"name": pool["name"], **{k: v for k, v in pool.items() if v not in (None, (), {})}}
        for pool in given["pools"]
    ]
    return json.loads(json.dumps(given))


def of_json(text: str) -> Snapshot | None:
    """What `to_json` wrote; None when it has another format, or is damaged."""
    try:
        data = json.loads(text)
        if data.pop("format") != FORMAT:
            return None
        return Snapshot(
            environment=data["environment"],
            objects=tuple(Placed(**item) for item in data["objects"]),
            findings=tuple(Finding(**item) for item in data["findings"]),
            waivers=tuple(Waiver(**item) for item in data["waivers"]),
            today=data["today"],
            pools={name: Pool(**pool) for name, pool in data["pools"].items()},
            cost=None if data["cost"] is None else Cost(**data["cost"]),
            infrastructure=data["infrastructure"],
            broken=data["broken"],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@dataclass(frozen=True)
class Shelf:
    """A folder of snapshots that were taken before; any file of it may be deleted at any time."""

    folder: Path

    def get(self, key: str) -> Snapshot | None:
        """The snapshot of that key; None where there is none."""
        try:
            text = self._file(key).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        return of_json(text)

    def put(self, key: str, snapshot: Snapshot) -> None:
        """Keep a snapshot; the oldest goes when there are many. A full disk keeps none."""
        with contextlib.suppress(OSError):
            replace_bytes(self._file(key), snapshot.to_json().encode("utf-8"))
            self._trim()

    def _trim(self) -> None:
        files = sorted(self.folder.glob("*.json"), key=lambda f: (f.stat().st_mtime, f.name))
        for file in files[:-_KEPT]:
            file.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


_KEPT: Final = 50
