"""What a local cluster is made of, and where it keeps its state."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tokenworks.errors import UsageError

# Inside the cluster's own network namespace, so they clash with nothing on the host.
NODE_DEVICE = "node0"
NODE_IP = "10.244.0.1"
POD_CIDR = "10.244.0.0/16"
FIRST_POD_IP = "10.244.1.1"
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"
DNS_IP = "10.96.0.10"
API_PORT = 6443

DEFAULT_STATE = "/var/lib/tokenworks"
# Linux keeps a socket's path in 108 bytes; the longest name that we put below the root has 26.
_LONGEST_ROOT = 108 - 26 - 1
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class Pool:
    """Nodes of one shape; `resources` are extended resources of one node."""

    name: str
    nodes: int
    resources: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""
    topology: tuple[str, ...] = ()
    """Labels that say where a node stands, widest first."""


@dataclass(frozen=True)
class ClusterSpec:
    """One real node, which plays `real`, and KWOK nodes for every other pool."""

    name: str
    real: Pool
    simulated: tuple[Pool, ...] = ()


@dataclass(frozen=True)
class Programs:
    """Paths of what the cluster runs besides the distribution's own packages."""

    kube: Path
    """etcd and the Kubernetes programs in one binary; its first argument says which."""
    coredns: Path
    kwok: Path
    provisioner: Path
    """local-path-provisioner."""
    kwok_stages: Path
    """Folder of KWOK's stages: how simulated nodes and their pods behave."""


@dataclass(frozen=True)
class Paths:
    """Every path of one cluster; nothing of it lies elsewhere."""

    name: str
    root: Path

    @property
    def tag(self) -> str:
        """Name of what the kernel keeps for the cluster; unique on the machine."""
        if self.root == Path(DEFAULT_STATE) / self.name:
            return f"tokenworks-{self.name}"
        return f"tokenworks-{self.name}-{hashlib.sha256(str(self.root).encode()).hexdigest()[:6]}"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.root / "pki"

    @property
    def etc(self) -> Path:
        """Configuration files, written by `up`."""
        return self.root / "etc"

    @property
    def logs(self) -> Path:
        """One log a component."""
        return self.root / "logs"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, readable by root alone."""
        return self.root / "kubeconfig"

    @property
    def handles(self) -> Path:
        """Folder in which the cluster's namespaces are mounted, so that they outlive processes."""
        return self.root / "ns"

    @property
    def netns(self) -> Path:
        """The network namespace."""
        return self.handles / "net"

    @property
    def mntns(self) -> Path:
        """The mount namespace."""
        return self.handles / "mnt"

    @property
    def containerd_socket(self) -> Path:
        """Socket of the cluster's own containerd."""
        return self.root / "containerd.sock"

    @property
    def control(self) -> Path:
        """Socket of the supervisor."""
        return self.root / "supervisor.sock"

    @property
    def pid_file(self) -> Path:
        """Pid and start time of the supervisor."""
        return self.root / "supervisor.pid"

    @property
    def plan(self) -> Path:
        """What the supervisor runs."""
        return self.root / "plan.json"

    @property
    def node(self) -> Path:
        """What the real node advertises."""
        return self.root / "node.json"

    @property
    def rights(self) -> Path:
        """There once components have their rights; those that need some start after it."""
        return self.root / "rights"

    @property
    def forwards(self) -> Path:
        """Ports on loopback and where they lead."""
        return self.root / "forwards.json"

    @property
    def lock(self) -> Path:
        """Held by whoever changes the cluster."""
        return self.root.with_name(f".{self.name}.lock")


def state_root() -> Path:
    """Where clusters and deployment state live: `$TOKENWORKS_STATE`, or /var/lib/tokenworks."""
    return Path(os.environ.get("TOKENWORKS_STATE") or DEFAULT_STATE).absolute()


def paths(name: str) -> Paths:
    """Paths of the cluster `name`; nothing is made.

    Raises:
        UsageError: the name is no DNS label of at most 40 characters, or the path is too long.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"cluster name {name!r}: at most 40 lower-case letters, digits and hyphens, "
            "a letter or digit at both ends"
        )
    root = state_root() / name
    if len(str(root)) > _LONGEST_ROOT:
        raise UsageError(
            f"{root} is {len(str(root))} characters long, and sockets below it allow "
            f"{_LONGEST_ROOT}: set TOKENWORKS_STATE to a shorter path"
        )
    return Paths(name, root)
