"""The GPU operator, where the environment gives node software to it."""

from __future__ import annotations

from typing import Any, Final

from tokenworks.catalog.bill import upstream_values
from tokenworks.render.aws.daemons import tolerations
from tokenworks.render.aws.plan import AwsPlan, plan_of
from tokenworks.render.platform import remote_release
from tokenworks.render.release import Release
from tokenworks.spec.stack import Stack

KEY: Final = "gpu-operator"
OPERANDS: Final = ("gpus", "metrics", "labels")
"""Parts of node software that it installs all together, or not at all."""


def gpu_operator_values(plan: AwsPlan) -> dict[str, Any]:
    """Values of the upstream chart: what the image brings is off, the rest on every GPU node."""
    values = upstream_values(KEY)
    tolerated = tolerations(plan.pools)
    values["daemonsets"]["tolerations"] = tolerated
    values["node-feature-discovery"]["worker"]["tolerations"] = tolerated
    return values


def gpu_operator(stack: Stack) -> list[Release]:
    """The operator; nothing where we own its parts."""
    plan = plan_of(stack)
    software = plan.spec.node_software
    owned = [part for part in OPERANDS if getattr(software, part) == KEY]
    if not owned or not plan.pools:
        return []
    # Its pods mount folders of the host.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return [remote_release(KEY, gpu_operator_values(plan), labels)]
