"""What a local cluster is made of, and where it keeps its state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Inside the cluster's own network namespace, so they clash with nothing on the host.
BRIDGE = "cni0"
NODE_IP = "10.244.0.1"
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"
API_PORT = 6443


@dataclass(frozen=True)
class Pool:
    """Nodes of one shape; `resources` are extended resources of one node."""

    name: str
    nodes: int
    resources: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value, effect."""


@dataclass(frozen=True)
class ClusterSpec:
    """One real node, which plays `real`, and KWOK nodes for every other pool."""

    name: str
    real: Pool
    simulated: tuple[Pool, ...] = ()


@dataclass(frozen=True)
class Programs:
    """Paths of what the cluster runs."""

    kube: Path
    """etcd and the Kubernetes programs in one binary."""
    coredns: Path
    kwok: Path
    provisioner: Path
    """local-path-provisioner."""
    kwok_stages: Path
    """Folder of KWOK's own stages (`kustomize/stage` of its module)."""


@dataclass(frozen=True)
class Paths:
    """Every path of one cluster; nothing of it lies elsewhere."""

    name: str
    root: Path

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
    def netns(self) -> Path:
        """The network namespace."""
        return Path("/run/netns") / self.netns_name

    @property
    def netns_name(self) -> str:
        """Name of the network namespace, for `ip netns`."""
        return f"tokenworks-{self.name}"

    @property
    def cgroup(self) -> str:
        """Parent cgroup of every pod."""
        return f"/tokenworks-{self.name}"

    @property
    def containerd_socket(self) -> Path:
        """Socket of the cluster's own containerd."""
        return self.root / "containerd.sock"

    @property
    def plan(self) -> Path:
        """What the supervisor runs."""
        return self.root / "plan.json"

    @property
    def status(self) -> Path:
        """What the supervisor sees."""
        return self.root / "status.json"

    @property
    def forwards(self) -> Path:
        """Ports on loopback and where they lead."""
        return self.root / "forwards.json"

    @property
    def before(self) -> Path:
        """Which of the machine's shared folders were there before us."""
        return self.root / "before.json"


def state_root() -> Path:
    """Where clusters and deployment state live: `$TOKENWORKS_STATE`, or /var/lib/tokenworks.

    Without root, which clusters need and previews do not, it is the user's own state folder.
    """
    if chosen := os.environ.get("TOKENWORKS_STATE"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/tokenworks")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base).absolute() / "tokenworks"


def paths(name: str) -> Paths:
    """Paths of the cluster `name`; nothing is made."""
    return Paths(name, state_root() / name)
