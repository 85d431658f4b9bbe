"""Pulumi stacks of an environment: one, or one for each layer."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from tokenworks.errors import UsageError
from tokenworks.spec.load import environment_names, load_stack
from tokenworks.spec.stack import Stack

Layer = Literal["infrastructure", "platform", "serving"]
LAYERS: Final[tuple[Layer, ...]] = ("infrastructure", "platform", "serving")


def pulumi_stacks(stack: Stack) -> tuple[str, ...]:
    """Names of the environment's Pulumi stacks, in the order in which they are applied."""
    if stack.environment.spec.stacks == "one":
        return (stack.name,)
    return tuple(f"{stack.name}-{layer}" for layer in LAYERS)


def load_pulumi_stack(root: Path, name: str) -> tuple[Stack, tuple[Layer, ...]]:
    """The environment that a Pulumi stack belongs to, and the layers that it holds.

    Raises:
        UsageError: no environment has such a stack, or its documents are wrong.
    """
    environment, _, suffix = name.rpartition("-")
    names = environment_names(root)
    own: tuple[Layer, ...] = tuple(
        layer for layer in LAYERS if layer == suffix and environment in names
    )
    alone = name not in names and bool(own)
    stack = load_stack(root, environment if alone else name)
    known = pulumi_stacks(stack)
    if name not in known:
        raise UsageError(
            f"environment {stack.name} has no Pulumi stack {name}; allowed: {', '.join(known)}; "
            "select one of these, or change spec.stacks in its environment.yaml"
        )
    return stack, own if alone else LAYERS
