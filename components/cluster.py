"""The cluster that an environment runs on, as a provider that objects are applied through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi
from pulumi_kubernetes import KubeClientSettingsArgs, Provider

from tokenworks.spec.stack import Stack


@dataclass(frozen=True)
class ClusterArgs:
    """How the cluster is reached."""

    kubeconfig: pulumi.Input[str] | None = None
    """Path of the file, or what it says; default: what $KUBECONFIG names. A file may be absent in
    a preview."""
    context: str | None = None
    """Context of the file; default: its current one."""
    identity: str = "local"
    """Another identity is another cluster: everything is made anew there. A moved file, a renewed
    certificate or another address is not."""
    after: Sequence[pulumi.Resource] = ()
    """What the cluster cannot do without while there is anything on it."""


def cluster_of(stack: Stack, made_here: Path) -> ClusterArgs:
    """How the environment's cluster is reached.

    Args:
        stack: the environment's documents.
        made_here: kubeconfig of the cluster that this machine makes for it, there or not.
    """
    spec = stack.environment.spec.cluster
    if spec.provider == "local":
        return ClusterArgs(str(made_here), None, f"local/{stack.name}")
    return ClusterArgs(stack.kubeconfig, stack.kube_context, stack.kube_context)


class Cluster(pulumi.ComponentResource):
    """Access to one cluster. It makes no cluster: `./tokenworks local up` or its owner did."""

    provider: Provider

    def __init__(
        self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:cluster:Cluster", name, None, opts)
        self.provider = Provider(
            f"{name}-provider",
            kubeconfig=args.kubeconfig,
            context=args.context,
            cluster_identifier=args.identity,
            enable_server_side_apply=True,
            # Otherwise the provider deletes a ConfigMap or Secret to change it.
            enable_config_map_mutable=True,
            enable_secret_mutable=True,
            # A small machine that starts everything at once answers late, not never.
            kube_client_settings=KubeClientSettingsArgs(timeout=120, qps=200, burst=400),
            # Charts we do not own carry Helm's test hooks; rendering left them out.
            suppress_helm_hook_warnings=True,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        self.register_outputs({"identity": args.identity})
