"""What Karpenter's nodes run, and what their pods learn of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.rules.shared import of_item
from policies.tree import at, integer, mapping, sequence

_RELEASE = re.compile(r":\d+$|v\d{8}|/\d+\.\d+\.\d+(-[0-9a-f]+)?(/|$)")
"""An SSM parameter of one release: its own version, a release of EKS's images, one of
Bottlerocket's."""
_PATTERN = re.compile(r"[*?]")


def _classes(inventory: Inventory) -> Iterator[Item]:
    return (i for i in inventory.graph.of_kind("EC2NodeClass") if i.group == "karpenter.k8s.aws")


def _floats(term: Mapping[str, Any]) -> str | None:
    """What may select another image tomorrow; None for what names one. Parts of a term narrow each
    other down, so one that names an image is enough."""
    alias, name, parameter = (str(term.get(k) or "") for k in ("alias", "name", "ssmParameter"))
    if alias:
        return f"alias {alias}" if alias.lower().rpartition("@")[2] == "latest" else None
    if term.get("id") or (name and not _PATTERN.search(name)) or _RELEASE.search(parameter):
        return None
    if parameter:
        return f"parameter {parameter}"
    # Tags may say a release, and may not: nobody can tell.
    return f"the newest image named {name}" if name else None


@rule(
    "node-image",
    "error",
    "Nodes run an image that somebody chose",
    "Karpenter replaces nodes as soon as another image is published: models load again in the "
    "middle of the day, on a driver that nobody tried.",
    "Name a release: alias al2023@v20260728, or the id of an image.",
    "https://karpenter.sh/docs/tasks/managing-amis/",
)
def node_image(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in _classes(inventory):
        family = item.spec.get("amiFamily")
        if "amiSelectorTerms" not in item.spec and family not in (None, "Custom"):
            # Only the first versions of the API let it out: they take the newest of the family.
            yield of_item(
                item, ("spec", "amiFamily"),
                f"takes another image for its nodes whenever {family} has one",
                "add amiSelectorTerms with a release (alias: family@vYYYYMMDD), or an image by id",
            )  # fmt: skip
        for place, term in enumerate(sequence(item.spec.get("amiSelectorTerms"))):
            floating = _floats(mapping(term))
            if floating is not None:
                yield of_item(
                    item, ("spec", "amiSelectorTerms", place),
                    f"takes another image for its nodes whenever there is one ({floating})",
                    "name a release (family@vYYYYMMDD), or an image by id",
                )  # fmt: skip


@rule(
    "node-metadata",
    "error",
    "A node's credentials end at the node",
    "A pod that can ask the instance's metadata service acts as the node: it pulls every image and "
    "joins the cluster under other names.",
    "Leave out metadataOptions, or write httpTokens: required and httpPutResponseHopLimit: 1.",
    "https://karpenter.sh/docs/concepts/nodeclasses/#specmetadataoptions",
)
def node_metadata(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    # What is absent is as it should be: Karpenter's own defaults are `required` and 1.
    for item in _classes(inventory):
        options = mapping(item.spec.get("metadataOptions"))
        if options.get("httpEndpoint") == "disabled":
            continue
        if options.get("httpTokens") not in (None, "required"):
            yield of_item(
                item, ("spec", "metadataOptions", "httpTokens"),
                f"hands out its nodes' credentials without a token (httpTokens "
                f"{at(options, 'httpTokens')})",
                "write httpTokens: required",
            )  # fmt: skip
        hops = integer(options.get("httpPutResponseHopLimit"), 1)
        if hops is not None and hops > 1:
            yield of_item(
                item, ("spec", "metadataOptions", "httpPutResponseHopLimit"),
                f"lets pods take their node's credentials ({hops} hops)",
                "write httpPutResponseHopLimit: 1; pods have identities of their own",
            )  # fmt: skip


ALL = (node_image, node_metadata)
