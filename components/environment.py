"""An environment: its cluster, and every release in the order that their needs give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components.cluster import Cluster, ClusterArgs
from components.crds import CustomResourceDefinitions, served_versions
from components.gateway import Gateway, GatewayArgs
from components.model import Model, ModelArgs
from components.objects import logical_name, token
from components.release import Release, ReleaseArgs
from components.tenant import Tenant
from tokenworks.errors import TokenworksError
from tokenworks.render.release import Release as Rendered


@dataclass(frozen=True)
class EnvironmentArgs:
    """What was rendered, and where it goes."""

    cluster: ClusterArgs
    releases: Sequence[Rendered]
    """In an order in which each comes after what it needs."""
    served_names: Mapping[str, str]
    """Release of a model: the `model` field of requests."""
    gateway_annotations: Mapping[str, pulumi.Input[str]] = field(
        default_factory=dict[str, pulumi.Input[str]]
    )
    """Annotations of the gateway's Service beside the rendered ones."""


class Environment(pulumi.ComponentResource):
    """Everything that one environment runs."""

    gateway: pulumi.Output[str | None]
    """Address of the gateway."""
    models: list[str]
    """What the `model` field of requests may be."""
    namespaces: list[str]
    """The tenants' namespaces."""
    provider: pulumi.ProviderResource
    """What objects are applied through."""
    has_gateway: bool
    ready_tenants: list[pulumi.Resource]
    """What to wait for in order to wait for every tenant."""

    def __init__(
        self, name: str, args: EnvironmentArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:environment:Environment", name, None, opts)
        _refuse_doubles(args.releases)
        child = pulumi.ResourceOptions(parent=self)
        cluster = Cluster(f"{name}-cluster", args.cluster, child)
        applied = pulumi.ResourceOptions(parent=self, providers=[cluster.provider])
        versions = served_versions(o for r in args.releases for o in r.objects)
        built: dict[str, Release] = {}
        for release in args.releases:
            after = [built[need] for need in release.needs if need in built]
            built[release.name] = _component(release, after, versions, args, applied)
        gateways = [r for r in built.values() if isinstance(r, Gateway)]
        self.provider, self.has_gateway = cluster.provider, bool(gateways)
        self.ready_tenants = [o for r in built.values() if isinstance(r, Tenant) for o in r.last]
        self.gateway = gateways[0].address if gateways else pulumi.Output.from_input(None)
        # Also of those that Argo CD delivers.
        self.models = sorted(args.served_names.values())
        self.namespaces = sorted(
            r.namespace for r in built.values() if isinstance(r, Tenant) and r.namespace
        )
        self.register_outputs(
            {"gateway": self.gateway, "models": self.models, "namespaces": self.namespaces}
        )


def _component(
    release: Rendered,
    after: Sequence[Release],
    versions: Mapping[tuple[str, str], Sequence[str]],
    environment: EnvironmentArgs,
    opts: pulumi.ResourceOptions,
) -> Release:
    same = (release.objects, after, release.ready_seconds, release.charts, versions)
    if served_name := environment.served_names.get(release.name):
        return Model(release.name, ModelArgs(*same, served_name), opts)
    if release.name == "gateway":
        return Gateway(release.name, GatewayArgs(*same, environment.gateway_annotations), opts)
    return _kind_of(release)(release.name, ReleaseArgs(*same), opts)


def _kind_of(release: Rendered) -> type[Release]:
    if release.layer == "crds":
        return CustomResourceDefinitions
    return Tenant if release.name.startswith("tenant-") else Release


def _refuse_doubles(releases: Sequence[Rendered]) -> None:
    """Two releases that bring one object would fight over it for ever.

    Raises:
        TokenworksError: naming the objects and the releases.
    """
    owners: dict[str, list[str]] = {}
    for release in releases:
        for manifest in release.objects:
            key = f"{logical_name(manifest)} ({token(manifest)})"
            owners.setdefault(key, []).append(release.name)
    doubles = [f"{key} in {', '.join(names)}" for key, names in owners.items() if len(names) > 1]
    if doubles:
        raise TokenworksError(
            f"{len(doubles)} object(s) are in more than one place: {'; '.join(doubles)}. "
            "Give each to one release."
        )
