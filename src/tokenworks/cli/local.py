"""`local …`: the Kubernetes cluster that an environment with provider `local` runs on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from tokenworks.cli.context import environments, load, say
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.environment import NodePool
from tokenworks.spec.stack import Stack

if TYPE_CHECKING:
    from local.cluster import ClusterSpec, Pool, Programs

app = typer.Typer(
    help="The local cluster: up, down, status, kubectl, logs.\n\nExample: ./tokenworks local up",
    no_args_is_help=True,
)

EnvironmentOption = Annotated[
    str, typer.Option("--env", help="Environment with provider `local`; it names the cluster.")
]


def _pool(name: str, pool: NodePool) -> Pool:
    from local.cluster import Pool  # noqa: PLC0415 - cryptography, not there for every command

    resources = {"nvidia.com/gpu": pool.gpus_per_node}
    if pool.rdma is not None:
        resources[pool.rdma.resource] = pool.rdma.per_node
    taints = tuple((t.key, t.value or "", t.effect) for t in pool.taints)
    return Pool(name, pool.nodes, resources, dict(pool.labels), taints)


def cluster_spec(stack: Stack) -> ClusterSpec:
    """The cluster that the environment's node pools describe."""
    from local.cluster import ClusterSpec, Pool  # noqa: PLC0415

    pools = stack.environment.spec.node_pools
    real = [_pool(n, p) for n, p in sorted(pools.items()) if not p.simulated]
    simulated = tuple(_pool(n, p) for n, p in sorted(pools.items()) if p.simulated)
    return ClusterSpec(stack.name, real[0] if real else Pool("none", 1, {}), simulated)


def programs() -> Programs:
    """What the cluster runs, built or installed when absent."""
    from local.cluster import Programs  # noqa: PLC0415
    from local.toolchain import ensure, ensure_debian, module_dir  # noqa: PLC0415

    ensure_debian()
    names = ("kube", "coredns", "kwok", "local-path-provisioner")
    found = ensure(*names)
    stages = module_dir("sigs.k8s.io/kwok") / "kustomize" / "stage"
    return Programs(*(found[n] for n in names), kwok_stages=stages)


def kube_programs() -> Programs:
    """The programs for calls that need kubectl alone; nothing is installed."""
    from pathlib import Path  # noqa: PLC0415

    from local.cluster import Programs  # noqa: PLC0415
    from local.toolchain import ensure  # noqa: PLC0415

    none = Path("/nonexistent")
    return Programs(ensure("kube")["kube"], none, none, none, none)


def bring_up(stack: Stack) -> None:
    """Make or repair the environment's cluster, with every image that it needs.

    Raises:
        TokenworksError: not root, a build failed, or the cluster does not become ready.
    """
    from local import cluster  # noqa: PLC0415
    from local.cluster.host import require_root  # noqa: PLC0415
    from local.images import build_images, programs_needed  # noqa: PLC0415
    from local.toolchain import cache_dir, ensure  # noqa: PLC0415

    require_root()
    wanted = programs()
    images = build_images(ensure(*programs_needed()), cache_dir(), progress=say)
    cluster.up(cluster_spec(stack), wanted, images, say)


def require_local(environment: str) -> Stack:
    """The environment's documents, if its cluster is a local one.

    Raises:
        UsageError: its provider is another.
    """
    stack = load(environment)
    provider = stack.environment.spec.cluster.provider
    if provider != "local":
        raise UsageError(
            f"stacks/{environment}/environment.yaml: spec.cluster.provider is {provider}; "
            "`local` commands need provider local"
        )
    return stack


def _name(environment: str) -> str:
    if environment not in environments():
        raise UsageError(
            f"no environment {environment!r} under stacks/; there are: {', '.join(environments())}"
        )
    return environment


@app.command()
def up(environment: EnvironmentOption = "local") -> None:
    """Make the cluster, or repair it; a second run changes nothing.

    Example: ./tokenworks local up
    """
    bring_up(require_local(environment))


@app.command()
def down(environment: EnvironmentOption = "local") -> None:
    """Remove the cluster and everything it made on this machine, and what was deployed on it.

    Example: ./tokenworks local down
    """
    from local import cluster  # noqa: PLC0415

    cluster.down(_name(environment), say)
    # Deployment state describes objects that are gone with the cluster.
    shutil.rmtree(cluster.state_root() / "pulumi" / environment, ignore_errors=True)


@app.command()
def status(environment: EnvironmentOption = "local") -> None:
    """Show every component: pid, state, restarts; exit 1 when one is not ready.

    Example: ./tokenworks local status
    """
    from local import cluster  # noqa: PLC0415

    seen = cluster.status(_name(environment))
    if not seen:
        raise TokenworksError(f"cluster {environment} does not run: ./tokenworks local up")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("component", "pid", "state", "restarts"):
        table.add_column(column)
    for row in seen:
        table.add_row(row.name, str(row.pid or "-"), row.state, str(row.restarts))
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    print(f"kubeconfig: {cluster.kubeconfig_path(environment)}")
    late = [row.name for row in seen if row.state != "ready"]
    if late:
        raise TokenworksError(
            f"not ready: {', '.join(late)}; see ./tokenworks local logs {late[0]}"
        )


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def kubectl(context: typer.Context, environment: EnvironmentOption = "local") -> None:
    """Run kubectl on the cluster; every argument is passed on.

    Example: ./tokenworks local kubectl get pods -A
    """
    from local import cluster  # noqa: PLC0415

    if not cluster.kubeconfig_path(_name(environment)).exists():
        raise TokenworksError(f"cluster {environment} does not run: ./tokenworks local up")
    command = cluster.kubectl_command(environment, context.args, kube_programs())
    sys.stdout.flush()
    os.execv(command[0], command)


@app.command()
def logs(
    component: Annotated[
        str, typer.Argument(help="Component, as `local status` names it.")
    ] = "supervisor",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows.")] = False,
    lines: Annotated[int, typer.Option(min=1, help="Last lines to show.")] = 100,
    environment: EnvironmentOption = "local",
) -> None:
    """Show a component's log.

    Example: ./tokenworks local logs kubelet -f
    """
    from local import cluster  # noqa: PLC0415

    path = cluster.log_file(_name(environment), component)
    command = ["tail", f"--lines={lines}", *(["--follow=name"] if follow else []), str(path)]
    sys.exit(subprocess.run(command, check=False).returncode)
