"""Model servers that custom resources describe in words of their own, without a pod template."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Context, check
from policies.inventory import Inventory
from policies.servers import described
from tests.policies.builders import DIGEST, Object, deployment, engine, found, named, pod

IMAGE = f"vllm/vllm-openai:v0.26.0@{DIGEST}"
GPU = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
MINE = "hunter2hunter2"


def booster(config: Object | None = None, *, backends: bool = False, **worker: Any) -> Object:
    made = {"type": "server", "image": IMAGE, "pods": 1, "resources": GPU, **worker}
    made["config"] = {"served-model-name": "m", **(config or {})}
    backend = {
        "name": "b", "type": "vLLM", "modelURI": "s3://m/m", "workers": [made],
        "env": [{"name": "HF_ENDPOINT", "value": "https://huggingface.co"}],
    }  # fmt: skip
    spec = {"backends": [backend]} if backends else {"backend": backend}
    return named("workload.serving.volcano.sh/v1alpha1", "ModelBooster", spec=spec)


def kubeai(**spec: Any) -> Object:
    base = {"engine": "VLLM", "url": "pvc://weights", "resourceProfile": "nvidia-gpu-l4:1"}
    return named("kubeai.org/v1", "Model", spec={**base, **spec})


def arks(**spec: Any) -> Object:
    base = {"runtime": "vllm", "runtimeImage": IMAGE, "instanceSpec": {"resources": GPU}}
    return named("arks.ai/v1", "ArksApplication", spec={**base, **spec})


def runtime(image: str = IMAGE, gpu: str = "1", **config: Any) -> Object:
    spec = {
        "model": {"modelURL": "/data/m"},
        "vllmConfig": {"port": 8000, **config},
        "deploymentConfig": {
            "resources": {"cpu": "4", "gpu": gpu},
            "image": {"registry": "docker.io", "name": image},
        },
    }  # fmt: skip
    return named("production-stack.vllm.ai/v1alpha1", "VLLMRuntime", spec=spec)


def llmkube(**spec: Any) -> Object:
    base = {"runtime": "vllm", "modelRef": "m", "image": IMAGE, "resources": {"gpu": 1}}
    return named("inference.llmkube.dev/v1alpha1", "InferenceService", spec={**base, **spec})


def airunway(engine: Object, **spec: Any) -> Object:
    base = {"model": {"id": "/models/m"}, "engine": {"type": "vllm", **engine}}
    return named("airunway.ai/v1alpha1", "ModelDeployment", spec={**base, **spec})


def thing(**spec: Any) -> Object:
    return named("example.com/v1", "Thing", spec=spec)


WORKER = "spec.backend.workers[0]"


@pytest.mark.parametrize(
    ("made", "rule", "field", "says"),
    [
        (booster(image="vllm/vllm-openai:v0.26.0"), "image-digest", f"{WORKER}.image",
         'container "server" has an image without digest'),
        (booster(image="v:latest", backends=True), "image-digest",
         "spec.backends[0].workers[0].image", "moves with :latest"),
        (booster(resources={"limits": {"cpu": "4"}}), "gpu-limits", f"{WORKER}.resources.limits",
         "has no GPU limit"),
        (booster(resources=None), "gpu-limits", f"{WORKER}.resources.limits", "has no GPU limit"),
        (booster(resources={**GPU, "requests": {"nvidia.com/gpu": "2"}}), "gpu-limits",
         f'{WORKER}.resources.requests["nvidia.com/gpu"]', "GPUs cannot be overcommitted"),
        (booster({"maxModelLen": 12288}), "unknown-flag", f"{WORKER}.config.maxModelLen",
         "has a flag --maxModelLen, which it does not know"),
        (booster({"swap_space": 4}), "unknown-flag", f"{WORKER}.config.swap_space",
         "which vllm 0.26.0 does not know"),
        (booster({"enforce-eager": True}), "flag-value", f"{WORKER}.config.enforce-eager",
         "takes no value"),
        (booster({"max-num-seqs": "many"}), "flag-value", f"{WORKER}.config.max-num-seqs",
         "is not a whole number"),
        (booster({"kv-transfer-config": "{kv_role: kv_both}"}), "argument-json",
         f"{WORKER}.config.kv-transfer-config", "is no JSON"),
        (booster({"tensor-parallel-size": 4}), "world-size",
         f"{WORKER}.config.tensor-parallel-size", "wants 4 GPUs (tensor 4)"),
        (kubeai(image="vllm/vllm-openai:latest"), "image-digest", "spec.image",
         "moves with :latest"),
        (kubeai(env={"HF_TOKEN": MINE}), "plain-secret", "spec.env.HF_TOKEN", "in HF_TOKEN"),
        (kubeai(args=["--max-model-len 4096"]), "argument-split", "spec.args[0]",
         "gets --max-model-len and its value as one word"),
        (kubeai(args=["--max-modle-len=4096"]), "unknown-flag", "spec.args[0]",
         "has a flag --max-modle-len"),
        (kubeai(args=["--api-key", MINE]), "plain-secret", "spec.args[0]",
         "in clear text in --api-key"),
        (kubeai(args=["--trust-remote-code"], url="hf://o/m"), "remote-code", "spec.args[0]",
         "runs code of o/m at no pinned revision"),
        (arks(runtimeImage="vllm/vllm-openai:v0.8.2"), "image-digest", "spec.runtimeImage",
         "has an image without digest"),
        (arks(tensorParallelSize=2), "world-size", "spec.tensorParallelSize", "wants 2 GPUs"),
        (arks(runtime="sglang", runtimeImage=None, runtimeCommonArgs=["--tp 4"]), "world-size",
         "spec.runtimeCommonArgs[0]", "wants 4 GPUs"),
        (arks(instanceSpec={"resources": {}}), "gpu-limits",
         "spec.instanceSpec.resources.limits", "has no GPU limit"),
        (arks(instanceSpec={"resources": GPU, "env": [{"name": "HF_TOKEN", "value": MINE}]}),
         "plain-secret", "spec.instanceSpec.env[0].value", "in HF_TOKEN"),
        (runtime("vllm/vllm-openai:latest"), "image-digest", "spec.deploymentConfig.image.name",
         "docker.io/vllm/vllm-openai:latest"),
        (runtime(gpu=""), "gpu-limits", "spec.deploymentConfig.resources", "has no GPU limit"),
        (runtime(tensorParallelSize=2), "world-size", "spec.vllmConfig.tensorParallelSize",
         "wants 2 GPUs"),
        (runtime(extraArgs=["--max-num-seqs", "x"]), "flag-value", "spec.vllmConfig.extraArgs[0]",
         "is not a whole number"),
        (llmkube(vllmConfig={"tensorParallelSize": 2}), "world-size",
         "spec.vllmConfig.tensorParallelSize", "wants 2 GPUs"),
        (llmkube(image="vllm/vllm-openai:v0.20.0"), "image-digest", "spec.image",
         "without digest"),
        (airunway({"args": {"max_modle_len": "1"}}), "unknown-flag",
         "spec.engine.args.max_modle_len", "has a flag --max-modle-len"),
        (airunway({}, env=[{"name": "HF_TOKEN", "value": MINE}]), "plain-secret",
         "spec.env[0].value", "in HF_TOKEN"),
        (named("inference.llmaz.io/v1alpha1", "BackendRuntime",
               spec={"image": "vllm/vllm-openai", "version": "v0.8.5"}),
         "image-digest", "spec.image", "without digest: vllm/vllm-openai:v0.8.5"),
        (thing(cache={"image": "aibrix/v:1", "resources": {"limits": {"cpu": "2"}}}),
         "image-digest", "spec.cache.image", 'container "cache" has an image without digest'),
        (thing(metadata={"redis": {"image": "r:7", "resources": {"limits": {"cpu": "1"}}}}),
         "image-digest", "spec.metadata.redis.image", 'container "redis" has an image without'),
        (thing(parts=[{"image": f"v@{DIGEST}", "env": [{"name": "API_KEY", "value": MINE}]}]),
         "plain-secret", "spec.parts[0].env[0].value", "in API_KEY"),
        (thing(image=f"v@{DIGEST}", env={"API_KEY": MINE}, args=["a"]),
         "plain-secret", "spec.env.API_KEY", "in API_KEY"),
        (thing(engine={
            "image": f"v@{DIGEST}",
            "resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 2}}}),
         "gpu-limits", 'spec.engine.resources.requests["nvidia.com/gpu"]',
         "GPUs cannot be overcommitted"),
    ],
)  # fmt: skip
def test_faults_are_told_where_they_are_written(
    made: Object, rule: str, field: str, says: str
) -> None:
    (finding,) = found(rule, made)
    assert says in finding.message
    assert finding.field == field


@pytest.mark.parametrize(
    "made",
    [
        booster(),
        booster({"max_model_len": 8192, "enforce-eager": "", "tensor-parallel-size": 1}),
        booster({"tensor-parallel-size": 8}, pods=2, resources={"limits": {"nvidia.com/gpu": 4}}),
        booster({"kv-transfer-config": '{"kv_role": "kv_both"}'}),
        booster(resources={"limits": {"huawei.com/ascend-1980": "2"}}),
        booster(image=f"vllm/vllm-openai-cpu:v0.26.0@{DIGEST}", resources={}),
        kubeai(args=["--max-model-len=4096"], env={"VLLM_LOGGING_LEVEL": "INFO"}),
        kubeai(engine="OLlama", url="ollama://qwen2:0.5b", resourceProfile="cpu:2"),
        arks(size=2, tensorParallelSize=2),
        arks(size=2, runtime="sglang", tensorParallelSize=2),
        arks(runtimeCommonArgs=["--max-model-len 8192", "--override-generation-config '{}'"]),
        arks(runtime="dynamo", runtimeImage=None),
        runtime(tensorParallelSize=1, maxLoras=4, env=[{"name": "HF_HOME", "value": "/data"}]),
        llmkube(runtime="llamacpp", image=None, contextSize=8192, extraArgs=["--mlock"]),
        llmkube(runtime="generic", command=["serve"], args=["--tensor-paralel-size", "9"]),
        airunway({"args": {"connector": "nixl", "enable-prefix-caching": ""}},
                 secrets={"huggingFaceToken": "hf-token"}),
        named("ollama.ayaka.io/v1", "Model",
              spec={"image": "phi3:mini", "resources": {"limits": {"cpu": "4"}}}),
        named("inference.llmaz.io/v1alpha1", "Playground", spec={"replicas": 1}),
        thing(image="x:1", resources={"cpu": 1}), thing(image="x:1", env=[], ports=[]),
        thing(image={"name": "x"}, env=[{"name": "A"}]), thing(image="x:1", args={"a": "b"}),
        named("tekton.dev/v1", "Task", spec={"steps": [
            {"name": "a", "image": "x:1", "env": [{"name": "A", "value": "b"}]}]}),
    ],
    ids=lambda made: str(made["spec"])[:60],
)  # fmt: skip
def test_what_is_right_or_not_known_is_silent(made: Object) -> None:
    findings = [f for f in check([made], Context()) if f.rule != "network-policy"]
    assert [f"{f.rule}: {f.message}" for f in findings] == []


def test_a_container_is_described_once() -> None:
    for made in (booster(), kubeai(image=IMAGE, args=["--a"]), runtime(), llmkube(args=["a"])):
        assert len(list(described(made))) == 1
        assert len(Inventory.of([made]).programs) == 1


def test_words_know_where_they_stand() -> None:
    (program,) = Inventory.of([booster({"max-model-len": 4, "enforce-eager": ""})]).programs
    assert program.engine is not None and program.engine.name == "vllm"
    assert program.line.value("max-model-len") == 4
    assert program.line.value("enforce-eager") is True
    assert (program.line.model, program.gpus) == ("/models", 1)
    (program,) = Inventory.of([kubeai(url="hf://o/m", args=["--revision=x"])]).programs
    assert (program.line.model, program.line.value("revision")) == ("o/m", "x")
    (program,) = Inventory.of([kubeai(url="hf://o/m", cacheProfile="efs")]).programs
    assert program.line.model == "/models"


def test_lists_below_a_parent_keep_their_own() -> None:
    made = booster(backends=True)
    first = made["spec"]["backends"][0]
    second = {**first, "env": [{"name": "HF_TOKEN", "value": MINE}]}
    made["spec"]["backends"].append(second)
    (finding,) = found("plain-secret", made)
    assert finding.field == "spec.backends[1].env[0].value"


@pytest.mark.parametrize(
    ("resource", "known"),
    [
        ("huawei.com/ascend-1980", True), ("huawei.com/Ascend910B4-1", True),
        ("huawei.com/Ascend910A-memory", False), ("cambricon.com/mlu370", True),
        ("rebellions.ai/ATOM", True), ("furiosa.ai/rngd", True), ("qualcomm.com/qaic", True),
        ("example.com/dongle", False),
    ],
)  # fmt: skip
def test_accelerators_of_other_vendors_are_known(resource: str, known: bool) -> None:
    made = deployment(pod(engine(resources={"limits": {resource: 1, "memory": "64Gi"}})))
    assert ("has no GPU limit" in str(found("gpu-limits", made))) is not known


# --- weights that controllers fetch ----------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def base_model(uri: str) -> Object:
    return named("ome.io/v1beta1", "ClusterBaseModel", spec={"storage": {"storageUri": uri}})


def nim_cache(**hf: Any) -> Object:
    source = {"hf": {"namespace": "meta-llama", "modelName": "Llama-3.2-1B", **hf}}
    return named("apps.nvidia.com/v1alpha1", "NIMCache", spec={"source": source})


def llm_model(**model: Any) -> Object:
    base = {"name": "Qwen/Qwen3", "source": "huggingface"}
    return named("llm.nebari.dev/v1alpha1", "LLMModel", spec={"model": {**base, **model}})


def source(text: str) -> Object:
    return named("inference.llmkube.dev/v1alpha1", "Model", spec={"source": text})


def fetching(uri: str, **more: Any) -> Object:
    made = booster()
    made["spec"]["backend"] |= {"modelURI": uri, **more}
    return made


def stack(url: str, *extra: str) -> Object:
    made = runtime(extraArgs=list(extra))
    made["spec"]["model"] = {"modelURL": url}
    return made


ADDRESS = "https://huggingface.co/o/m/resolve/{}/m.gguf"


@pytest.mark.parametrize(
    ("made", "field", "says"),
    [
        (base_model("hf://o/m"), "spec.storage.storageUri", "serves o/m without a revision"),
        (base_model("hf://o/m@main"), "spec.storage.storageUri", "a branch of o/m: main"),
        (nim_cache(), "spec.source.hf.modelName", "serves meta-llama/Llama-3.2-1B without"),
        (nim_cache(revision="v1"), "spec.source.hf.modelName", "a branch of meta-llama/"),
        (llm_model(), "spec.model.name", "serves Qwen/Qwen3 without a revision"),
        (source("o/m"), "spec.source", "serves o/m without a revision"),
        (source(ADDRESS.format("main")), "spec.source", "a branch of o/m: main"),
        (fetching("hf://o/m"), "spec.backend.modelURI", "serves o/m without a revision"),
        (stack("o/m"), "spec.model.modelURL", "serves o/m without a revision"),
        (kubeai(url="hf://o/m"), "spec.url", "serves o/m without a revision"),
        (airunway({}, model={"id": "o/m"}), "spec.model.id", "serves o/m without a revision"),
        (named("arks.ai/v1", "ArksModel", spec={"model": "o/m", "source": {"huggingface": {}}}),
         "spec.model", "serves o/m without a revision"),
    ],
)  # fmt: skip
def test_weights_of_a_branch(made: Object, field: str, says: str) -> None:
    (finding,) = found("model-revision", made)
    assert says in finding.message
    assert finding.field == field


@pytest.mark.parametrize(
    "made",
    [
        base_model(f"hf://o/m@{COMMIT}"), base_model("oci://n/x/b/y"), base_model("hf://"),
        nim_cache(revision=COMMIT), nim_cache(modelName=None, datasetName="d"),
        llm_model(revision=COMMIT), llm_model(source="oci"),
        source(f"o/m@{COMMIT}"), source(ADDRESS.format(COMMIT)), source("/mnt/m.gguf"),
        source("pvc://claim/m.gguf"), source("https://example.com/m.gguf"),
        fetching("s3://bucket/o/m"),
        fetching("hf://o/m", envFrom=[{"configMapRef": {"name": "r"}}]),
        stack("/data/m"), stack("o/m", "--revision", COMMIT),
        kubeai(url="hf://o/m", args=[f"--revision={COMMIT}"]),
        kubeai(url="hf://o/m", cacheProfile="efs"), kubeai(engine="FasterWhisper", url="hf://o/m"),
        airunway({"args": {"revision": COMMIT}}, model={"id": "o/m"}),
        named("arks.ai/v1", "ArksModel", spec={"model": "o/m"}),
        named("example.com/v1", "Model", spec={"source": "o/m"}),
    ],
    ids=lambda made: str(made["spec"])[:60],
)  # fmt: skip
def test_weights_of_a_commit_and_of_other_places(made: Object) -> None:
    assert found("model-revision", made) == []


def test_code_of_weights_that_a_controller_fetches() -> None:
    made = fetching("hf://o/m")
    made["spec"]["backend"]["workers"][0]["config"]["trust-remote-code"] = ""
    (finding,) = found("remote-code", made)
    assert "runs code of o/m at no pinned revision" in finding.message
    assert "HF_REVISION" in finding.remedy
    made["spec"]["backend"]["modelURI"] = "s3://bucket/o/m"
    assert found("remote-code", made) == []


@pytest.mark.parametrize(
    ("words", "findings"),
    [
        (["curl", "-LO", ADDRESS.format("main")], 1),
        (["sh", "-c", f"wget {ADDRESS.format('v1.0')} -O /m"], 1),
        (["curl", "-LO", ADDRESS.format(COMMIT)], 0),
        (["curl", "-LO", "https://example.com/o/m/resolve/main/m.gguf"], 0),
        (["python3", "-m", "fastchat.serve.vllm_worker", "--model-path", "o/m"], 1),
        (["python3", "-m", "fastchat.serve.vllm_worker", "--model-path", "/m"], 0),
        (["infinity_emb", "v2", "--model-id", "o/m", "--revision", COMMIT], 0),
        (["infinity_emb", "v2", "--model-id", "o/m"], 1),
        (["llama-server", "-hf", "o/m:Q4_K_M"], 0), (["mlc_llm", "serve", "HF://o/m"], 0),
        (["ollama", "run", "llama3"], 0),
    ],
)  # fmt: skip
def test_programs_that_can_say_a_revision_do(words: list[str], findings: int) -> None:
    given = {"name": "fetch", "image": f"example.com/tool@{DIGEST}", "command": words}
    assert len(found("model-revision", deployment(pod(initContainers=[given])))) == findings


# --- programs that everybody reaches ---------------------------------------------


def exposed(image: str, kind: str = "NodePort", **changes: Any) -> list[str]:
    """What is said of a Service of a kind that leads to a program."""
    pod_changes = changes.pop("pod", {})
    more = changes.pop("objects", [])
    given = {"name": "web", "image": image, "ports": [{"containerPort": 8080}], **changes}
    spec = {"type": kind, "selector": {"app": "llama"}, "ports": [{"port": 8080}]}
    made = deployment(pod(given, **pod_changes))
    service = named("v1", "Service", spec=spec)
    return [f"{f.severity}: {f.message}" for f in found("engine-exposed", made, service, *more)]


CONFIG = {"volumes": [{"name": "c", "configMap": {"name": "llama"}}]}
MOUNTED = [{"name": "c", "mountPath": "/etc/litellm"}]


def configured(text: str) -> list[Object]:
    return [named("v1", "ConfigMap", data={"config.yaml": text})]


def variable(name: str, value: str) -> list[Object]:
    return [{"name": name, "value": value}]


@pytest.mark.parametrize(
    ("image", "changes", "name"),
    [
        ("quay.io/go-skynet/local-ai:master", {}, "LocalAI"),
        ("localai/localai:v3.5.0", {"args": ["phi-2"]}, "LocalAI"),
        ("ghcr.io/berriai/litellm:main-v1.80", {}, "LiteLLM"),
        ("litellm/litellm-database:v1.80",
         {"volumeMounts": MOUNTED, "pod": CONFIG, "objects": configured("model_list: []")},
         "LiteLLM"),
        ("ghcr.io/open-webui/open-webui:0.6", {"env": variable("WEBUI_AUTH", "False")},
         "Open WebUI"),
        ("xprobe/xinference:v1.9.0", {"command": ["xinference-local", "-H", "0.0.0.0"]},
         "Xinference"),
        ("xprobe/xinference:v3.1.0", {"env": variable("XINFERENCE_AUTH_ADVANCED", "0")},
         "Xinference"),
        ("example.com/fastchat:1",
         {"command": ["python3", "-m", "fastchat.serve.openai_api_server"]}, "FastChat"),
        ("ghcr.io/huggingface/text-embeddings-inference:cpu-1.8", {"args": ["--model-id", "/m"]},
         "Text Embeddings Inference"),
        ("atinoda/text-generation-webui:default", {}, "Text Generation Web UI"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_programs_that_ask_nobody(kind: str, image: str, changes: Object, name: str) -> None:
    (said,) = exposed(image, kind, **changes)
    assert said.startswith("error: ")
    assert f"({name}), which asks nobody for a key" in said
    assert exposed(image, "ClusterIP", **changes) == []


@pytest.mark.parametrize(
    ("image", "changes"),
    [
        ("localai/localai:v3.5.0", {"env": variable("LOCALAI_API_KEY", "x")}),
        ("localai/localai:v3.5.0", {"args": ["--api-keys", "$(KEY)"]}),
        ("localai/localai:v3.5.0", {"envFrom": [{"secretRef": {"name": "keys"}}]}),
        ("localai/localai:v3.5.0", {"command": ["sleep", "infinity"]}),
        ("litellm/litellm:v1.80", {"env": variable("LITELLM_MASTER_KEY", "x")}),
        ("litellm/litellm:v1.80", {"volumeMounts": MOUNTED, "pod": CONFIG}),
        ("litellm/litellm:v1.80", {
            "volumeMounts": MOUNTED, "pod": CONFIG,
            "objects": configured("general_settings: {master_key: os.environ/KEY}")}),
        ("ghcr.io/open-webui/open-webui:0.6", {}),
        ("ghcr.io/open-webui/open-webui:0.6", {"env": variable("WEBUI_AUTH", "true")}),
        ("xprobe/xinference:v1.9.0", {"command": ["xinference-local", "--auth-config", "/a"]}),
        ("xprobe/xinference:v3.1.0", {}), ("xprobe/xinference:latest", {}),
        ("ghcr.io/huggingface/text-embeddings-inference:1.8", {"args": ["--api-key", "$(KEY)"]}),
        ("nginx:1.27", {}), ("example.com/shop:1", {}),
        ("localai/localai-dashboard:1", {}), ("example.com/my-litellm-proxy-docs/site:1", {}),
        ("localai/localai:v3.5.0", {"pod": {"containers": [
            {"name": "web", "image": "localai/localai:v3.5.0"},
            {"name": "auth", "image": "quay.io/oauth2-proxy/oauth2-proxy:v7"}]}}),
    ],
)  # fmt: skip
def test_programs_that_ask_or_may(image: str, changes: Object) -> None:
    assert exposed(image, **changes) == []


def test_a_port_of_the_node_is_told_too() -> None:
    ports = [{"containerPort": 8080, "hostPort": 80}]
    made = deployment(pod({"name": "web", "image": f"localai/localai@{DIGEST}", "ports": ports}))
    (finding,) = found("engine-exposed", made)
    assert (finding.severity, "opens port 80 on its node" in finding.message) == ("warning", True)
    plain = deployment(pod({"name": "web", "image": f"nginx@{DIGEST}", "ports": ports}))
    assert found("engine-exposed", plain) == []


# --- sides of Dynamo's graphs ----------------------------------------------------


def worker(
    backend: str, called: Object, *args: str, tag: str = "1.3.1", env: list[Object] | None = None
) -> Object:
    """A component of a graph as v1alpha1 writes it."""
    container = {
        "image": f"nvcr.io/nvidia/ai-dynamo/{backend}-runtime:{tag}@{DIGEST}",
        "command": ["python3", "-m", f"dynamo.{backend}"], "args": ["--model", "/m", *args],
        "env": env or [],
    }  # fmt: skip
    return {**called, "extraPodSpec": {"mainContainer": container}}


def graph(**services: Object) -> Object:
    return named("nvidia.com/v1alpha1", "DynamoGraphDeployment", spec={"services": services})


def newer(backend: str, side: str, *args: str) -> Object:
    """A graph as v1beta1 writes it."""
    container = worker(backend, {}, *args)["extraPodSpec"]["mainContainer"]
    spec = {"containers": [{"name": "main", **container}]}
    component = {"name": "w", "type": side, "podTemplate": {"spec": spec}}
    return named("nvidia.com/v1beta1", "DynamoGraphDeployment", spec={"components": [component]})


PREFILL, DECODE = {"subComponentType": "prefill"}, {"subComponentType": "decode"}
MODE = "--disaggregation-mode"


@pytest.mark.parametrize(
    ("made", "says", "remedy"),
    [
        (graph(w=worker("vllm", PREFILL)), "not told so: it takes decode", f"{MODE} prefill"),
        (graph(w=worker("vllm", PREFILL, tag="0.6.1")), "not told so", "--is-prefill-worker"),
        (graph(w=worker("vllm", PREFILL, tag="my-tag")), "not told so", "from Dynamo 1.0 on"),
        (graph(w=worker("sglang", PREFILL)), "not told so", f"{MODE} prefill"),
        (graph(w=worker("sglang", DECODE)), "it computes every prompt itself", f"{MODE} decode"),
        (graph(w=worker("trtllm", DECODE)), "it computes every prompt itself", f"{MODE} decode"),
        (graph(w=worker("trtllm", PREFILL, MODE, "decode")), "told to play decode", MODE),
        (graph(w=worker("vllm", {"subComponentType": "prefill-worker"})), "prefill worker", MODE),
        (graph(w=worker("vllm", DECODE, f"{MODE}=prefill")), "told to play prefill", MODE),
        (newer("vllm", "prefill"), "not told so", f"{MODE} prefill"),
        (newer("sglang", "decode"), "not told so", f"{MODE} decode"),
    ],
)  # fmt: skip
def test_workers_are_told_the_side_that_the_graph_calls_them(
    made: Object, says: str, remedy: str
) -> None:
    (finding,) = found("kv-roles", made)
    assert finding.severity == "warning"
    assert says in finding.message
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    "made",
    [
        graph(w=worker("vllm", PREFILL, "--is-prefill-worker", tag="0.6.1")),
        graph(w=worker("vllm", PREFILL, MODE, "prefill"), d=worker("vllm", DECODE)),
        graph(w=worker("vllm", PREFILL, "$(MORE)")),
        graph(w=worker("vllm", PREFILL,
                       env=[{"name": "DYN_VLLM_DISAGGREGATION_MODE", "value": "prefill"}])),
        graph(w=worker("sglang", PREFILL, MODE, "prefill"), d=worker("sglang", DECODE, MODE,
                                                                    "decode")),
        graph(w=worker("vllm", {"componentType": "worker"}), f=worker("frontend", PREFILL)),
        newer("vllm", "decode"), newer("trtllm", "prefill", f"{MODE}=prefill"),
        newer("sglang", "worker"),
    ],
)  # fmt: skip
def test_workers_that_play_their_side_are_silent(made: Object) -> None:
    assert found("kv-roles", made) == []
