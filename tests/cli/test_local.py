"""`local …`: what is passed on, what is refused, and with which exit code."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local import cluster, images
from local.cluster import ClusterSpec, ComponentStatus, NodeStatus, kind
from tokenworks.cli import context, main
from tokenworks.cli import local as commands
from tokenworks.spec.load import load_stack

ROOT = Path(__file__).parents[2]
READY = [ComponentStatus("supervisor", 10, "ready", 1.0, 0),
         ComponentStatus("etcd", 11, "ready", 1.0, 2)]  # fmt: skip

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Clusters of this test's own, and one environment with provider kind beside the real ones."""
    # Sockets lie below it, whose paths may not be long.
    state = tempfile.mkdtemp(prefix="tw-")
    monkeypatch.setenv("TOKENWORKS_STATE", state)
    (tmp_path / "stacks").mkdir()
    for name in ("local", "dev"):
        (tmp_path / "stacks" / name).symlink_to(ROOT / "stacks" / name)
    docker = tmp_path / "stacks" / "docker"
    docker.mkdir()
    (docker / "environment.yaml").write_text(
        "apiVersion: tokenworks.dev/v1alpha1\nkind: Environment\nmetadata: {name: docker}\n"
        "spec:\n  cluster: {provider: kind}\n  nodePools:\n"
        "    cpu: {gpu: nvidia-h100-80gb, gpusPerNode: 2, nodes: 1}\n"
    )
    monkeypatch.setattr(context, "root", lambda: tmp_path)
    yield tmp_path
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `local …` as a user does; its exit code and both outputs."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["./tokenworks", "local", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, place: Path) -> Path:
    """A cluster called local that runs, as far as the commands can see."""
    where = cluster.paths("local")
    where.logs.mkdir(parents=True)
    (where.logs / "etcd.log").write_text("one\ntwo\nthree\n")
    kube = place / "kube"
    kube.write_text("")
    monkeypatch.setattr(cluster, "status", lambda _name: READY)
    monkeypatch.setattr(cluster, "node_status", lambda _name: [])
    monkeypatch.setattr(cluster, "kubectl_command", lambda _name, words: [str(kube), *words])
    return kube


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that the process would have become."""
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _path, words: seen.append(words))
    return seen


class TestKubectl:
    """Every word is kubectl's, but for what stands before them."""

    @pytest.mark.parametrize(
        "words",
        [
            ["-n", "x", "get", "pods", "-o", "wide"],
            ["get", "pods", "-A", "-owide", "--watch"],
            ["exec", "pod", "-it", "--", "sh", "-c", "ls -l"],
            ["exec", "pod", "--", "printenv", "--env", "x"],
            ["run", "x", "--image=a", "--env=A=B", "--env", "C=D"],
            ["get", "--help"],
            ["-h"],
            ["--context=x", "get", "pods"],
            [],
        ],
        ids=" ".join,
    )
    def test_words_are_passed_on_as_they_are(
        self, run: Run, running: Path, executed: list[list[str]], words: list[str]
    ) -> None:
        assert run("kubectl", *words)[0] == 0
        assert executed == [[str(running), *words]]

    @pytest.mark.parametrize("own", [["--env", "local"], ["--env=local"], ["--"]], ids=" ".join)
    def test_our_own_come_first(
        self, run: Run, running: Path, executed: list[list[str]], own: list[str]
    ) -> None:
        assert run("kubectl", *own, "get", "--env", "x", "--", "y")[0] == 0
        assert executed == [[str(running), "get", "--env", "x", "--", "y"]]

    def test_help_before_them_is_ours(self, run: Run) -> None:
        code, out, _ = run("kubectl", "--help")
        assert code == 0
        assert "Example: ./tokenworks local kubectl get pods -A" in out

    def test_a_cluster_that_does_not_run(self, run: Run, executed: list[list[str]]) -> None:
        code, _, err = run("kubectl", "get", "pods")
        assert (code, executed) == (1, [])
        assert err == "error: cluster local does not run: ./tokenworks local up --env local\n"

    def test_a_kubectl_that_was_cleared_away(self, run: Run, running: Path) -> None:
        running.unlink()
        code, _, err = run("kubectl", "get", "pods")
        assert code == 1
        assert "is gone from the cache: ./tokenworks local up" in err

    def test_clusters_of_kind_are_reached_with_the_users_kubectl(
        self,
        run: Run,
        place: Path,
        executed: list[list[str]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (place / "kubectl").write_text("#!/bin/sh\n")
        (place / "kubectl").chmod(0o755)
        monkeypatch.setenv("PATH", str(place))
        assert run("kubectl", "--env", "docker", "get", "pods")[0] == 0
        kubeconfig = kind.kubeconfig_path("docker")
        program = str(place / "kubectl")
        assert executed == [[program, f"--kubeconfig={kubeconfig}", "get", "pods"]]
        (place / "kubectl").unlink()
        code, _, err = run("kubectl", "--env", "docker", "get", "pods")
        assert code == 1
        assert "kubectl is not on PATH" in err


class TestUp:
    """The cluster that the documents describe, or a reason."""

    def test_without_root_nothing_is_built(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setattr(commands, "programs", lambda: pytest.fail("built something"))
        code, _, err = run("up")
        assert code == 1
        assert "needs root" in err
        assert "sudo" in err

    def test_a_provider_that_is_not_made_here(self, run: Run) -> None:
        code, _, err = run("up", "--env", "dev")
        assert code == 2
        assert "stacks/dev/environment.yaml: spec.cluster.provider is existing" in err

    def test_an_environment_that_is_not_there(self, run: Run) -> None:
        code, _, err = run("up", "--env", "nowhere")
        assert code == 2
        assert "nowhere" in err

    @pytest.mark.parametrize(("name", "maker"), [("local", cluster), ("docker", kind)])
    def test_the_provider_makes_it(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, name: str, maker: Any
    ) -> None:
        made: list[ClusterSpec] = []
        monkeypatch.setattr(maker, "up", lambda spec, *_: made.append(spec))
        monkeypatch.setattr(cluster, "require", lambda: None)
        monkeypatch.setattr(commands, "programs", lambda: None)
        monkeypatch.setattr(commands, "rendered_objects", lambda _stack: [])
        monkeypatch.setattr(commands, "_images", list)
        assert run("up", "--env", name)[0] == 0
        assert [spec.name for spec in made] == [name]

    def test_images_are_those_that_the_objects_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        containers = [
            {"name": "a", "image": "x.io/a:1"},
            {"name": "b", "image": "x.io/b:1@sha256:0"},
        ]
        template = {"spec": {"initContainers": [{"image": "x.io/i:1"}], "containers": containers}}
        group = {"kind": "RoleBasedGroup", "spec": {"roles": [{"pattern": {"template": template}}]}}
        schema = {"kind": "CustomResourceDefinition", "properties": {"image": {"type": "string"}}}
        named: list[set[str]] = []
        monkeypatch.setattr(images, "images_for", lambda n: named.append(set(n)) or {"wanted"})
        monkeypatch.setattr(images, "programs_needed", lambda wanted: {"of", *wanted})
        monkeypatch.setattr("local.toolchain.ensure", lambda *names: dict.fromkeys(names))
        made: list[Any] = []
        monkeypatch.setattr(images, "build_images", lambda *a, **_: made.extend(a) or {"n": Path()})
        assert commands._images([group, schema]) == [Path()]  # pyright: ignore[reportPrivateUsage]
        assert named == [{"x.io/a:1", "x.io/b:1@sha256:0", "x.io/i:1"}]
        assert set(made[0]) == {"of", "wanted"}
        assert made[2] == {"wanted"}

    def test_pools_become_nodes(self) -> None:
        spec = commands.cluster_spec(load_stack(ROOT, "local").environment)
        assert spec.real.resources == {"nvidia.com/gpu": 8, "rdma/hca": 8}
        assert spec.real.labels == {
            "tokenworks.dev/pool": "sim",
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        }
        (pool,) = spec.simulated
        assert (pool.name, pool.nodes) == ("kwok-h100", 4)
        assert pool.resources == {
            "nvidia.com/gpu": 8,
            "vpc.amazonaws.com/efa": 32,
            # What pods with EFA on all eight GPUs ask for.
            "hugepages-2Mi": 5 * 2**30,
        }
        assert pool.topology == ("topology.tokenworks.dev/rack", "kubernetes.io/hostname")
        assert pool.taints == (("kwok.x-k8s.io/node", "fake", "NoSchedule"),)


class TestDown:
    """Whatever is there goes, and what described it."""

    @pytest.fixture
    def removed(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
        """Who removed which cluster."""
        seen: list[tuple[str, str]] = []
        for maker, name in ((cluster, "local"), (kind, "kind")):
            monkeypatch.setattr(maker, "down", lambda env, _say, by=name: seen.append((by, env)))
        return seen

    def test_deployment_state_goes_with_the_cluster(
        self, run: Run, removed: list[tuple[str, str]]
    ) -> None:
        states = [cluster.state_root() / "pulumi" / name for name in ("local", "other")]
        for state in states:
            state.mkdir(parents=True)
        assert run("down")[0] == 0
        assert removed == [("local", "local")]
        assert [state.exists() for state in states] == [False, True]

    def test_what_opens_the_state_goes_with_the_last_of_it(
        self, run: Run, removed: list[tuple[str, str]]
    ) -> None:
        pulumi = cluster.state_root() / "pulumi"
        for name in ("local", "offline/local", "other"):
            (pulumi / name).mkdir(parents=True)
        (pulumi / "passphrase").write_text("x")
        assert run("down")[0] == 0
        assert sorted(path.name for path in pulumi.iterdir()) == ["other", "passphrase"]
        (pulumi / "other").rmdir()
        assert run("down")[0] == 0
        assert len(removed) == 2
        assert not cluster.state_root().exists()

    def test_what_is_not_ours_stays(self, run: Run, removed: list[tuple[str, str]]) -> None:
        kept = cluster.state_root() / "notes"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("x")
        assert run("down")[0] == 0
        assert removed and kept.exists()

    def test_broken_documents_keep_nobody_from_removing(
        self, run: Run, removed: list[tuple[str, str]], place: Path
    ) -> None:
        cluster.paths("docker").root.mkdir(parents=True)
        (place / "stacks" / "docker" / "environment.yaml").write_text("spec: [")
        assert run("down", "--env", "docker")[0] == 0
        assert removed == [("local", "docker")]

    def test_what_kind_made_kind_removes(self, run: Run, removed: list[tuple[str, str]]) -> None:
        kind.kubeconfig_path("local").parent.mkdir(parents=True)
        kind.kubeconfig_path("local").write_text("")
        assert run("down")[0] == 0
        assert removed == [("kind", "local")]

    def test_of_a_cluster_that_nobody_made(self, run: Run) -> None:
        code, _, err = run("down", "--env", "dev")
        assert code == 2
        assert "provider is existing" in err

    def test_without_root(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        code, _, err = run("down")
        assert code == 1
        assert "sudo" in err


class TestStatus:
    """A table, and an exit code that scripts can use."""

    @pytest.mark.usefixtures("running")
    def test_everything_ready(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        node = NodeStatus("local-0", False, True, {"nvidia.com/gpu": (3, 8)})
        monkeypatch.setattr(cluster, "node_status", lambda _name: [node])
        code, out, err = run("status")
        assert (code, err) == (0, "")
        rows = [line.split() for line in out.splitlines() if line.strip()]
        assert ["etcd", "11", "ready", "2"] in [row[:4] for row in rows]
        assert ["local-0", "real", "yes", "nvidia.com/gpu", "3/8"] in rows
        assert f"kubeconfig: {cluster.kubeconfig_path('local')}" in out

    @pytest.mark.usefixtures("running")
    def test_a_component_that_is_not_ready(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        late = ComponentStatus("kube-apiserver", 0, "restarting", 1.0, 7)
        monkeypatch.setattr(cluster, "status", lambda _name: [*READY, late])
        monkeypatch.setattr(cluster, "node_status", lambda _name: pytest.fail("asked the API"))
        code, out, err = run("status")
        assert code == 1
        assert ["kube-apiserver", "-", "restarting", "7"] in [
            x.split()[:4] for x in out.splitlines()
        ]
        assert "not ready: kube-apiserver" in err

    @pytest.mark.usefixtures("running")
    def test_a_node_that_is_not_ready(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            cluster, "node_status", lambda _name: [NodeStatus("local-0", False, False, {})]
        )
        code, _, err = run("status")
        assert code == 1
        assert "not ready: local-0" in err

    def test_no_cluster(self, run: Run) -> None:
        code, out, err = run("status")
        assert (code, out) == (1, "")
        assert "does not run: ./tokenworks local up --env local" in err

    def test_a_cluster_of_kind(self, run: Run) -> None:
        code, _, err = run("status", "--env", "docker")
        assert code == 2
        assert "./tokenworks local kubectl --env docker get nodes" in err


class TestLogs:
    """The end of a component's log, by the name that `status` shows."""

    @pytest.fixture
    def tailed(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """Commands that the process would have become."""
        seen: list[list[str]] = []
        monkeypatch.setattr(os, "execvp", lambda _file, words: seen.append(words))
        return seen

    @pytest.mark.usefixtures("running")
    def test_last_lines(self, run: Run, tailed: list[list[str]]) -> None:
        log = str(cluster.paths("local").logs / "etcd.log")
        run("logs", "etcd", "--lines", "2")
        run("logs", "etcd", "-f")
        assert tailed == [
            ["tail", "--lines=2", log],
            ["tail", "--lines=100", "--follow=name", log],
        ]

    @pytest.mark.usefixtures("running")
    def test_an_unknown_component(self, run: Run, tailed: list[list[str]]) -> None:
        code, _, err = run("logs", "etc")
        assert (code, tailed) == (2, [])
        assert "no component 'etc'; there are: etcd" in err

    def test_no_cluster(self, run: Run) -> None:
        code, _, err = run("logs", "etcd")
        assert code == 1
        assert "does not run" in err

    def test_lines_are_a_positive_number(self, run: Run) -> None:
        assert run("logs", "etcd", "--lines", "0")[0] == 2


def test_a_name_that_cannot_be_a_clusters(run: Run) -> None:
    for command in ("status", "kubectl", "down"):
        code, _, err = run(command, "--env", "../x")
        assert code == 2
        assert "../x" in err
