"""Stack: every document of one environment, loaded and cross-checked.

`load_stack` (tokenworks.spec.load) makes it from `stacks/<env>/`; nothing
downstream reads YAML again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenworks.spec.environment import Environment
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath
from tokenworks.spec.tenant import Tenant

LinesOf = Callable[[FieldPath], int]
"""Line of a field, or of what would hold it."""
Manifest = dict[str, Any]
"""One Kubernetes object, as plain data."""


@dataclass(frozen=True)
class Stack:
    """All documents of one environment."""

    environment: Environment
    models: tuple[ModelRelease, ...]
    """Sorted by name."""
    tenants: tuple[Tenant, ...]
    """Sorted by name."""
    manifests: tuple[Manifest, ...] = ()
    """Plain objects from `stacks/<env>/manifests/*.yaml`, for what the documents do not cover."""
    manifest_sources: tuple[tuple[Path, int], ...] = ()
    """File and line of each of `manifests`, in the same order, for messages."""
    sources: dict[str, Path] = field(default_factory=dict[str, Path])
    """`Kind/name` of a document: the file it came from, relative to the root, for messages."""
    lines: dict[str, LinesOf] = field(
        default_factory=dict[str, LinesOf], repr=False, compare=False, hash=False
    )
    """`Kind/name` of a document: the line of each of its fields, for messages."""

    def place(self, document: str, field: FieldPath) -> tuple[str | None, int | None]:
        """File and line of a document's field, or of what would hold it; None: not known."""
        file, lines = self.sources.get(document), self.lines.get(document)
        return (file.as_posix() if file else None), (lines(field) if lines else None)

    @property
    def name(self) -> str:
        """Name of the environment and of its Pulumi stack."""
        return self.environment.metadata.name

    @property
    def kube_context(self) -> str:
        """The kubeconfig context that reaches a cluster which is not the built-in one.

        kind adds this context to the user's kubeconfig; with EKS it is what
        `aws eks update-kubeconfig --alias` was told; every other cluster has to name its own.
        """
        cluster = self.environment.spec.cluster
        made = self.name if cluster.provider == "aws" else f"kind-{self.name}"
        return cluster.context or made

    @property
    def kubeconfig(self) -> str | None:
        """The kubeconfig file that the document names, without `~`; None: the user's own."""
        named = self.environment.spec.cluster.kubeconfig
        return None if named is None else str(Path(named).expanduser())
