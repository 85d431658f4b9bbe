"""Bring a cluster up, repair it, take it down."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from local.cluster import config, forward, host, netns, nodes, pki, processes
from local.cluster.spec import API_PORT, NODE_IP, ClusterSpec, Paths, Programs, paths
from tokenworks.errors import TokenworksError, UsageError

Progress = Callable[[str], None]
_UP_SECONDS = 180.0
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class ComponentStatus:
    """One component as `local status` shows it."""

    name: str
    pid: int
    state: str
    restarts: int


@contextmanager
def _locked(where: Paths, progress: Progress) -> Iterator[None]:
    where.root.parent.mkdir(parents=True, exist_ok=True)
    with (where.root.parent / f"{where.name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"  … another run is working on cluster {where.name}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _write(path: Path, text: str, mode: int = 0o600) -> bool:
    """Write a file when it differs; True when it did."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)
    return True


def _wait(what: str, ready: Callable[[], bool], progress: Progress, seconds: float) -> None:
    start = time.monotonic()
    told = start
    while not ready():
        now = time.monotonic()
        if now - start > seconds:
            raise TokenworksError(
                f"{what} is not ready after {seconds:.0f} s. See `./tokenworks local status` "
                "and `./tokenworks local logs`."
            )
        if now - told > 10:
            progress(f"  … {what} ({now - start:.0f} s)")
            told = now
        time.sleep(0.2)


def supervisor_pid(where: Paths) -> int:
    """The supervisor's pid, or 0."""
    for pid in processes.every():
        words = processes.command_line(pid)
        if words[-3:] == ["local.cluster.supervisor", where.name, str(where.root)]:
            return pid
    return 0


def _start_supervisor(where: Paths) -> None:
    where.logs.mkdir(exist_ok=True)
    with (where.logs / "supervisor.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "local.cluster.supervisor", where.name, str(where.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
        )


def status(name: str) -> list[ComponentStatus]:
    """Every component, as the supervisor sees it; empty when nothing runs."""
    where = paths(name)
    pid = supervisor_pid(where)
    if not pid:
        return []
    try:
        seen: dict[str, Any] = json.loads(where.status.read_text())
    except (OSError, ValueError):
        seen = {}
    listed = [ComponentStatus("supervisor", pid, "ready", 0)]
    return listed + [
        ComponentStatus(n, s["pid"], s["state"], s["restarts"]) for n, s in seen.items()
    ]


def kubeconfig_path(name: str) -> Path:
    """Where the administrator's kubeconfig of a cluster is (or will be)."""
    return paths(name).kubeconfig


def kubectl_command(name: str, arguments: Iterable[str], programs: Programs) -> list[str]:
    """A kubectl call on the cluster."""
    return [
        str(programs.kube), "kubectl", f"--kubeconfig={kubeconfig_path(name)}", *arguments
    ]  # fmt: skip


def _kubectl(where: Paths, programs: Programs, *arguments: str, text: str | None = None) -> str:
    result = subprocess.run(
        kubectl_command(where.name, arguments, programs),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath, "HOME": str(where.root)},
    )
    if result.returncode != 0:
        raise TokenworksError(f"kubectl {' '.join(arguments)} failed: {result.stderr.strip()}")
    return result.stdout


def forward_port(name: str, host_ip: str, port: int) -> int:
    """The port on loopback that leads to an address in the cluster; given once, kept."""
    where = paths(name)
    with (where.root / "forwards.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        table = forward.read_table(where.forwards)
        for local, target in table.items():
            if target == (host_ip, port):
                return local
        local = forward.free_port()
        rows = {str(p): list(t) for p, t in {**table, local: (host_ip, port)}.items()}
        _write(where.forwards, json.dumps(rows))
    return local


def _prepare(where: Paths, spec: ClusterSpec, programs: Programs) -> bool:
    """Everything on disk and the network namespace; True when anything changed."""
    where.root.mkdir(parents=True, exist_ok=True)
    where.root.chmod(0o700)
    for folder in ("etcd", "volumes", "pods", "logs", "etc", "opt"):
        (where.root / folder).mkdir(exist_ok=True)
    # The volumes' folder is entered by pods through mounts; its parents stay closed.
    (where.root / "etcd").chmod(0o700)
    host.remember(where)
    known = where.root / "host.json"
    machine = (
        config.Host(**json.loads(known.read_text())) if known.exists() else host.inspect(where)
    )
    _write(known, json.dumps(asdict(machine)))
    changed = pki.make(where.pki, config.node_name(spec))
    changed |= netns.make(where)
    for path, text in config.files(where, machine, spec, programs).items():
        changed |= _write(path, text)
    port = forward_port(where.name, NODE_IP, API_PORT)
    server = f"https://127.0.0.1:{port}"
    _write(where.kubeconfig, config.kubeconfig(where, "admin", server))
    plan = {
        "node": config.node_name(spec),
        "resources": dict(spec.real.resources),
        "components": [asdict(c) for c in config.components(where, spec, programs)],
    }
    return _write(where.plan, json.dumps(plan, indent=1)) or changed


def _ready(where: Paths, component: str | None = None) -> bool:
    """Whether one component, or every one, is ready."""
    seen = [s for s in status(where.name)[1:] if component in (None, s.name)]
    return bool(seen) and all(s.state == "ready" for s in seen)


def _node_ready(where: Paths, spec: ClusterSpec, programs: Programs) -> bool:
    query = "jsonpath={.status.conditions[?(@.type=='Ready')].status} {.status.allocatable}"
    try:
        said = _kubectl(where, programs, "get", "node", config.node_name(spec), "-o", query)
    except TokenworksError:
        return False
    return said.startswith("True") and all(f'"{r}"' in said for r in spec.real.resources)


def up(
    spec: ClusterSpec,
    programs: Programs,
    images: Mapping[str, Path] | None = None,
    progress: Progress = print,
) -> Path:
    """Make or repair the cluster and wait until its node is ready; returns the kubeconfig.

    Raises:
        TokenworksError: not root, or the cluster does not become ready.
    """
    host.require_root()
    where, start = paths(spec.name), time.monotonic()
    with _locked(where, progress):
        changed = _prepare(where, spec, programs)
        pid = supervisor_pid(where)
        if pid and changed:
            progress(f"cluster {spec.name}: configuration changed; restarting its components")
            processes.stop([pid])
            pid = 0
        if not pid:
            changed = True
            _start_supervisor(where)
        _wait("API server", lambda: _ready(where, "kube-apiserver"), progress, _UP_SECONDS)
        _bootstrap(where, spec, programs)
        _wait("control plane", lambda: _ready(where), progress, _UP_SECONDS)
        imported = import_images(spec.name, images or {}, progress)
        _wait("node", lambda: _node_ready(where, spec, programs), progress, _UP_SECONDS)
    if changed or imported:
        progress(f"cluster {spec.name}: ready after {time.monotonic() - start:.0f} s")
    else:
        progress(f"cluster {spec.name}: running, nothing to change")
    return where.kubeconfig


def _bootstrap(where: Paths, spec: ClusterSpec, programs: Programs) -> None:
    """Apply what the cluster itself needs, and drop simulated nodes that no pool has any more."""
    objects = nodes.bootstrap_objects(spec, config.provisioner_files(where))
    text = yaml.safe_dump_all(objects, sort_keys=False)
    _kubectl(where, programs, "apply", "--server-side", "--force-conflicts",
             "--field-manager=tokenworks-local", "-f", "-", text=text)  # fmt: skip
    wanted = {o["metadata"]["name"] for o in objects if o["kind"] == "Node"}
    there = _kubectl(where, programs, "get", "nodes", "-l", "type=kwok", "-o", "name").split()
    for node in sorted({n.removeprefix("node/") for n in there} - wanted):
        _kubectl(where, programs, "delete", "node", node)


def _ctr(where: Paths, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ctr", "--address", str(where.containerd_socket), "--namespace", "k8s.io",
         *[str(a) for a in arguments]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def import_images(name: str, images: Mapping[str, Path], progress: Progress) -> list[str]:
    """Import the archives that the cluster does not have yet; returns their names.

    An archive's path names its content, so the record of imported paths tells what is there.
    """
    where = paths(name)
    record = where.root / "images.json"
    known: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    present = set(_ctr(where, "images", "list", "--quiet").stdout.split())
    imported: list[str] = []
    for image, archive in images.items():
        if image in present and known.get(image) == str(archive):
            continue
        result = _ctr(where, "images", "import", archive)
        if result.returncode != 0:
            raise TokenworksError(f"importing {image} failed: {result.stderr.strip()}")
        imported.append(image)
        known[image] = str(archive)
        _write(record, json.dumps(known))
    if imported:
        progress(f"cluster {name}: {len(imported)} image(s) imported")
    return imported


def forward_service(name: str, namespace: str, service: str, port: int, programs: Programs) -> str:
    """`127.0.0.1:PORT`, which leads to a Service of the cluster.

    Raises:
        TokenworksError: there is no such Service, or the cluster does not run.
    """
    where = paths(name)
    if not where.kubeconfig.exists():
        raise TokenworksError(f"cluster {name} does not run: ./tokenworks local up")
    query = "jsonpath={.spec.clusterIP}"
    address = _kubectl(where, programs, "-n", namespace, "get", "service", service, "-o", query)
    return f"127.0.0.1:{forward_port(name, address, port)}"


def down(name: str, progress: Progress = print) -> bool:
    """Remove the cluster and everything it made on this machine; False when there was none.

    Raises:
        TokenworksError: not root, or a process cannot be ended.
    """
    host.require_root()
    where = paths(name)
    with _locked(where, progress):
        if not where.root.exists() and not where.netns.exists():
            progress(f"cluster {name}: not there, nothing to remove")
            return False
        pid = supervisor_pid(where)
        processes.stop([pid] if pid else [], patience=40)
        processes.stop(host.pod_processes(where), patience=0)
        left = host.pod_processes(where)
        if left:
            raise TokenworksError(
                f"processes {sorted(left)} of cluster {name} do not end; run it again"
            )
        sockets = host.shim_sockets(where)
        host.unmount(where)
        netns.remove(where)
        host.remove_cgroups(where)
        host.put_back(where, sockets)
        shutil.rmtree(where.root, ignore_errors=False)
    progress(f"cluster {name}: removed")
    return True


def log_file(name: str, component: str) -> Path:
    """Log of a component.

    Raises:
        UsageError: there is no such component or no cluster.
    """
    where = paths(name)
    known = sorted(p.stem for p in where.logs.glob("*.log")) if where.logs.is_dir() else []
    if component not in known:
        listed = ", ".join(known) or "none: the cluster does not run"
        raise UsageError(f"no log of {component!r}; there are: {listed}")
    return where.logs / f"{component}.log"
