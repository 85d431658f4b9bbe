"""What one stack of a split environment reads of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi

from tokenworks.errors import TokenworksError


def full_name(stack: str) -> str:
    """Name of another stack of this project, as the backend knows it."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"


def required(stack: str, outputs: Mapping[str, Any], wanted: Sequence[str]) -> Mapping[str, Any]:
    """The outputs, if all that are wanted are among them.

    Args:
        stack: that exports them.
        outputs: as the backend knows them.
        wanted: their names; `weights.bucket` is the part `bucket` of the output `weights`.

    Raises:
        TokenworksError: naming every one that is missing, and the stack.
    """
    missing = dict.fromkeys(m for name in wanted if (m := _missing(outputs, name)))
    if missing:
        raise TokenworksError(
            f"stack {stack} has no output {', '.join(missing)}: it was applied by an older "
            f"version, or not at all. Run `pulumi up --stack {stack}` (or ./tokenworks up) first"
        )
    return outputs


def _missing(outputs: Mapping[str, Any], name: str) -> str:
    """The first part of the path to an output that is not there; empty if all are."""
    found: Any = outputs
    parts = name.split(".")
    for count, part in enumerate(parts, 1):
        found = cast("Mapping[str, Any]", found).get(part) if isinstance(found, Mapping) else None
        if found is None:
            return ".".join(parts[:count])
    return ""


class Reference(pulumi.ComponentResource):
    """Outputs of another stack of the environment, all there or named as missing."""

    def __init__(
        self, stack: str, wanted: Sequence[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:environment:Reference", stack, None, opts)
        read = pulumi.StackReference(
            f"{stack}-outputs", full_name(stack), pulumi.ResourceOptions(parent=self)
        )
        self._outputs = read.outputs.apply(lambda found: required(stack, found, wanted))
        self.register_outputs({})

    def output(self, name: str) -> pulumi.Output[Any]:
        """One of the outputs that are wanted."""
        return self._outputs.apply(lambda found: found[name])
