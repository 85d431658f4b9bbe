"""A tenant: its namespace, what guards it, its queue."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from components.release import Release


class Tenant(Release):
    """A namespace with quota and network isolation."""

    TYPE = "tokenworks:serving:Tenant"

    namespace: str | None

    def outputs(self) -> Mapping[str, pulumi.Input[object]]:
        """The namespace."""
        self.namespace = next((name for kind, name in self.children if kind == "Namespace"), None)
        return {"namespace": self.namespace}
