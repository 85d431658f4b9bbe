"""Tenant: who owns models, where they run, how many GPUs they may hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tokenworks.spec.common import API_VERSION, Document, Labels, Metadata, Name


class Quota(Document):
    """GPUs of one node pool that the tenant may hold; the rest of the cohort may be borrowed."""

    gpus: Annotated[int, Field(ge=0, le=160_000)] = Field(
        description="GPUs that are the tenant's own; the sum over tenants fits the pool."
    )
    borrow: bool = Field(default=False, description="May use idle GPUs of other tenants.")


class TenantSpec(Document):
    """Body of a Tenant."""

    namespace: Name | None = Field(default=None, description="Default: the tenant's name.")
    quota: dict[Name, Quota] = Field(
        default_factory=dict[str, Quota], description="Node pool: quota."
    )
    cost_labels: Labels = Field(
        default_factory=dict, description="Put on the namespace and on every pod, for billing."
    )


class Tenant(Document):
    """One tenant: `stacks/<env>/tenants/<name>.yaml`."""

    api_version: Literal["tokenworks.dev/v1alpha1"] = Field(
        default=API_VERSION, description="Version of this document's form."
    )
    kind: Literal["Tenant"] = Field(default="Tenant", description="Kind of document.")
    metadata: Metadata = Field(description="Name of the tenant, and labels for its objects.")
    spec: TenantSpec = Field(description="Namespace and quota.")

    @property
    def namespace(self) -> str:
        """The namespace the tenant's models run in."""
        return self.spec.namespace or self.metadata.name
