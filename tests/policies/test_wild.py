"""Manifests as others write them: what the rules make of each shape, and what they leave alone."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from policies import Context, Finding, check
from tests.policies.builders import (
    DIGEST,
    LABELS,
    Object,
    bare_pod,
    deployment,
    engine,
    found,
    job,
    named,
    pod,
)

ENGINE = f"vllm/vllm-openai:v0.26.0@{DIGEST}"
GPU = {"limits": {"nvidia.com/gpu": 1}}
RANK = ["python3", "-m", "sglang.launch_server", "--model-path", "/m", "--nnodes", "2",
        "--node-rank", "$(RBG_LWP_WORKER_INDEX)", "--tp", "2"]  # fmt: skip
SHM = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
UNBOUND = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]


def said(*objects: Object, rules: frozenset[str] | None = None) -> list[Finding]:
    return [f for f in check(objects, Context()) if rules is None or f.rule in rules]


# --- the shell ---------------------------------------------------------------


@pytest.mark.parametrize("words", [["bash", "-lc", "--"], ["sh", "-c", "--"], ["/bin/bash", "-c"]])
def test_a_script_is_found_behind_the_end_of_options(words: list[str]) -> None:
    script = "ulimit -n 65536; vllm serve /m --tensor-parallel-size 4"
    made = deployment(pod(engine(command=words, args=[script])))
    (finding,) = found("shell-pid1", made)
    says = "under a shell without exec" if words[0] == "sh" else "bash before 5.1"
    assert says in finding.message
    assert "wants 4 GPUs" in found("world-size", made)[0].message


def test_nothing_behind_the_end_of_options_is_no_script() -> None:
    assert found("shell-pid1", deployment(pod(engine(command=["bash", "-c", "--"], args=[])))) == []


# --- what is still to be filled in -------------------------------------------


@pytest.mark.parametrize("image", ["$IMAGE", "${VLLM_IMAGE}", "<image>", "$REGISTRY/vllm:$TAG"])
def test_a_placeholder_for_an_image_is_called_one(image: str) -> None:
    made = deployment(pod(engine(image=image, resources=None)))
    (finding,) = found("image-digest", made)
    assert finding.message == f'container "engine" has a placeholder for an image: {image}'
    assert found("gpu-limits", made) == []  # it may become a simulator


@pytest.mark.parametrize("value", ["$HF_TOKEN", "<your-token>", "${HF_TOKEN}", "{{ token }}"])
def test_a_placeholder_for_a_secret_is_called_one(value: str) -> None:
    (finding,) = found("plain-secret", named("v1", "Secret", stringData={"token": value}))
    assert finding.field == "stringData.token"
    assert "holds a placeholder where a secret belongs (token)" in finding.message
    assert "revoke" not in finding.remedy


@pytest.mark.parametrize("value", ["${LD_LIBRARY_PATH}:/usr/local/lib", "$LD_LIBRARY_PATH"])
def test_no_variable_is_told_to_refer_to_itself(value: str) -> None:
    env = [{"name": "LD_LIBRARY_PATH", "value": value}]
    (finding,) = found("unexpanded-variable", deployment(pod(engine(env=env))))
    assert "write out what LD_LIBRARY_PATH is in the image" in finding.remedy
    assert "$(" not in finding.remedy


# --- programs that we do not know, or by another name -------------------------


def opaque(**more: Any) -> Object:
    return {"name": "rank", "image": f"example.com/serve@{DIGEST}", "command": ["/run.sh"],
            "resources": GPU, "ports": [{"containerPort": 8080}], **more}  # fmt: skip


def group(worker: Object, *others: Object) -> list[Object]:
    labels = {"metadata": {"labels": {"app": "llama"}}}
    template = {
        "size": 2, "leaderTemplate": {**labels, "spec": pod()},
        "workerTemplate": {"metadata": {"labels": {"app": "rank"}}, "spec": pod(worker)},
    }  # fmt: skip
    made = named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
                 spec={"leaderWorkerTemplate": template})  # fmt: skip
    return [made, *others]


def service(selector: Object, target: Any) -> Object:
    ports = [{"port": 80, "targetPort": target}]
    return named("v1", "Service", spec={"selector": selector, "ports": ports})


PROBES = frozenset({"startup-probe", "readiness-probe", "liveness-probe", "drain"})


def test_a_rank_with_ports_is_no_server() -> None:
    assert said(*group(opaque()), rules=PROBES) == []
    elsewhere = service({"app": "llama"}, 8080)
    assert said(*group(opaque(), elsewhere), rules=PROBES) == []


@pytest.mark.parametrize("target", [8080, "http"])
def test_a_rank_that_a_service_leads_to_is_a_server(target: Any) -> None:
    made = said(*group(opaque(), service({"app": "rank"}, target)), rules=PROBES)
    assert {finding.rule for finding in made} == PROBES


def test_images_of_engines_have_longer_names() -> None:
    image = f"example.com/huggingface-text-generation-inference-cu121.2-1@{DIGEST}"
    made = deployment(pod(engine(image=image, args=None, resources=None)))
    assert "(tgi) has no GPU limit" in found("gpu-limits", made)[0].message


# --- engines of others -------------------------------------------------------

TGI = f"ghcr.io/huggingface/text-generation-inference:3.3.5@{DIGEST}"
COMMIT = "9216db5781bf21249d130ec9da846c4624c16137"


def tgi(gpus: int = 1, port: int = 80, volume: str = "", **changes: Any) -> Object:
    """A Deployment of TGI: `env` by name, `volume` is where a claim is mounted."""
    health = {"httpGet": {"path": "/health", "port": port}, "timeoutSeconds": 5}
    env = [{"name": key, "value": value} for key, value in changes.pop("env", {}).items()]
    mounts = [{"name": "weights", "mountPath": volume}] if volume else None
    claim = [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}]
    container = engine(
        image=TGI, args=changes.pop("args", None), env=env or None, volumeMounts=mounts,
        resources={"limits": {"nvidia.com/gpu": gpus}}, ports=[{"containerPort": port}],
        startupProbe={**health, "failureThreshold": 90}, readinessProbe=health,
        livenessProbe={**health, "failureThreshold": 6}, **changes,
    )  # fmt: skip
    return deployment(pod(container, volumes=claim if volume else None))


HUB = {"MODEL_ID": "Qwen/Qwen3-32B"}


@pytest.mark.parametrize(
    ("rule", "made", "message"),
    [
        ("world-size", tgi(args=["--num-shard", "4"], gpus=2), "wants 4 GPUs"),
        ("world-size", tgi(env={"NUM_SHARD": "4"}, gpus=2), "wants 4 GPUs"),
        ("idle-gpus", tgi(args=["--num-shard=2"], gpus=4), "uses 2 of its 4 GPUs"),
        ("idle-gpus", tgi(env={"SHARDED": "false"}, gpus=4), "uses 1 of its 4 GPUs"),
        ("model-revision", tgi(env=HUB), "serves Qwen/Qwen3-32B without a revision"),
        (
            "model-revision",
            tgi(args=["--model-id", "a/b", "--revision", "main"]),
            "a branch of a/b",
        ),
        ("weights-download", tgi(env=HUB), "nothing that outlives the pod is mounted at /data/hub"),
        ("remote-code", tgi(args=["--trust-remote-code"], env=HUB), "runs code of Qwen/Qwen3-32B"),
        ("remote-code", tgi(env={**HUB, "TRUST_REMOTE_CODE": "true"}), "runs code of Qwen"),
        ("container-port", tgi(port=8080), "serves on port 80 and declares 8080"),
        ("container-port", tgi(port=80, env={"PORT": "8080"}), "serves on port 8080"),
        ("unknown-flag", tgi(args=["--num-shards", "1"]), "a flag --num-shards"),
        ("flag-value", tgi(args=["--max-input-tokens", "many"]), "not a whole number"),
        ("argument-split", tgi(args=["--model-id a/b"]), "gets --model-id and its value as one"),
    ],
)
def test_tgi_is_read_by_its_own_grammar(rule: str, made: Object, message: str) -> None:
    (finding,) = found(rule, made)
    assert message in finding.message


@pytest.mark.parametrize(
    "made",
    [
        tgi(env={**HUB, "REVISION": COMMIT, "TRUST_REMOTE_CODE": "1"}, volume="/data"),
        tgi(args=["--model-id", "a/b", "--revision", COMMIT, "-p", "8080"], port=8080, gpus=4,
            volume="/data"),
        tgi(args=["--model-id", "/data/own", "--num-shard", "2"], gpus=2, volume="/data"),
        tgi(env={"MODEL_ID": "a/b", "REVISION": COMMIT, "HF_HOME": "/models"}, volume="/models"),
    ],
)  # fmt: skip
def test_a_well_kept_tgi_has_no_finding(made: Object) -> None:
    rules = frozenset(
        ("world-size", "idle-gpus", "model-revision", "weights-download", "cache-mount",
         "remote-code", "container-port", "probe-port", "probe-path", "unknown-flag", "flag-value")
    )  # fmt: skip
    assert said(made, rules=rules) == []


@pytest.mark.parametrize(("gpus", "findings"), [(1, 1), (4, 0)])
def test_weights_of_tgi_are_on_all_gpus_that_it_sees(gpus: int, findings: int) -> None:
    made = tgi(env={"MODEL_ID": "a/Some-70B"}, gpus=gpus)
    made["spec"]["template"]["spec"]["nodeSelector"] = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"
    }
    assert len(found("model-memory", made)) == findings
    half = tgi(env={"MODEL_ID": "a/Some-70B", "QUANTIZE": "bitsandbytes-nf4"}, gpus=gpus)
    half["spec"]["template"]["spec"]["nodeSelector"] = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"
    }
    assert found("model-memory", half) == []


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"NIM_MODEL_PATH": "hf://a/b", "NIM_TRUST_CUSTOM_CODE": "1"}, "runs code of a/b"),
        ({"NIM_MODEL_NAME": "hf://a/b", "NIM_FORCE_TRUST_REMOTE_CODE": "true"}, "runs code of a/b"),
        ({"NIM_MODEL_PATH": "hf://a/b:main", "NIM_TRUST_CUSTOM_CODE": "1"}, "runs code of a/b"),
        ({"NIM_MODEL_PATH": f"hf://a/b:{COMMIT}", "NIM_TRUST_CUSTOM_CODE": "1"}, ""),
        ({"NIM_MODEL_PATH": "hf://a/b", "NIM_TRUST_CUSTOM_CODE": "0"}, ""),
        ({"NIM_MODEL_PATH": "hf://a/b"}, ""),
        # The code of its own model came with the image.
        ({"NIM_TRUST_CUSTOM_CODE": "1"}, ""),
    ],
)
def test_a_nim_runs_code_of_the_hub_at_a_pinned_version(env: dict[str, str], message: str) -> None:
    variables = [{"name": key, "value": value} for key, value in env.items()]
    image = f"nvcr.io/nim/nvidia/llm-nim:1.13@{DIGEST}"
    made = found("remote-code", deployment(pod(engine(image=image, args=None, env=variables))))
    assert [message in finding.message for finding in made] == ([True] if message else [])


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["--model-id", "a/b", "--max-total-tokens", "8", "--max-input-tokens", "4"], "tgi"),
        (["--model", "a/b", "--max-num-seqs", "8", "--enable-prefix-caching"], "vllm"),
        (["--model-path", "a/b", "--mem-fraction-static", "0.8", "--tp", "1"], "sglang"),
        (["--model", "a/b"], ""),
        (["--model", "a/b", "--max-num-seqs", "8", "--own-flag", "x"], ""),
        (["--port", "80", "--host", "0.0.0.0"], ""),
    ],
)
def test_flags_tell_the_engine_of_an_image_that_does_not(args: list[str], name: str) -> None:
    container = engine(image=f"example.com/models@{DIGEST}", args=args, startupProbe=None)
    (finding,) = found("startup-probe", deployment(pod(container)))
    assert finding.message.startswith(f'container "engine" ({name}) has' if name else
                                      'container "engine" has')  # fmt: skip
    idle = engine(image=f"example.com/models@{DIGEST}", args=args, resources=None)
    assert found("gpu-limits", deployment(pod(idle))) == []


# --- what people write, and is right after all, or wrong in another way ------


@pytest.mark.parametrize(
    ("shell", "script", "count"),
    [
        ("bash", "vllm serve m", 0),
        ("/bin/bash", "export A=1\nvllm serve m \\\n  --port 8000\n", 0),
        ("bash", "if [ -n x ]; then\n  echo\nfi\nvllm serve m", 1),
        ("bash", "ulimit -n 65536; vllm serve m", 1),
        ("bash", "vllm serve m 2>&1", 1),
        ("bash", "trap : TERM\nvllm serve m", 1),
        ("bash", "vllm serve m\necho done", 1),
        ("bash", "vllm serve m | tee log", 1),
        ("sh", "vllm serve m", 1),
    ],
)
def test_bash_becomes_its_last_command(shell: str, script: str, count: int) -> None:
    made = deployment(pod(engine(command=[shell, "-c", script], args=None)))
    assert len(found("shell-pid1", made)) == count


@pytest.mark.parametrize(
    ("spec", "severity"),
    [({}, "error"), ({"clusterIP": "None"}, "warning"), ({"type": "ExternalName"}, "warning")],
)
def test_services_without_an_address_set_no_variable(spec: Object, severity: str) -> None:
    service = named("v1", "Service", spec={"ports": [{"port": 8000}], **spec})
    service["metadata"]["name"] = "vllm"
    made = deployment(pod(enableServiceLinks=None))
    (finding,) = found("service-links", made, service)
    assert finding.severity == severity


def test_a_delay_beside_a_startup_probe_is_only_blind() -> None:
    probe = {**engine()["livenessProbe"], "initialDelaySeconds": 180}
    (finding,) = found("liveness-probe", deployment(pod(engine(livenessProbe=probe))))
    assert (finding.severity, finding.remedy) == ("warning", "remove initialDelaySeconds")
    alone = engine(livenessProbe=probe, startupProbe=None)
    (finding,) = found("liveness-probe", deployment(pod(alone)))
    assert finding.severity == "error" and "startupProbe" in finding.remedy


def test_a_port_that_opens_needs_no_patience() -> None:
    made = deployment(pod(engine(readinessProbe={"tcpSocket": {"port": 8000}})))
    (finding,) = found("readiness-probe", made)
    assert "opens a TCP port only" in finding.message


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, "{path: /health, port: http}"),
        ({"ports": [{"containerPort": 8000}]}, "{path: /health, port: 8000}"),
        ({"image": f"ollama/ollama@{DIGEST}", "args": None, "ports": None}, "port: 11434}"),
        ({"image": f"nvcr.io/nvidia/tritonserver@{DIGEST}", "ports": None,
          "command": ["tritonserver"], "args": []}, "{path: /v2/health/ready, port: 8000}"),
        ({"image": f"nvcr.io/nim/a/b@{DIGEST}", "args": None}, "{path: /v1/health/ready, port: "),
        ({"image": f"example.com/serve@{DIGEST}", "args": None, "ports": None,
          "livenessProbe": {"httpGet": {"path": "/healthz", "port": 5000}, "timeoutSeconds": 5,
                            "failureThreshold": 9}}, "{path: /health, port: 8000}"),
        ({"image": f"example.com/serve@{DIGEST}", "args": None, "ports": [{"containerPort": 81}],
          "livenessProbe": None, "readinessProbe": None}, "{path: /health, port: 81}"),
        ({"image": f"lmsysorg/sglang@{DIGEST}", "args": ["--model-path", "/m"],
          "command": ["python3", "-m", "sglang.launch_server"]}, "timeoutSeconds: 10"),
    ],
)  # fmt: skip
def test_a_remedy_names_the_engines_own_path_and_port(changes: Object, asked: str) -> None:
    made = deployment(pod(engine(**{"startupProbe": None, **changes})))
    (finding,) = found("startup-probe", made)
    assert asked in finding.remedy


@pytest.mark.parametrize(("timeout", "severity"), [(1, "error"), (5, "warning"), (10, None)])
def test_a_check_that_takes_a_second_never_passes_in_one(
    timeout: int, severity: str | None
) -> None:
    start = {"httpGet": {"path": "/health", "port": 30000}, "failureThreshold": 180}
    container = engine(
        image=f"lmsysorg/sglang@{DIGEST}", args=["--model-path", "/m"],
        command=["python3", "-m", "sglang.launch_server"],
        startupProbe={**start, "timeoutSeconds": timeout},
    )  # fmt: skip
    made = found("startup-probe", deployment(pod(container)))
    assert [finding.severity for finding in made] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("value", "placeholder"),
    [
        ("<your-hf-token>", True),
        ("YOUR_TOKEN_HERE", True),
        ("replace-me", True),
        ("changeme", True),
        ("********", True),
        ("correct-horse", False),
        ("hereafter1", False),
    ],
)
def test_a_placeholder_is_no_secret_in_clear_text(value: str, placeholder: bool) -> None:
    word = "placeholder" if placeholder else "clear text"
    by_variable = deployment(pod(engine(env=[{"name": "HF_TOKEN", "value": value}])))
    by_flag = deployment(pod(engine(args=["--model", "/m", "--api-key", value])))
    encoded = base64.b64encode(value.encode()).decode()
    for made in (
        by_variable, by_flag, named("v1", "Secret", stringData={"token": value}),
        named("v1", "Secret", data={"token": encoded}),
    ):  # fmt: skip
        (finding,) = found("plain-secret", made)
        assert word in finding.message and ("revoke" in finding.remedy) is not placeholder


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (["tunnel", "run", "--token", "eyJhIjoiMDEyMzQ1Njc4OWFiY2RlZiJ9"], 1),
        (["--auth-token=0123456789abcdefghij"], 1),
        (["--token", "/var/run/secrets/token-0123456789"], 0),
        (["--token-file", "abcdefghijklmnop0123"], 0),
        (["--token", "$(TOKEN_0123456789012)"], 0),
        (["--token", "short1"], 0),
    ],
)
def test_flags_of_other_programs_say_that_they_take_a_secret(args: list[str], count: int) -> None:
    made = deployment(pod(engine(), {"name": "tunnel", "image": f"x/y@{DIGEST}", "args": args}))
    assert len(found("plain-secret", made)) == count


@pytest.mark.parametrize(
    ("args", "image", "message"),
    [
        (["--model", "a/b", "--enable-prefix-caching", "true"], "v0.26.0", "gives it true"),
        (["--model", "a/b", "--disable-log-stats=false"], "v0.26.0", "gives it false"),
        (["--model", "a/b", "--enable-prefix-caching=$(ON)"], "v0.6.3", "gives it $(ON)"),
        (["--model", "a/b", "--enable-chunked-prefill=True"], "v0.30.0", "gives it True"),
        (["--model", "a/b", "--enable-chunked-prefill", "True"], "v0.6.3", ""),
        (["--model", "a/b", "--enable-prefix-caching"], "v0.26.0", ""),
    ],
)
def test_a_switch_takes_no_value(args: list[str], image: str, message: str) -> None:
    container = engine(args=args, image=f"vllm/vllm-openai:{image}@{DIGEST}")
    made = deployment(pod(container))
    findings = found("flag-value", made)
    assert [message in f.message for f in findings] == ([True] if message else [])
    # Whatever stands behind the switch, the weights are those of --model.
    assert "serves a/b" in found("model-revision", made)[0].message


@pytest.mark.parametrize(
    ("image", "words", "message", "remedy"),
    [
        ("vllm/vllm-openai:v0.10.0", "vllm serve /m --use-v2-block-manager",
         "--use-v2-block-manager, which vllm 0.10.0 does not know: it went after 0.9.2",
         "leave --use-v2-block-manager out"),
        ("vllm/vllm-openai:v0.26.0", "vllm serve /m --disable_log_requests",
         "it went after 0.16.0", "write --no-enable-log-requests"),
        ("vllm/vllm-openai:v0.6.3.post1", "vllm serve /m --speculative-config={}",
         "which vllm 0.6.3.post1 does not know: it comes with 0.8.2",
         "leave --speculative-config out, or use an image of 0.8.2 or newer"),
        ("lmsysorg/sglang:v0.5.16-cu130", "python3 -m sglang.launch_server --model-path /m "
         "--boundary-reduction ar", "which sglang 0.5.16 does not know: it comes with 0.5.21",
         "or use an image of 0.5.21 or newer"),
        ("lmsysorg/sglang:v0.5.21", "python3 -m sglang.launch_server --model-path /m "
         "--nsa-decode-backend fa3", "which sglang 0.5.21 does not know: it went after 0.5.19",
         "write --dsa-decode-backend"),
        ("lmsysorg/sglang:v0.5.20", "python3 -m sglang.launch_server --model-path /m "
         "--prefill-round-robin-balance", "does not know: it went after 0.5.19",
         "leave --prefill-round-robin-balance out"),
    ],
)  # fmt: skip
def test_the_images_version_says_which_flags_there_are(
    image: str, words: str, message: str, remedy: str
) -> None:
    container = engine(image=f"{image}@{DIGEST}", command=["sh", "-c", f"exec {words}"], args=None)
    for made in (deployment(pod(container)), job(pod(container))):
        (finding,) = found("unknown-flag", made)
        assert message in finding.message
        assert remedy in finding.remedy


def test_a_flag_that_drains_is_told_once() -> None:
    container = engine(
        image=f"vllm/vllm-openai:v0.9.0@{DIGEST}", args=["--model", "/m", "--shutdown-timeout=60"]
    )
    made = deployment(pod(container))
    assert [f.rule for f in check([made], Context()) if "--shutdown-timeout" in f.message] == [
        "shutdown-flag"
    ]


@pytest.mark.parametrize("flag", ["--shutdown-timeout", "--shutdown_timeout", "--shutdown-timeou"])
def test_every_rule_reads_flags_as_the_engine_does(flag: str) -> None:
    made = deployment(pod(engine(args=["--model", "/m", flag, "300"])))
    (finding,) = found("drain", made)
    assert "its shutdown timeout (300 s)" in finding.message


_SERVED = frozenset({"readiness-probe", "drain"})


def test_a_bare_pod_serves_though_it_may_end() -> None:
    """Where a Service leads to it, and where the server is all that it waits for."""
    alone = bare_pod(pod(engine(readinessProbe=None, lifecycle=None), restartPolicy="Never"))
    assert {finding.rule for finding in said(alone, rules=_SERVED)} == _SERVED
    script = "vllm serve /m --port 8000 & python3 ask.py"
    tested = engine(command=["bash", "-c"], args=[script], readinessProbe=None, lifecycle=None)
    service = named("v1", "Service", spec={"selector": LABELS, "ports": [{"port": 8000}]})
    asks = {"name": "asks", "image": "curl", "command": ["curl", "localhost:8000/v1/models"]}
    for containers in ([tested], [engine(readinessProbe=None, lifecycle=None), asks]):
        made = bare_pod(pod(*containers, restartPolicy="Never"))
        assert said(made, rules=_SERVED) == []
        both = said(made, service, rules=_SERVED)
        assert {finding.rule for finding in both} == _SERVED


@pytest.mark.parametrize(
    ("hook", "waits"),
    [
        ({"exec": {"command": ["/bin/sh", "-c", "echo bye"]}}, False),
        ({"exec": {"command": ["/bin/sh", "-c", "echo bye && date; true"]}}, False),
        ({"sleep": {"seconds": 0}}, False),
        ({"exec": {"command": ["/bin/sh", "-c", "echo bye; sleep 10"]}}, True),
        ({"exec": {"command": ["/drain.sh"]}}, True),
        ({"exec": {"command": ["curl", "-X", "POST", "localhost:8000/drain"]}}, True),
    ],
)
def test_a_hook_that_only_says_something_does_not_wait(hook: Object, waits: bool) -> None:
    made = deployment(pod(engine(lifecycle={"preStop": hook})))
    assert len(found("drain", made)) == (0 if waits else 1)


def test_a_rollout_waits_for_all_the_gpus_of_a_pod() -> None:
    rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    four = engine(resources={"limits": {"nvidia.com/gpu": 4}}, args=["--model", "/m", "-tp", "4"])
    (finding,) = found("surge", deployment(pod(four), strategy=rolling))
    assert "without 4 free GPUs it never ends" in finding.message


def test_a_port_that_the_flag_moves_is_named_in_the_remedy() -> None:
    made = engine(args=["--model", "/m", "--port", "30000"], ports=[{"containerPort": 8000}])
    (finding,) = found("container-port", deployment(pod(made)))
    assert finding.remedy == "declare containerPort 30000, or set --port to 8000"


@pytest.mark.parametrize("limits", [{}, {"ephemeral-storage": "80Gi"}])
def test_a_download_into_the_pods_own_layer_has_a_limit(limits: Object) -> None:
    resources = {"limits": {"nvidia.com/gpu": 1, **limits}}
    made = deployment(pod(engine(args=["--model", "a/b"], resources=resources)))
    assert len(found("ephemeral-limit", made)) == (0 if limits else 1)


@pytest.mark.parametrize(("label", "count"), [({"app": "llama"}, 1), ({"app": "picker"}, 0)])
def test_a_pool_does_not_select_its_own_picker(label: dict[str, str], count: int) -> None:
    picker = {"name": "epp", "image": f"x/epp@{DIGEST}", "ports": [{"containerPort": 9002}]}
    other = deployment(pod(picker))
    other["metadata"]["name"] = "picker"
    other["spec"]["template"]["metadata"]["labels"] = label
    pool = named(
        "inference.networking.k8s.io/v1", "InferencePool",
        spec={"selector": {"matchLabels": LABELS}, "targetPorts": [{"number": 8000}]},
    )  # fmt: skip
    findings = found("pool-selector", deployment(pod()), other, pool)
    assert len(findings) == count
    assert all("selects Deployment picker too" in finding.message for finding in findings)


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "٣", "3x"])
def test_numbers_of_any_length_are_only_text(digits: str) -> None:
    image = f"vllm/vllm-openai:v{digits}.{digits}.0-cuda{digits}"
    args = ["--model", "/m", f"--tensor-parallel-size={digits}", f"--shutdown-timeout={digits}"]
    env = [{"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": digits}]
    container = engine(
        image=image, args=args, env=env, ports=[{"name": "http", "containerPort": digits}],
        resources={"limits": {"nvidia.com/gpu": digits, "memory": f"{digits}Gi"}},
    )  # fmt: skip
    ingress = [{"ports": [{"port": "http"}, {"port": digits}]}]
    policy = named("networking.k8s.io/v1", "NetworkPolicy",
                   spec={"podSelector": {}, "ingress": ingress})  # fmt: skip
    least = {"minAvailable": f"{digits}%", "selector": {"matchLabels": LABELS}}
    budget = named("policy/v1", "PodDisruptionBudget", spec=least)
    key = "alb.ingress.kubernetes.io/load-balancer-attributes"
    web = named("networking.k8s.io/v1", "Ingress", spec={"ingressClassName": "alb"})
    web["metadata"]["annotations"] = {key: f"idle_timeout.timeout_seconds={digits}"}
    made = deployment(pod(container), replicas=digits)
    assert said(made, policy, budget, web) != []


def test_kserve_brings_shared_memory_itself() -> None:
    args = ["--tensor-parallel-size=4", "--max-num-seqs=8", "--enable-prefix-caching"]
    main = {"name": "main", "args": args, "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    made = named(
        "serving.kserve.io/v1alpha1", "LLMInferenceService",
        spec={"template": {"containers": [main]}},
    )  # fmt: skip
    assert found("shared-memory", made) == []
    two = {**main, "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    made["spec"]["template"]["containers"] = [two]
    assert "wants 4 GPUs" in found("world-size", made)[0].message


def behind_gateway(*peers: Object, port: int = 8000) -> list[Finding]:
    """What is said of an engine behind a Gateway in another namespace."""
    pool = named(
        "inference.networking.k8s.io/v1", "InferencePool",
        spec={"selector": {"matchLabels": LABELS}, "targetPorts": [{"number": 8000}]},
    )  # fmt: skip
    rules = [{"matches": [], "backendRefs": [{"kind": "InferencePool", "name": "llama"}]}]
    parents = [{"name": "gateway", "namespace": "gateways"}]
    route = named("gateway.networking.k8s.io/v1", "HTTPRoute",
                  spec={"parentRefs": parents, "rules": rules})  # fmt: skip
    ingress = [{"from": list(peers), "ports": [{"port": port}]}]
    policy = named(
        "networking.k8s.io/v1", "NetworkPolicy",
        spec={"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress},
    )  # fmt: skip
    return found("network-serving", deployment(pod()), pool, route, policy)


def _space(**labels: str) -> Object:
    return {"namespaceSelector": {"matchLabels": labels}}


@pytest.mark.parametrize(
    ("peer", "count"),
    [
        (_space(**{"kubernetes.io/metadata.name": "gateways"}), 0),
        (_space(**{"kubernetes.io/metadata.name": "nobody"}), 1),
        (_space(role="gateway"), 0),  # a label of a namespace that is not here
        ({"podSelector": {}}, 1),
        ({"namespaceSelector": {}}, 0),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, 0),
    ],
)
def test_the_gateways_namespace_may_reach_what_it_asks(peer: Object, count: int) -> None:
    findings = behind_gateway(peer)
    assert len(findings) == count
    assert all("by the Gateway in namespace gateways" in f.message for f in findings)


@pytest.mark.parametrize(("mode", "count"), [("ReadWriteOnce", 1), ("ReadWriteMany", 0)])
def test_two_deployments_do_not_hold_one_volume_of_a_node(mode: str, count: int) -> None:
    claim = named("v1", "PersistentVolumeClaim", spec={"accessModes": [mode]})
    claim["metadata"]["name"] = "weights"
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}]
    mounted = pod(engine(volumeMounts=[{"name": "w", "mountPath": "/models"}]), volumes=volumes)
    one, two = deployment(mounted), deployment(mounted)
    two["metadata"]["name"] = "other"
    filler = job({**mounted, "containers": mounted["containers"]})
    findings = found("claim-shared", one, filler, two, claim)
    assert [f.object for f in findings] == ["Deployment team-a/other"] * count


@pytest.mark.parametrize(
    ("least", "replicas", "count"), [("50%", 1, 1), ("50%", 2, 0), ("90%", 4, 1), ("75%", 4, 0)]
)
def test_a_share_of_pods_may_be_all_of_them(least: str, replicas: int, count: int) -> None:
    budget = named("policy/v1", "PodDisruptionBudget",
                   spec={"minAvailable": least, "selector": {"matchLabels": LABELS}})  # fmt: skip
    made = deployment(pod(), replicas=replicas)
    assert len(found("disruption-budget", made, budget)) == count


@pytest.mark.parametrize(
    ("key", "value", "count"),
    [
        ("OPENAI_API_KEY", "s3cr3t-and-more", 1),
        ("DB_PASSWORD", "hunter2", 1),
        ("DB_PASSWORD", "", 0),
        ("DB_PASSWORD", "<password>", 0),
        ("MAX_TOKENS", "4096", 0),
        ("password-policy.txt", "at least eight letters", 0),
    ],
)
def test_a_config_map_is_no_place_for_a_secret(key: str, value: str, count: int) -> None:
    assert len(found("plain-secret", named("v1", "ConfigMap", data={key: value}))) == count


@pytest.mark.parametrize(
    ("path", "header", "count"),
    [("v1/models", "", 1), ("health", "", 0), ("v1/models", "-H 'Authorization: Bearer x' ", 0)],
)
def test_a_probe_by_a_command_needs_the_key_too(path: str, header: str, count: int) -> None:
    ask = {"exec": {"command": ["sh", "-c", f"curl -f {header}http://localhost:8000/{path}"]}}
    container = engine(
        args=["--model", "/m", "--api-key", "$(KEY)"], readinessProbe={**ask, "timeoutSeconds": 5}
    )
    findings = found("readiness-probe", deployment(pod(container)))
    assert len(findings) == count


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("hf://a/b", "serves a/b without a revision"),
        ("hf://a/b:main", "serves a branch of a/b: main"),
        (f"hf://a/b:{COMMIT}", ""),
        ("pvc://weights/b", ""),
    ],
)
def test_kserve_fetches_a_pinned_revision(uri: str, message: str) -> None:
    llm = named("serving.kserve.io/v1alpha1", "LLMInferenceService", spec={"model": {"uri": uri}})
    model = {"modelFormat": {"name": "huggingface"}, "storageUri": uri}
    old = named("serving.kserve.io/v1beta1", "InferenceService",
                spec={"predictor": {"model": model}})  # fmt: skip
    for made in (llm, old):
        findings = found("model-revision", made)
        assert [message in f.message for f in findings] == ([True] if message else [])


@pytest.mark.parametrize(
    ("kind", "count"), [("Deployment", 1), ("RayCluster", 1), ("Job", 0)]
)  # fmt: skip
def test_whatever_holds_a_gpu_limits_its_shared_memory(kind: str, count: int) -> None:
    held = {"name": "worker", "image": f"example.com/ray@{DIGEST}", "resources": GPU, **SHM}
    spec = {"template": {"spec": {"containers": [held], "volumes": UNBOUND}}}
    api = {"Deployment": "apps/v1", "Job": "batch/v1"}.get(kind, "ray.io/v1")
    assert len(found("shared-memory", named(api, kind, spec=spec))) == count


def test_a_simulator_reads_no_variable_of_services() -> None:
    made = deployment(
        pod(engine(image=f"ghcr.io/llm-d/llm-d-inference-sim@{DIGEST}"), enableServiceLinks=None)
    )
    (finding,) = found("service-links", made)
    assert "every Service of its namespace sets variables in it" in finding.message


def test_an_engine_on_cpus_limits_its_shared_memory() -> None:
    held = engine(image=f"vllm/vllm-openai-cpu@{DIGEST}", resources=None, **SHM)
    (finding,) = found("shared-memory", deployment(pod(held, volumes=UNBOUND)))
    assert "has /dev/shm without sizeLimit" in finding.message
    plenty = engine(image=f"vllm/vllm-openai-cpu@{DIGEST}", args=["/m", "-tp", "2"], resources=None)
    assert found("shared-memory", deployment(pod(plenty))) == []


def test_a_mocker_loads_nothing_and_needs_no_gpu() -> None:
    bare = {"startupProbe": None, "resources": None, "args": None}
    made = deployment(pod(engine(image=f"example.com/dynamo-mocker-vllm@{DIGEST}", **bare)))
    assert said(made, rules=PROBES | {"gpu-limits", "service-links"}) == []


def test_a_service_called_sglang_stops_sglang() -> None:
    made = deployment(
        pod(engine(image=f"lmsysorg/sglang@{DIGEST}", args=["--model-path", "/m"]),
            enableServiceLinks=None)
    )  # fmt: skip
    other = service({"app": "llama"}, 8000)
    other["metadata"]["name"] = "sglang"
    (finding,) = found("service-links", made, other)
    assert finding.severity == "error"
    assert "Service sglang sets SGLANG_PORT=tcp://…, which stops it" in finding.message


# --- KServe --------------------------------------------------------------------


def llm(uri: str = "pvc://weights/b", **spec: Any) -> Object:
    return named("serving.kserve.io/v1alpha1", "LLMInferenceService",
                 spec={"model": {"uri": uri, "name": "b"}, **spec})  # fmt: skip


MAIN = {"containers": [{"name": "main", "resources": GPU}]}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"template": MAIN}, ["spec.template.enableServiceLinks"]),
        ({"template": {**MAIN, "enableServiceLinks": False}}, []),
        ({"template": {**MAIN, "enableServiceLinks": False}, "worker": MAIN},
         ["spec.worker.enableServiceLinks"]),
        ({"prefill": {"template": MAIN}}, ["spec.prefill.template.enableServiceLinks"]),
        ({"template": MAIN, "baseRefs": [{"name": "ours"}]}, []),
        ({"template": {"containers": [{"name": "main", "image": f"example.com/own@{DIGEST}"}]}},
         []),
        ({"template": {"containers": [{"name": "proxy", "resources": GPU}]}}, []),
    ],
)  # fmt: skip
def test_kserve_leaves_service_links_as_they_are(spec: Object, fields: list[str]) -> None:
    findings = found("service-links", llm(**spec))
    assert [finding.field for finding in findings] == fields
    other = service({"app": "llama"}, 8000)
    other["metadata"]["name"] = "vllm"
    for finding in found("service-links", llm(**spec), other):
        assert finding.severity == "error" and "Service vllm sets VLLM_PORT" in finding.message


def _cache(uri: str) -> Object:
    return named("serving.kserve.io/v1alpha1", "LocalModelCache", spec={"sourceModelUri": uri})


@pytest.mark.parametrize(
    ("objects", "count"),
    [
        ([llm("hf://a/b")], 1),
        ([llm(f"hf://a/b:{COMMIT}")], 1),
        ([llm("pvc://weights/b")], 0),
        ([llm("oci://registry.example.com/b:1")], 0),
        ([llm("hf://a/b"), _cache("hf://a/b")], 0),
        ([llm("hf://a/b"), _cache("hf://a/other")], 1),
        ([llm("hf://a/b", storageInitializer={"enabled": False})], 0),
        ([llm("hf://a/b", template={
            "containers": [{"name": "main", "volumeMounts": [
                {"name": "w", "mountPath": "/mnt/models"}]}],
            "volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "w"}}]})], 0),
        ([llm("hf://a/b", template={
            "containers": [{"name": "main", "volumeMounts": [
                {"name": "w", "mountPath": "/models"}]}],
            "volumes": [{"name": "w", "emptyDir": {}}]})], 1),
        ([named("serving.kserve.io/v1beta1", "InferenceService", spec={"predictor": {"model": {
            "modelFormat": {"name": "huggingface"}, "storageUri": "hf://a/b"}}})], 1),
    ],
)  # fmt: skip
def test_kserve_downloads_into_every_pod_what_no_cache_holds(
    objects: list[Object], count: int
) -> None:
    findings = found("weights-download", *objects)
    assert ["downloads a/b" in f.message or "download a/b" in f.message for f in findings] == (
        [True] * count
    )


@pytest.mark.parametrize(
    "container",
    [
        {"image": f"vllm/vllm-openai:v0.26.0@{DIGEST}"},
        {"image": f"vllm/vllm-openai:v0.26.0@{DIGEST}", "args": ["--model", "/m"]},
        {"image": f"vllm/vllm-openai:v0.26.0@{DIGEST}", "command": ["bash", "-c", "./join.sh"]},
        {"image": f"kserve/huggingfaceserver:v0.16.0-gpu@{DIGEST}"},
    ],
)
def test_a_worker_of_kserve_answers_no_probe(container: Object) -> None:
    """It joins the Ray cluster of the head: kserve/kserve, config/runtimes/kserve-huggingface-
    server-multinode.yaml."""
    worker = {"name": "worker-container", "resources": GPU, **container}
    spec = {"predictor": {**pod(), "workerSpec": {"containers": [worker]}}}
    made = named("serving.kserve.io/v1beta1", "InferenceService", spec=spec)
    assert [f for f in said(made, rules=PROBES) if "workerSpec" in f.field] == []
    alone = deployment(pod(worker))
    if "huggingfaceserver" not in container["image"]:
        assert {f.rule for f in said(alone, rules=PROBES)} == PROBES


@pytest.mark.parametrize(
    ("container", "fires"),
    [
        ({"command": ["/run.sh"]}, False),
        ({}, False),
        ({"command": ["vllm", "serve", "/m"]}, True),
        ({"args": ["--model", "/m"]}, True),
        ({"command": ["vllm", "serve", "/m", "--headless"]}, False),
    ],
)
def test_a_worker_is_a_server_where_its_words_start_one(container: Object, fires: bool) -> None:
    worker = {"name": "rank", "image": f"vllm/vllm-openai:v0.26.0@{DIGEST}", "resources": GPU,
              "ports": [{"containerPort": 8000}], **container}  # fmt: skip
    findings = {f.rule for f in said(*group(worker), rules=PROBES)}
    assert findings == (PROBES if fires else set())
    if not container:
        asked = said(*group(worker, service({"app": "rank"}, 8000)), rules=PROBES)
        assert {f.rule for f in asked} == PROBES


# --- custom resources ----------------------------------------------------------


@pytest.mark.parametrize(
    ("rolling", "count"),
    [
        ({"maxSurge": "25%", "maxUnavailable": "25%"}, 1),
        ({"maxSurge": 0, "maxUnavailable": 1}, 0),
        ({"maxUnavailable": 1}, 0),
        ({}, 0),
    ],
)
def test_strategies_of_deployments_elsewhere(rolling: Object, count: int) -> None:
    spec = {"replicas": 1, "strategy": {"rollingUpdate": rolling},
            "template": {"spec": {"headGroupSpec": {"template": {"spec": pod()}}}}}  # fmt: skip
    made = named("orchestration.aibrix.ai/v1alpha1", "RayClusterFleet", spec=spec)
    assert len(found("surge", made)) == count


def roles(**pattern: Any) -> Object:
    rank = {"name": "engine", "image": "lmsysorg/sglang", "command": RANK, "resources": GPU}
    template = {"metadata": {"labels": {"app": "llama"}}, "spec": {"containers": [rank]}}
    role = {"name": "decode", "replicas": 2,
            "leaderWorkerPattern": {"size": 2, "template": template, **pattern}}  # fmt: skip
    return named("workloads.x-k8s.io/v1alpha2", "RoleBasedGroup", spec={"roles": [role]})


PATCH = {"metadata": {"labels": {"role": "rank"}}}


@pytest.mark.parametrize(
    "patches",
    [
        {"leaderTemplatePatch": PATCH, "workerTemplatePatch": PATCH},
        {"leaderTemplatePatch": PATCH},
        {"workerTemplatePatch": PATCH},
    ],
)
def test_a_template_with_patches_is_two_pods_and_not_three(patches: Object) -> None:
    made = found("network-policy", roles(**patches))
    home = "spec.roles[0].leaderWorkerPattern.template.spec"
    assert sorted((f.message.partition(" template")[0], f.field) for f in made) == [
        ("leader", home), ("worker", home),
    ]  # fmt: skip
    assert len(found("image-digest", roles(**patches))) == 1


def test_a_finding_stands_in_the_part_that_says_it() -> None:
    base = {"name": "base", "template": {"spec": {"containers": [
        {"name": "engine", "image": "vllm/vllm-openai:latest"}]}}}  # fmt: skip
    patch = {"spec": {"containers": [{"name": "engine", "args": ["--model", "/m"]}]}}
    entries = [
        {"name": name, "standalonePattern": {"templateRef": {"name": "base", "patch": patch}}}
        for name in ("prefill", "decode")
    ]
    made = named("workloads.x-k8s.io/v1alpha2", "RoleBasedGroup",
                 spec={"roleTemplates": [base], "roles": entries})  # fmt: skip
    (finding,) = found("image-digest", made)
    assert finding.field == "spec.roleTemplates[0].template.spec.containers[0].image"
    probes = {f.field for f in found("startup-probe", made)}
    assert probes == {
        f"spec.roles[{n}].standalonePattern.templateRef.patch.spec.containers[0].startupProbe"
        for n in (0, 1)
    }


def nim(**spec: Any) -> Object:
    image = {"repository": "nvcr.io/nim/meta/llama", "tag": f"1.12.0@{DIGEST}"}
    return named("apps.nvidia.com/v1alpha1", "NIMService", spec={"image": image, **spec})


def test_probes_of_a_nim_stand_one_level_down() -> None:
    probe = {"httpGet": {"path": "/v1/health/ready", "port": "api"}, "timeoutSeconds": 1}
    (finding,) = found("readiness-probe", nim(readinessProbe={"probe": probe}))
    assert "has a readinessProbe with timeoutSeconds 1" in finding.message
    assert found("readiness-probe", nim(readinessProbe={"enabled": True})) == []
    assert found("readiness-probe", nim()) == []


@pytest.mark.parametrize(("image", "count"), [(f"nim@{DIGEST}", 0), ("nvcr.io/nim/x:1.12.0", 1)])
def test_what_a_cache_downloads_with_has_a_digest(image: str, count: int) -> None:
    source = {"ngc": {"modelPuller": image}}
    made = named("apps.nvidia.com/v1alpha1", "NIMCache", spec={"source": source})
    findings = found("image-digest", made)
    assert [f.field for f in findings] == ["spec.source.ngc.modelPuller"] * count


# --- Dynamo ----------------------------------------------------------------------


def component(**container: Any) -> Object:
    given = {"name": "main", "image": f"nvcr.io/nvidia/ai-dynamo/vllm-runtime@{DIGEST}"}
    pods = {"spec": {"containers": [{**given, **container}]}}
    spec = {"components": [{"name": "a", "podTemplate": pods}]}
    return named("nvidia.com/v1beta1", "DynamoGraphDeployment", spec=spec)


WORKER = ["python3", "-m", "dynamo.vllm", "--model", "a/b", "--trust-remote-code"]


def test_a_component_without_a_command_is_its_operators() -> None:
    assert [f.rule for f in said(component())] == ["network-policy"]


def test_a_worker_of_dynamo_takes_its_engines_arguments() -> None:
    made = component(command=WORKER, resources=GPU)
    assert "runs code of a/b" in found("remote-code", made)[0].message
    assert "serves a/b" in found("model-revision", made)[0].message
    assert "downloads a/b" in found("weights-download", made)[0].message
    assert "VLLM_PORT" in found("service-links", made)[0].message
    mounted = component(command=WORKER, resources=GPU)
    mounted["spec"]["pvcs"] = [{"name": "weights"}]
    assert found("weights-download", mounted) == []
    four = component(command=[*WORKER, "-tp", "4"], resources=GPU)
    assert "wants 4 GPUs" in found("world-size", four)[0].message


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm", "frontend", "planner"])
def test_what_dynamo_starts_answers_no_http_of_an_engine(name: str) -> None:
    image = f"nvcr.io/nvidia/ai-dynamo/vllm-runtime@{DIGEST}"
    works = name in ("vllm", "sglang", "trtllm")
    bare = {"startupProbe": None, "readinessProbe": None, "livenessProbe": None, "lifecycle": None}
    started = {"command": ["python3", "-m", f"dynamo.{name}"], "args": None}
    made = deployment(pod(engine(image=image, resources=GPU if works else None, **started, **bare)))
    assert said(made, rules=PROBES | {"gpu-limits"}) == []


def graph(main: Object, **holder: Any) -> Object:
    given = {"image": f"nvcr.io/nvidia/ai-dynamo/vllm-runtime@{DIGEST}", "command": WORKER}
    services = {"decode": {"extraPodSpec": {"mainContainer": {**given, **main}}, **holder}}
    return named("nvidia.com/v1alpha1", "DynamoGraphDeployment", spec={"services": services})


HASTY = {"httpGet": {"path": "/live", "port": 9090}, "timeoutSeconds": 1}
PATIENT = {"httpGet": {"path": "/live", "port": 9090}, "timeoutSeconds": 5, "periodSeconds": 15,
           "failureThreshold": 6}  # fmt: skip


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (graph({}), []),  # the operator's own
        (graph({"livenessProbe": PATIENT}), []),
        (graph({"livenessProbe": {}}), []),
        (graph({}, livenessProbe=PATIENT), []),
        (graph({"livenessProbe": HASTY}),
         ["spec.services.decode.extraPodSpec.mainContainer.livenessProbe.timeoutSeconds",
          "spec.services.decode.extraPodSpec.mainContainer.livenessProbe"]),
        (graph({}, livenessProbe=HASTY),
         ["spec.services.decode.livenessProbe.timeoutSeconds",
          "spec.services.decode.livenessProbe"]),
        (component(command=WORKER, livenessProbe=HASTY),
         ["spec.components[0].podTemplate.spec.containers[0].livenessProbe.timeoutSeconds",
          "spec.components[0].podTemplate.spec.containers[0].livenessProbe"]),
        (graph({"command": ["python3", "-m", "dynamo.frontend"], "livenessProbe": HASTY}), []),
    ],
)  # fmt: skip
def test_a_probe_instead_of_dynamos_is_patient_too(made: Object, fields: list[str]) -> None:
    assert [finding.field for finding in found("liveness-probe", made)] == fields
    assert found("readiness-probe", made) == []


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (graph({}), 1),
        (component(command=WORKER, resources=GPU), 1),
        (graph({"resources": {"limits": {"ephemeral-storage": "80Gi"}}}), 0),
        (graph({}, resources={"limits": {"gpu": "1", "custom": {"ephemeral-storage": "80Gi"}}}), 0),
        (graph({}, resources={"limits": {"gpu": "1"}}), 1),
        (graph({}, pvcs=[{"name": "weights"}]), 0),
        (graph({"command": ["python3", "-m", "dynamo.frontend"]}), 0),
    ],
)
def test_what_dynamo_downloads_into_a_pod_has_a_limit(made: Object, count: int) -> None:
    findings = found("ephemeral-limit", made)
    assert ["downloads a/b to" in finding.message for finding in findings] == [True] * count


def test_main_containers_are_seen() -> None:
    main = {"image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1", "args": ["--model", "/m"]}
    services = {"decode": {"extraPodSpec": {"mainContainer": main}}}
    made = named("nvidia.com/v1alpha1", "DynamoGraphDeployment", spec={"services": services})
    (finding,) = found("image-digest", made)
    assert finding.field == "spec.services.decode.extraPodSpec.mainContainer.image"
    assert 'container "main"' in finding.message


# --- ranks, routers, nodes and ports that others write ---------------------------


def triton_group(worker: Object) -> Object:
    """A group whose programs are started by a script of their image."""
    image = f"team/triton_trtllm_multinode@{DIGEST}"
    leader = {
        "name": "triton", "image": image, "command": ["python3", "./server.py", "leader"],
        "ports": [{"containerPort": 8000}], "resources": GPU,
    }  # fmt: skip
    rank = {"name": "worker", "image": image, "command": ["python3", "./server.py", "worker"]}
    template = {
        "size": 2,
        "leaderTemplate": {"metadata": {"labels": LABELS}, "spec": pod(leader)},
        "workerTemplate": {"spec": pod({**rank, "resources": GPU, **worker})},
    }
    spec = {"leaderWorkerTemplate": template}
    return named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec=spec)


def test_a_rank_that_opens_no_port_answers_no_probe() -> None:
    findings = said(triton_group({}), rules=PROBES | {"drain"})
    assert {"leaderTemplate" in f.field for f in findings} == {True}
    assert {f.rule for f in findings} == {*PROBES, "drain"}


def test_a_worker_that_a_service_leads_to_serves() -> None:
    group = triton_group({"ports": [{"containerPort": 8000}]})
    service = named("v1", "Service", spec={"selector": LABELS, "ports": [{"port": 8000}]})
    template = group["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    for labels, led in ({}, False), (LABELS, True):
        template["metadata"] = {"labels": labels}
        findings = said(group, service, rules=PROBES)
        assert any("workerTemplate" in f.field for f in findings) is led


@pytest.mark.parametrize(
    "image", ["lmcache/lmstack-router:1", "vllm/vllm-router:0.1", "x/sgl-model-gateway:1"]
)
def test_a_route_to_a_router_leaves_time_too(image: str) -> None:
    router = deployment(pod({"name": "router", "image": image, "ports": [{"containerPort": 80}]}))
    router["metadata"]["name"] = "router"
    router["spec"]["template"]["metadata"]["labels"] = {"app": "router"}
    service = named("v1", "Service", spec={"selector": {"app": "router"}, "ports": [{"port": 80}]})
    service["metadata"]["name"] = "router"
    backend = {"backendRefs": [{"name": "router", "port": 80}]}
    route = named("gateway.networking.k8s.io/v1", "HTTPRoute", spec={"rules": [backend]})
    served = deployment(pod())
    (finding,) = found("route-timeout", route, service, router, served)
    assert "without timeouts.request" in finding.message
    assert found("route-timeout", route, service, router) == []  # of what, nobody can tell
    web = deployment(pod({"name": "web", "image": "team/web:1"}))
    web["spec"]["template"]["metadata"]["labels"] = {"app": "router"}
    assert found("route-timeout", route, service, web, served) == []


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"amiFamily": "AL2"}, 1),
        ({"amiFamily": "Custom"}, 0),
        ({"amiFamily": "AL2", "amiSelectorTerms": [{"id": "ami-1"}]}, 0),
        ({}, 0),
    ],
)
def test_a_family_without_an_image_takes_the_newest(spec: Object, count: int) -> None:
    made = named("karpenter.k8s.aws/v1beta1", "EC2NodeClass", spec=spec)
    assert len(found("node-image", made)) == count


def test_an_engine_that_runs_without_gpus_too_fills_the_disk_of_a_node_with_them() -> None:
    given: Object = {
        "name": "ollama", "image": f"ollama/ollama@{DIGEST}", "resources": GPU,
        "volumeMounts": [{"name": "data", "mountPath": "/root/.ollama"}],
    }  # fmt: skip
    made = deployment(pod(given, volumes=[{"name": "data", "emptyDir": {}}]))
    assert "at /root/.ollama without sizeLimit" in found("ephemeral-limit", made)[0].message
    without = deployment(
        pod({**given, "resources": None}, volumes=[{"name": "data", "emptyDir": {}}])
    )
    assert found("ephemeral-limit", without) == []


@pytest.mark.parametrize(
    ("port", "more", "count"),
    [
        (8080, [], 1), (8000, [], 0), (5600, [], 0), (9123, ["--kv-port", "9123"], 0),
    ],
)  # fmt: skip
def test_a_port_that_an_engine_neither_declares_nor_opens(
    port: int, more: list[str], count: int
) -> None:
    made = deployment(pod(engine(command=["vllm", "serve", "/m", *more], args=None, ports=None)))
    service = named("v1", "Service", spec={"selector": LABELS, "ports": [{"port": port}]})
    findings = found("service-port", made, service)
    assert len(findings) == count
    assert all("its pods serve on 8000" in f.message for f in findings)


# --- containers that stand under a name of their own --------------------------


def ome(**engine_: Any) -> Object:
    return named("ome.io/v1beta1", "InferenceService", spec={"engine": engine_})


def runner(*args: str, gpus: int = 8, **more: Any) -> Object:
    return {
        "name": "ome-container", "image": f"docker.io/lmsysorg/sglang:v0.5.5@{DIGEST}",
        "command": ["python3", "-m", "sglang.launch_server"], "args": ["--model-path", "/m", *args],
        "resources": {"limits": {"nvidia.com/gpu": gpus}}, **more,
    }  # fmt: skip


def test_a_runner_of_ome_is_a_container_of_its_parts_pod() -> None:
    made = ome(runner=runner("--tp", "8", gpus=4), volumes=UNBOUND)
    (finding,) = found("world-size", made)
    assert finding.field == "spec.engine.runner.args[2]"
    mounted = ome(runner=runner("--tp", "8", **SHM), volumes=UNBOUND)
    (finding,) = found("shared-memory", mounted)
    assert finding.field == "spec.engine.volumes[0].emptyDir"
    secret = ome(runner=runner(env=[{"name": "HF_TOKEN", "value": "hunter2hunter2"}]))
    assert [f.field for f in found("plain-secret", secret)] == ["spec.engine.runner.env[0].value"]
    assert found("startup-probe", made) == []  # its runtime may have one


@pytest.mark.parametrize(("tp", "findings"), [("16", 0), ("32", 1)])
def test_a_group_of_ome_is_a_leader_and_its_workers(tp: str, findings: int) -> None:
    rank = runner("--tp", tp, "--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)")
    made = ome(leader={"runner": rank}, worker={"size": 1, "runner": rank})
    rules = frozenset({"world-size", "group-size"})
    assert bool(said(made, rules=rules)) is bool(findings)


@pytest.mark.parametrize(
    "spec",
    [
        {"server": {"image": "example.com/x:1", "args": ["--port", "80"]}},
        {"parts": [{"worker": {"image": "example.com/x:1", "command": ["/run"]}}]},
        {"image": "example.com/x:1", "args": ["--port", "80"]},
    ],
)
def test_images_of_such_containers_want_a_digest(spec: Object) -> None:
    assert len(found("image-digest", named("example.com/v1", "Thing", spec=spec))) == 1


@pytest.mark.parametrize(
    "made",
    [
        named("example.com/v1", "Thing", spec={"image": "example.com/x:1"}),
        named("example.com/v1", "Thing", spec={"image": {"tag": "1"}, "args": ["a"]}),
        named("example.com/v1", "Thing", spec={"image": "example.com/x:1", "args": {"a": "b"}}),
        named("example.com/v1", "Thing", spec={"image": "example.com/x:1", "args": []}),
        named(
            "nvidia.com/v1",
            "ClusterPolicy",
            spec={
                "driver": {
                    "repository": "nvcr.io/nvidia",
                    "image": "driver",
                    "version": "580",
                    "args": ["a"],
                }
            },
        ),
        named("v1", "ConfigMap", data={"image": "example.com/x:1", "args": ["a"]}),
    ],
)
def test_what_only_names_an_image_is_no_container(made: Object) -> None:
    assert found("image-digest", made) == []


# --- images that others made ---------------------------------------------------

OTHERS = f"example.com/serving/my-vllm@{DIGEST}"
HUB_MODEL = ["--model", "meta/llama"]


def others(volume: Object | None = None, path: str = "/opt/weights", **changes: Any) -> Object:
    mounts = [{"name": "v", "mountPath": path}] if volume is not None else None
    container = engine(image=OTHERS, args=HUB_MODEL, volumeMounts=mounts, **changes)
    return deployment(pod(container, volumes=[{"name": "v", **(volume or {})}]))


CACHES = frozenset({"weights-download", "ephemeral-limit", "cache-mount"})


@pytest.mark.parametrize(
    ("made", "rules"),
    [
        (others(), {"weights-download", "ephemeral-limit"}),
        (others({"emptyDir": {}}), {"weights-download", "ephemeral-limit"}),
        (others({"ephemeral": {"volumeClaimTemplate": {}}}), {"weights-download"}),
        (others({"persistentVolumeClaim": {"claimName": "weights"}}), set[str]()),
        (others({"emptyDir": {"sizeLimit": "9Gi"}}), set[str]()),
        (others({"emptyDir": {"medium": "Memory"}}, "/dev/shm"),
         {"weights-download", "ephemeral-limit"}),
        (others({"persistentVolumeClaim": {"claimName": "weights"}},
                env=[{"name": "HF_HOME", "value": "/tmp/hf"}]),
         {"weights-download", "ephemeral-limit"}),
    ],
)  # fmt: skip
def test_only_who_made_an_image_knows_where_its_cache_is(made: Object, rules: set[str]) -> None:
    findings = said(made, rules=CACHES)
    assert {finding.rule for finding in findings} == rules
    assert not any("/root/.cache" in finding.message for finding in findings)


def test_an_image_that_others_made_may_serve_anywhere() -> None:
    health = {"httpGet": {"path": "/healthz", "port": 8080}, "timeoutSeconds": 5}
    container = engine(image=OTHERS, args=None, readinessProbe=health)
    assert said(deployment(pod(container)), rules=frozenset({"probe-port", "container-port"})) == []
    own = engine(image=ENGINE, args=None, readinessProbe=health)
    assert found("probe-port", deployment(pod(own)))


def test_a_service_of_one_pod_of_a_set_leads_to_its_engine() -> None:
    made = named("apps/v1", "StatefulSet", spec={
        "replicas": 2, "template": {"metadata": {"labels": {"app": "llama"}}, "spec": pod()},
    })  # fmt: skip
    first = {"app": "llama", "apps.kubernetes.io/pod-index": "0"}
    ports = [{"port": 80, "targetPort": 8000}]
    led = named("v1", "Service", spec={"type": "NodePort", "selector": first, "ports": ports})
    assert found("engine-exposed", made, led)
    led["spec"]["selector"] = {"app": "other", "apps.kubernetes.io/pod-index": "0"}
    assert found("engine-exposed", made, led) == []
    led["spec"]["selector"] = {"apps.kubernetes.io/pod-index": "0"}
    assert found("engine-exposed", made, led) == []


@pytest.mark.parametrize(
    ("image", "engine_name"),
    [
        ("public.ecr.aws/x/ray-2.41.0-vllm0.7.0", "vllm"), ("example.com/ollama-ubi9", "ollama"),
        ("example.com/lmdeploy-cu12", "lmdeploy"), ("example.com/ollama-webui", None),
        ("example.com/vllmish", None), ("example.com/ollama-model-puller", None),
    ],
)  # fmt: skip
def test_images_say_their_engine_with_a_version_or_a_system(
    image: str, engine_name: str | None
) -> None:
    made = deployment(pod(engine(image=f"{image}@{DIGEST}", args=None, startupProbe=None)))
    shown = [finding.message for finding in found("startup-probe", made)]
    assert [f'container "engine" ({engine_name})' in text for text in shown] == (
        [True] if engine_name else [False] * len(shown)
    )


def filled(volume: Object, *words: str, mounts: list[Object] | None = None) -> Object:
    """An engine whose weights an init container puts into a volume of the pod."""
    mounted = [{"name": "weights", "mountPath": "/models"}]
    fetch = {"name": "fetch", "image": f"example.com/tool@{DIGEST}", "args": list(words),
             "volumeMounts": [*mounted, *(mounts or [])]}  # fmt: skip
    volumes = [{"name": "weights", **volume},
               {"name": "store", "persistentVolumeClaim": {"claimName": "store"}}]  # fmt: skip
    spec = pod(engine(volumeMounts=mounted), initContainers=[fetch], volumes=volumes)
    return deployment(spec)


@pytest.mark.parametrize(
    ("made", "findings"),
    [
        (filled({"emptyDir": {}}, "download", "meta/llama"), 1),
        (filled({"emptyDir": {}}, "aws s3 cp s3://bucket/llama /models"), 1),
        (filled({"emptyDir": {"sizeLimit": "99Gi"}}, "download", "meta/llama"), 0),
        (filled({"persistentVolumeClaim": {"claimName": "w"}}, "download", "meta/llama"), 0),
        (filled({"emptyDir": {}}, "cp", "-r", "/weights", "/models"), 0),  # out of its image
        (filled({"emptyDir": {}}, "download", "meta/llama",
                mounts=[{"name": "store", "mountPath": "/store"}]), 0),
    ],
)  # fmt: skip
def test_weights_that_each_pod_fetches_anew(made: Object, findings: int) -> None:
    shown = [f.message for f in found("weights-download", made)]
    assert ['an empty volume "weights", into which init container "fetch" fetches' in text
            for text in shown] == [True] * findings  # fmt: skip
