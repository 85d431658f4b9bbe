"""A release: the objects of one component, what must be there before them, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from tokenworks.spec.stack import Manifest

Layer = Literal["crds", "operators", "platform", "models", "delivery", "applications"]
"""`delivery`: what Argo CD may do, and where it begins; `applications`: what it finds there, so
that Git alone brings these."""


FIELD_MANAGER: Final = "tokenworks"
"""One manager for all objects: after a lost state, or with CRDs that `down` left, the next `up`
owns the same fields again instead of fighting the manager of its former life."""
ARGOCD: Final = "argocd-controller"
"""Under this name Argo CD applies on the server (argoproj/argo-cd v3.6.1: common/common.go)."""


@dataclass(frozen=True)
class RemoteChart:
    """A chart that no pinned module holds: who delivers the release fetches and renders it.

    Its objects are seen by the policy pack where the cluster answers, and neither by `check` nor
    `render`: the provider renders it for the version and the kinds that the cluster has.
    """

    name: str
    repository: str
    """Address of the Helm repository."""
    chart: str
    version: str
    namespace: str
    values: dict[str, Any]

    def manifest(self) -> Manifest:
        """What stands for it where objects are listed."""
        spec = {
            "repository": self.repository, "chart": self.chart, "version": self.version,
            "values": self.values,
        }  # fmt: skip
        metadata = {"name": self.name, "namespace": self.namespace}
        version = "tokenworks.dev/v1alpha1"
        return {"apiVersion": version, "kind": "RemoteChart", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Release:
    """One unit of rendering, delivery and review."""

    name: str
    layer: Layer
    namespace: str
    objects: tuple[Manifest, ...]
    needs: tuple[str, ...] = ()
    """Names of releases that must be applied and ready first."""
    ready_seconds: float = 600.0
    """How long its workloads may take to become ready."""
    charts: tuple[RemoteChart, ...] = ()
    """Charts that are fetched when it is delivered, after its objects."""


def logical_name(manifest: Manifest) -> str:
    """`Kind:namespace/name`: stable, and of this object alone."""
    meta = manifest["metadata"]
    namespace = meta.get("namespace")
    return f"{manifest['kind']}:{f'{namespace}/' if namespace else ''}{meta['name']}"
