"""What a killed run applied without noting it: removed by name, as it was rendered."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable

from tokenworks.cli.context import render_tools
from tokenworks.errors import TokenworksError
from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack


def removable(releases: Iterable[Release]) -> list[Manifest]:
    """Objects in the order in which they can go: the last applied first; CRDs stay."""
    objects = [o for r in releases for o in r.objects if o["kind"] != "CustomResourceDefinition"]
    return objects[::-1]


def _kubectl(stack: Stack) -> list[str]:
    from local.cluster import kubeconfig_path  # noqa: PLC0415 - only after a killed run
    from local.toolchain import ensure  # noqa: PLC0415

    cluster = stack.environment.spec.cluster
    command = [str(ensure("kube")["kube"]), "kubectl"]
    if cluster.provider == "local":
        return [*command, "--kubeconfig", str(kubeconfig_path(stack.name))]
    if stack.kubeconfig is not None:
        command += ["--kubeconfig", stack.kubeconfig]
    return [*command, "--context", stack.kube_context]


def remove(stack: Stack) -> None:
    """Delete what the environment renders to and is still there.

    Raises:
        TokenworksError: the cluster refused, or cannot be reached.
    """
    from tokenworks.render import render  # noqa: PLC0415

    objects = removable(render(stack, render_tools()))
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    command = [*_kubectl(stack), "delete", "--ignore-not-found", "--wait=true", "-f", "-"]
    result = subprocess.run(
        command, input=json.dumps(listed), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise TokenworksError(f"{' '.join(command)} failed:\n{result.stderr.strip()}")
