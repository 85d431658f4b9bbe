"""What a container runs and reads out of ConfigMaps is judged as if it stood in its command."""

from __future__ import annotations

from typing import Any

import pytest

from policies import Context, Finding, check
from tests.policies.builders import DIGEST, Object, deployment, engine, leader, named, pod, worker

SERVE = "vllm serve /models/m --tensor-parallel-size 4"


def config_map(data: dict[str, Any], name: str = "files", namespace: str = "team-a") -> Object:
    made = named("v1", "ConfigMap", data=data)
    made["metadata"] = {"name": name, "namespace": namespace}
    return made


def mounted(command: list[str] | None, args: list[str] | None = None, **changes: Any) -> Object:
    """A pod whose one engine has the ConfigMap `files` at /scripts."""
    settings = {
        "volumeMounts": [{"name": "files", "mountPath": "/scripts"}], "command": command,
        "args": args, "image": f"example.com/own/vllm-openai@{DIGEST}", **changes,
    }  # fmt: skip
    volume = {"name": "files", "configMap": {"name": "files", "defaultMode": 0o555}}
    return pod(engine(**settings), volumes=[volume])


def found(rule: str, *objects: Object) -> list[Finding]:
    return [f for f in check(list(objects), Context()) if f.rule == rule]


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["bash", "/scripts/start.sh"], None),
        (["/bin/bash", "-x", "/scripts/start.sh"], None),
        (["sh", "-e"], ["/scripts/start.sh", "leader"]),
        (["/scripts/start.sh"], None),
        (["/scripts/start.sh"], ["a", "b"]),
        (None, ["/scripts/start.sh"]),
        (["tini", "--", "/scripts/start.sh"], None),
        (["tini", "--", "bash", "/scripts/start.sh"], None),
        (["sh", "-c", "/scripts/start.sh"], None),
        (["sh", "-c"], ["cd /x && exec /scripts/start.sh a b"]),
        (["bash", "-c"], ["set -e\nexport A=b\nexec bash -x /scripts/start.sh\n"]),
        (["bash", "-c", ". /scripts/start.sh"], None),
        (["bash", "-c", 'source "/scripts/start.sh"'], None),
        (["bash", "-c", "if true; then exec /scripts/start.sh; fi"], None),
    ],
)
@pytest.mark.parametrize("kind", [deployment, leader, worker])
def test_a_script_counts_as_the_command(
    command: list[str] | None, args: list[str] | None, kind: Any
) -> None:
    script = f"#!/bin/bash\nset -euo pipefail\nexec {SERVE} --port 8000\n"
    made = kind(mounted(command, args))
    (finding,) = found("world-size", made, config_map({"start.sh": script}))
    assert "wants 4 GPUs" in finding.message
    assert "(vllm in /scripts/start.sh)" in finding.message
    assert ".command" in finding.field or ".args" in finding.field
    # Nothing is guessed where the text is not in the set.
    for other in (
        config_map({"start.sh": script}, namespace="team-b"),
        config_map({"start.sh": script}, name="others"),
        config_map({"begin.sh": script}),
        config_map({"start.sh": "x" * 300_000 + script}),
    ):
        assert found("world-size", made, other) == []


@pytest.mark.parametrize(
    ("volume", "mount", "path"),
    [
        ({"configMap": {"name": "files"}}, {"mountPath": "/x/run.sh", "subPath": "start.sh"},
         "/x/run.sh"),
        ({"configMap": {"name": "files", "items": [{"key": "start.sh", "path": "bin/go"}]}},
         {"mountPath": "/x/"}, "/x/bin/go"),
        ({"projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "files"}}]}},
         {"mountPath": "/y"}, "/y/start.sh"),
    ],
)  # fmt: skip
def test_files_stand_where_they_are_mounted(volume: Object, mount: Object, path: str) -> None:
    spec = mounted(["bash", path], volumeMounts=[{"name": "v", **mount}])
    spec["volumes"] = [{"name": "v", **volume}]
    files = config_map({"start.sh": f"exec {SERVE}"})
    assert found("world-size", deployment(spec), files)
    spec["containers"][0]["command"] = ["bash", f"{path}.other"]
    assert found("world-size", deployment(spec), files) == []


def test_a_script_beside_the_working_folder() -> None:
    spec = mounted(["bash", "start.sh"], workingDir="/scripts")
    assert found("world-size", deployment(spec), config_map({"start.sh": f"exec {SERVE}"}))


def test_scripts_that_start_scripts() -> None:
    files = config_map(
        {
            "start.sh": "source /scripts/env.sh\nexec /scripts/serve.sh -tp 4 --port 9000",
            "env.sh": "export SIZE=4",
            "serve.sh": '#!/bin/sh\nexec vllm serve /models/m "$@"',
            "one.sh": ". /scripts/env.sh\nexec vllm serve /models/m -tp ${SIZE}",
            "loop.sh": "exec /scripts/loop.sh",
        }
    )
    for script in ("start.sh", "one.sh"):
        assert found("world-size", deployment(mounted([f"/scripts/{script}"])), files), script
    assert found("world-size", deployment(mounted(["/scripts/loop.sh"])), files) == []


@pytest.mark.parametrize(
    "text",
    [
        f"#!/usr/bin/env python3\nimport os\nos.system('{SERVE}')\n",
        f"import subprocess\n{SERVE}\n",
        "#!/bin/bash\npython /scripts/serve.py\n",
        f"#!/bin/bash\n# {SERVE}\nexec vllm serve /models/m\n",
        '#!/bin/bash\nexec vllm serve /models/m --tensor-parallel-size "$1"\n',
        "#!/bin/bash\nexec vllm serve /models/m --tensor-parallel-size ${TP:-$(nvidia-smi -L)}\n",
        f"#!/bin/bash\necho '{SERVE}'\nexec vllm serve /models/m\n",
        "", "#!", "\n\n", "'", '"', "$(", "${", "<<EOF", "if", "case x in", "\\", "&&", "a: b\n- c",
        "{" * 300, "(" * 300, "`" * 300, "#!/bin/bash\r\nexec vllm serve /models/m\r\n",
    ],
)  # fmt: skip
def test_scripts_that_tell_nothing_make_no_finding(text: str) -> None:
    for command in (["bash", "/scripts/start.sh"], ["sh", "-c", ". /scripts/start.sh; true"]):
        spec = deployment(mounted(command))
        assert found("world-size", spec, config_map({"start.sh": text})) == []


@pytest.mark.parametrize(
    "part", [";/a", "{/", "(/a ", "exec /", "sh -a ", "; ", "/", ". ", "'", "\\", "$(", "exec sh -"]
)
def test_long_scripts_of_any_kind_end(part: str) -> None:
    """No reader of them takes time that grows with the square of their length."""
    text = f"{part * (50_000 // len(part))}\nexec {SERVE}\n"
    for command in (["bash", "/scripts/start.sh"], ["sh", "-c", ". /scripts/start.sh"]):
        check([deployment(mounted(command)), config_map({"start.sh": text})], Context())


def test_scripts_that_start_themselves_and_each_other_end() -> None:
    many = ". /scripts/a.sh\nexec /scripts/b.sh\n" * 1500
    files = config_map({"a.sh": many, "b.sh": f"{many}exec {SERVE}\n", "c.sh": many})
    for script in ("a.sh", "b.sh", "c.sh"):
        check([deployment(mounted(["bash", f"/scripts/{script}"])), files], Context())


@pytest.mark.parametrize(
    "path", ["/scripts//start.sh", "/scripts/./start.sh", "/x/../scripts/start.sh"]
)
def test_paths_that_are_written_another_way(path: str) -> None:
    files = config_map({"start.sh": f"exec {SERVE}"})
    for command in (["bash", path], ["sh", "-c", f"exec {path}"], [path]):
        assert found("world-size", deployment(mounted(command)), files), command


def test_a_shell_that_reads_a_file_makes_no_way() -> None:
    """It does not know which command is the last, as it does of `bash -c`."""
    files = config_map({"start.sh": "#!/bin/bash\nset -e\nvllm serve /models/m\n"})
    (finding,) = found("shell-pid1", deployment(mounted(["/scripts/start.sh"])), files)
    assert (finding.severity, "without exec" in finding.message) == ("error", True)
    good = config_map({"start.sh": "#!/bin/bash\nset -e\nexec vllm serve /models/m\n"})
    assert found("shell-pid1", deployment(mounted(["/scripts/start.sh"])), good) == []


def test_scripts_of_two_containers_are_their_own() -> None:
    files = config_map({"a.sh": f"exec {SERVE}", "b.sh": "exec vllm serve /models/m"})
    spec = mounted(["bash", "/scripts/a.sh"])
    second = mounted(["bash", "/scripts/b.sh"])["containers"][0]
    spec["containers"].append({**second, "name": "second"})
    (finding,) = found("world-size", deployment(spec), files)
    assert finding.field.startswith("spec.template.spec.containers[0]")


def test_findings_point_at_what_is_written() -> None:
    spec = mounted(["bash", "-x", "/scripts/start.sh"], ["a"])
    text = "exec vllm serve /models/m --tensor-paralel-size 4"
    (finding,) = found("unknown-flag", deployment(spec), config_map({"start.sh": text}))
    assert finding.field == "spec.template.spec.containers[0].command[2]"


# --- files of options ----------------------------------------------------------


OPTIONS = "model: /models/m\ntensor-parallel-size: 4\n"
IMAGES = {
    "vllm": f"vllm/vllm-openai:v0.26.0@{DIGEST}",
    "sglang": f"lmsysorg/sglang:v0.5.10@{DIGEST}",
}


@pytest.mark.parametrize(
    ("engine_name", "command", "args"),
    [
        ("vllm", None, ["--config", "/scripts/options.yaml"]),
        ("vllm", None, ["--config=/scripts/options.yaml"]),
        ("vllm", ["vllm", "serve"], ["--config", "/scripts/options.yaml", "--port", "8000"]),
        ("vllm", ["sh", "-c"], ["exec vllm serve --config /scripts/options.yaml"]),
        ("vllm", ["bash", "/scripts/start.sh"], None),
        ("sglang", ["python3", "-m", "sglang.launch_server"],
         ["--config", "/scripts/sglang.yaml"]),
    ],
)  # fmt: skip
def test_options_of_a_file_count(
    engine_name: str, command: list[str] | None, args: list[str] | None
) -> None:
    spec = mounted(command, args, image=IMAGES[engine_name])
    files = config_map(
        {
            "options.yaml": OPTIONS,
            "sglang.yaml": "model-path: /models/m\ntp: 4\n",
            "start.sh": "exec vllm serve --config /scripts/options.yaml",
        }
    )
    (finding,) = found("world-size", deployment(spec), files)
    assert "wants 4 GPUs" in finding.message
    assert found("world-size", deployment(spec)) == [], "what nobody can read"


def of_options(text: str, *more: str) -> list[Finding]:
    spec = mounted(None, ["--config", "/scripts/options.yaml", *more], image=IMAGES["vllm"])
    return check([deployment(spec), config_map({"options.yaml": text})], Context())


def test_the_command_line_overrules_the_file() -> None:
    assert "world-size" not in {f.rule for f in of_options(OPTIONS, "-tp", "1")}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("tensor_parallel_size: 4\n", "world-size"),
        ("tensor-paralel-size: 1\n", "unknown-flag"),
        ("gpu-memory-utilization: 1.5\n", "flag-value"),
        ("model: a/b\ntrust-remote-code: true\n", "remote-code"),
        ("swap-space: 4\n", "unknown-flag"),  # it went
    ],
)
def test_faults_in_a_file_of_options(text: str, rule: str) -> None:
    assert rule in {f.rule for f in of_options(text)}


@pytest.mark.parametrize(
    "text",
    [
        "model: /models/m\ntrust-remote-code: false\nenable-prefix-caching: true\n",
        "served-model-name: [a, b]\nmax-model-len: 8192\n",
        "compilation-config: {level: 3}\nmodel: /models/m\n",
        "kv-transfer-config: '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'\n",
        "", "- a\n", "a: [", "\t", "&a [*a]", "x: !!python/object:os.system {}", "null", "3",
    ],
)  # fmt: skip
def test_files_of_options_that_are_right_or_unreadable(text: str) -> None:
    assert not {"world-size", "unknown-flag", "flag-value", "remote-code"} & {
        f.rule for f in of_options(text)
    }
