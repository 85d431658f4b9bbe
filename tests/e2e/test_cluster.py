"""The local cluster alone: what it promises while it runs, when it breaks, when it goes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import stat
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from local import cluster
from local.cluster import ClusterSpec, Pool, Programs, control, sandbox
from local.cluster.api import Api, ApiError
from local.cluster.locks import locked
from local.cluster.spec import Paths
from local.images import build_images, programs_needed
from local.toolchain import cache_dir, ensure
from tests.e2e.platform import eventually
from tokenworks.cli.local import programs as cli_programs
from tokenworks.errors import UsageError

pytestmark = pytest.mark.e2e

NAME, OTHER = "e2e-cluster", "e2e-other"
BUSYBOX = "docker.io/library/busybox:1.36"
PODS = Path(__file__).with_name("cluster_pods.yaml")
COMPONENTS = (
    "etcd", "containerd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
    "kubelet", "kube-proxy", "coredns", "kwok", "storage-provisioner",
)  # fmt: skip


def _spec(name: str) -> ClusterSpec:
    real = Pool("sim", 1, {"nvidia.com/gpu": 8, "rdma/hca": 8}, {"tokenworks.dev/pool": "sim"})
    kwok = Pool(
        "big", 2, {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}, {"tokenworks.dev/pool": "big"}
    )
    return ClusterSpec(name, real, (kwok,))


@dataclass
class Cluster:
    """One cluster under test."""

    spec: ClusterSpec
    programs: Programs
    archives: list[Path]
    before: dict[str, str]
    said: list[str] = field(default_factory=list)

    def up(self) -> list[str]:
        """Bring it up; returns what was said."""
        said: list[str] = []
        cluster.up(self.spec, self.programs, self.archives, said.append)
        self.said += said
        return said

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        """kubectl's output; fails the test when it fails."""
        command = cluster.kubectl_command(self.spec.name, arguments)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not check or result.returncode == 0, result.stderr
        return result.stdout + result.stderr

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get … -o json`."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def component(self, name: str) -> cluster.ComponentStatus:
        """One component."""
        return next(c for c in cluster.status(self.spec.name) if c.name == name)

    def ready(self) -> bool:
        """Whether everything runs."""
        seen = cluster.status(self.spec.name)
        return len(seen) == len(COMPONENTS) + 1 and all(c.state == "ready" for c in seen)

    def containers(self) -> dict[str, str]:
        """Pod name to id of its container, of the real node's pods that are ready."""
        found: dict[str, str] = {}
        for pod in self.get("pods", "-l", "app=web")["items"]:
            for row in pod["status"].get("containerStatuses", []):
                if row["ready"]:
                    found[pod["metadata"]["name"]] = row["containerID"]
        return found

    def web(self) -> str:
        """The pod behind the Service `web` that answers this machine; empty: none does."""
        host, _, port = cluster.forward(self.spec.name, "default", "web", 80).partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().read().decode().strip()
        except (OSError, http.client.HTTPException):
            return ""

    def serves(self) -> bool:
        """Whether one of the pods that are ready answers through the Service."""
        return self.web() in self.containers()


def traces(where: Paths) -> set[str]:
    """Everything on the machine that names the cluster or is held by it."""
    found = {str(p) for p in (where.root, where.lock) if p.exists()}
    found |= {str(p) for p in Path("/sys/fs/cgroup").glob(f"*/{where.tag}")}
    found |= set(sandbox.mount_points(where.root))
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "cgroup", "mountinfo"):
            with contextlib.suppress(OSError):
                text = (process / name).read_text(errors="replace")
                if f"{where.root}/" in text or where.tag in text:
                    found.add(f"{process} {name}")
    return found


def machine() -> dict[str, str]:
    """What the machine has without the cluster's name on it, and no other cluster changes."""
    commands = {
        "links": "ip -brief link", "addresses": "ip -brief address", "routes": "ip route show all",
        "rules": "nft list ruleset",
    }  # fmt: skip
    found = {
        what: subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout
        for what, command in commands.items()
    }
    tunables = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
    found |= {name: (Path("/proc/sys") / name).read_text() for name in tunables}
    places = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers")
    return found | {place: str(Path(place).exists()) for place in places}


@pytest.fixture(scope="module")
def programs() -> Programs:
    """What the cluster runs, from the toolchain."""
    return cli_programs()


@pytest.fixture(scope="module")
def archives() -> list[Path]:
    """The two images that a cluster without a platform needs."""
    only = ("registry.k8s.io/pause:3.10.1", BUSYBOX)
    return list(build_images(ensure(*programs_needed(only)), cache_dir(), only).values())


@pytest.fixture(scope="module")
def running(programs: Programs, archives: list[Path]) -> Generator[Cluster]:
    """A cluster with two web pods, a pod with a volume, and devices."""
    for name in (NAME, OTHER):
        cluster.down(name)
    under_test = Cluster(_spec(NAME), programs, archives, machine())
    try:
        under_test.up()
        under_test.kubectl("apply", "-f", str(PODS))
        under_test.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
        under_test.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=120s")
        yield under_test
    finally:
        cluster.down(NAME)
        cluster.down(OTHER)


def test_second_up_changes_nothing(running: Cluster) -> None:
    before = {c.name: c.pid for c in cluster.status(NAME)}
    assert running.up() == [f"cluster {NAME} runs; nothing to change"]
    assert {c.name: c.pid for c in cluster.status(NAME)} == before


def test_two_ups_at_once_are_one_after_the_other(running: Cluster) -> None:
    with cluster_lock_held(running) as waiting:
        assert waiting == [f"  … another run is working on cluster {NAME}; waiting for it"]


def test_secrets_are_for_root_alone(running: Cluster) -> None:
    root = cluster.paths(running.spec.name).root
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    secret = [*(root / "pki").glob("*.key"), *root.rglob("*.kubeconfig"), root / "kubeconfig"]
    assert len(secret) > 10
    assert {stat.S_IMODE(p.stat().st_mode) for p in secret} == {0o600}


def _api(running: Cluster, user: str) -> Api:
    host, _, port = _server(running).partition(":")
    return Api(cluster.paths(running.spec.name).pki, user, (host, int(port)))


def _server(running: Cluster) -> str:
    return running.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")[8:]


def test_nobody_comes_in_without_a_certificate(running: Cluster) -> None:
    context = ssl.create_default_context(cafile=str(cluster.paths(NAME).pki / "ca.crt"))
    host, _, port = _server(running).partition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=10)
    connection.request("GET", "/api/v1/namespaces")
    assert connection.getresponse().status == 401


@pytest.mark.parametrize(
    ("user", "path"),
    [
        ("kubelet", "/api/v1/secrets"),
        ("kubelet", "/api/v1/namespaces/kube-system/configmaps"),
        ("proxy", "/api/v1/secrets"),
        ("kwok", "/api/v1/secrets"),
        ("coredns", "/api/v1/nodes"),
        ("supervisor", "/api/v1/pods"),
    ],
)
def test_components_have_no_more_rights_than_they_need(
    running: Cluster, user: str, path: str
) -> None:
    with pytest.raises(ApiError) as refused:
        _api(running, user).get(path)
    assert refused.value.status == 403


def test_a_kubelet_writes_to_its_own_node_only(running: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        _api(running, "kubelet").merge("/api/v1/nodes/big-0", {"metadata": {"labels": {"a": "b"}}})
    assert refused.value.status == 403


def test_devices_are_counted_on_real_and_simulated_nodes(running: Cluster) -> None:
    seen = {n.name: n for n in cluster.node_status(running.spec.name)}
    assert set(seen) == {f"{NAME}-0", "big-0", "big-1"}
    # cluster_pods.yaml: two web pods with two GPUs and one RDMA device each, one simulated pod.
    assert seen[f"{NAME}-0"].devices == {"nvidia.com/gpu": (4, 8), "rdma/hca": (2, 8)}
    big = [seen["big-0"].devices, seen["big-1"].devices]
    assert sorted(d["nvidia.com/gpu"] for d in big) == [(0, 8), (8, 8)]
    assert sorted(d["vpc.amazonaws.com/efa"] for d in big) == [(0, 32), (32, 32)]


def test_a_pod_that_asks_for_more_than_there_is_waits(running: Cluster) -> None:
    def why() -> str:
        pod = running.get("pod", "greedy")
        conditions = pod["status"].get("conditions", [])
        return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

    assert "Insufficient nvidia.com/gpu" in eventually("a reason", why)


def test_pods_find_services_by_name_and_reach_them(running: Cluster) -> None:
    script = "nslookup web.default.svc.cluster.local; cat /etc/resolv.conf"
    address = running.get("service", "web")["spec"]["clusterIP"]
    found = running.kubectl("exec", "client", "--", "sh", "-c", script)
    assert f"Address: {address}" in found
    assert "nameserver 10.244.0.1" in found
    ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 80 | tail -1"
    names = {p["metadata"]["name"] for p in running.get("pods", "-l", "app=web")["items"]}
    # From another pod, and from the pods behind it, which may reach themselves.
    for pod in ("client", *sorted(names)):
        answers = {running.kubectl("exec", pod, "--", "sh", "-c", ask).strip() for _ in range(6)}
        assert answers <= names
        assert answers


def test_names_outside_do_not_exist_instead_of_being_refused(running: Cluster) -> None:
    script = "nslookup example.com; true"
    assert "NXDOMAIN" in running.kubectl("exec", "client", "--", "sh", "-c", script)


def test_nothing_leads_out_of_the_cluster(running: Cluster) -> None:
    script = "nc -w 2 192.0.2.1 80 < /dev/null || true"
    said = running.kubectl("exec", "client", "--", "sh", "-c", script)
    assert "Network is unreachable" in said


def test_a_claim_is_bound_and_its_volume_written(running: Cluster) -> None:
    running.kubectl("exec", "client", "--", "sh", "-c", "echo kept > /data/file")
    assert running.get("pvc", "data")["status"]["phase"] == "Bound"
    volumes = cluster.paths(NAME).root / "volumes"
    assert [p.read_text() for p in volumes.glob("*_default_data/file")] == ["kept\n"]


def test_a_forward_keeps_its_port_when_the_service_is_made_anew(running: Cluster) -> None:
    first = cluster.forward(NAME, "default", "web", 80)
    before = running.get("service", "web")["spec"]["clusterIP"]
    eventually("it answers", running.serves)
    running.kubectl("delete", "service", "web")
    running.kubectl("apply", "-f", str(PODS))
    assert running.get("service", "web")["spec"]["clusterIP"] != before
    assert cluster.forward(NAME, "default", "web", 80) == first
    eventually("the new address answers", running.serves)


def test_a_forward_to_nothing_says_what_there_is(running: Cluster) -> None:
    with pytest.raises(UsageError, match="no Service nothing in namespace default"):
        cluster.forward(NAME, "default", "nothing", 80)
    with pytest.raises(UsageError, match=r"ports \[80\]"):
        cluster.forward(NAME, "default", "web", 81)
    assert running.ready()


def test_nodes_follow_the_pools(running: Cluster) -> None:
    changed = replace(
        running.spec,
        real=replace(running.spec.real, resources={"nvidia.com/gpu": 8}, labels={"new": "label"}),
        simulated=(replace(running.spec.simulated[0], nodes=1),),
    )
    Cluster(changed, running.programs, running.archives, {}).up()
    node = running.get("node", f"{NAME}-0")
    assert "rdma/hca" not in node["status"]["allocatable"]
    assert node["metadata"]["labels"]["new"] == "label"
    assert "tokenworks.dev/pool" not in node["metadata"]["labels"]
    assert "big-1" not in running.kubectl("get", "nodes", "-o", "name")
    said = running.up()
    assert len(said) == 2
    assert "big-1" in said[0]
    assert running.get("node", f"{NAME}-0")["status"]["allocatable"]["rdma/hca"] == "8"


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_killed_component_heals_and_pods_go_on(running: Cluster, name: str) -> None:
    before, pods = running.component(name), running.containers()
    os.kill(before.pid, signal.SIGKILL)

    def healed() -> bool:
        now = running.component(name)
        return now.pid not in (0, before.pid) and now.state == "ready" and running.ready()

    eventually(f"{name} runs again", healed)
    assert running.component(name).restarts == before.restarts + 1
    assert eventually("the same pods serve", running.containers) == pods
    eventually("they are reached", running.serves)
    devices = {n.name: n.devices for n in cluster.node_status(NAME)}
    assert devices[f"{NAME}-0"]["nvidia.com/gpu"] == (4, 8)


def test_up_repairs_a_killed_supervisor_and_pods_go_on(running: Cluster) -> None:
    pods, pid = running.containers(), control.supervisor_pid(cluster.paths(NAME))
    os.kill(pid, signal.SIGKILL)
    eventually("its children die with it", lambda: not sandbox.strays(cluster.paths(NAME)))
    assert cluster.status(NAME) == []
    said = running.up()
    assert "components start" in said[0]
    assert running.ready()
    assert eventually("the same pods serve", running.containers) == pods


def test_up_repairs_when_everything_was_killed(running: Cluster) -> None:
    sandbox.kill_members(cluster.paths(NAME))
    running.up()
    eventually("both pods serve again", lambda: len(running.containers()) == 2)
    eventually("the service answers", running.serves)
    read = ("exec", "client", "--", "cat", "/data/file")
    eventually("the volume is back", lambda: "kept" in running.kubectl(*read, check=False))


def test_up_repairs_namespaces_that_are_gone(running: Cluster) -> None:
    sandbox.kill_members(cluster.paths(NAME))
    sandbox.unmount(cluster.paths(NAME))
    said = running.up()
    assert "namespace" in said[0]
    eventually("both pods serve again", lambda: len(running.containers()) == 2)


def test_up_has_a_deleted_node_registered_again(running: Cluster) -> None:
    running.kubectl("delete", "node", f"{NAME}-0", "big-0")
    running.up()
    assert {n.name for n in cluster.node_status(NAME) if n.ready} == {
        f"{NAME}-0", "big-0", "big-1"
    }  # fmt: skip


def test_up_puts_back_what_the_cluster_needs(running: Cluster) -> None:
    running.kubectl("delete", "storageclass", "local-path")
    running.kubectl("delete", "clusterrole", "tokenworks:coredns")
    assert "rights, DNS and storage" in running.up()[0]
    assert "local-path" in running.kubectl("get", "storageclass")


_UP = """
import sys
from tests.e2e.test_cluster import Cluster, _spec
from local.cluster import Programs
from pathlib import Path
import local.cluster as cluster
programs = Programs(*(Path(p) for p in sys.argv[2:7]))
archives = [Path(p) for p in sys.argv[7:]]
cluster.up(_spec(sys.argv[1]), programs, archives, lambda line: print(line, flush=True))
"""


def _start_up(running: Cluster, name: str) -> subprocess.Popen[str]:
    """`up` of a cluster in a process of its own."""
    made = running.programs
    paths = [made.kube, made.coredns, made.kwok, made.provisioner, made.kwok_stages]
    root = Path(cluster.__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", _UP, name, *map(str, paths), *map(str, running.archives)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
    )


class cluster_lock_held:  # noqa: N801 - reads as a function
    """`up` in another process while this one holds the lock; gives what it says meanwhile."""

    def __init__(self, running: Cluster) -> None:
        self._running = running

    def __enter__(self) -> list[str]:
        with locked(cluster.paths(self._running.spec.name).lock):
            self._process = _start_up(self._running, self._running.spec.name)
            assert self._process.stdout is not None
            return [self._process.stdout.readline().rstrip("\n")]

    def __exit__(self, *_: object) -> None:
        said, _error = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, said
        assert said == f"cluster {self._running.spec.name} runs; nothing to change\n"


@pytest.mark.parametrize(
    ("after", "sig"),
    [
        ("certificates made", signal.SIGKILL),
        ("namespace made", signal.SIGINT),
        ("components start", signal.SIGKILL),
    ],
)
def test_down_clears_what_an_interrupted_up_left(
    running: Cluster, after: str, sig: signal.Signals
) -> None:
    with _start_up(running, OTHER) as process:
        assert process.stdout is not None
        assert any(after in line for line in process.stdout)
        process.send_signal(sig)
    where = cluster.paths(OTHER)
    assert traces(where)
    assert cluster.down(OTHER)
    eventually("nothing is left", lambda: not traces(where))


def test_two_clusters_do_not_meet(running: Cluster) -> None:
    eventually("the first serves", running.serves)
    first = {c.name: c.pid for c in cluster.status(NAME)}
    second = Cluster(_spec(OTHER), running.programs, running.archives, {})
    second.up()
    assert _server(running) != _server(second)
    names = second.kubectl("get", "nodes", "-o", "name")
    assert f"{OTHER}-0" in names
    assert f"{NAME}-0" not in names
    assert cluster.down(OTHER)
    assert {c.name: c.pid for c in cluster.status(NAME)} == first
    eventually("the first still serves", running.serves)


def test_down_leaves_the_machine_as_it_was(running: Cluster) -> None:
    where = cluster.paths(NAME)
    assert len(traces(where)) > 10
    assert cluster.down(NAME)
    # The kernel takes network namespaces apart in its own time.
    eventually("nothing of it is left", lambda: not traces(where))
    assert machine() == running.before
    assert not cluster.down(NAME)
