"""A served model: engine, picker, pool and route as one release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components.release import Release, ReleaseArgs
from tokenworks.spec.stack import Stack


@dataclass(frozen=True)
class ModelArgs(ReleaseArgs):
    """A release, and the name under which it is asked for."""

    served_name: str = ""
    """The `model` field of requests."""


class Model(Release):
    """One model release. Its engine may take as long as its weights need."""

    TYPE = "tokenworks:serving:Model"

    served_name: str

    def __init__(
        self, name: str, args: ModelArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        self.served_name = args.served_name
        super().__init__(name, args, opts)

    def outputs(self) -> Mapping[str, pulumi.Input[object]]:
        """The name that requests use."""
        return {"servedName": self.served_name}


def served_names(stack: Stack) -> dict[str, str]:
    """Name of a model's release: the `model` field of requests."""
    return {f"model-{m.metadata.name}": m.served_name for m in stack.models}
