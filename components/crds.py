"""Custom resource definitions: an own component, because nothing else may remove them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pulumi

from components.release import Release
from tokenworks.spec.stack import Manifest


class CustomResourceDefinitions(Release):
    """Definitions of one project. They are awaited until served, and stay when it goes."""

    TYPE = "tokenworks:platform:CustomResourceDefinitions"

    kinds: list[str]

    def outputs(self) -> Mapping[str, pulumi.Input[object]]:
        """The names of the definitions."""
        self.kinds = sorted(
            name for kind, name in self.children if kind == "CustomResourceDefinition"
        )
        return {"kinds": self.kinds}


def served_versions(objects: Iterable[Manifest]) -> dict[tuple[str, str], list[str]]:
    """Group and kind: the versions that the CRDs among the objects serve."""
    return {
        (o["spec"]["group"], o["spec"]["names"]["kind"]): [
            v["name"] for v in o["spec"]["versions"] if v.get("served")
        ]
        for o in objects
        if o["kind"] == "CustomResourceDefinition"
    }
