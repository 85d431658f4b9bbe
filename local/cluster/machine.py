"""What this machine allows, and the few things outside a cluster's folder that it changes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from local.cluster import sandbox
from local.cluster.locks import locked
from local.cluster.processes import search_path
from local.cluster.spec import Paths
from tokenworks.errors import TokenworksError

_CAP_SYS_RESOURCE = 24
_RECORD = Path("/run/tokenworks")
_CNI = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
# Program -> Debian package.
_NEEDED = {
    "containerd": "containerd", "ctr": "containerd", "containerd-shim-runc-v2": "containerd",
    "runc": "runc", "nft": "nftables", "ip": "iproute2", "mount": "mount", "umount": "mount",
    "nsenter": "util-linux", "unshare": "util-linux", "setpriv": "util-linux",
}  # fmt: skip
_CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")
# What the kubelet sets when it starts (pkg/kubelet/cm/container_manager_linux.go,
# setupKernelTunables), and what it sets it to.
_TUNABLES = {
    "vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10",
    "kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}  # fmt: skip


@dataclass(frozen=True)
class Host:
    """What differs between machines."""

    may_lower_oom_score: bool
    """CAP_SYS_RESOURCE; without it runc cannot set a score below its own."""
    overlayfs: bool
    """Whether the file system of the state can carry overlayfs."""
    cni: str
    """Folder of the CNI plugins."""


def require(platform: str = sys.platform, user: int | None = None) -> None:
    """Refuse what cannot work.

    Raises:
        TokenworksError: not Linux, or not root.
    """
    if platform != "linux":
        raise TokenworksError(
            f"the local cluster needs Linux, this is {platform}: set cluster.provider: kind in "
            "the environment, or use a Linux machine"
        )
    if (os.geteuid() if user is None else user) != 0:
        raise TokenworksError("the local cluster needs root: run the same command with sudo")


def require_programs() -> Path:
    """The folder of the CNI plugins, when everything from the distribution is there.

    Raises:
        TokenworksError: something is missing.
    """
    where = search_path()
    missing = {p: d for p, d in _NEEDED.items() if shutil.which(p, path=where) is None}
    cni = next((f for f in _CNI if all((f / p).is_file() for p in _CNI_PLUGINS)), None)
    if cni is None:
        missing["CNI plugins"] = "containernetworking-plugins"
    if missing or cni is None:
        raise TokenworksError(
            f"the local cluster needs {', '.join(missing)}: "
            f"apt-get install {' '.join(sorted(set(missing.values())))}"
        )
    return cni


def _capable(bit: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    return bool(int(effective, 16) >> bit & 1)


def _overlay_works(folder: Path) -> bool:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name in ("lower", "upper", "work", "merged"):
            (Path(scratch) / name).mkdir()
        mount = "mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work merged"
        # In a mount namespace of its own: the mount is gone with the command.
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount]
        return (
            subprocess.run(command, cwd=scratch, capture_output=True, check=False).returncode == 0
        )


def inspect(paths: Paths) -> Host:
    """What this machine allows; found out once per cluster.

    Raises:
        TokenworksError: something from the distribution is missing.
    """
    cni = str(require_programs())
    known = paths.root / "host.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        host = Host(**json.loads(known.read_text()))
        if host.cni == cni:
            return host
    host = Host(_capable(_CAP_SYS_RESOURCE), _overlay_works(paths.root), cni)
    known.write_text(json.dumps(asdict(host)))
    return host


@contextmanager
def _record() -> Generator[dict[str, Any]]:
    """The machine's record of clusters, saved again afterwards; /run, so a restart clears it."""
    with locked(_RECORD / "lock"):
        file = _RECORD / "machine.json"
        empty: dict[str, Any] = {"clusters": {}, "tunables": {}, "folders": []}
        try:
            record: dict[str, Any] = empty | json.loads(file.read_text())
        except (OSError, ValueError):
            record = empty
        yield record
        if record["clusters"]:
            file.write_text(json.dumps(record))
        else:
            shutil.rmtree(_RECORD)


def _tunable(name: str) -> Path:
    return Path("/proc/sys") / name


def enter(paths: Paths) -> None:
    """Write down how the machine is before the first cluster, and make the places to cover."""
    mine = paths.root / "folders.json"
    with _record() as record:
        if not record["clusters"]:
            record["tunables"] = {n: _tunable(n).read_text().strip() for n in _TUNABLES}
            # Folders that this cluster made before the machine restarted are still its own.
            made: list[str] = json.loads(mine.read_text()) if mine.exists() else []
            record["folders"] = [p for p in made if Path(p).is_dir()]
        absent = [place for place in sandbox.COVERED if not Path(place).exists()]
        for place in absent:
            Path(place).mkdir(parents=True)
        record["folders"] += absent
        record["clusters"][paths.tag] = str(paths.root)
        mine.write_text(json.dumps(record["folders"]))


def leave(paths: Paths) -> None:
    """Forget the cluster; after the last one the machine is as it was before the first."""
    with _record() as record:
        others = record["clusters"].items()
        record["clusters"] = {t: r for t, r in others if t != paths.tag and Path(r).exists()}
        if record["clusters"]:
            return
        for name, value in record["tunables"].items():
            # What somebody else has set meanwhile stays.
            if _tunable(name).read_text().strip() == _TUNABLES[name] != value:
                _tunable(name).write_text(value)
        for place in record["folders"]:
            with contextlib.suppress(OSError):
                Path(place).rmdir()
