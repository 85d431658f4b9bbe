"""Kinds of faults that public manifests have, and what looks like one there and is none."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Context, Finding, check
from tests.policies.builders import DIGEST, LABELS, Object, deployment, engine, job, named, pod

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def found(rule: str, *objects: Object) -> list[Finding]:
    return [f for f in check(list(objects), Context()) if f.rule == rule]


# --- what is reached from outside ------------------------------------------------


def service(kind: str, **selector: str) -> Object:
    spec = {"type": kind, "selector": selector or LABELS, "ports": [{"port": 80}]}
    return named("v1", "Service", spec=spec)


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_programs_with_a_gpu_that_everybody_reaches(kind: str) -> None:
    own = engine(image=f"example.com/own-server@{DIGEST}", args=None)
    (finding,) = found("engine-exposed", deployment(pod(own)), service(kind))
    assert (finding.severity, "holds a GPU" in finding.message) == ("warning", True)
    (known,) = found("engine-exposed", deployment(pod()), service(kind))
    assert known.severity == "error"


def test_programs_that_may_be_reached() -> None:
    own = engine(image=f"example.com/shop@{DIGEST}", args=None, resources=None)
    assert found("engine-exposed", deployment(pod(own)), service("NodePort")) == []
    gpu = engine(image=f"quay.io/go-skynet/local-ai@{DIGEST}", args=None)
    assert found("engine-exposed", deployment(pod(gpu)), service("ClusterIP")) == []
    assert found("engine-exposed", deployment(pod(gpu)), service("NodePort", app="other")) == []
    proxy = {"name": "proxy", "image": f"oauth2-proxy@{DIGEST}"}
    assert found("engine-exposed", deployment(pod(gpu, proxy)), service("NodePort")) == []
    assert found("engine-exposed", job(pod(gpu)), service("NodePort")) == []


# --- revisions -------------------------------------------------------------------


def serving(image: str, words: list[str], **changes: Any) -> Object:
    return deployment(pod(engine(image=f"{image}@{DIGEST}", args=None, command=words, **changes)))


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("openmmlab/lmdeploy", ["lmdeploy", "serve", "api_server", "internlm/internlm2-chat-7b"]),
        ("openmmlab/lmdeploy", ["sh", "-c", "exec lmdeploy serve api_server a/b --tp 1"]),
        ("ghcr.io/huggingface/text-embeddings-inference:1.8",
         ["text-embeddings-router", "--model-id", "BAAI/bge-m3"]),
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.10.0", ["vllm", "serve", "a/b"]),
        ("vllm/vllm-openai-cpu:v0.20.0", ["vllm", "serve", "a/b", "--device", "cpu"]),
    ],
)  # fmt: skip
def test_weights_without_a_revision(image: str, words: list[str]) -> None:
    (finding,) = found("model-revision", serving(image, words))
    assert "without a revision" in finding.message
    pinned = [*words[:-1], f"{words[-1]} --revision {COMMIT}"] if words[0] == "sh" else [
        *words, "--revision", COMMIT,
    ]  # fmt: skip
    assert found("model-revision", serving(image, pinned)) == []
    branch = [word.replace(COMMIT, "main") for word in pinned]
    assert "a branch of" in found("model-revision", serving(image, branch))[0].message


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("openmmlab/lmdeploy", ["lmdeploy", "serve", "api_server", "/models/internlm"]),
        ("openmmlab/lmdeploy", ["lmdeploy", "serve", "api_server", "$(MODEL)"]),
        ("ghcr.io/huggingface/text-embeddings-inference:1.8",
         ["text-embeddings-router", "--model-id", "/data/bge"]),
        ("vllm/vllm-openai-cpu:v0.20.0", ["vllm", "serve", "/models/b"]),
        ("ghcr.io/llm-d/llm-d-inference-sim:v0.5", ["llm-d-inference-sim", "--model", "a/b"]),
    ],
)  # fmt: skip
def test_weights_that_no_hub_gives(image: str, words: list[str]) -> None:
    assert found("model-revision", serving(image, words)) == []


def test_an_engine_that_asks_no_hub_needs_no_revision() -> None:
    offline = [{"name": "HF_HUB_OFFLINE", "value": "1"}]
    words = ["lmdeploy", "serve", "api_server", "a/b"]
    assert found("model-revision", serving("openmmlab/lmdeploy", words, env=offline)) == []


def test_models_of_controllers() -> None:
    kubeai = {"url": "hf://neuralmagic/Llama-FP8", "engine": "VLLM", "args": ["--max-model-len=1"]}
    made = named("kubeai.org/v1", "Model", spec=kubeai)
    assert found("model-revision", made)[0].field == "spec.url"
    for change in (
        {"args": [f"--revision={COMMIT}"]},
        {"url": "ollama://gemma2:2b"},
        {"url": None},
    ):
        assert found("model-revision", {**made, "spec": {**kubeai, **change}}) == []
    hub = {"modelID": "facebook/opt-125m"}
    model = named("llmaz.io/v1alpha1", "OpenModel", spec={"source": {"modelHub": hub}})
    assert found("model-revision", model)[0].field == "spec.source.modelHub.modelID"
    for change in ({"revision": COMMIT}, {"name": "ModelScope"}, {"modelID": None}):
        other = {**model, "spec": {"source": {"modelHub": {**hub, **change}}}}
        assert found("model-revision", other) == []
    assert found("model-revision", named("example.com/v1", "Model", spec=kubeai)) == []


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (["hf", "download", "a/b", "--local-dir", "/m"], "a/b"),
        (["sh", "-c", "pip install -U hf && huggingface-cli download a/b \\\n  --local-dir /m"],
         "a/b"),
        (["python3", "-c", "import x\nsnapshot_download('a/b', cache_dir='/m')"], "a/b"),
        (["python3", "-c", 'snapshot_download(repo_id="a/b.c-1", local_dir="/m")'], "a/b.c-1"),
    ],
)  # fmt: skip
def test_tools_that_fetch_a_branch(words: list[str], model: str) -> None:
    fetch = {"name": "fetch", "image": f"python@{DIGEST}", "command": words}
    (finding,) = found("model-revision", deployment(pod(initContainers=[fetch])))
    assert f"fetches {model} without a revision" in finding.message
    (finding,) = found("model-revision", job(pod(fetch)))
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    "words",
    [
        ["hf", "download", "a/b", "--revision", COMMIT], ["hf", "download", "$(MODEL)"],
        ["hf", "download", "a/b", "--repo-type", "dataset"], ["hf", "auth", "login"],
        ["python3", "-c", f"snapshot_download('a/b', revision='{COMMIT}')"],
        ["python3", "-c", "snapshot_download(os.environ['MODEL'])"],
        ["sh", "-c", "echo download a/b"],
    ],
)  # fmt: skip
def test_tools_that_fetch_a_commit_or_who_knows_what(words: list[str]) -> None:
    fetch = {"name": "fetch", "image": f"python@{DIGEST}", "command": words}
    assert found("model-revision", deployment(pod(initContainers=[fetch]))) == []


# --- GPUs by their numbers -------------------------------------------------------


def numbered(value: str, gpus: int, name: str = "CUDA_VISIBLE_DEVICES") -> list[Finding]:
    resources = {"limits": {"nvidia.com/gpu": gpus, "memory": "64Gi"}}
    made = pod(engine(resources=resources, env=[{"name": name, "value": value}]))
    return found("gpu-limits", deployment(made))


@pytest.mark.parametrize(("value", "gpus"), [("1", 1), ("2,3", 2), ("0,1,2,3", 2), ("7", 4)])
def test_gpus_that_a_container_does_not_have(value: str, gpus: int) -> None:
    (finding,) = numbered(value, gpus)
    assert f"sets CUDA_VISIBLE_DEVICES to {value}" in finding.message
    script = f"export CUDA_VISIBLE_DEVICES={value} && exec vllm serve /m"
    resources = {"limits": {"nvidia.com/gpu": gpus, "memory": "64Gi"}}
    made = pod(engine(command=["sh", "-c", script], args=None, resources=resources))
    assert found("gpu-limits", deployment(made))


@pytest.mark.parametrize(
    ("value", "gpus"), [("0", 1), ("0,1", 2), ("0", 4), ("GPU-8f2a", 1), ("", 1), ("$(X)", 1)]
)
def test_gpus_that_a_container_has(value: str, gpus: int) -> None:
    assert numbered(value, gpus) == []
    assert numbered("5", 1, "SOME_DEVICES") == []


@pytest.mark.parametrize(
    "name",
    [
        "huawei.com/Ascend910", "huawei.com/npu", "cambricon.com/mlu", "rebellions.ai/ATOM",
        "furiosa.ai/rngd", "metax-tech.com/gpu", "mthreads.com/gpu", "kunlunxin.com/xpu",
    ],
)  # fmt: skip
def test_accelerators_of_other_vendors_are_ones(name: str) -> None:
    resources = {"limits": {name: 1, "memory": "64Gi"}}
    assert found("gpu-limits", deployment(pod(engine(resources=resources)))) == []
    assert found("gpu-limits", deployment(pod(engine(resources={"limits": {f"x{name}": 1}}))))


# --- readiness by a program that asks --------------------------------------------


@pytest.mark.parametrize(
    ("script", "lies"),
    [
        ("ollama list | grep -q phi3", False), ("ollama ps | grep phi3", False),
        ("vllm-health | tail -1", False), ("grep -q ready /tmp/log", True),
        ("tail -n 1 /tmp/log", True), ("cat /tmp/log | grep started", True),
        ("test -f /x && grep -q up /tmp/log", True),
        ("if grep -q up /tmp/log; then true; fi", True),
    ],
)  # fmt: skip
def test_who_greps_a_log_and_who_an_answer(script: str, lies: bool) -> None:
    probe = {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 5, "timeoutSeconds": 5}
    made = found("readiness-probe", deployment(pod(engine(readinessProbe=probe))))
    assert any("reads a log" in f.message for f in made) is lies


# --- what controllers start ------------------------------------------------------


def booster(config: object, **worker: Any) -> Object:
    one = {
        "type": "server", "image": f"vllm/vllm-openai:v0.26.0@{DIGEST}", "config": config,
        "resources": {"limits": {"nvidia.com/gpu": 1}}, **worker,
    }  # fmt: skip
    backend = {"name": "a", "type": "vLLM", "modelURI": "hf://a/b", "workers": [one]}
    return named(
        "workload.serving.volcano.sh/v1alpha1", "ModelBooster", spec={"backends": [backend]}
    )


def test_workers_of_a_model_booster() -> None:
    good = {"served-model-name": "b", "max-model-len": 8192, "enable-prefix-caching": ""}
    rules = {f.rule for f in check([booster(good)], Context())}
    assert not rules & {"world-size", "unknown-flag", "image-digest", "gpu-limits", "flag-value"}
    (size,) = found("world-size", booster({"tensor-parallel-size": 4}))
    home = "spec.backends[0].workers[0]"
    assert size.field == f"{home}.config.tensor-parallel-size"
    (flag,) = found("unknown-flag", booster({"tensor-paralel-size": 1}))
    assert flag.field == f"{home}.config.tensor-paralel-size"
    # Kthena writes `--enforce-eager true`, and vLLM takes no value there.
    (switch,) = found("flag-value", booster({"enforce_eager": True}))
    assert switch.field == f"{home}.config.enforce_eager"
    (image,) = found("image-digest", booster(good, image="vllm/vllm-openai:latest"))
    assert image.field == f"{home}.image"
    half = {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}}
    assert found("gpu-limits", booster(good, resources=half))
    for config in (None, ["a"], "x", {"a": None}, {"a": {"b": 1}}):
        check([booster(config)], Context())
    for odd in ({"image": None}, {"resources": "x"}, {"type": None}):
        check([booster(good, **odd)], Context())


def test_arguments_that_a_preset_takes_from_a_variable() -> None:
    def made(text: str) -> Object:
        container = {
            "name": "main", "image": f"ghcr.io/llm-d/llm-d-cuda:v0.4.0@{DIGEST}",
            "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": text}],
            "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "64Gi"}},
        }  # fmt: skip
        spec = {"model": {"uri": "pvc://m/x"}, "template": {"containers": [container]}}
        return named("serving.kserve.io/v1alpha2", "LLMInferenceService", spec=spec)

    assert found("world-size", made("--tensor-parallel-size 8"))
    assert found("unknown-flag", made("--tensor-paralel-size 2"))
    for text in ("--tensor-parallel-size 2", "--kv-transfer-config '{\"a\": 1}'", "'", ""):
        assert not found("world-size", made(text)) + found("unknown-flag", made(text))


def test_code_of_weights_that_kserve_fetches() -> None:
    def made(uri: str, text: str) -> list[Finding]:
        container = {
            "name": "main", "image": f"ghcr.io/llm-d/llm-d-cuda:v0.4.0@{DIGEST}",
            "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": text}],
        }  # fmt: skip
        spec = {"model": {"uri": uri}, "template": {"containers": [container]}}
        service = named("serving.kserve.io/v1alpha2", "LLMInferenceService", spec=spec)
        return found("remote-code", service)

    (finding,) = made("hf://a/b", "--trust-remote-code")
    assert "runs code of a/b at no pinned revision" in finding.message
    assert "hf://a/b:COMMIT" in finding.remedy
    assert made("hf://a/b", "--trust-remote-code")
    for uri, text in (
        (f"hf://a/b:{COMMIT}", "--trust-remote-code"), ("hf://a/b", ""),
        ("pvc://a/b", "--trust-remote-code"), ("hf://a/b", "--no-trust-remote-code"),
    ):  # fmt: skip
        assert made(uri, text) == []


def test_images_of_the_engines_project_keep_caches_where_it_does() -> None:
    for image in ("vllm/vllm-omni-rocm:v0.12.0", "vllm/vllm-openai-rocm:v0.20.0"):
        assert found("weights-download", serving(image, ["vllm", "serve", "a/b"]))


@pytest.mark.parametrize("kind", ["readiness", "liveness"])
def test_dynamos_workers_are_asked_by_http(kind: str) -> None:
    def made(handler: Object) -> list[Finding]:
        probe = {**handler, "periodSeconds": 15, "timeoutSeconds": 10, "failureThreshold": 6}
        container = {
            "image": f"nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.1@{DIGEST}",
            "command": ["python3", "-m", "dynamo.vllm"], "args": ["--model", "a/b"],
            f"{kind}Probe": probe,
        }  # fmt: skip
        worker = {"componentType": "worker", "extraPodSpec": {"mainContainer": container}}
        spec = {"services": {"w": worker}}
        graph = named("nvidia.com/v1alpha1", "DynamoGraphDeployment", spec=spec)
        return found(f"{kind}-probe", graph)

    (finding,) = made({"tcpSocket": {"port": 9090}})
    assert "opens a TCP port only" in finding.message
    assert "port: 9090" in finding.remedy
    assert made({"httpGet": {"path": "/health", "port": 9090}}) == []


@pytest.mark.parametrize(
    ("kind", "args", "told"),
    [
        ("prefill", ["--model", "a/b"], True),
        ("prefill", ["--model", "a/b", "--is-prefill-worker"], False),
        ("prefill", ["--model", "a/b", "--disaggregation-mode", "prefill"], False),
        ("prefill", ["--model", "a/b", "$(MORE)"], False),
        ("decode", ["--model", "a/b"], False),
        (None, ["--model", "a/b"], False),
    ],
)
def test_dynamos_prefill_workers_are_told(kind: str | None, args: list[str], told: bool) -> None:
    container = {
        "image": f"nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.1@{DIGEST}", "args": args,
        "command": ["python3", "-m", "dynamo.vllm"],
    }  # fmt: skip
    worker = {"componentType": "worker", "extraPodSpec": {"mainContainer": container}}
    worker |= {"subComponentType": kind} if kind else {}
    graph = named("nvidia.com/v1alpha1", "DynamoGraphDeployment", spec={"services": {"w": worker}})
    assert bool(found("kv-roles", graph)) is told
