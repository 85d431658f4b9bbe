"""The other provider: a cluster that kind makes in Docker, for machines without Linux or root.

The user's own `kind` and Docker do the work; this only names the cluster, loads the
images and makes the node advertise its simulated devices. A kubelet that starts
again forgets those until the next `up`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from local.cluster import images, nodes
from local.cluster.api import Api
from local.cluster.files import write
from local.cluster.locks import locked
from local.cluster.spec import ClusterSpec, state_root
from tokenworks.errors import TokenworksError, UsageError

_WAIT = "180s"


def _program() -> str:
    """Path of kind, when it and a Docker that answers are there.

    Raises:
        TokenworksError: something is missing.
    """
    kind = shutil.which("kind")
    if kind is None:
        raise TokenworksError(
            "kind is not on PATH: install it (https://kind.sigs.k8s.io), or set "
            "cluster.provider: local, which needs neither kind nor Docker but Linux and root"
        )
    engine = os.environ.get("KIND_EXPERIMENTAL_PROVIDER") or "docker"
    if shutil.which(engine) is None:
        raise TokenworksError(f"kind needs {engine}, which is not on PATH: install and start it")
    return kind


def _kind(*arguments: str | Path) -> str:
    command = [_program(), *(str(a) for a in arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = result.stderr.strip()[-600:]
        raise TokenworksError(f"`kind {' '.join(command[1:])}` failed: {reason}")
    return result.stdout


def _folder(name: str) -> Path:
    return state_root() / f"kind-{name}"


def _lock(name: str) -> Path:
    return state_root() / f".kind-{name}.lock"


def kubeconfig_path(name: str) -> Path:
    """Where the kubeconfig of a cluster that kind makes is (or will be); not the user's own."""
    return _folder(name) / "kubeconfig"


def node_name(name: str) -> str:
    """Name of the one node of a cluster that kind makes."""
    return f"{name}-control-plane"


def exists(name: str) -> bool:
    """Whether kind has a cluster of this name."""
    return name in _kind("get", "clusters").split()


def up(
    spec: ClusterSpec, archives: Iterable[Path] = (), progress: Callable[[str], None] = print
) -> Path:
    """Make the cluster, load images and set the node; returns a kubeconfig of its own.

    kind adds the context `kind-NAME` to the user's kubeconfig as well.

    Raises:
        UsageError: the spec has simulated nodes, which kind cannot play.
        TokenworksError: kind or Docker is missing, or refused.
    """
    if spec.simulated:
        pools = ", ".join(pool.name for pool in spec.simulated)
        raise UsageError(
            f"environment {spec.name}: node pool {pools} is simulated, which provider kind does "
            "not do: remove `simulated`, or set cluster.provider: local"
        )
    folder = _folder(spec.name)
    with locked(_lock(spec.name)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        changed = not exists(spec.name)
        if changed:
            progress(f"  kind makes cluster {spec.name}")
            (folder / "images.json").unlink(missing_ok=True)
            _kind("create", "cluster", "--name", spec.name, "--wait", _WAIT)
        kubeconfig = kubeconfig_path(spec.name)
        write(kubeconfig, _kind("get", "kubeconfig", "--name", spec.name))
        loaded = _load(spec.name, archives, folder / "images.json")
        if loaded:
            progress(f"  {len(loaded)} image(s) loaded")
        set_nodes = nodes.reconcile(_api(kubeconfig, folder), spec, node_name(spec.name))
    if not (changed or loaded or set_nodes):
        progress(f"cluster {spec.name} runs; nothing to change")
    return kubeconfig


def _load(name: str, archives: Iterable[Path], record: Path) -> list[str]:
    """Load images that were not loaded into this cluster before; kind cannot tell which it has."""
    known: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    loaded: list[str] = []
    for archive in archives:
        new = {n: d for n, d in images.contents(archive).items() if known.get(n) != d}
        if new:
            _kind("load", "image-archive", archive, "--name", name)
            known |= new
            loaded += new
            write(record, json.dumps(known))
    return loaded


def _api(kubeconfig: Path, folder: Path) -> Api:
    """The API server as kind's administrator sees it."""
    document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    for file, data in (
        ("ca.crt", cluster["certificate-authority-data"]),
        ("admin.crt", user["client-certificate-data"]),
        ("admin.key", user["client-key-data"]),
    ):
        write(folder / file, base64.b64decode(data).decode())
    server = urlsplit(str(cluster["server"]))
    return Api(folder, "admin", (server.hostname or "127.0.0.1", server.port or 443))


def down(name: str, progress: Callable[[str], None] = print) -> bool:
    """Have kind remove the cluster; False when there was none.

    Raises:
        TokenworksError: kind or Docker is missing, or refused.
    """
    lock = _lock(name)
    with locked(lock):
        found = exists(name)
        if found:
            _kind("delete", "cluster", "--name", name)
        shutil.rmtree(_folder(name), ignore_errors=True)
        lock.unlink()
    with contextlib.suppress(OSError):  # others keep state here
        state_root().rmdir()
    progress(f"cluster {name} is removed" if found else f"cluster {name} is not there")
    return found
