"""The gateway: the one address that requests go to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components.release import Release


class Gateway(Release):
    """Gateway, its extensions, and the address that it got."""

    TYPE = "tokenworks:serving:Gateway"

    address: pulumi.Output[str | None]

    def outputs(self) -> Mapping[str, pulumi.Input[object]]:
        """The address, known once the gateway is programmed."""
        found = [child for (kind, _), child in self.children.items() if kind == "Gateway"]
        self.address = found[0].status.apply(_address) if found else pulumi.Output.from_input(None)
        return {"address": self.address}


def _address(status: dict[str, Any] | None) -> str | None:
    addresses: list[dict[str, str]] = (status or {}).get("addresses") or []
    return addresses[0]["value"] if addresses else None
