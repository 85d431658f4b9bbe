"""Registries of EKS's own images: one for each region."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from tokenworks.catalog.aws import Source
from tokenworks.spec.common import Image

_FILE: Final = Path(__file__).parent / "registries.yaml"
_OF_EKS: Final = re.compile(r"602401143452\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/")


class Registries(Source):
    """Whose registry each region has."""

    account: str
    """Of a region that `accounts` does not name."""
    accounts: dict[str, str]

    def host(self, region: str) -> str:
        """The registry of a region."""
        account = self.accounts.get(region, self.account)
        return f"{account}.dkr.ecr.{region}.amazonaws.com"


@cache
def registries() -> Registries:
    """The registries of this checkout."""
    return Registries.model_validate(yaml.safe_load(_FILE.read_text()))


def regional(image: Image, region: str) -> Image:
    """The image as the registry of a region has it; the same where it is not EKS's own.

    The copies are alike, so they have one digest.
    """
    path = _OF_EKS.sub("", image.repository)
    if path == image.repository:
        return image
    return image.model_copy(update={"repository": f"{registries().host(region)}/{path}"})
