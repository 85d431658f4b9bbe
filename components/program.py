"""What each stack holds: a whole environment, or one of its layers and what it reads of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.cluster import ClusterArgs, cluster_of
from components.disks import keyed
from components.environment import Environment, EnvironmentArgs
from components.model import served_names
from components.references import Reference
from tokenworks.render.release import Release as Rendered
from tokenworks.spec.stack import Stack
from tokenworks.spec.stacks import Layer


@dataclass(frozen=True)
class Program:
    """One run: the environment, what was rendered of it, and which layers this stack holds."""

    stack: Stack
    layers: Sequence[Layer]
    releases: Sequence[Rendered]
    """Of those that were rendered, what Pulumi delivers."""
    kubeconfig: Any
    """Path of the kubeconfig of a cluster that this machine makes."""
    user: int
    """Numeric user of engines."""

    def released(self) -> list[Rendered]:
        """The releases of this stack's layers."""
        return [r for r in self.releases if self._layer(r) in self.layers]

    @staticmethod
    def _layer(release: Rendered) -> Layer:
        return "serving" if release.layer in ("models", "delivery") else "platform"


def build(program: Program) -> None:
    """Register every resource of the stack, and export what others read."""
    if program.stack.environment.spec.cluster.provider != "aws":
        cluster = cluster_of(program.stack, program.kubeconfig)
        _export(_environment(program, cluster, program.released()))
        return
    # Takes a third of a second that the others need not wait.
    from components.aws import layers  # noqa: PLC0415

    made = layers.infrastructure(program.stack, program.user, read=not _holds_aws(program))
    for name, value in made.exports.items():
        if _holds_aws(program):
            pulumi.export(name, value)
    if tuple(program.layers) == ("infrastructure",):
        return
    identity = layers.identity(program.stack)
    cluster = ClusterArgs(made.kubeconfig, None, identity, made.ready)
    if tuple(program.layers) == ("serving",):
        _reads_platform(program)
    releases = keyed(program.released(), *layers.disk_key(made))
    environment = _environment(program, cluster, releases, layers.gateway_annotations(made))
    if "platform" in program.layers:
        layers.platform(program.stack, made, environment)
    _export(environment)


def _holds_aws(program: Program) -> bool:
    return "infrastructure" in program.layers


def _reads_platform(program: Program) -> None:
    """Models need their tenants' namespaces and the gateway, which another stack made."""
    reference = Reference(f"{program.stack.name}-platform", ("gateway", "namespaces"))
    pulumi.export("gateway", reference.output("gateway"))


def _environment(
    program: Program,
    cluster: ClusterArgs,
    releases: Sequence[Rendered],
    gateway_annotations: Mapping[str, pulumi.Input[str]] | None = None,
) -> Environment:
    told = gateway_annotations or {}
    args = EnvironmentArgs(cluster, releases, _served(program), told)
    return Environment(program.stack.name, args)


def _served(program: Program) -> Mapping[str, str]:
    return served_names(program.stack) if "serving" in program.layers else {}


def _export(environment: Environment) -> None:
    outputs = {
        "gateway": environment.gateway if environment.has_gateway else None,
        "models": environment.models,
        "namespaces": environment.namespaces,
    }
    for name, value in outputs.items():
        if value:
            pulumi.export(name, value)
