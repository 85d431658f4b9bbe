"""What this machine allows, and what must be put back when the cluster goes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from local.cluster import processes
from local.cluster.config import Host
from local.cluster.spec import Paths
from tokenworks.errors import TokenworksError

_CAP_SYS_RESOURCE = 24

# Folders that Kubernetes and containerd make at fixed places; removed again when they
# were not there before and nothing is left in them.
_SHARED = (
    "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet",
    "/var/log/containers", "/run/containerd/s", "/run/containerd/runc/k8s.io",
    "/run/containerd/runc", "/run/containerd/fifo", "/run/containerd/io.containerd.runtime.v1.linux", "/run/containerd",
    "/run/netns", "/var/run/netns", "/opt/cni/bin", "/opt/cni", "/opt/containerd",
    "/var/lib/cni/results", "/var/lib/cni", "/etc/cni/net.d", "/etc/cni",
)  # fmt: skip


def require_root() -> None:
    """Refuse what cannot work.

    Raises:
        TokenworksError: not Linux, or not root.
    """
    if sys.platform != "linux":
        raise TokenworksError("the local cluster needs Linux; set cluster.provider: kind elsewhere")
    if os.geteuid() != 0:
        raise TokenworksError("the local cluster needs root: run the command with sudo")


def _capable(bit: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    return bool(int(effective, 16) >> bit & 1)


def _overlay_works(folder: Path) -> bool:
    """Whether overlayfs can be mounted on the file system that holds the state."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        base = Path(scratch)
        for name in ("lower", "upper", "work", "merged"):
            (base / name).mkdir()
        options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
        command = ["mount", "-t", "overlay", "overlay", "-o", options, str(base / "merged")]
        works = subprocess.run(command, capture_output=True, check=False).returncode == 0
        if works:
            subprocess.run(["umount", str(base / "merged")], check=False)
    return works


def inspect(paths: Paths) -> Host:
    """What this machine allows."""
    return Host(
        cgroup_v2=Path("/sys/fs/cgroup/cgroup.controllers").exists(),
        may_lower_oom_score=_capable(_CAP_SYS_RESOURCE),
        overlayfs=_overlay_works(paths.root),
    )


def remember(paths: Paths) -> None:
    """Write down which shared folders were there before this cluster."""
    if not paths.before.exists():
        paths.before.write_text(json.dumps([p for p in _SHARED if Path(p).exists()]))


def _mounts_below(folder: Path) -> list[str]:
    """Mount points below a folder, deepest first."""
    points = (
        line.split()[4].encode().decode("unicode_escape")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )
    return sorted((p for p in points if p.startswith(f"{folder}/")), key=len, reverse=True)


def unmount(paths: Paths) -> None:
    """Unmount everything below the cluster's folder."""
    for point in _mounts_below(paths.root):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


def cgroup_folders(paths: Paths) -> list[Path]:
    """The cluster's parent cgroup in every hierarchy that has it."""
    top, name = Path("/sys/fs/cgroup"), paths.cgroup.lstrip("/")
    return [f for f in (top / name, *top.glob(f"*/{name}")) if f.is_dir()]


def pod_processes(paths: Paths) -> set[int]:
    """Every process in a pod of the cluster, and the shims that hold them."""
    found: set[int] = set()
    for folder in cgroup_folders(paths):
        for listing in folder.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in listing.read_text().split()}
    return found | shims(paths)


def shims(paths: Paths) -> set[int]:
    """containerd's shims of this cluster, told by the socket they report to."""
    socket = str(paths.containerd_socket)
    return {
        pid
        for pid in processes.every()
        if (words := processes.command_line(pid))
        and "containerd-shim" in words[0]
        and socket in words
    }


def remove_cgroups(paths: Paths) -> None:
    """Remove the cluster's cgroups, leaves first."""
    for folder in cgroup_folders(paths):
        leaves = sorted((p for p in folder.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts))
        for leaf in (*leaves, folder):
            with contextlib.suppress(OSError):
                leaf.rmdir()


def shim_sockets(paths: Paths) -> set[Path]:
    """Sockets of shims, which lie outside the cluster's folder."""
    found: set[Path] = set()
    for address in paths.root.glob("run/io.containerd.runtime.v2.task/*/*/address"):
        with contextlib.suppress(OSError):
            found.add(Path(address.read_text().removeprefix("unix://")))
    return found


def put_back(paths: Paths, sockets: set[Path]) -> None:
    """Remove what was left at fixed places outside the cluster's folder."""
    for socket in sockets:
        socket.unlink(missing_ok=True)
    logs = Path("/var/log/containers")
    for link in logs.glob("*.log") if logs.is_dir() else ():
        if link.is_symlink() and str(link.readlink()).startswith(f"{paths.root}/"):
            link.unlink()
    for runc in Path("/run/containerd/runc/k8s.io").glob("*"):
        with contextlib.suppress(OSError):
            if str(paths.root) in (runc / "state.json").read_text():
                (runc / "state.json").unlink()
                runc.rmdir()
    before: list[str] = (
        json.loads(paths.before.read_text()) if paths.before.exists() else list(_SHARED)
    )
    if "/var/lib/kubelet" not in before:
        for name in ("kubelet.sock", "DEPRECATION", "kubelet_internal_checkpoint"):
            (Path("/var/lib/kubelet/device-plugins") / name).unlink(missing_ok=True)
    for folder in _SHARED:
        if folder not in before:
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
