"""The bill of versions (`versions.yaml`), typed, and the values of upstream charts."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from tokenworks.catalog.reading import read
from tokenworks.spec.common import Document, Image

HERE = Path(__file__).parent


class BilledComponent(Document):
    """One thing that is installed and is not ours."""

    version: str
    module: str | None = Field(
        default=None,
        description="Go module whose files hold the chart and the CRDs; none: images only.",
    )
    repository: str | None = Field(
        default=None, description="Helm repository of the chart, where no module holds it."
    )
    chart: str | None = Field(
        default=None, description="Folder of the chart in the module, or its name there."
    )
    crds: tuple[str, ...] = Field(default=(), description="Files or folders of CRDs in the module.")
    namespace: str | None = None
    images: dict[str, Image] = Field(default_factory=dict[str, Image])
    built_with: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="Other components whose kinds it reads, and the version that its go.mod "
        "requires: an older one lacks fields that it writes. `kubernetes` is the client's.",
    )
    source: str
    date: str
    why: str


class Bill(Document):
    """Everything that is installed and is not ours."""

    components: dict[str, BilledComponent]

    def image(self, component: str, name: str) -> Image:
        """The image `name` of `component`.

        Raises:
            KeyError: the bill has no such image.
        """
        return self.components[component].images[name]


@cache
def bill() -> Bill:
    """The bill of this checkout."""
    return parsed(read(HERE / "versions.yaml"))


def parsed(data: dict[str, Any]) -> Bill:
    """A bill from what its file holds."""
    components = {
        name: {**component, "date": str(component["date"])}
        for name, component in data["components"].items()
    }
    return Bill.model_validate({**data, "components": components})


@cache
def _upstream(chart: str) -> dict[str, Any]:
    return read(HERE / "upstream" / f"{chart}.yaml")


def upstream_values(chart: str) -> dict[str, Any]:
    """A fresh copy of our values for an upstream chart (`upstream/<chart>.yaml`)."""
    return copy.deepcopy(_upstream(chart))
