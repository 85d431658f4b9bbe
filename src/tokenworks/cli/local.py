"""`local …`: the cluster on this machine that an environment with provider `local` runs on."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand

from tokenworks.catalog.gpus import PRODUCT_LABEL, gpu_types
from tokenworks.catalog.network import load_networks
from tokenworks.cli.context import load, rendered_objects, say
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.common import quantity_value
from tokenworks.spec.environment import Environment, NodePool
from tokenworks.spec.stack import Manifest, Stack
from tokenworks.spec.topology_rules import pool_network

if TYPE_CHECKING:
    from local.cluster import ClusterSpec, ComponentStatus, NodeStatus, Pool, Programs

app = typer.Typer(
    help="The cluster on this machine.\n\nExample: ./tokenworks local up", no_args_is_help=True
)

_PROGRAMS = ("kube", "coredns", "kwok", "local-path-provisioner")
EnvironmentOption = Annotated[
    str, typer.Option("--env", metavar="ENV", help="Environment; it names the cluster.")
]


def _pool(name: str, pool: NodePool) -> Pool:
    from local.cluster import Pool  # noqa: PLC0415 - needs cryptography, which few commands get

    resources = {"nvidia.com/gpu": pool.gpus_per_node}
    if pool.rdma is not None:
        resources[pool.rdma.resource] = pool.rdma.per_node
        resources |= _huge_pages(pool)
    taints = tuple((t.key, t.value or "", t.effect) for t in pool.taints)
    # As GPU feature discovery labels nodes that have the GPUs.
    product = gpu_types()[pool.gpu].product
    labels = {**({PRODUCT_LABEL: product} if product else {}), **pool.labels}
    return Pool(name, pool.nodes, resources, labels, taints, pool.topology)


def _huge_pages(pool: NodePool) -> dict[str, int]:
    """Bytes of huge pages of a simulated node: what pods with all its devices ask for. The real
    node has what the machine has, which the kubelet alone may say."""
    network = pool_network(pool)
    if not pool.simulated or network is None:
        return {}
    asked = load_networks()[network].hugepages
    return {name: int(quantity_value(each)) for name, each in asked.items()}


def cluster_spec(environment: Environment) -> ClusterSpec:
    """The cluster that the environment's node pools describe.

    Without a pool that is not simulated, the real node has no devices.
    """
    from local.cluster import ClusterSpec, Pool  # noqa: PLC0415

    pools = sorted(environment.spec.node_pools.items())
    real = [_pool(n, p) for n, p in pools if not p.simulated and p.nodes]
    simulated = tuple(_pool(n, p) for n, p in pools if p.simulated)
    plain = Pool("none", 1, {})
    return ClusterSpec(environment.metadata.name, real[0] if real else plain, simulated)


def programs() -> Programs:
    """What the cluster runs, built or installed when absent."""
    from local.cluster import Programs  # noqa: PLC0415
    from local.toolchain import ensure, ensure_debian, module_dir  # noqa: PLC0415

    ensure_debian()
    found = ensure(*_PROGRAMS)
    stages = module_dir("sigs.k8s.io/kwok") / "kustomize" / "stage"
    return Programs(*(found[n] for n in _PROGRAMS), kwok_stages=stages)


def build(environment: Environment, others: Iterable[str]) -> None:
    """Build what the cluster, its images and `others` need, which come first.

    Two at a time take less than one after the other, and less than beside a cluster that is up.
    What only some environments' images need is built when they are made.

    Raises:
        TokenworksError: a build failed.
    """
    from local.images import images_for, programs_needed  # noqa: PLC0415
    from local.toolchain import ensure  # noqa: PLC0415

    ours = _PROGRAMS if environment.spec.cluster.provider == "local" else ()
    ensure(*dict.fromkeys([*others, *ours, *programs_needed(images_for([]))]))


def _images(objects: list[Manifest]) -> list[Path]:
    """Archives of the images that a cluster with these objects needs."""
    from local.images import build_images, images_for, programs_needed  # noqa: PLC0415
    from local.toolchain import cache_dir, ensure  # noqa: PLC0415
    from tokenworks.versions.items import named_images  # noqa: PLC0415 - start-up time

    wanted = images_for(i for item in objects for i in named_images(item))
    programs = ensure(*programs_needed(wanted))
    return list(build_images(programs, cache_dir(), wanted, progress=say).values())


def bring_up(stack: Stack, objects: list[Manifest]) -> None:
    """Make or repair the environment's cluster, with the images that its `objects` need.

    Raises:
        TokenworksError: not root, a build failed, or the cluster does not become ready.
    """
    from local import cluster  # noqa: PLC0415

    spec = cluster_spec(stack.environment)
    if stack.environment.spec.cluster.provider == "kind":
        from local.cluster import kind  # noqa: PLC0415

        kind.up(spec, _images(objects), say)
        return
    cluster.require()
    wanted = programs()
    cluster.up(spec, wanted, _images(objects), say)


def _made_here(environment: str) -> Stack:
    """The environment's documents, if its cluster is made on this machine.

    Raises:
        UsageError: its provider is another.
    """
    stack = load(environment)
    provider = stack.environment.spec.cluster.provider
    if provider not in ("local", "kind"):
        raise UsageError(
            f"stacks/{environment}/environment.yaml: spec.cluster.provider is {provider}; "
            "`local` commands need provider local (or kind, for `local up` and `local down`)"
        )
    return stack


def _provider(environment: str) -> str:
    """Who made the environment's cluster, or would.

    What is there counts before what the documents say: they may be broken, changed or gone
    while the cluster is to be looked at or removed.

    Raises:
        UsageError: there is no such cluster, and no document tells of one.
    """
    from local import cluster  # noqa: PLC0415
    from local.cluster import kind  # noqa: PLC0415

    made_here = cluster.paths(environment).root
    if kind.kubeconfig_path(environment).exists():
        return "kind"
    if made_here.exists():
        return "local"
    return _made_here(environment).environment.spec.cluster.provider


def _ours(environment: str, instead: str) -> str:
    """The environment's name, if the cluster is of our own making.

    Raises:
        UsageError: kind made it; `instead` is what to type.
    """
    if _provider(environment) == "kind":
        raise UsageError(f"kind made the cluster of {environment}; use: {instead}")
    return environment


@app.command()
def up(environment: EnvironmentOption = "local") -> None:
    """Make the cluster, or repair it; a second run changes nothing.

    Example: ./tokenworks local up
    """
    stack = _made_here(environment)
    bring_up(stack, rendered_objects(stack))


@app.command()
def down(environment: EnvironmentOption = "local") -> None:
    """Remove the cluster with all that was deployed on it, and the state of its deployment.

    The cache of built programs and images stays, and so do the packages that were installed.

    Example: ./tokenworks local down
    """
    from local import cluster  # noqa: PLC0415

    if _provider(environment) == "kind":
        from local.cluster import kind  # noqa: PLC0415

        kind.down(environment, say)
    else:
        cluster.down(environment, say)
    _forget(cluster.state_root(), environment)


def _forget(state: Path, environment: str) -> None:
    """Remove the deployment's state: it describes objects that are gone with the cluster.

    What opens it is removed with the last of them, and folders that are empty then.
    """
    pulumi = state / "pulumi"
    for folder in (pulumi / environment, pulumi / "offline" / environment):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (pulumi / "offline", pulumi, state):
        if folder == pulumi and {path.name for path in _inside(folder)} == {_PASSPHRASE}:
            (pulumi / _PASSPHRASE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not there, or not empty
            folder.rmdir()


_PASSPHRASE = "passphrase"
"""File beside the states of all environments; see `tokenworks.cli.engine`."""


def _inside(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _ago(since: float) -> str:
    """How long ago, in its largest unit: 12s, 5m, 3h, 2d."""
    seconds = max(int(time.time() - since), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


def _component_table(seen: list[ComponentStatus]) -> Table:
    table = _table("component", "pid", "state", "restarts", "since")
    for row in seen:
        since = _ago(row.since) if row.since else "-"
        table.add_row(row.name, str(row.pid or "-"), row.state, str(row.restarts), since)
    return table


def _node_table(seen: list[NodeStatus]) -> Table:
    table = _table("node", "kind", "ready", "devices (asked for/there are)")
    for row in seen:
        devices = ", ".join(f"{r} {used}/{n}" for r, (used, n) in sorted(row.devices.items()))
        kind = "simulated" if row.simulated else "real"
        table.add_row(row.name, kind, "yes" if row.ready else "no", devices or "-")
    return table


@app.command()
def status(environment: EnvironmentOption = "local") -> None:
    """Show every component and node; exit 1 when one is not ready.

    Example: ./tokenworks local status
    """
    from local import cluster  # noqa: PLC0415

    instead = f"./tokenworks local kubectl --env {environment} get nodes"
    seen = cluster.status(_ours(environment, instead))
    if not seen:
        raise cluster.NotRunningError(environment)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_component_table(seen))
    late = [row.name for row in seen if row.state != "ready"]
    if "kube-apiserver" not in late:
        nodes = cluster.node_status(environment)
        console.print()
        console.print(_node_table(nodes))
        late += [node.name for node in nodes if not node.ready]
    print(f"\nkubeconfig: {cluster.kubeconfig_path(environment)}")
    if late:
        raise TokenworksError(
            f"not ready: {', '.join(late)}. They start again by themselves; if that goes on: "
            "./tokenworks local logs COMPONENT, ./tokenworks local up"
        )


class _PassedOn(TyperCommand):
    """A command whose own options come first; from there on every word is another program's."""

    # Typer's context is click's or its own copy of it, by release.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the leading options, and leave the rest as it is."""
        own = 0
        while own < len(args) and args[own].partition("=")[0] in ("--env", "--help"):
            own += 2 if args[own] == "--env" else 1
        super().parse_args(ctx, args[:own])
        rest = args[own + 1 :] if args[own : own + 1] == ["--"] else args[own:]
        ctx.args = rest
        return rest


@app.command(cls=_PassedOn, context_settings={"allow_extra_args": True})
def kubectl(context: typer.Context, environment: EnvironmentOption = "local") -> None:
    """Run kubectl on the cluster; every argument after --env is passed on as it is.

    Example: ./tokenworks local kubectl get pods -A
    """
    command = [*_kubectl(environment), *context.args]
    sys.stdout.flush()
    os.execv(command[0], command)


def _kubectl(environment: str) -> list[str]:
    from local import cluster  # noqa: PLC0415
    from local.cluster import kind  # noqa: PLC0415

    if _provider(environment) == "kind":
        program = shutil.which("kubectl")
        if program is None:
            raise TokenworksError("kubectl is not on PATH: it reaches clusters that kind makes")
        return [program, f"--kubeconfig={kind.kubeconfig_path(environment)}"]
    if not cluster.status(environment):
        raise cluster.NotRunningError(environment)
    command = cluster.kubectl_command(environment, ())
    if not Path(command[0]).exists():
        raise TokenworksError(f"{command[0]} is gone from the cache: ./tokenworks local up")
    return command


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

    instead = f"kind export logs --name {environment}"
    path = cluster.log_file(_ours(environment, instead), component)
    command = ["tail", f"--lines={lines}", *(["--follow=name"] if follow else []), str(path)]
    sys.stdout.flush()
    os.execvp(command[0], command)
