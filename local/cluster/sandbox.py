"""What the kernel keeps for a cluster: two namespaces and a cgroup.

Everything the cluster does to the machine happens inside them. The network namespace
holds bridge, pod links, rules and listeners. The mount namespace holds pod volumes and
container file systems, and puts the cluster's own folders over the fixed places that
Kubernetes and containerd write to, so the machine's stay as they are and two clusters
do not meet. The cgroup holds every process, so none can be overlooked.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from local.cluster import processes
from local.cluster.spec import NODE_DEVICE, NODE_IP, SERVICE_CIDR, Paths
from tokenworks.errors import TokenworksError

_CLONE_NEWNET = 0x40000000
_CGROUP_TOP = Path("/sys/fs/cgroup")
# Hierarchies of cgroup v1 that may hold the daemons, best first.
_V1_HOLDERS = ("pids", "freezer", "memory", "systemd")
# Controllers that the kubelet asks for (pkg/kubelet/cm/cgroup_v2_manager_linux.go).
_V2_CONTROLLERS = ("cpu", "cpuset", "memory", "hugetlb", "pids", "io")

COVERED = {
    "/var/lib/kubelet": "kubelet",
    "/var/lib/cni": "cni",
    "/var/log/pods": "log/pods",
    "/var/log/containers": "log/containers",
    "/run/containerd": "run/containerd",
}
"""Fixed place -> folder of the cluster that lies over it in the cluster's mount namespace."""


def _call(command: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {"PATH": processes.search_path()}
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=env)


def _must(command: list[str], text: str | None = None) -> None:
    result = _call(command, text)
    if result.returncode != 0:
        raise TokenworksError(f"`{shlex.join(command)}` failed: {result.stderr.strip()}")


def enter_network(namespace: Path) -> None:
    """Move the calling thread into a network namespace; threads it starts later follow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with namespace.open() as handle:
        if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"setns {namespace}: {os.strerror(code)}")


def mount_points(below: Path) -> list[str]:
    """Mount points of this mount namespace at or below a folder, deepest first."""
    points = (
        line.split()[4].encode().decode("unicode_escape")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )
    inside = [p for p in points if p == str(below) or p.startswith(f"{below}/")]
    return sorted(inside, key=len, reverse=True)


def there(paths: Paths) -> bool:
    """Whether both namespaces exist."""
    return all(os.path.ismount(handle) for handle in (paths.netns, paths.mntns))


def make(paths: Paths) -> bool:
    """Make cgroups and namespaces, or what is missing of them; True when they are new.

    Raises:
        TokenworksError: the kernel refused.
    """
    _make_cgroups(paths)
    new = not there(paths)
    if new:
        unmount(paths)
        paths.handles.mkdir(exist_ok=True)
        # A mount namespace can only be mounted where mounts are not shared with others.
        _must(["mount", "--bind", str(paths.handles), str(paths.handles)])
        _must(["mount", "--make-private", str(paths.handles)])
        for handle in (paths.netns, paths.mntns):
            handle.touch()
        # In this order: the mount namespace begins with the mounts that are there by then.
        _must(["unshare", f"--net={paths.netns}", "true"])
        _must(["unshare", f"--mount={paths.mntns}", "--propagation", "slave", "true"])
    _must(["nsenter", f"--mount={paths.mntns}", "sh", "-eu"], _mount_script(paths))
    _must(["nsenter", f"--net={paths.netns}", "sh", "-eu"], _NETWORK)
    return new


def _mount_script(paths: Paths) -> str:
    """Shell: pod volumes may be shared among the cluster's mounts, and never leave them."""
    lines = ["mount --make-rshared /"]
    for place, folder in COVERED.items():
        source = shlex.quote(str(paths.root / folder))
        lines.append(f"mkdir -p {source}")
        lines.append(f"mountpoint -q {place} || mount --bind {source} {place}")
    return "\n".join(lines)


# Pods hang on links of their own, each with a route to it; the device only carries the
# node's address. Service addresses must be routable before nftables rewrites them.
_NETWORK = f"""
ip link show {NODE_DEVICE} > /dev/null 2>&1 || ip link add {NODE_DEVICE} type bridge
ip link set lo up
ip address replace {NODE_IP}/32 dev {NODE_DEVICE}
ip link set {NODE_DEVICE} up
ip route replace {SERVICE_CIDR} dev {NODE_DEVICE} src {NODE_IP}
echo 1 > /proc/sys/net/ipv4/ip_forward
"""


def unmount(paths: Paths) -> None:
    """Let go of the namespaces; without processes in them the kernel removes all they hold."""
    for point in mount_points(paths.root):
        _call(["umount", "--lazy", point])


def cgroup_root(paths: Paths) -> str:
    """Cgroup below which the kubelet makes those of pods, as it names it."""
    return f"/{paths.tag}"


def cgroup_v2() -> bool:
    """Whether the machine has the one hierarchy of cgroup v2."""
    return (_CGROUP_TOP / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    if cgroup_v2():
        return [_CGROUP_TOP]
    found = [f for f in sorted(_CGROUP_TOP.iterdir()) if not f.is_symlink()]
    return [folder for folder in found if (folder / "cgroup.procs").exists()]


def _make_cgroups(paths: Paths) -> None:
    """The kubelet wants its root in every hierarchy, or with every controller."""
    hierarchies = _hierarchies()
    if not hierarchies:
        raise TokenworksError(f"no cgroup hierarchy under {_CGROUP_TOP}: mount cgroups first")
    if cgroup_v2():
        offered = (_CGROUP_TOP / "cgroup.controllers").read_text().split()
        wanted = [f"+{name}" for name in offered if name in _V2_CONTROLLERS]
        for folder in (_CGROUP_TOP, _CGROUP_TOP / paths.tag):
            folder.mkdir(exist_ok=True)
            (folder / "cgroup.subtree_control").write_text(" ".join(wanted))
    for hierarchy in hierarchies:
        (hierarchy / paths.tag).mkdir(exist_ok=True)
    _daemons(paths).mkdir(exist_ok=True)


def _daemons(paths: Paths) -> Path:
    """Where the daemons are: one hierarchy is enough to find them."""
    names = {hierarchy.name: hierarchy for hierarchy in _hierarchies()}
    holder = next((names[n] for n in _V1_HOLDERS if n in names), next(iter(names.values())))
    return holder / paths.tag / "daemons"


def inside(paths: Paths, command: list[str]) -> list[str]:
    """A command in the cluster's cgroup and mount namespace, and so is all it will start."""
    enter = ["nsenter", f"--mount={paths.mntns}", "--", *command]
    return [
        "sh",
        "-c",
        'echo $$ > "$0" && exec "$@"',
        str(_daemons(paths) / "cgroup.procs"),
        *enter,
    ]


def _cgroups(paths: Paths) -> list[Path]:
    """The cluster's top cgroup in every hierarchy that has it."""
    return [f for h in _hierarchies() if (f := h / paths.tag).is_dir()]


def members(paths: Paths) -> set[int]:
    """Every process of the cluster: daemons, shims, pods."""
    found: set[int] = set()
    for top in _cgroups(paths):
        found |= _listed([top, *top.rglob("*")])
    return found


def _listed(folders: Iterable[Path]) -> set[int]:
    found: set[int] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
    return found


def strays(paths: Paths) -> set[int]:
    """Daemons of the cluster that no supervisor looks after: all but what holds the pods."""
    return {
        pid
        for pid in _listed([_daemons(paths)])
        if "containerd-shim" not in (processes.command_line(pid) or [""])[0]
    }


def kill_members(paths: Paths, seconds: float = 20.0) -> None:
    """Kill every process of the cluster.

    Raises:
        TokenworksError: some do not end.
    """
    deadline = time.monotonic() + seconds
    while pids := members(paths):
        if time.monotonic() > deadline:
            raise TokenworksError(
                f"processes {sorted(pids)} of cluster {paths.name} do not end (waiting for a "
                "disk or the kernel?); run the same command again"
            )
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def remove_cgroups(paths: Paths) -> None:
    """Remove the cluster's cgroups, leaves first; they are empty once their processes ended."""
    deadline = time.monotonic() + 10
    while tops := _cgroups(paths):
        for top in tops:
            folders = [p for p in top.rglob("*") if p.is_dir()]
            for folder in (*sorted(folders, key=lambda p: -len(p.parts)), top):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        if time.monotonic() > deadline:
            raise TokenworksError(f"cgroup {tops[0]} cannot be removed; run the same command again")
        time.sleep(0.02)
