"""Releases of EKS's node images: which there were, and of which versions of Kubernetes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import Field, StringConstraints, model_validator

from tokenworks.catalog.aws import Source
from tokenworks.spec.common import Document

_FILE: Final = Path(__file__).parent / "node_images.yaml"
Day = Annotated[str, StringConstraints(pattern=r"^20[0-9]{6}$")]


class NodeImages(Document):
    """Every release from the first day to the last, and none between them besides."""

    source: Source
    releases: Annotated[dict[Day, dict[str, int]], Field(min_length=1)]
    """Day: minor versions of Kubernetes, each with its patch version, where that is known."""

    @model_validator(mode="after")
    def _in_order(self) -> NodeImages:
        assert list(self.releases) == sorted(self.releases)
        return self

    def covers(self, day: str) -> bool:
        """Whether every release of those days is known."""
        days = list(self.releases)
        return days[0] <= day <= days[-1]

    def released(self, minor: str, patch: int, day: str) -> bool:
        """Whether there may have been such a release: True where nothing says otherwise."""
        if not self.covers(day):
            return True
        before = [v[minor] for d, v in self.releases.items() if d <= day and minor in v]
        after = [v[minor] for d, v in self.releases.items() if d >= day and minor in v]
        # Patch versions only rise.
        rises = (not before or before[-1] <= patch) and (not after or patch <= after[0])
        return day in self.releases and rises

    def newest(self, minor: str, count: int) -> list[str]:
        """The newest releases of a minor version, newest first."""
        found = [
            f"{minor}.{versions[minor]}-{day}"
            for day, versions in self.releases.items()
            if minor in versions
        ]
        return found[::-1][:count]


@cache
def node_images() -> NodeImages:
    """The releases of this checkout."""
    return NodeImages.model_validate(yaml.safe_load(_FILE.read_text()))
