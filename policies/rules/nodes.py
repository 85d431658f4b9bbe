"""Nodes that are made alike today and tomorrow."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.rules.shared import of_item
from policies.tree import mapping, sequence

_MOVING = re.compile(r"/(?:recommended|latest)(?:/|$)")


@rule(
    "node-image",
    "warning",
    "Nodes start from an image that does not move",
    "The newest image of a day brings another driver and another kernel: a node that joins "
    "tomorrow differs from its neighbours, and engines that ran stop on it.",
    "Name the image by a version (al2023@v20260728), or by its id.",
    "https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms",
)
def node_image(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("EC2NodeClass"):
        family = item.spec.get("amiFamily")
        if "amiSelectorTerms" not in item.spec and family not in (None, "Custom"):
            # Only the first versions of the API let it out; they take the newest of the family.
            yield of_item(
                item,
                ("spec", "amiFamily"),
                f"makes nodes of whatever image of {family} is the newest on that day",
                "add amiSelectorTerms with the image's id, or with an alias and a version",
            )
        for position, term in enumerate(map(mapping, sequence(item.spec.get("amiSelectorTerms")))):
            for key, value in term.items():
                if isinstance(value, str) and _moves(key, value):
                    yield of_item(
                        item,
                        ("spec", "amiSelectorTerms", position, key),
                        f"makes nodes of whatever {value} is on that day ({key})",
                        "write a version, such as al2023@v20260728"
                        if key == "alias"
                        else "write the image's id, or an alias with a version",
                    )


def _moves(key: str, value: str) -> bool:
    """Whether a term names another image tomorrow; tags may do so too, and nobody can tell."""
    if key == "alias":
        return value.endswith("@latest")
    if key == "ssmParameter":
        return _MOVING.search(value) is not None
    return key == "name" and "*" in value


ALL = (node_image,)
