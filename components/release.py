"""A release: the objects of one thing that is delivered, reverted and reviewed as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_kubernetes.helm import v4 as helm

from components.awaiting import group_of
from components.objects import KubernetesObject
from components.ordering import tiers
from tokenworks.render.release import RemoteChart
from tokenworks.spec.stack import Manifest


@dataclass(frozen=True)
class ReleaseArgs:
    """What a release consists of."""

    objects: Sequence[Manifest]
    after: Sequence[Release] = ()
    """Releases that must be ready first."""
    ready_seconds: float = 600.0
    """How long one object may take to become ready."""
    charts: Sequence[RemoteChart] = ()
    """Charts that are fetched and rendered now, after the objects."""
    versions: Mapping[tuple[str, str], Sequence[str]] = field(
        default_factory=dict[tuple[str, str], Sequence[str]]
    )
    """Group and kind of custom resources: the versions their CRD serves."""


class Release(pulumi.ComponentResource):
    """Objects in their tiers; each tier waits until the one before is ready."""

    TYPE = "tokenworks:platform:Release"

    children: dict[tuple[str, str], KubernetesObject]
    """Kind and name: the object."""
    last: list[pulumi.Resource]
    """What to wait for in order to wait for the whole."""

    def __init__(
        self, name: str, args: ReleaseArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        self.children = {}
        before: list[pulumi.Resource] = [o for release in args.after for o in release.last]
        for objects in tiers(args.objects):
            before = [*(self._object(manifest, args, before) for manifest in objects)]
        if args.charts:
            before = [*(self._chart(chart, before) for chart in args.charts)]
        self.last = before
        self.register_outputs(self.outputs())

    def _object(
        self, manifest: Manifest, args: ReleaseArgs, before: list[pulumi.Resource]
    ) -> KubernetesObject:
        limit = f"{args.ready_seconds:.0f}s"
        own = str(manifest["apiVersion"]).rpartition("/")[2]
        served = args.versions.get((group_of(manifest), str(manifest["kind"])), ())
        opts = pulumi.ResourceOptions(
            parent=self,
            depends_on=list(before),
            custom_timeouts=pulumi.CustomTimeouts(create=limit, update=limit),
            retain_on_delete=self.retains(manifest),
            protect=self.protects(manifest),
        )
        child = KubernetesObject(manifest, opts, [v for v in served if v != own])
        self.children[(str(manifest["kind"]), str(manifest["metadata"]["name"]))] = child
        return child

    def _chart(self, chart: RemoteChart, before: list[pulumi.Resource]) -> helm.Chart:
        """Rendered by the provider, each object a resource of its own; no release of Helm's."""
        return helm.Chart(
            f"{chart.name}-chart",
            helm.ChartArgs(
                name=chart.name,
                chart=chart.chart,
                version=chart.version,
                namespace=chart.namespace,
                repository_opts=helm.RepositoryOptsArgs(repo=chart.repository),
                values=chart.values,
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(before)),
        )

    def retains(self, manifest: Manifest) -> bool:
        """Whether the object stays in the cluster when it leaves the release."""
        # A CRD takes every object of its kind with it, of other environments too.
        notes: dict[str, str] = manifest["metadata"].get("annotations") or {}
        kept = notes.get("helm.sh/resource-policy") == "keep"
        return bool(kept or manifest["kind"] == "CustomResourceDefinition")

    def protects(self, manifest: Manifest) -> bool:
        """Whether only our own commands may delete it, which know what becomes of its objects.

        An Application takes all that it delivered with it.
        """
        return (group_of(manifest), manifest["kind"]) == ("argoproj.io", "Application")

    def outputs(self) -> Mapping[str, pulumi.Input[object]]:
        """What the release tells about itself."""
        return {}
