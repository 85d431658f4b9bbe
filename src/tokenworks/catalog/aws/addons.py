"""Add-ons that EKS keeps, and which version of each goes with which Kubernetes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import Field, model_validator

from tokenworks.catalog.aws import Source
from tokenworks.catalog.reading import read
from tokenworks.spec.common import Document

Addon = Literal[
    "vpc-cni",
    "kube-proxy",
    "eks-pod-identity-agent",
    "coredns",
    "aws-ebs-csi-driver",
    "aws-fsx-csi-driver",
]
ADDONS: Final[tuple[Addon, ...]] = get_args(Addon)
UNRESOLVED: Final = "unresolved"
_FILE: Final = Path(__file__).parent / "addons.yaml"


class Version(Document):
    """One version, and where it was read."""

    version: str
    source: str | None = Field(default=None, description="A key of `sources`; None: unresolved.")

    @property
    def known(self) -> str | None:
        """The version; None where no public source names one."""
        return None if self.version == UNRESOLVED else self.version


class AddonCatalogue(Document):
    """Every add-on's version for each minor version of Kubernetes."""

    sources: dict[str, Source]
    addons: dict[Addon, dict[str, Version]]

    @model_validator(mode="after")
    def _sourced(self) -> AddonCatalogue:
        for versions in self.addons.values():
            for version in versions.values():
                assert (version.source in self.sources) == (version.known is not None)
        return self

    def version(self, addon: Addon, kubernetes: str) -> str | None:
        """Its version for a minor version such as 1.35; None: not known."""
        found = self.addons[addon].get(kubernetes)
        return found.known if found else None


@cache
def addon_catalogue() -> AddonCatalogue:
    """The add-ons of this checkout."""
    return AddonCatalogue.model_validate(read(_FILE))
