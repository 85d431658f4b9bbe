"""The gateway: the one address that requests go to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi

from components.release import Release, ReleaseArgs
from tokenworks.spec.stack import Manifest


@dataclass(frozen=True)
class GatewayArgs(ReleaseArgs):
    """The gateway's objects, and what its load balancer is told."""

    annotations: Mapping[str, pulumi.Input[str]] = field(
        default_factory=dict[str, pulumi.Input[str]]
    )
    """Annotations of the Service: what is known only once something else is made."""


def annotated(manifest: Manifest, annotations: Mapping[str, pulumi.Input[str]]) -> Manifest:
    """A Gateway whose Service gets the annotations too; other objects as they are."""
    if manifest["kind"] != "Gateway" or not annotations:
        return manifest
    spec: Manifest = manifest["spec"]
    infrastructure: Manifest = spec.get("infrastructure") or {}
    rendered: dict[str, pulumi.Input[str]] = infrastructure.get("annotations") or {}
    whole = {**rendered, **annotations}
    return {
        **manifest, "spec": {**spec, "infrastructure": {**infrastructure, "annotations": whole}},
    }  # fmt: skip


class Gateway(Release):
    """Gateway, its extensions, and the address that it got."""

    TYPE = "tokenworks:serving:Gateway"

    address: pulumi.Output[str | None]

    def __init__(
        self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        objects = [annotated(manifest, args.annotations) for manifest in args.objects]
        super().__init__(name, replace(args, objects=objects), opts)

    def outputs(self) -> Mapping[str, pulumi.Input[object]]:
        """The address, known once the gateway is programmed."""
        found = [child for (kind, _), child in self.children.items() if kind == "Gateway"]
        self.address = found[0].status.apply(_address) if found else pulumi.Output.from_input(None)
        return {"address": self.address}


def _address(status: dict[str, Any] | None) -> str | None:
    addresses: list[dict[str, str]] = (status or {}).get("addresses") or []
    return addresses[0]["value"] if addresses else None
