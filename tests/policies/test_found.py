"""Kinds of faults, and of false alarms, that public manifests showed: who is judged by what."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from policies import Finding
from tests.policies.builders import (
    DIGEST,
    LABELS,
    Object,
    deployment,
    engine,
    found,
    job,
    named,
    pod,
)

PLAIN = {"limits": {"memory": "64Gi"}}
PROBES = ("startup-probe", "readiness-probe", "liveness-probe")


def config(name: str, **data: str) -> Object:
    return named("v1", "ConfigMap", metadata={"name": name, "namespace": "team-a"}, data=data)


def object_of(group: str, kind: str, name: str, **rest: Any) -> Object:
    return named(f"{group}/v1", kind, metadata={"name": name, "namespace": "team-a"}, **rest)


# --- variables out of ConfigMaps ---------------------------------------------------


def tgi(**changes: Any) -> Object:
    """Text Generation Inference, whose flags are variables as well."""
    bare = {"command": None, "args": None, "image": "ghcr.io/huggingface/text-generation-inference"}
    return engine(**{**bare, "ports": [{"containerPort": 2080}], **changes})


def test_variables_of_a_config_map_are_read() -> None:
    settings = config("settings", PORT="2080", MODEL_ID="org/model")
    from_all = tgi(envFrom=[{"configMapRef": {"name": "settings"}}])
    assert found("container-port", settings, deployment(pod(from_all))) == []
    (revision,) = found("model-revision", settings, deployment(pod(from_all)))
    assert "serves org/model without a revision" in revision.message
    assert revision.field.endswith(".envFrom")
    key = {"configMapKeyRef": {"name": "settings", "key": "MODEL_ID"}}
    one = tgi(env=[{"name": "MODEL_ID", "valueFrom": key}])
    (revision,) = found("model-revision", settings, deployment(pod(one)))
    assert revision.field.endswith(".env")
    (port,) = found("container-port", settings, deployment(pod(one)))
    assert "serves on port 80 and declares 2080" in port.message


@pytest.mark.parametrize(
    "sources",
    [
        [{"configMapRef": {"name": "elsewhere"}}],
        [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
        [{"configMapRef": {"name": "settings"}, "prefix": "TGI_"}, {"secretRef": {"name": "k"}}],
    ],
)
def test_variables_of_who_knows_where_may_say_anything(sources: list[Object]) -> None:
    settings = config("settings", HF_HUB_OFFLINE="1")
    made = deployment(pod(tgi(envFrom=sources)))
    assert found("container-port", settings, made) == []
    assert found("undefined-variable", settings, made) == []


def test_a_variable_of_its_own_wins_over_those_of_a_config_map() -> None:
    settings, sources = config("settings", PORT="2080"), [{"configMapRef": {"name": "settings"}}]
    own = tgi(envFrom=sources, env=[{"name": "PORT", "value": "81"}])
    (port,) = found("container-port", settings, deployment(pod(own)))
    assert "serves on port 81" in port.message
    hidden = {"secretKeyRef": {"name": "keys", "key": "port"}}
    own = tgi(envFrom=sources, env=[{"name": "PORT", "valueFrom": hidden}])
    assert found("container-port", settings, deployment(pod(own))) == []


def test_a_prefix_is_put_before_the_names() -> None:
    settings = config("settings", ORT="2080")
    made = tgi(envFrom=[{"configMapRef": {"name": "settings"}, "prefix": "P"}])
    assert found("container-port", settings, deployment(pod(made))) == []


def test_a_variable_is_missing_where_all_of_them_are_in_the_set() -> None:
    sources = [{"configMapRef": {"name": "settings"}}]
    made = engine(args=["--model", "/m", "--port", "$(PROT)"], envFrom=sources)
    (name,) = found("undefined-variable", config("settings", PORT="1"), deployment(pod(made)))
    assert "$(PROT)" in name.message
    assert found("undefined-variable", config("settings", PROT="1"), deployment(pod(made))) == []


# --- names that look alike -----------------------------------------------------------


def reading(name: str, *others: Object) -> list[Finding]:
    source = {"name": "c", "secret": {"secretName": name}}
    return found("missing-config", deployment(pod(engine(), volumes=[source])), *others)


def secret(name: str) -> Object:
    return object_of("", "Secret", name) | {"apiVersion": "v1"}


@pytest.mark.parametrize(
    ("name", "other"),
    [("hf-token", "hf-tokens"), ("hf-token", "hftoken"), ("hf-tokne", "hf-token"),
     ("webhook-conf", "webhook-config")],
)  # fmt: skip
def test_a_slip_in_a_name(name: str, other: str) -> None:
    (slip,) = reading(name, secret(other))
    assert (slip.severity, f"did you mean {other}?" in slip.message) == ("error", True)


@pytest.mark.parametrize(
    ("name", "other"),
    [("cluster-config", "cluster-job-config"), ("webhook-server-cert", "webhook-server-secret"),
     ("cache-0", "cache-1"), ("llama-8b-token", "llama-70b-token")],
)  # fmt: skip
def test_another_name_is_no_slip(name: str, other: str) -> None:
    assert [
        finding for finding in reading(name, secret(other)) if "did you mean" in finding.message
    ] == []


@pytest.mark.parametrize(
    ("group", "kind", "name", "spec"),
    [
        ("cert-manager.io", "Certificate", "x", {"secretName": "hf-token"}),
        ("external-secrets.io", "ExternalSecret", "x", {"target": {"name": "hf-token"}}),
        ("external-secrets.io", "ExternalSecret", "hf-token", {}),
        ("bitnami.com", "SealedSecret", "hf-token", {}),
        ("secrets.hashicorp.com", "VaultStaticSecret", "x", {"destination": {"name": "hf-token"}}),
        ("secrets-store.csi.x-k8s.io", "SecretProviderClass", "x",
         {"secretObjects": [{"secretName": "hf-token"}]}),
        ("onepassword.com", "OnePasswordItem", "hf-token", {}),
        ("isindir.github.com", "SopsSecret", "x", {"secretTemplates": [{"name": "hf-token"}]}),
        ("secrets.infisical.com", "InfisicalSecret", "x",
         {"managedSecretReference": {"secretName": "hf-token"}}),
    ],
)  # fmt: skip
def test_secrets_that_controllers_make_are_there(
    group: str, kind: str, name: str, spec: Object
) -> None:
    maker = object_of(group, kind, name, spec=spec)
    assert reading("hf-token", secret("hf-tokens"), maker) == []
    assert reading("hf-tokem", secret("hf-tokens"), maker) != []
    elsewhere = {**maker, "metadata": {"name": name, "namespace": "team-b"}}
    assert reading("hf-token", secret("hf-tokens"), elsewhere) != []


# --- what is no engine, and what is one ------------------------------------------------


@pytest.mark.parametrize(
    "image",
    ["quay.io/x/gradio-rag-vllm-pgvector", "x/vllm-optimizer-backend", "x/vllm-chatbot",
     "x/streamlit-vllm", "x/vllm-mcp", "x/langchain-vllm-app"],
)  # fmt: skip
def test_programs_that_ask_an_engine_are_none(image: str) -> None:
    made = deployment(pod(engine(image=image, command=None, args=None, resources=PLAIN)))
    assert found("gpu-limits", made) == []


@pytest.mark.parametrize(
    "image", ["registry.example/nvcr.io/nim/meta/llama3-8b", "example.com/nim/meta/llama3-8b"]
)
def test_a_nim_of_a_mirror_is_one(image: str) -> None:
    made = engine(image=f"{image}:1.0", command=None, args=None, readinessProbe=None)
    assert found("readiness-probe", deployment(pod(made))) != []


@pytest.mark.parametrize("tool", ["list-model-profiles", "download-to-cache", "create-model-store"])
def test_tools_of_a_nim_need_no_gpu(tool: str) -> None:
    image = "nvcr.io/nim/meta/llama3-8b:1.0"
    made = pod(engine(image=image, command=None, args=[tool], resources=PLAIN))
    assert found("gpu-limits", job(made)) == []
    assert found("service-links", job(made)) == []


@pytest.mark.parametrize(
    ("image", "changes", "gpu"),
    [
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", {}, True),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda13", {}, True),
        ("ollama/ollama:0.12-rocm", {}, True),
        ("ollama/ollama:0.12", {"runtimeClassName": "nvidia"}, True),
        ("ollama/ollama:0.12", {}, False),
        ("ghcr.io/ggml-org/llama.cpp:server", {}, False),
        ("ghcr.io/llm-d/llm-d-inference-sim:v0.5", {"runtimeClassName": "nvidia"}, False),
    ],
)
def test_engines_that_run_on_both_need_a_gpu_where_they_are_made_for_one(
    image: str, changes: Object, gpu: bool
) -> None:
    made = engine(image=image, command=None, args=None, resources=PLAIN)
    assert bool(found("gpu-limits", deployment(pod(made, **changes)))) == gpu


def unknown(**changes: Any) -> Object:
    gone = dict.fromkeys((*("startupProbe", "readinessProbe", "livenessProbe"), "lifecycle"))
    base = {"image": "x/train:1", "command": ["python", "train.py"], "args": None, "ports": None}
    return engine(**{**base, **gone, **changes})


def test_a_program_with_a_gpu_serves_where_somebody_may_ask_it() -> None:
    alone = deployment(pod(unknown()))
    leads = named("v1", "Service", spec={"selector": LABELS, "ports": [{"port": 80}]})
    opens = deployment(pod(unknown(ports=[{"containerPort": 80}])))
    for rule in PROBES:
        assert found(rule, alone) == []
        assert found(rule, alone, leads) != []
        assert found(rule, opens) != []


def test_an_engine_of_a_job_drains_nothing() -> None:
    script = "vllm serve /m & sleep 60; python3 bench.py"
    made = pod(engine(command=["bash", "-c"], args=[script]))
    assert found("shell-pid1", deployment(made)) != []
    assert found("shell-pid1", job(made)) == []


# --- parts of objects --------------------------------------------------------------


def test_what_is_absent_from_a_patch_says_nothing() -> None:
    limits = {"name": "engine", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"template": {"spec": {"containers": [limits]}}}
    patch = named("apps/v1", "Deployment", spec=spec)
    named_one = {"template": {"spec": {"containers": [limits, {"name": "a", "image": "x:1"}]}}}
    for rule in ("image-digest", "surge", "network-policy"):
        assert found(rule, patch) == []
        selects = {**patch, "spec": {**spec, "selector": {"matchLabels": LABELS}}}
        assert found(rule, selects) == []
        assert found(rule, {**patch, "spec": named_one}) != []
    rolling = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
    assert found("surge", {**patch, "spec": {**spec, **rolling}}) != []
    args = {"name": "engine", "args": ["--model", "$(MODEL)"]}
    part = named("apps/v1", "Deployment", spec={"template": {"spec": {"containers": [args]}}})
    assert found("undefined-variable", part) == []


# --- ports of Triton, weights, queues --------------------------------------------------


@pytest.mark.parametrize(
    ("port", "path", "wrong"),
    [
        (8000, "/v2/health/ready", False),
        (8002, "/v2/health/ready", True),
        (8002, "/metrics", False),
        (8003, "/v2/health/live", True),
    ],
)
def test_triton_tells_its_health_on_one_of_its_ports(port: int, path: str, wrong: bool) -> None:
    probe = {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5, "periodSeconds": 5}
    made = engine(
        image="nvcr.io/nvidia/tritonserver:24.04-py3", readinessProbe=probe, args=None,
        command=["tritonserver", "--model-repository=/models"], startupProbe=None,
        livenessProbe=None,
    )  # fmt: skip
    assert bool(found("probe-port", deployment(pod(made)))) == wrong


def test_a_volume_that_nobody_fills_needs_no_limit() -> None:
    mount = {"name": "models", "mountPath": "/models", "readOnly": True}
    volume = {"name": "models", "emptyDir": {}}
    reads = engine(volumeMounts=[mount])
    assert found("ephemeral-limit", deployment(pod(reads, volumes=[volume]))) == []
    fills = {"name": "get", "image": "x", "volumeMounts": [{**mount, "readOnly": False}]}
    made = pod(reads, volumes=[volume], initContainers=[fills])
    assert found("ephemeral-limit", deployment(made)) != []


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ('hf_hub_download("org/model", "a.gguf")', "org/model"),
        ("hf_hub_download(repo_id=repo, filename=f)", "what repo names"),
        ("snapshot_download(repo_id, local_dir=d)", "what repo_id names"),
        ('hf download "$MODEL_ID" --local-dir /m', "$MODEL_ID"),
        ("huggingface-cli download ${MODEL}", "${MODEL}"),
    ],
)
def test_tools_that_fetch_what_a_variable_names(script: str, what: str) -> None:
    fetch = {"name": "fetch", "image": "x", "command": ["sh", "-c"], "args": [script]}
    made = pod(engine(), initContainers=[fetch])
    messages = [f.message for f in found("model-revision", deployment(made))]
    assert f'init container "fetch" fetches {what} without a revision' in messages
    pinned = script.replace(")", ", revision=r)") if ")" in script else f"{script} --revision $R"
    made = pod(engine(), initContainers=[{**fetch, "args": [pinned]}])
    assert not [f for f in found("model-revision", deployment(made)) if "fetches" in f.message]


def queued(*covered: str, **resources: int) -> list[Object]:
    limits = {key.replace("__", "/").replace("_", "."): n for key, n in resources.items()}
    limits = {"nvidia.com/gpu": 1, "memory": "64Gi", **limits}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    made = deployment(pod(engine(resources={"limits": limits})))
    made["metadata"]["labels"] = labels
    group = {"coveredResources": ["nvidia.com/gpu", "memory", "cpu", *covered], "flavors": []}
    return [
        made,
        object_of("kueue.x-k8s.io", "LocalQueue", "queue", spec={"clusterQueue": "shared"}),
        named("kueue.x-k8s.io/v1beta2", "ClusterQueue", metadata={"name": "shared"},
              spec={"resourceGroups": [group]}),
    ]  # fmt: skip


def test_resources_that_kueue_counts_as_others() -> None:
    asked = {"nvidia.com/gpucores": 30}
    assert found("queue-coverage", *queued(**asked)) != []
    assert found("queue-coverage", *queued("nvidia.com/total-gpucores", **asked)) == []
    assert found("queue-coverage", *queued("nvidia.com/total-gpumem", **asked)) != []
    text = "kind: Configuration\nresources:\n  transformations:\n  - input: nvidia.com/gpucores\n"
    settings = config("kueue-manager-config", **{"controller_manager_config.yaml": text})
    assert found("queue-coverage", *queued(**asked), settings) == []


# --- words of controllers -----------------------------------------------------------------


def arks(mode: str, replicas: int = 1, size: int = 1) -> list[Object]:
    claim = {"name": "m", "spec": {"accessModes": [mode]}}
    spec = {"replicas": replicas, "size": size, "model": {"name": "m"}, "runtime": "vllm"}
    return [
        object_of("arks.ai", "ArksModel", "m", spec={"storage": {"pvc": claim}}),
        object_of("arks.ai", "ArksApplication", "a", spec=spec),
    ]


def test_a_claim_of_one_node_under_a_group_of_arks() -> None:
    (group,) = found("claim-shared", *arks("ReadWriteOnce", size=2))
    assert "runs 2 pods on one volume that is ReadWriteOnce (ArksModel m)" in group.message
    assert found("claim-shared", *arks("ReadWriteOnce", replicas=2)) != []
    assert found("claim-shared", *arks("ReadWriteOnce")) == []
    assert found("claim-shared", *arks("ReadWriteMany", size=2)) == []


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ([], "fetches org/model without a revision"),
        ([{"name": "HF_REVISION", "value": "main"}], "fetches a branch of org/model: main"),
        ([{"name": "HF_REVISION", "value": "a" * 40}], None),
        ([{"name": "HF_REVISION", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}], None),
    ],
)
def test_what_kthenas_downloader_fetches(env: list[Object], said: str | None) -> None:
    args = ["--source", "org/model", "--output-dir", "/m"]
    get = {"name": "get", "image": "ghcr.io/volcano-sh/downloader:latest", "args": args, "env": env}
    messages = [
        finding.message
        for finding in found("model-revision", deployment(pod(engine(), initContainers=[get])))
        if "fetches" in finding.message
    ]
    assert messages == ([f'init container "get" {said}'] if said else [])
    bucket = {**get, "args": ["--source", "s3://bucket/model", "--output-dir", "/m"]}
    made = deployment(pod(engine(), initContainers=[bucket]))
    assert not [f for f in found("model-revision", made) if "fetches" in f.message]


def kserve(model: Object, name: str = "runtime", namespace: str = "team-a") -> list[Object]:
    container = engine(name="kserve-container", startupProbe=None, livenessProbe=None)
    runtime = object_of(
        "serving.kserve.io", "ServingRuntime", "runtime", spec={"containers": [container]}
    )
    given = {"modelFormat": {"name": "vllm"}, "runtime": name, **model}
    service = object_of(
        "serving.kserve.io", "InferenceService", "m", spec={"predictor": {"model": given}}
    )
    service["metadata"]["namespace"] = namespace
    return [runtime, service]


@pytest.mark.parametrize("rule", ["startup-probe", "liveness-probe"])
def test_probes_that_neither_a_runtime_nor_its_service_has(rule: str) -> None:
    (absent,) = [f for f in found(rule, *kserve({})) if f.object.startswith("ServingRuntime")]
    assert "kserve-container" in absent.message
    key = rule.replace("-probe", "Probe")
    probe = {"httpGet": {"path": "/health", "port": 8000}, "timeoutSeconds": 10}
    for others in (kserve({key: probe}), kserve({}, name="another"), kserve({}, namespace="b")):
        assert [f for f in found(rule, *others) if f.object.startswith("ServingRuntime")] == []
    assert found(rule, kserve({})[0]) == []


def graph(resources: Object, args: list[str], **component: Any) -> Object:
    container = {"image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6", "args": args,
                 "command": ["python3", "-m", "dynamo.vllm"]}  # fmt: skip
    service = {"resources": resources, "extraPodSpec": {"mainContainer": container}, **component}
    spec = {"services": {"Worker": service}}
    return named("nvidia.com/v1alpha1", "DynamoGraphDeployment", spec=spec)


def test_dynamos_components_have_the_gpus_beside_their_pod() -> None:
    args = ["--model", "org/model", "--tensor-parallel-size", "2"]
    (size,) = found("world-size", graph({"limits": {"gpu": "1"}}, args))
    assert "wants 2 GPUs (tensor 2) and its container has 1" in size.message
    assert found("world-size", graph({"limits": {"gpu": "2"}}, args)) == []
    assert found("world-size", graph({"requests": {"gpu": "1"}}, args)) != []
    custom = {"limits": {"custom": {"amd.com/gpu": "1"}}}
    assert found("world-size", graph(custom, args)) != []
    other = {"limits": {"gpu": "1", "gpuType": "amd.com/gpu"}}
    assert found("world-size", graph(other, args)) != []
    spread = graph({"limits": {"gpu": "1"}}, args, multinode={"nodeCount": 2})
    assert found("world-size", spread) == []


def test_a_router_that_holds_a_gpu() -> None:
    router = graph({"limits": {"gpu": "1"}}, [])
    main = router["spec"]["services"]["Worker"]["extraPodSpec"]["mainContainer"]
    main["command"] = ["python3", "-m", "dynamo.frontend"]
    (idle,) = found("idle-gpus", router)
    assert "holds nvidia.com/gpu and runs dynamo.frontend, which computes nothing" in idle.message
    router["spec"]["services"]["Worker"]["resources"] = {"limits": {"cpu": "1"}}
    assert found("idle-gpus", router) == []


@pytest.mark.parametrize("path", ["/dev", "/var/run/x", "/etc/vllm", "/lib/modules"])
def test_folders_of_the_system_keep_no_weights(path: str) -> None:
    volume = {"name": "host", "hostPath": {"path": path}}

    def mounted(at: str) -> list[Finding]:
        mounts = [{"name": "host", "mountPath": at}]
        args = ["--model", "org/model"]
        made = engine(image="x/vllm:1", args=args, env=[], command=None, volumeMounts=mounts)
        return found("weights-download", deployment(pod(made, volumes=[volume])))

    assert mounted(path) != []
    assert mounted("/data") == []


# --- ports and Secrets that are none ---------------------------------------------------------


def led_to(port: int, *containers: Object, **annotations: str) -> list[Finding]:
    made = deployment(pod(*containers))
    given = {key.replace("__", "/").replace("_", "."): text for key, text in annotations.items()}
    made["spec"]["template"]["metadata"]["annotations"] = given
    ports = [{"port": 80, "targetPort": port}]
    leads = named("v1", "Service", spec={"selector": LABELS, "ports": ports})
    return found("service-port", made, leads)


def test_a_port_that_a_program_is_told_to_open() -> None:
    manager = {
        "name": "manager", "image": "x/manager:1", "command": ["/manager"],
        "ports": [{"containerPort": 9443}], "args": ["--metrics-bind-address=:8443"],
    }  # fmt: skip
    assert led_to(8443, manager) == []
    assert led_to(8444, manager) != []
    assert led_to(443, manager) != []


def test_a_port_of_a_container_that_a_webhook_adds() -> None:
    assert led_to(8080, engine()) != []
    assert led_to(8080, engine(), **{"model.aibrix.ai/sidecar-injection": "true"}) == []
    assert led_to(8080, engine(), **{"model.aibrix.ai/sidecar-injection": "false"}) != []


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("SIDECAR_IMAGE", "ghcr.io/org/plugin:v1.2", False),
        ("SIDECAR_IMAGE", "s3cr3t", True),
        ("TOKEN", "ghcr.io/org/plugin:v1.2", True),
    ],
)
def test_the_name_of_an_image_is_no_secret(key: str, text: str, told: bool) -> None:
    encoded = base64.b64encode(text.encode()).decode()
    broken = f"{encoded[:6]}\n{encoded[6:]}\n"
    for content in ({"stringData": {key: text}}, {"data": {key: encoded}}, {"data": {key: broken}}):
        assert bool(found("plain-secret", {**secret("x"), **content})) == told


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("KAFKA_SASL_PASSWORD_LOCATION", "password", None),
        ("KVC_PER_TOKEN", "2", None),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/secret/gcp/key.json", None),
        ("GH_TOKEN", "GITHUB_TOKEN", "a placeholder where a secret belongs"),
        ("GH_TOKEN", "/aB3", "a secret in clear text"),
        ("DB_PASSWORD", "hunter22", "a secret in clear text"),
    ],
)
def test_what_is_called_like_a_secret(name: str, value: str, said: str | None) -> None:
    made = engine(env=[{"name": name, "value": value}])
    messages = [finding.message for finding in found("plain-secret", deployment(pod(made)))]
    assert [said in message for message in messages if said] == ([True] if said else [])
    assert len(messages) == (1 if said else 0)


@pytest.mark.parametrize(
    ("resource", "shared"),
    [("nvidia.com/gpu", True), ("amd.com/gpu", True), ("google.com/tpu", False),
     ("aws.amazon.com/neuron", False), ("aws.amazon.com/neuroncore", False)],
)  # fmt: skip
def test_ranks_that_meet_in_memory_of_the_host(resource: str, shared: bool) -> None:
    args = ["--model", "/m", "--tensor-parallel-size", "2"]
    made = engine(args=args, resources={"limits": {resource: 2, "memory": "64Gi"}})
    assert bool(found("shared-memory", deployment(pod(made)))) == shared


def test_what_an_operator_may_bring_with_its_pods() -> None:
    volumes = [{"name": "c", "configMap": {"name": "seldon-kafka"}}]
    spec = {"podSpec": pod({"name": "agent", "image": "x:1"}, volumes=volumes)}
    custom = named("mlops.seldon.io/v1alpha1", "ServerConfig", spec=spec)
    assert found("missing-config", custom, config("other")) == []
    assert found("missing-config", custom, config("seldon-kafkas")) != []
    plain = deployment(pod(engine(), volumes=volumes))
    assert found("missing-config", plain, config("other")) != []


# --- Knative, Ray, groups of Dynamo's, and what runs on a CPU ------------------------------------


def knative(spec: Object, **labels: str) -> Object:
    template = {"metadata": {"labels": labels}, "spec": spec}
    return named("serving.knative.dev/v1", "Service", spec={"template": template})


def test_what_knative_does_by_itself() -> None:
    made = knative(pod(engine(lifecycle=None)), **{"kueue.x-k8s.io/queue-name": "queue"})
    for rule in ("drain", "service-links", "queue-label"):
        assert found(rule, made) == []
    assert found("readiness-probe", knative(pod(engine(readinessProbe=None)))) != []


@pytest.mark.parametrize(
    ("image", "joined"),
    [("vllm/vllm-openai:v0.26.0", True), ("rayproject/ray-llm:2.50.0", True),
     ("rayproject/ray:2.50.0", False), ("x/vllm-router:1", False)],
)  # fmt: skip
def test_workers_that_ray_starts_an_engine_in(image: str, joined: bool) -> None:
    worker = {"name": "worker", "image": image}
    group = {"groupName": "g", "template": {"spec": {"containers": [worker]}}}
    cluster = named("ray.io/v1", "RayCluster", spec={"workerGroupSpecs": [group]})
    assert bool(found("service-links", cluster)) == joined
    group["template"]["spec"]["enableServiceLinks"] = False
    assert found("service-links", cluster) == []


@pytest.mark.parametrize(("nodes", "tensor", "fits"), [(2, 2, True), (1, 2, False)])
def test_a_component_of_dynamos_over_several_nodes(nodes: int, tensor: int, fits: bool) -> None:
    container = {
        "name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1",
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": ["--model", "/m", "--tensor-parallel-size", str(tensor)],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }  # fmt: skip
    component = {
        "name": "decode", "multinode": {"nodeCount": nodes},
        "podTemplate": {"spec": {"containers": [container]}},
    }  # fmt: skip
    made = named("nvidia.com/v1beta1", "DynamoGraphDeployment", spec={"components": [component]})
    told = [rule for rule in ("world-size", "group-size") if found(rule, made)]
    assert told == ([] if fits else ["world-size"])


def test_an_engine_on_the_cpu_downloads_as_any_other() -> None:
    args = ["--model", "org/model"]
    image = "vllm/vllm-openai-cpu:v0.26.0"
    made = deployment(pod(engine(image=image, args=args, resources=PLAIN)))
    assert found("weights-download", made) != []
    assert found("ephemeral-limit", made) != []
    assert found("gpu-limits", made) == []


@pytest.mark.parametrize(
    ("context", "said"),
    [({"runAsUser": 1000}, "as user 1000"), ({"runAsNonRoot": True}, "as a user that is not root"),
     ({"runAsUser": 0, "runAsNonRoot": True}, None), ({}, None)],
)  # fmt: skip
def test_users_without_a_home(context: Object, said: str | None) -> None:
    messages = [
        f.message for f in found("nonroot-home", deployment(pod(engine(), securityContext=context)))
    ]
    assert [said in message for message in messages if said] == ([True] if said else [])
    assert len(messages) == (1 if said else 0)


@pytest.mark.parametrize(
    ("query", "averages"),
    [
        ("sum(vllm:num_requests_running)", False),
        ("avg(vllm:num_requests_running)", True),
        ("sum(vllm:num_requests_running{a='b'}) /\n count(kube_pod_info{pod=~'x'})", True),
        ("sum(vllm:num_requests_running) / scalar(count(up))", True),
        ("sum(vllm:num_requests_running) / 4", False),
        ("sum(a) / sum(b)", False),
    ],
)
def test_queries_that_average(query: str, averages: bool) -> None:
    trigger = {"type": "prometheus", "metadata": {"query": query, "threshold": "4"}}
    scaled = named("keda.sh/v1alpha1", "ScaledObject", spec={"triggers": [trigger]})
    assert bool(found("metric-average", scaled)) == averages


def test_an_ingress_that_nvidias_operator_makes() -> None:
    ingress: Object = {"enabled": True, "spec": {"ingressClassName": "nginx"}}
    made = named("apps.nvidia.com/v1alpha1", "NIMService", spec={"expose": {"ingress": ingress}})
    (short,) = found("route-timeout", made)
    assert short.field == "spec.expose.ingress.annotations"
    ingress["annotations"] = {"nginx.ingress.kubernetes.io/proxy-read-timeout": "300"}
    assert found("route-timeout", made) == []
    ingress["annotations"], ingress["enabled"] = {}, False
    assert found("route-timeout", made) == []


def test_a_home_that_is_mounted_without_its_variable() -> None:
    mounts = [{"name": "c", "mountPath": "/.cache"}]
    made = pod(
        engine(volumeMounts=mounts), securityContext={"runAsNonRoot": True},
        volumes=[{"name": "c", "emptyDir": {"sizeLimit": "1Gi"}}],
    )  # fmt: skip
    assert found("nonroot-home", deployment(made)) == []


@pytest.mark.parametrize(
    ("image", "severity"),
    [
        ("vllm/vllm-openai:latest", "warning"),
        ("vllm/vllm-openai:nightly", "warning"),
        ("vllm/vllm-openai", "warning"),
        ("vllm/vllm-openai:v0.26.0", "error"),
        ("vllm/vllm-openai:v0.11.0", None),
        ("vllm/vllm-openai:sometag", None),
        (f"vllm/vllm-openai@{DIGEST}", None),
        ("x/vllm:latest", None),
    ],
)
def test_flags_that_newer_versions_dropped(image: str, severity: str | None) -> None:
    made = engine(image=image, args=["--model", "/m", "--disable-log-requests"])
    told = [
        (f.severity, "--disable-log-requests" in f.message)
        for f in found("unknown-flag", deployment(pod(made)))
    ]
    assert told == ([(severity, True)] if severity else [])


@pytest.mark.parametrize(
    ("ports", "wrong"),
    [([8001, 8002, 8003], True), ([8000, 8003], False), ([8001], False), ([8001, 8002], False)],
)
def test_ports_that_triton_does_not_open(ports: list[int], wrong: bool) -> None:
    made = engine(
        image="nvcr.io/nvidia/tritonserver:24.04-py3", args=None, readinessProbe=None,
        command=["tritonserver", "--model-repository=/models"], startupProbe=None,
        livenessProbe=None, ports=[{"containerPort": port} for port in ports],
    )  # fmt: skip
    assert bool(found("container-port", deployment(pod(made)))) == wrong


@pytest.mark.parametrize(
    ("script", "stays"),
    [
        ("bash /vllm-workspace/multi-node-serving.sh worker --ray_address=$(A)", True),
        ("exec bash /vllm-workspace/multi-node-serving.sh worker --ray_address=$(A)", False),
    ],
)
def test_a_rank_that_joins_under_a_shell(script: str, stays: bool) -> None:
    joins = engine(command=["sh", "-c"], args=[script])
    template = {"leaderTemplate": {"spec": pod(engine())}, "workerTemplate": {"spec": pod(joins)}}
    spec = {"leaderWorkerTemplate": {**template, "size": 2}}
    group = named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec=spec)
    messages = [finding.message for finding in found("shell-pid1", group)]
    assert ["runs bash under a shell without exec" in message for message in messages] == (
        [True] if stays else []
    )


@pytest.mark.parametrize(
    ("rule", "key", "period", "failures", "said"),
    [
        ("readiness-probe", "readinessProbe", 30, 10_000, "keeps requests for 300000 s"),
        ("readiness-probe", "readinessProbe", 10, 60, None),
        ("liveness-probe", "livenessProbe", 60, 1000, "as good as never"),
        ("liveness-probe", "livenessProbe", 60, 60, None),
    ],
)
def test_probes_that_never_give_up(
    rule: str, key: str, period: int, failures: int, said: str | None
) -> None:
    probe = {
        "httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5,
        "periodSeconds": period, "failureThreshold": failures,
    }  # fmt: skip
    made = engine(**{"livenessProbe": None, key: probe})
    messages = [f.message for f in found(rule, deployment(pod(made))) if "has no" not in f.message]
    assert [said in message for message in messages if said] == ([True] if said else [])
    assert len(messages) == (1 if said else 0)


def test_what_liveness_restarts_gets_no_requests() -> None:
    probe = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    waits = {**probe, "periodSeconds": 30, "failureThreshold": 60}
    assert found("readiness-probe", deployment(pod(engine(readinessProbe=waits)))) == []
    late = engine(readinessProbe=waits, livenessProbe={**waits, "failureThreshold": 61})
    assert found("readiness-probe", deployment(pod(late))) != []
