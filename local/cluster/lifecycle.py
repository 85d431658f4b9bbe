"""Bring a cluster up, repair it, take it down, look at it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from local.cluster import (
    bootstrap,
    config,
    images,
    machine,
    nodes,
    pki,
    processes,
    sandbox,
)
from local.cluster.api import Api, ApiError, object_path
from local.cluster.control import NotRunningError, ask, supervisor_pid
from local.cluster.files import write
from local.cluster.locks import locked
from local.cluster.spec import API_PORT, NODE_IP, ClusterSpec, Paths, Programs, paths, state_root
from tokenworks.errors import TokenworksError, UsageError

Progress = Callable[[str], None]
"""Takes one line for the user."""

_SECONDS = 180.0
_REGISTERS_WITHIN = 10.0
_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_API = "kubernetes-api"


@dataclass(frozen=True)
class ComponentStatus:
    """One component as the supervisor sees it."""

    name: str
    pid: int
    state: str
    """waiting, starting, ready, unhealthy (runs, does not answer) or restarting."""
    since: float
    """When it entered that state, in seconds since 1970."""
    restarts: int


@contextmanager
def _locked(where: Paths, progress: Progress) -> Generator[int]:
    def waiting() -> None:
        progress(f"  … another run is working on cluster {where.name}; waiting for it")

    with locked(where.lock, waiting) as lock:
        yield lock


class _Work:
    """One run of `up`: what it changed, how long it takes, what it tells."""

    def __init__(self, where: Paths, lock: int, progress: Progress) -> None:
        self.where = where
        self.lock = lock
        self.changes: list[str] = []
        self._progress = progress
        self._start = time.monotonic()

    def changed(self, what: str) -> None:
        """Say and remember a change."""
        self.changes.append(what)
        self.say(what)

    def say(self, line: str) -> None:
        """Tell the user, with the time since the start."""
        self._progress(f"  {time.monotonic() - self._start:5.1f} s  {line}")

    def wait(self, what: str, late: Callable[[], list[str]]) -> None:
        """Wait until nothing is late.

        Raises:
            TokenworksError: something still is after three minutes, or the supervisor ended.
        """
        start = told = time.monotonic()
        while missing := late():
            now = time.monotonic()
            if not supervisor_pid(self.where):
                raise TokenworksError(
                    f"the supervisor of cluster {self.where.name} ended: "
                    f"{log_end(self.where, 'supervisor')}"
                )
            if now - start > _SECONDS:
                raise TokenworksError(self._late(what, missing))
            if now - told > 10:
                self.say(f"… {what}: waiting for {', '.join(missing[:8])}")
                told = now
            time.sleep(0.1)

    def _late(self, what: str, missing: list[str]) -> str:
        logs = [f"{n}: {log_end(self.where, n)}" for n in missing[:3]]
        return "\n".join(
            [
                f"{what} of cluster {self.where.name} is not ready after {_SECONDS:.0f} s: "
                f"{', '.join(missing)}",
                *logs,
                "See `./tokenworks local status` and `./tokenworks local logs`. To start afresh: "
                "`./tokenworks local down`, then `./tokenworks local up`.",
            ]
        )


def log_end(where: Paths, component: str) -> str:
    """The last line of a component's log."""
    with contextlib.suppress(OSError):
        text = (where.logs / f"{component}.log").read_bytes()[-2000:].decode(errors="replace")
        return text.strip().rpartition("\n")[2][-500:] or "its log is empty"
    return "no log"


def up(
    spec: ClusterSpec,
    programs: Programs,
    archives: Iterable[Path] = (),
    progress: Progress = print,
) -> Path:
    """Make or repair the cluster and wait until all of it is ready; returns the kubeconfig.

    Args:
        spec: its nodes.
        programs: what it runs besides the distribution's packages.
        archives: OCI archives of the images it must have.
        progress: takes one line per step.

    Raises:
        TokenworksError: not root, something is missing, or the cluster does not become ready.
        UsageError: a name, a path or an archive cannot be used.
    """
    machine.require()
    where = paths(spec.name)
    with _locked(where, progress) as lock:
        work = _Work(where, lock, progress)
        _prepare(work, spec, programs)
        _supervise(work)
        _connect(work)
        with ThreadPoolExecutor(1) as beside:
            imports = beside.submit(_import, work, archives)
            work.wait("API server", lambda: _late(where, "kube-apiserver"))
            _bootstrap(work)
            work.wait("control plane", lambda: _late(where))
            work.wait("controllers", lambda: _accounts_late(where))
            _nodes(work, spec)
            imports.result()
        if work.changes:
            work.say(f"cluster {spec.name} is ready")
        else:
            progress(f"cluster {spec.name} runs; nothing to change")
    return where.kubeconfig


def _import(work: _Work, archives: Iterable[Path]) -> None:
    work.wait("container runtime", lambda: _late(work.where, "containerd"))
    if added := images.add(work.where, archives):
        work.changed(f"{len(added)} image(s) imported")


def _prepare(work: _Work, spec: ClusterSpec, programs: Programs) -> None:
    """Everything that components find when they start: files, namespaces."""
    where = work.where
    where.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    where.root.chmod(0o700)
    _forget_before_restart(where)
    host = machine.inspect(where)
    machine.enter(where)
    for folder in ("etcd", "volumes", "logs", "log/pods", "log/containers"):
        (where.root / folder).mkdir(parents=True, exist_ok=True)
    (where.root / "etcd").chmod(0o700)
    if pki.make(where.pki, config.node_name(spec)):
        work.changed("certificates made")
    _clear(work)
    if sandbox.make(where):
        work.changed("network and mount namespace made")
    written = config.files(where, host, spec, programs)
    for path, text in written.items():
        write(path, text)
    write(
        where.root / "programs.json", json.dumps({k: str(v) for k, v in asdict(programs).items()})
    )
    resources = {name: str(count) for name, count in spec.real.resources.items()}
    write(where.node, json.dumps({"name": config.node_name(spec), "resources": resources}))
    parts = [asdict(c) for c in config.components(where, spec, programs)]
    read = [*sorted(where.pki.iterdir()), *_sources()]
    inputs = _digest([t for _, t in sorted(written.items())] + [p.read_text() for p in read])
    plan = json.dumps({"components": parts, "inputs": inputs}, indent=1)
    before = where.plan.read_text() if where.plan.exists() else ""
    if plan != before and (pid := supervisor_pid(where)):
        work.changed("configuration changed; components restart, pods go on running")
        processes.stop(pid, patience=60)
    # Last: a run that is interrupted before this leaves the next one a reason to go on.
    write(where.plan, plan)


def _forget_before_restart(where: Paths) -> None:
    """Drop what described running things, if the machine has been restarted since."""
    mark, now = where.root / "boot", processes.boot_id()
    if not mark.exists() or mark.read_text() != now:
        shutil.rmtree(where.root / "run", ignore_errors=True)
        mark.write_text(now)


def _clear(work: _Work) -> None:
    """End what nobody looks after: daemons without a supervisor, pods without namespaces."""
    where = work.where
    if not sandbox.there(where):
        sandbox.kill_members(where)
    elif not supervisor_pid(where):
        for pid in sandbox.strays(where):
            processes.stop(pid, patience=0)


def _sources() -> list[Path]:
    """Modules that the supervisor has in memory."""
    names = ("api", "config", "forwarding", "nodes", "processes", "sandbox", "spec", "supervisor")
    return [_HERE / f"{name}.py" for name in names]


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _supervise(work: _Work) -> None:
    where = work.where
    if supervisor_pid(where):
        return
    where.control.unlink(missing_ok=True)
    with (where.logs / "supervisor.log").open("ab") as log:
        # It lets go of the lock when it can be found: nobody who waits to take the cluster
        # down overlooks it.
        module = [sys.executable, "-m", "local.cluster.supervisor"]
        arguments = [where.name, str(where.root), str(work.lock)]
        process = subprocess.Popen(
            sandbox.inside(where, [*module, *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            pass_fds=(work.lock,),
            env={
                "PATH": processes.search_path(),
                "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
    work.changed("components start")
    deadline = time.monotonic() + 30
    while not _answering(where):
        if process.poll() is not None or time.monotonic() > deadline:
            raise TokenworksError(
                f"the supervisor of cluster {where.name} does not start: "
                f"{log_end(where, 'supervisor')}"
            )
        time.sleep(0.05)


def _answering(where: Paths) -> bool:
    try:
        return bool(ask(where, "status"))
    except NotRunningError:
        return False


def _connect(work: _Work) -> None:
    """A port for the API server, and a kubeconfig that names it."""
    where = work.where
    port = _forward(where, _API, NODE_IP, API_PORT)
    text = config.kubeconfig(where, "admin", f"https://127.0.0.1:{port}")
    if write(where.kubeconfig, text):
        work.changed(f"kubeconfig written: {where.kubeconfig}")


def _forward(where: Paths, name: str, target: str, target_port: int) -> int:
    answer = ask(where, "forward", name=name, target=target, target_port=target_port)
    return int(answer["port"])


def _api(where: Paths) -> Api:
    return Api(where.pki, "admin", ("127.0.0.1", _forward(where, _API, NODE_IP, API_PORT)))


def _late(where: Paths, *only: str) -> list[str]:
    """Components that are not ready, of those named or of all."""
    seen = components(where.name)
    return [c.name for c in seen if c.state != "ready" and (not only or c.name in only)]


def _bootstrap(work: _Work) -> None:
    """Apply what the cluster itself needs; versions tell whether anything was different."""
    api, changed = _api(work.where), False
    for obj in bootstrap.objects(config.provisioner_files(work.where)):
        before = api.get(object_path(obj))
        after = api.apply(obj)["metadata"]["resourceVersion"]
        changed |= before is None or before["metadata"]["resourceVersion"] != after
    if changed:
        work.changed("rights, DNS and storage of the cluster set")
    # Components that need rights start now.
    work.where.rights.touch()


def _accounts_late(where: Paths) -> list[str]:
    """Without the default service account, which a controller makes, no pod can be created."""
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    return [] if _api(where).get(account) else ["kube-controller-manager"]


def _nodes(work: _Work, spec: ClusterSpec) -> None:
    """Nodes as the spec says, and ready."""
    api, real = _api(work.where), config.node_name(spec)
    changed: set[str] = set()

    def late() -> list[str]:
        try:
            changed.update(nodes.reconcile(api, spec, real))
            missing = nodes.late(api, spec, real)
            if real in missing and not nodes.exists(api, real):
                _register_again(work, real)
        except ApiError as error:  # a conflict with whoever else writes nodes, or a restart
            return [str(error)]
        return missing

    work.wait("nodes", late)
    if changed:
        work.changed(f"{len(changed)} node(s) set: {', '.join(sorted(changed)[:8])}")


def _register_again(work: _Work, node: str) -> None:
    """Have the kubelet register its node, which it does when it starts, and only then."""
    kubelet = next(c for c in components(work.where.name) if c.name == "kubelet")
    if kubelet.state == "ready" and time.time() - kubelet.since > _REGISTERS_WITHIN:
        work.changed(f"node {node} is gone; the kubelet starts again and registers it")
        ask(work.where, "restart", component="kubelet")


def components(name: str) -> list[ComponentStatus]:
    """Every component of a cluster.

    Raises:
        NotRunningError: the cluster does not run.
    """
    return [ComponentStatus(**row) for row in ask(paths(name), "status")["components"]]


def status(name: str) -> list[ComponentStatus]:
    """Supervisor and components; empty when the cluster does not run."""
    where = paths(name)
    try:
        listed = components(name)
    except NotRunningError:
        return []
    since = where.pid_file.stat().st_mtime
    return [ComponentStatus("supervisor", supervisor_pid(where), "ready", since, 0), *listed]


def node_status(name: str) -> list[nodes.NodeStatus]:
    """Every node, with what it has and what pods on it have asked for.

    Raises:
        NotRunningError: the cluster does not run.
        ApiError: the API server does not answer.
    """
    return nodes.overview(_api(paths(name)))


def kubeconfig_path(name: str) -> Path:
    """Where the administrator's kubeconfig of a cluster is (or will be)."""
    return paths(name).kubeconfig


def kubectl_command(name: str, arguments: Iterable[str]) -> list[str]:
    """A kubectl call on the cluster.

    Raises:
        NotRunningError: there is no such cluster.
    """
    where = paths(name)
    try:
        programs: dict[str, Any] = json.loads((where.root / "programs.json").read_text())
    except (OSError, ValueError):
        raise NotRunningError(name) from None
    return [programs["kube"], "kubectl", f"--kubeconfig={where.kubeconfig}", *arguments]


def import_images(name: str, archives: Iterable[Path]) -> list[str]:
    """Import the archives whose images the cluster does not have; returns the images' names.

    Raises:
        NotRunningError: the cluster does not run.
        UsageError: an archive cannot be read.
    """
    components(name)
    return images.add(paths(name), archives)


def forward(name: str, namespace: str, service: str, port: int) -> str:
    """`127.0.0.1:PORT`, which leads to a Service of the cluster and keeps its port.

    Raises:
        NotRunningError: the cluster does not run.
        UsageError: there is no such Service, or it has no address or no such port.
    """
    where = paths(name)
    found = _api(where).get(f"/api/v1/namespaces/{namespace}/services/{service}")
    if found is None:
        raise UsageError(f"cluster {name} has no Service {service} in namespace {namespace}")
    address = found["spec"].get("clusterIP", "None")
    offered = [int(p["port"]) for p in found["spec"].get("ports", [])]
    if address in ("None", "") or port not in offered:
        raise UsageError(
            f"Service {service} in namespace {namespace} of cluster {name} has address {address} "
            f"and ports {offered}; a forward needs an address and port {port}"
        )
    return f"127.0.0.1:{_forward(where, f'{namespace}/{service}:{port}', address, port)}"


def down(name: str, progress: Progress = print) -> bool:
    """Remove the cluster and everything it made on this machine; False when there was none.

    Raises:
        TokenworksError: not root, or something cannot be removed now.
    """
    machine.require()
    where = paths(name)
    with _locked(where, progress):
        found = where.root.exists() or bool(sandbox.members(where))
        if found:
            _remove(where)
        where.lock.unlink()
    with contextlib.suppress(OSError):  # others keep state here
        state_root().rmdir()
    progress(f"cluster {name} is removed" if found else f"cluster {name} is not there")
    return found


def _remove(where: Paths) -> None:
    # No farewell: nothing of the cluster is kept, and children die with their supervisor.
    processes.stop(supervisor_pid(where), patience=0)
    sandbox.kill_members(where)
    sandbox.unmount(where)
    sandbox.remove_cgroups(where)
    machine.leave(where)
    if left := sandbox.mount_points(where.root):
        raise TokenworksError(f"{left[0]} is still mounted; run the same command again")
    if where.root.exists():
        shutil.rmtree(where.root)


def log_file(name: str, component: str) -> Path:
    """Log of a component.

    Raises:
        UsageError: there is no such component.
        NotRunningError: there is no such cluster.
    """
    where = paths(name)
    known = sorted(p.stem for p in where.logs.glob("*.log")) if where.logs.is_dir() else []
    if not known:
        raise NotRunningError(name)
    if component not in known:
        raise UsageError(f"no component {component!r}; there are: {', '.join(known)}")
    return where.logs / f"{component}.log"
