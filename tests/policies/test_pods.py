"""Shared memory, rollouts, drain, shells and service links."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Unknown
from tests.policies.builders import (
    DIGEST,
    Object,
    deployment,
    engine,
    found,
    job,
    leader,
    named,
    pod,
)

# --- service-links -----------------------------------------------------------


@pytest.mark.parametrize(("value", "severity"), [(None, "warning"), (True, "warning")])
def test_service_links_on(value: Any, severity: str) -> None:
    findings = found("service-links", deployment(pod(enableServiceLinks=value)))
    assert [f.severity for f in findings] == [severity]


def test_a_service_called_like_the_engine_stops_it() -> None:
    service = named("v1", "Service")
    service["metadata"]["name"] = "vllm"
    spec = pod(enableServiceLinks=None)
    assert found("service-links", deployment(spec), service)[0].severity == "error"
    service["metadata"]["namespace"] = "team-b"
    assert found("service-links", deployment(spec), service)[0].severity == "warning"


def test_a_service_called_like_another_engine_is_only_noise() -> None:
    service = named("v1", "Service")
    service["metadata"]["name"] = "simulator"
    simulator = engine(image="ghcr.io/tokenworks/simulator:0.1.0", resources=None)
    findings = found("service-links", deployment(pod(simulator, enableServiceLinks=None)), service)
    assert [f.severity for f in findings] == ["warning"]


def test_service_links_elsewhere() -> None:
    other = engine(image="nginx:1.27", args=None, resources=None)
    for spec in (pod(), pod(enableServiceLinks=Unknown()), pod(other, enableServiceLinks=None)):
        assert found("service-links", deployment(spec)) == []


# --- shared-memory -----------------------------------------------------------


def ranks(args: list[str], gpus: int = 2, **changes: Any) -> Object:
    limits = {"nvidia.com/gpu": gpus, "memory": "64Gi"}
    return engine(args=args, resources={"limits": limits}, **changes)


def with_shm(container: Object, empty_dir: Any) -> Object:
    mounted = {**container, "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    return pod(mounted, volumes=[{"name": "shm", "emptyDir": empty_dir}])


@pytest.mark.parametrize(
    "args",
    [
        ["--tensor-parallel-size", "2"],
        ["--tensor-parallel-size=2"],
        ["--tensor_parallel_size", "2"],
        ["-tp", "2"],
        ["-tp=2"],
        ["--pipeline-parallel-size", "2"],
        ["--data-parallel-size", "2"],
        ["--tensor-parallel-size", "$(GPUS)"],
    ],
    ids=str,
)
def test_ranks_without_shared_memory(args: list[str]) -> None:
    for container in (
        ranks(args),
        ranks([], command=["sh", "-c", f"exec vllm serve m {' '.join(args)}"]),
    ):
        assert len(found("shared-memory", deployment(pod(container)))) == 1


def test_ranks_from_a_variable() -> None:
    env = [{"name": "TP", "value": "1"}]
    assert found("shared-memory", deployment(pod(ranks(["-tp", "$(TP)"], env=env)))) == []


@pytest.mark.parametrize(
    "spec",
    [
        with_shm(ranks(["-tp", "2"]), {"medium": "Memory", "sizeLimit": "8Gi"}),
        with_shm(ranks(["-tp", "2"]), Unknown()),
        pod(ranks(["-tp", "2"]), hostIPC=True),
        pod(ranks(["-tp", "2"], gpus=1)),
        pod(ranks(["-tp", "1"])),
        pod(ranks([])),
        pod(engine(image="ghcr.io/tokenworks/simulator:0.1.0", args=["-tp", "2"])),
    ],
)
def test_shared_memory_compliant_or_not_needed(spec: Object) -> None:
    assert found("shared-memory", deployment(spec)) == []


def test_shared_memory_of_one_rank_is_advice() -> None:
    findings = found("shared-memory", deployment(with_shm(ranks([], gpus=1), {"medium": "Memory"})))
    assert [f.severity for f in findings] == ["warning"]


@pytest.mark.parametrize(
    ("empty_dir", "says"),
    [
        ({}, "on disk"),
        (None, "on disk"),
        ({"medium": "Memory"}, "without sizeLimit"),
        ({"medium": "Memory", "sizeLimit": "64Gi"}, "counts"),
    ],
)
def test_shared_memory_of_the_wrong_kind(empty_dir: Any, says: str) -> None:
    findings = found("shared-memory", deployment(with_shm(ranks(["-tp", "2"]), empty_dir)))
    assert [says in f.message for f in findings] == [True]


# --- surge -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "strategy", "deadlock"),
    [
        (None, None, True),
        (1, {}, True),
        (3, {"type": "RollingUpdate"}, True),
        (4, {}, False),
        (0, {}, False),
        (1, {"type": "Recreate"}, False),
        (1, {"rollingUpdate": {"maxSurge": 0}}, False),
        (2, {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, False),
        (2, {"rollingUpdate": {"maxUnavailable": "50%"}}, False),
        (2, {"rollingUpdate": {"maxUnavailable": "49%"}}, True),
        (8, {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, True),
    ],
)
def test_surge(replicas: int | None, strategy: Any, deadlock: bool) -> None:
    made = deployment(pod(), replicas=replicas, strategy=strategy)
    assert bool(found("surge", made)) is deadlock


def test_surge_without_gpus() -> None:
    made = deployment(pod(engine(image="nginx:1.27", resources=None)), strategy=None)
    assert found("surge", made) == []


@pytest.mark.parametrize(
    ("rolling", "deadlock"),
    [
        (None, False),
        ({"maxUnavailable": 1}, False),
        ({"maxSurge": 1}, False),
        ({"maxSurge": 1, "maxUnavailable": 0}, True),
    ],
)
def test_surge_of_groups(rolling: Any, deadlock: bool) -> None:
    made = leader(pod())
    made["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": rolling}
    assert bool(found("surge", made)) is deadlock


# --- drain -------------------------------------------------------------------


def stop(hook: Any, grace: Any = 150, **changes: Any) -> Object:
    lifecycle = None if hook is None else {"preStop": hook}
    return deployment(
        pod(engine(lifecycle=lifecycle, **changes), terminationGracePeriodSeconds=grace)
    )


@pytest.mark.parametrize(
    "made",
    [
        stop({"sleep": {"seconds": 15}}),
        stop({"exec": {"command": ["sleep", "15"]}}),
        stop({"exec": {"command": ["sh", "-c", "sleep 25"]}}, grace=None),
        stop({"httpGet": {"path": "/drain", "port": 8000}}, grace=10),
        stop({"sleep": {"seconds": 25}}, args=["--shutdown-timeout", "120"]),
        stop(Unknown()),
    ],
)
def test_drain_compliant(made: Object) -> None:
    assert found("drain", made) == []


@pytest.mark.parametrize(
    ("made", "needs"),
    [
        (stop({"sleep": {"seconds": 26}}, grace=None), "need 31 s"),
        (stop({"exec": {"command": ["sh", "-c", "sleep 60"]}}, grace=60), "need 65 s"),
        (stop({"sleep": {"seconds": 26}}, args=["--shutdown-timeout=120"]), "need 151 s"),
    ],
)
def test_drain_that_does_not_add_up(made: Object, needs: str) -> None:
    findings = found("drain", made)
    assert [f.severity for f in findings] == ["error"]
    assert needs in findings[0].message


def test_no_pre_stop() -> None:
    assert [f.severity for f in found("drain", stop(None))] == ["warning"]


@pytest.mark.parametrize(("pauses", "findings"), [(True, 0), (False, 2)])
def test_a_native_sidecar_is_told_after_its_containers(pauses: bool, findings: int) -> None:
    hook = {"preStop": {"sleep": {"seconds": 15}}} if pauses else None
    sidecar = engine(name="router", lifecycle=None, restartPolicy="Always")
    spec = {**pod(engine(lifecycle=hook)), "initContainers": [sidecar]}
    assert len(found("drain", deployment(spec))) == findings


# --- shell-pid1 --------------------------------------------------------------


def shell(script: str, **changes: Any) -> Object:
    return deployment(pod(engine(command=["/bin/sh", "-c", script], args=None, **changes)))


@pytest.mark.parametrize(
    "script",
    [
        "exec vllm serve m",
        "export A=b && exec vllm serve m --flag 'a; b'",
        "ulimit -n 65536\nexec vllm serve m \\\n  --port 8000",
        "VLLM_X=1 exec vllm serve m",
        "multi-node-serving.sh leader & exec python3 -m vllm.entrypoints.openai.api_server",
        "exec /serve.sh",
        'if [ "$R" = 0 ]; then exec vllm serve m; else exec vllm serve m --headless; fi',
        "exec vllm serve m > /tmp/log 2>&1",
        "# vllm serve m\nexec vllm serve m",
        "echo 'vllm serve m'; exec vllm serve m",
        "cat <<EOF > /tmp/start\nvllm serve m | tee log\nEOF\nexec vllm serve m",
        "trap 'kill -TERM $PID' TERM; vllm serve m & PID=$!; wait $PID",
    ],
)
def test_shells_that_make_way(script: str) -> None:
    assert found("shell-pid1", shell(script)) == []


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("vllm serve m", "without exec"),
        ("export A=b; vllm serve m", "without exec"),
        ("exec vllm serve m | tee /tmp/log", "piped"),
        ("vllm serve m 2>&1 | tee /tmp/log", "piped"),
        ("vllm serve m & wait", "background"),
        ("if true; then exec vllm serve m; else vllm serve m; fi", "without exec"),
        ('eval "vllm serve $ARGS"', "eval"),
    ],
)
def test_shells_that_stay(script: str, says: str) -> None:
    findings = found("shell-pid1", shell(script))
    assert [says in f.message for f in findings] == [True]


@pytest.mark.parametrize(
    ("script", "severity"),
    [
        ("cd /x && vllm serve m", "warning"),
        ("export A=b; cd /x; vllm serve m --flag 1", "warning"),
        ("set -e\ncd /x && vllm serve m", "warning"),
        # Here no bash makes way.
        ("cd /x && vllm serve m > /tmp/log", "error"),
        ("trap 'echo x' EXIT; vllm serve m", "error"),
        ("if true; then vllm serve m; fi", "error"),
        ("(cd /x; vllm serve m)", "error"),
        ("vllm serve m; echo over", "error"),
        ("cd /x && vllm serve m\necho over", "error"),
    ],
)
def test_bash_makes_way_for_the_end_of_a_list_since_5_1(script: str, severity: str) -> None:
    """Tried with bash 5.2: process 1 is the program, or still the shell."""
    made = deployment(pod(engine(command=["bash", "-c", script], args=None)))
    (finding,) = found("shell-pid1", made)
    assert finding.severity == severity
    assert ("before 5.1" in finding.message) is (severity == "warning")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["dumb-init", "--", "sh", "-c"], None),
        (["dumb-init", "--single-child", "sh", "-c"], "without exec"),
        (["tini", "-g", "--", "sh", "-c"], None),
        (["tini", "--", "sh", "-c"], "without exec"),
        (["/wait-for-it.sh", "redis:6379", "--", "bash", "-ec"], "without exec"),
        (["numactl", "-N", "0", "sh", "-c"], "without exec"),
    ],
)
def test_shells_behind_other_programs(command: list[str], says: str | None) -> None:
    made = deployment(pod(engine(command=command, args=["cd /x; vllm serve m"])))
    assert [says in f.message for f in found("shell-pid1", made) if says] == [True] * bool(says)
    assert bool(found("shell-pid1", made)) == bool(says)


def another(script: str, shell: str = "sh", **changes: Any) -> Object:
    words = {"command": [shell, "-c", script], "args": None, "image": f"example.com/own@{DIGEST}"}
    return deployment(pod(engine(**{**words, **changes})))


@pytest.mark.parametrize(
    "script",
    [
        "exec python3 server.py",
        "python3 server.py & wait",
        "while true; do python3 server.py; done",
        "trap 'kill $P' TERM; python3 server.py",
        "nvidia-smi; sleep infinity",
        "python3 a.py; exec python3 b.py",
        "start() {\n  exec python3 server.py\n}\nstart",
    ],
)
def test_shells_of_programs_that_are_not_known_make_way(script: str) -> None:
    assert found("shell-pid1", another(script)) == []


def test_shells_of_programs_that_are_not_known() -> None:
    script = "./install.sh; python3 ./server.py leader --tp=2"
    (finding,) = found("shell-pid1", another(script))
    assert "runs python3 under a shell without exec" in finding.message
    assert finding.severity == "warning"
    assert found("shell-pid1", another("cd /x\npython3 server.py", "bash")) == []  # it makes way
    assert found("shell-pid1", another(script, resources=None)) == []  # nobody says that it serves
    router = "python3 -m sglang_router.launch_router --pd-disaggregation"
    assert found("shell-pid1", another(router, resources=None))


def test_shells_elsewhere() -> None:
    assert found("shell-pid1", deployment(pod())) == []
    assert found("shell-pid1", shell("nginx | tee log", image="nginx:1.27")) == []
    assert found("shell-pid1", job(pod(engine(command=["vllm", "serve"])))) == []
