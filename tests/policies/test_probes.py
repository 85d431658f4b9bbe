"""Probes: present, honest, patient; and which containers need none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policies.builders import HEALTH, Object, deployment, engine, found, named, pod, worker

PROBES = ("startup", "readiness", "liveness")


def serious(rule: str, *objects: Object) -> list[str]:
    return [f.message for f in found(rule, *objects) if f.severity == "error"]


@pytest.mark.parametrize("kind", PROBES)
@pytest.mark.parametrize("value", [None, {}, {"periodSeconds": 5}], ids=str)
def test_absent_or_empty_probes(kind: str, value: Any) -> None:
    messages = serious(f"{kind}-probe", deployment(pod(engine(**{f"{kind}Probe": value}))))
    assert len(messages) == 1
    assert f"has no {kind}Probe" in messages[0]


@pytest.mark.parametrize("kind", PROBES)
@pytest.mark.parametrize(
    "handler",
    [
        {"exec": {"command": ["true"]}},
        {"exec": {"command": ["/bin/true"]}},
        {"exec": {"command": ["sh", "-c", "exit 0"]}},
        {"exec": {"command": ["bash", "-lc", "curl -f localhost:8000/health || true"]}},
        {"exec": {"command": ["sh", "-c", "curl -f localhost:8000/health; exit 0"]}},
        {"exec": {"command": ["sh", "-c", "grep -q 'startup complete' /tmp/log"]}},
        {"exec": {"command": ["sh", "-c", "tail -1 /tmp/log | grep ok"]}},
        {"exec": {"command": ["pgrep", "-f", "vllm"]}},
        {"exec": {"command": ["echo", "ok"]}},
        {"exec": {"command": ["curl", "-s", "http://localhost:8000/health"]}},
        {"tcpSocket": {"port": 8000}},
    ],
    ids=str,
)
def test_probes_that_lie(kind: str, handler: Object) -> None:
    probe = {"periodSeconds": 15, "timeoutSeconds": 5, "failureThreshold": 20, **handler}
    rule = f"{kind}-probe"
    assert len(serious(rule, deployment(pod(engine(**{f"{kind}Probe": probe}))))) == 1


@pytest.mark.parametrize("kind", PROBES)
@pytest.mark.parametrize(
    "handler",
    [
        {"httpGet": HEALTH},
        {"exec": {"command": ["curl", "-sf", "http://localhost:8000/health"]}},
        {"exec": {"command": ["curl", "--fail", "http://localhost:8000/health"]}},
        {"exec": {"command": ["sh", "-c", "curl -s -w '%{http_code}' :8000/health | grep 200"]}},
        {"exec": {"command": ["python3", "-c", "import urllib.request as u; u.urlopen('x')"]}},
        {"exec": {"command": ["/ready.sh"]}},
        {"grpc": {"port": 9000}},
    ],
    ids=str,
)
def test_honest_probes(kind: str, handler: Object) -> None:
    probe = {"periodSeconds": 15, "timeoutSeconds": 5, "failureThreshold": 20, **handler}
    assert found(f"{kind}-probe", deployment(pod(engine(**{f"{kind}Probe": probe})))) == []


@pytest.mark.parametrize(
    "keyed",
    [{"args": ["--api-key", "$(KEY)"]}, {"env": [{"name": "VLLM_API_KEY", "value": "x"}]}],
    ids=["flag", "variable"],
)
def test_a_path_behind_the_api_key(keyed: Object) -> None:
    locked = {"httpGet": {"path": "/v1/models", "port": 8000}, "timeoutSeconds": 5}
    assert serious("readiness-probe", deployment(pod(engine(readinessProbe=locked, **keyed))))
    assert not serious("readiness-probe", deployment(pod(engine(readinessProbe=locked))))
    header = [{"name": "Authorization", "value": "Bearer x"}]
    locked["httpGet"]["httpHeaders"] = header  # type: ignore[index]
    assert not serious("readiness-probe", deployment(pod(engine(readinessProbe=locked, **keyed))))


def live(**fields: Any) -> Object:
    return {"httpGet": HEALTH, **fields}


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        (live(periodSeconds=30), "timeoutSeconds 1"),
        (live(periodSeconds=30, timeoutSeconds=4), "timeoutSeconds 4"),
        (live(timeoutSeconds=5), "after 30 s"),
        (live(timeoutSeconds=5, periodSeconds=59, failureThreshold=1), "after 59 s"),
        (live(timeoutSeconds=5, periodSeconds=30, initialDelaySeconds=61), "initialDelaySeconds"),
    ],
)
def test_impatient_liveness(probe: Object, says: str) -> None:
    made = engine(livenessProbe=probe, startupProbe=None)
    messages = serious("liveness-probe", deployment(pod(made)))
    assert len(messages) == 1
    assert says in messages[0]


def test_liveness_outlasts_readiness() -> None:
    ready = live(timeoutSeconds=5, periodSeconds=30)
    tied = engine(livenessProbe=live(timeoutSeconds=5, periodSeconds=30), readinessProbe=ready)
    assert "readinessProbe" in serious("liveness-probe", deployment(pod(tied)))[0]
    longer = live(timeoutSeconds=5, periodSeconds=30, failureThreshold=4)
    fine = engine(livenessProbe=longer, readinessProbe=ready)
    assert found("liveness-probe", deployment(pod(fine))) == []


def test_startup_is_not_busy_but_sglang_is_slow() -> None:
    probe = live(failureThreshold=60)
    assert found("startup-probe", deployment(pod(engine(startupProbe=probe)))) == []
    sglang = engine(image="lmsysorg/sglang:v0.5.16", startupProbe=probe)
    assert [f.severity for f in found("startup-probe", deployment(pod(sglang)))] == ["error"]


def test_tcp_is_all_there_is_to_grpc() -> None:
    tcp = {"tcpSocket": {"port": 8000}, "timeoutSeconds": 5}
    served = engine(args=["--grpc"], readinessProbe=tcp)
    assert found("readiness-probe", deployment(pod(served))) == []


def test_sglang_needs_ten_seconds() -> None:
    probe = live(timeoutSeconds=5, periodSeconds=30)
    sglang = engine(image="lmsysorg/sglang:v0.5.16", livenessProbe=probe)
    assert "timeoutSeconds 5" in serious("liveness-probe", deployment(pod(sglang)))[0]
    sglang["livenessProbe"]["timeoutSeconds"] = 10
    assert not serious("liveness-probe", deployment(pod(sglang)))


@pytest.mark.parametrize(
    ("probe", "short"),
    [
        (live(timeoutSeconds=5), True),
        (live(timeoutSeconds=5, failureThreshold=11), True),
        (live(timeoutSeconds=5, failureThreshold=11, initialDelaySeconds=10), False),
        (live(timeoutSeconds=5, failureThreshold=12), False),
    ],
)
def test_startup_budget(probe: Object, short: bool) -> None:
    assert bool(serious("startup-probe", deployment(pod(engine(startupProbe=probe))))) is short


def test_simulators_start_at_once() -> None:
    quick = live(timeoutSeconds=5)
    simulator = engine(
        image="ghcr.io/tokenworks/simulator:0.1.0", resources=None, startupProbe=quick
    )
    assert found("startup-probe", deployment(pod(simulator))) == []
    simulator.pop("startupProbe")
    assert serious("startup-probe", deployment(pod(simulator)))


def bare(**fields: Any) -> Object:
    """A container without any probe."""
    none = dict.fromkeys(("startupProbe", "readinessProbe", "livenessProbe"))
    return engine(**{**none, **fields})


SILENT: dict[str, Object] = {
    "headless rank": bare(args=["serve", "m", "--headless"]),
    "headless in a script": bare(
        command=["bash", "-c", "exec vllm serve m --headless --data-parallel-start-rank 8"]
    ),
    "ray worker": bare(command=["bash", "-c", "ray start --address=$(LWS_LEADER_ADDRESS) --block"]),
    "ray script": bare(command=["bash", "-c", "multi-node-serving.sh worker --ray_address=x"]),
    "pause with a GPU": bare(image="registry.k8s.io/pause:3.10.1", args=None),
    "sleeping engine image": bare(command=["sleep", "infinity"], args=None),
    "sleep in a shell": bare(command=["sh", "-c", "sleep infinity"], args=None),
    "router": bare(image="lmsysorg/sglang-router:v0.2", args=None, resources=None),
    "router from the engine's image": bare(
        image="lmsysorg/sglang:v0.5.16",
        command=["python3", "-m", "sglang_router.launch_router"], args=None, resources=None,
    ),
    "benchmark": bare(command=["vllm", "bench", "serve"], args=None, resources=None),
    "web server": bare(image="nginx:1.27", args=None, resources=None),
    "picker": bare(
        image="registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0", resources=None
    ),
}  # fmt: skip


@pytest.mark.parametrize("container", SILENT.values(), ids=list(SILENT))
@pytest.mark.parametrize("kind", PROBES)
def test_who_needs_no_probe(kind: str, container: Object) -> None:
    assert found(f"{kind}-probe", deployment(pod(container))) == []


SPEAKING: dict[str, Object] = {
    "entry point of the image": bare(args=None),
    "script of one's own": bare(command=["/serve.sh"], args=None),
    "module": bare(image="x", command=["python3", "-m", "vllm.entrypoints.openai.api_server"]),
    "exec in a shell": bare(image="x", command=["sh", "-c", "exec vllm serve m"], args=None),
    "arguments of a shell": bare(image="x", command=["sh", "-c"], args=["vllm serve m"]),
    "ray head that serves": bare(
        command=["bash", "-c", "multi-node-serving.sh leader; vllm serve m"], args=None
    ),
    "sglang": bare(image="x", command=["python3", "-m", "sglang.launch_server", "--node-rank=0"]),
    "trtllm": bare(image="x", command=["trtllm-serve", "m"], args=None),
    "triton": bare(image="nvcr.io/nvidia/tritonserver:25.01-py3", args=None),
    "llama.cpp": bare(image="ghcr.io/ggml-org/llama.cpp:server", args=None, resources=None),
    "ollama": bare(image="ollama/ollama:0.9", args=None, resources=None),
    "deep learning container": bare(image="public.ecr.aws/deep-learning-containers/vllm:0.26"),
    "tgi": bare(image="ghcr.io/huggingface/text-generation-inference:3", args=None),
    "lmdeploy": bare(image="x", command=["lmdeploy", "serve", "api_server", "m"], args=None),
    "nim": bare(image="nvcr.io/nim/meta/llama-3.1-8b-instruct:1", args=None),
    "grpc": bare(image="x", command=["python3", "-m", "vllm.entrypoints.grpc_server"]),
    "unknown program with a GPU": bare(image="registry.example/embedder:1", args=None),
}


@pytest.mark.parametrize("container", SPEAKING.values(), ids=list(SPEAKING))
@pytest.mark.parametrize("kind", PROBES)
def test_who_needs_probes(kind: str, container: Object) -> None:
    assert serious(f"{kind}-probe", deployment(pod(container)))


def test_ranks_of_a_group_answer_no_http() -> None:
    rank = bare(
        image="lmsysorg/sglang:v0.5.16",
        args=["--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)"],
        env=[{"name": "LWS_WORKER_INDEX", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
    )
    assert found("startup-probe", worker(pod(rank))) == []


def test_a_pool_makes_an_unknown_program_a_server() -> None:
    program = bare(image="registry.example/engine:1", args=None, resources=None)
    selector = {"matchLabels": {"app": "llama"}}
    pool = named(
        "inference.networking.k8s.io/v1",
        "InferencePool",
        spec={"selector": selector, "targetPorts": [{"number": 8000}]},
    )
    assert found("startup-probe", deployment(pod(program))) == []
    assert serious("startup-probe", deployment(pod(program)), pool)
    pool["metadata"]["namespace"] = "team-b"
    assert found("startup-probe", deployment(pod(program)), pool) == []


def test_a_pod_that_may_end_needs_no_probes() -> None:
    spec = pod(bare(), restartPolicy="Never")
    assert found("startup-probe", deployment(spec)) == []
