"""What a container starts, in every form people write it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenworks.catalog.commandline import (
    CommandLine,
    Unresolved,
    World,
    read,
    read_container,
    world,
)

GROUP = Unresolved("$(LWS_GROUP_SIZE)", ("LWS_GROUP_SIZE",))


def shell(script: str, **env: str | None) -> CommandLine:
    return read(["sh", "-c"], [script], env)


# --- one command, many forms ---------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        read(["vllm", "serve", "meta/llama"], ["-tp", "8"]),
        read(["vllm"], ["serve", "meta/llama", "--tensor-parallel-size=8"]),
        read([], ["meta/llama", "-tp=8"], image="vllm/vllm-openai:v0.26.0"),
        read([], ["--model", "meta/llama", "-tp", "8"],
             image="docker.io/vllm/vllm-openai@sha256:0"),
        read(["vllm", "serve", "--model=meta/llama", "-tp", "$(TP)"], env={"TP": "8"}),
        read(["python3", "-m", "vllm.entrypoints.openai.api_server"],
             ["--model=meta/llama", "--tensor_parallel_size", "8"]),
        read(["/usr/bin/python3.12", "-u", "-X", "dev", "-m", "vllm.entrypoints.openai.api_server"],
             ["--model", "meta/llama", "-tp", "8"]),
        read(["env", "A=b", "vllm", "serve", "meta/llama", "-tp", "8"]),
        read(["/usr/bin/tini", "--", "vllm", "serve", "meta/llama", "-tp", "8"]),
        read(["opentelemetry-instrument", "--traces_exporter", "otlp", "vllm", "serve",
              "meta/llama", "-tp", "8"]),
        read(["/wait-for-it.sh", "redis:6379", "-t", "0", "--"],
             ["vllm", "serve", "meta/llama", "-tp", "8"]),
        read(["python3", "-u", "/usr/local/bin/vllm", "serve", "meta/llama", "-tp", "8"]),
        read(["python3", "/app/vllm/entrypoints/openai/api_server.py", "--model", "meta/llama",
              "-tp", "8"]),
        read(["accelerate", "launch", "-m", "vllm.entrypoints.openai.api_server", "--model",
              "meta/llama", "-tp", "8"]),
        read(["python3", "-m", "vllm.entrypoints.cli.main", "serve", "meta/llama", "-tp", "8"]),
        read(["env", "-S", "vllm serve meta/llama -tp 8"]),
        shell("ARGS=(meta/llama)\nARGS+=(--tensor-parallel-size 8)\nvllm serve \"${ARGS[@]}\""),
        shell("ARGS=(\n  meta/llama # weights\n  -tp 8\n)\nvllm serve ${ARGS[*]}"),
        shell("set -- meta/llama -tp 8; vllm serve \"$@\""),
        shell("A='meta/llama'; A+=' -tp 8'; vllm serve $A"),
        shell("exec vllm serve meta/llama -tp 8"),
        shell("vllm serve meta/llama \\\n  --tensor-parallel-size \\\n  8 2>&1 | tee /log"),
        shell("set -e\nexport TP=8\nnohup vllm serve 'meta/llama' -tp \"$TP\" &\nwait"),
        shell("sleep 5 && TP=8 && exec vllm serve meta/llama -tp ${TP}"),
        shell("vllm serve $MODEL -tp ${TP:-8}", MODEL="meta/llama"),
        shell("vllm serve meta/llama -tp $((GPUS * 2))", GPUS="4"),
        shell("vllm serve meta/llama $ARGS", ARGS="--tensor-parallel-size 8"),
        shell("A=b bash -lc 'exec vllm serve meta/llama -tp 8'"),
        shell("if true; then exec vllm serve meta/llama -tp 8; fi"),
    ],
    ids=lambda line: " ".join(line.words),
)  # fmt: skip
def test_one_command_in_many_forms(line: CommandLine) -> None:
    assert (line.engine, line.form, line.model) == ("vllm", "server", "meta/llama")
    assert line.value("tensor-parallel-size") == 8
    assert line.unknown == ()


@pytest.mark.parametrize(
    ("line", "engine", "form", "model"),
    [
        (read(["python3", "-m", "sglang.launch_server", "--model-path", "m"]),
         "sglang", "server", "m"),
        (read(["sglang", "serve", "--model", "m"]), "sglang", "server", "m"),
        (read(["trtllm-serve", "m", "--tp_size", "2"]), "trtllm", "server", "m"),
        (read(["trtllm-serve", "serve", "m"]), "trtllm", "server", "m"),
        (read(["trtllm-llmapi-launch", "trtllm-serve", "m"]), "trtllm", "server", "m"),
        (read(["mpirun", "-n", "2", "--allow-run-as-root", "trtllm-llmapi-launch",
               "trtllm-serve", "m"]),
         "trtllm", "server", "m"),
        (read(["trtllm-serve", "disaggregated", "-c", "f.yml"]), None, "other", None),
        (read(["trtllm-llmapi-launch"]), None, "launcher", None),
        (read([], ["-m", "/m.gguf"], image="ghcr.io/ggml-org/llama.cpp:server-b11206"),
         "llamacpp", "server", "/m.gguf"),
        (read(["/app/llama-server"], env={"LLAMA_ARG_MODEL": "/m.gguf"}),
         "llamacpp", "server", "/m.gguf"),
        (read(image="ollama/ollama:0.40.0"), "ollama", "server", None),
        (read(["ollama", "serve"]), "ollama", "server", None),
        (read([], ["pull", "llama3"], image="ollama/ollama:0.40.0"), None, "other", None),
        (read(["mpirun", "-n", "1", "tritonserver", "--model-repository=/m"]),
         "triton", "server", "/m"),
        (read([], ["--model", "m"], image="ghcr.io/llm-d/llm-d-inference-sim:v0.10.2"),
         "llmd-sim", "server", "m"),
        (read([], ["--port", "1"], image="ghcr.io/tokenworks/simulator:0.1.0"),
         "simulator", "server", None),
        (read(["python3", "-m", "simulator", "--as", "vllm", "--"], ["m", "-tp", "2"]),
         "vllm", "server", "m"),
        (read(["python3", "-m", "simulator"], ["--as", "vllm", "--", "m", "--headless"]),
         "vllm", "member", "m"),
        (read(["--as"], ["sglang", "--", "--model-path", "m"],
              image="ghcr.io/tokenworks/simulator:0.1.0"), None, "other", None),
        (read([], ["--as", "sglang", "--", "--model-path", "m"],
              image="ghcr.io/tokenworks/simulator:0.1.0"), "sglang", "server", "m"),
        (shell("exec python3 -m simulator --as llamacpp -- -m /m.gguf"),
         "llamacpp", "server", "/m.gguf"),
        (read(["python3", "-m", "simulator", "--as", "ollama"]), "ollama", "server", None),
        (read(["python3", "-m", "simulator", "--as", "ray", "--"], ["start", "--head"]),
         None, "ray-head", None),
        (shell("ray start --head --port=6379 && vllm serve m"), "vllm", "server", "m"),
        (shell("ray start --address=$LWS_LEADER_ADDRESS:6379 --block"), None, "ray-worker", None),
        (shell("ray start --head --block"), None, "ray-head", None),
        (shell("bash /examples/multi-node-serving.sh worker --ray_address=$LWS_LEADER_ADDRESS"),
         None, "ray-worker", None),
        (shell("bash /examples/multi-node-serving.sh leader; vllm serve m"), "vllm", "server", "m"),
        (shell("vllm serve m --headless"), "vllm", "member", "m"),
        (shell("vllm serve m --no-headless"), "vllm", "server", "m"),
        (read(["python3", "-m", "sglang.launch_server", "--model-path=m", "--node-rank", "1"]),
         "sglang", "member", "m"),
        (read(["python3", "-m", "sglang.launch_server", "--model-path=m", "--node-rank", "0"]),
         "sglang", "server", "m"),
        (read(["torchrun", "--nproc-per-node", "2", "-m", "x"]), None, "other", None),
        (read(["echo", "vllm", "serve", "m"]), None, "other", None),
        (read(["vllm", "bench", "serve", "--model", "m"]), None, "other", None),
        (read(["sleep", "infinity"], image="vllm/vllm-openai:v0.26.0"), None, "other", None),
        (read(), None, "none", None),
        (read(["sh", "-c", ""]), None, "none", None),
    ],
    ids=lambda value: " ".join(value.words) if isinstance(value, CommandLine) else str(value),
)  # fmt: skip
def test_programs(line: CommandLine, engine: str | None, form: str, model: str | None) -> None:
    assert (line.engine, line.form, line.model) == (engine, form, model)


@pytest.mark.parametrize(
    "words",
    [
        ["kubectl", "exec", "pod", "--", "vllm", "serve", "m"],
        ["echo", "--", "vllm", "serve", "m"],
        ["python3", "/app/start.py", "vllm", "serve", "m"],
        ["python3", "/app/simulator.py"],
        ["python3", "/app/api_server.py"],
    ],
)
def test_words_of_other_programs_start_no_engine(words: list[str]) -> None:
    assert read(words).engine is None


@pytest.mark.parametrize(
    "script",
    [
        'if true; then ARGS=(-tp 8); fi\nvllm serve m "${ARGS[@]}"',
        "ARGS+=($MORE)\nvllm serve m ${ARGS[@]}",
        'vllm serve m "${ARGS[@]:1}"',
        'if true; then set -- -tp 8; fi\nvllm serve m "$@" x',
    ],
)
def test_words_that_are_not_known_may_be_flags(script: str) -> None:
    line = read(["bash", "-c", script])
    assert (line.model, line.value("tensor-parallel-size")) == ("m", None)
    assert any("may hold more flags" in note for note in line.notes)


@pytest.mark.parametrize(
    "switch", ["--prefill-round-robin-balance", "--disable-piecewise-cuda-graph"]
)
def test_a_switch_that_went_takes_no_word_away(switch: str) -> None:
    line = read(["python3", "-m", "sglang.launch_server", "--model-path", "m", switch, "--tp", "8"])
    assert line.value("tensor-parallel-size" if "tp-size" not in line.flags else "tp-size") == 8


def test_a_script_starts_what_it_was_given() -> None:
    script = 'ray start --head && exec "$@"'
    line = read(["sh", "-c", script, "--", "vllm", "serve"], ["m", "-tp=8"])
    assert (line.engine, line.model, line.script) == ("vllm", "m", script)
    assert line.value("tensor-parallel-size") == 8
    assert read(["sh", "-c", 'exec "$@"']).engine is None


def test_positions_count_every_word() -> None:
    line = shell("cd /tmp && exec vllm serve m --port 1")
    flag = line.flags["port"]
    assert flag.position is not None and line.words[flag.position] == "--port"
    line = read(["vllm", "serve", "m"], ["--prot", "1"])
    assert line.words[line.unknown[0].position] == "--prot"
    assert line.unknown[0].near[0] == "port"


def test_variables_that_set_options_and_flags_that_win() -> None:
    env = {"LLAMA_ARG_CTX_SIZE": "4096", "LLAMA_ARG_PORT": "1", "LLAMA_API_KEY": None,
           "LLAMA_ARG_KV_OFFLOAD": "0"}  # fmt: skip
    line = read(["llama-server", "--port", "2"], env=env)
    assert line.value("ctx-size") == 4096 and line.flags["ctx-size"].position is None
    assert line.value("port") == 2 and line.value("kv-offload") is False
    assert line.value("api-key") == Unresolved("$LLAMA_API_KEY", ("LLAMA_API_KEY",))
    ollama = read(["ollama", "serve"], env={"OLLAMA_NUM_PARALLEL": "4", "OLLAMA_NO_CLOUD": "1"})
    assert ollama.value("num-parallel") == 4 and ollama.value("no-cloud") is True


def test_variables_of_the_program_are_those_of_the_container_and_its_own() -> None:
    line = shell("VLLM_X=1 exec env VLLM_Y=$Z vllm serve m", VLLM_Z="3")
    assert line.env == {"VLLM_Z": "3", "VLLM_X": "1", "VLLM_Y": None}


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (read(["vllm", "serve", "m", "--config", "/c.yaml"]), "more options are in /c.yaml"),
        (read(["vllm", "serve", "m", "--port", "$PORT"]), "only a shell expands it"),
        (shell("vllm serve m $EXTRA"), "$EXTRA may hold more flags"),
        (read(["vllm", "serve", "m", "n"]), "n belongs to no flag"),
    ],
)
def test_remarks(line: CommandLine, note: str) -> None:
    assert any(note in text for text in line.notes)


def test_a_container_as_kubernetes_writes_it() -> None:
    container = {
        "image": "vllm/vllm-openai:v0.26.0",
        "args": ["$(MODEL)", "--port", "$(PORT)", "--api-key", "$(KEY)"],
        "env": [{"name": "MODEL", "value": "m"}, {"name": "PORT", "value": 8000},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {}}}, "odd", {"value": "x"}],
    }  # fmt: skip
    line = read_container(container)
    assert (line.engine, line.model, line.value("port")) == ("vllm", "m", 8000)
    assert line.value("api-key") == [Unresolved("$(KEY)", ("KEY",))]
    assert read_container({"command": "vllm serve", "args": None, "env": {}}).form == "none"


def test_a_default_is_not_taken_where_other_variables_may_be() -> None:
    container = {"command": ["sh", "-c", "vllm serve m -tp ${TP:-8}"], "envFrom": [{}]}
    assert read_container(container).value("tensor-parallel-size") == Unresolved(
        "${TP:-8}", ("TP",)
    )


# --- sizes ---------------------------------------------------------------------


def sizes(script: str, engine: str = "vllm serve m ", **env: str | None) -> World:
    found = world(shell(engine + script, **env))
    assert found is not None
    return found


SGLANG = "python3 -m sglang.launch_server --model-path m "
TRTLLM = "trtllm-serve m "


@pytest.mark.parametrize(
    ("engine", "flags", "ranks", "per_pod"),
    [
        ("vllm serve m ", "", 1, 1),
        ("vllm serve m ", "-tp 8", 8, 8),
        ("vllm serve m ", "-tp 4 -pp 2", 8, 8),
        ("vllm serve m ", "-tp 2 -dp 4", 8, 8),
        ("vllm serve m ", "-tp 2 -dp 8 -dpl 4", 16, 8),
        ("vllm serve m ", "-dp 16 -dpl 8 -dpr 8 --headless", 16, 8),
        ("vllm serve m ", "-tp 2 -dp 8 --data-parallel-rank 3", 16, 2),
        ("vllm serve m ", "-tp 8 -pp 2 -n 2", 16, 8),
        ("vllm serve m ", "-tp 8 -pp 2 --nnodes $(LWS_GROUP_SIZE)", 16, GROUP),
        ("vllm serve m ", "-tp 8 -pp $(LWS_GROUP_SIZE) --nnodes $(LWS_GROUP_SIZE)", GROUP, 8),
        ("vllm serve m ", "-tp 8 -pp 2 --distributed-executor-backend ray", 16, None),
        ("vllm serve m ", "-tp 4 --prefill-context-parallel-size 2", 8, 8),
        (SGLANG, "--tp 16 --nnodes 2 --node-rank 0", 16, 8),
        (SGLANG, "--tp-size 8 --dp-size 2", 16, 16),
        (SGLANG, "--tp-size 8 --dp-size 8 --enable-dp-attention", 8, 8),
        (TRTLLM, "--tp_size 4 --pp_size 2", 8, 8),
        ("mpirun -n 8 " + TRTLLM, "--tp_size 8", 8, None),
    ],
)
def test_gpus(engine: str, flags: str, ranks: object, per_pod: object) -> None:
    found = sizes(flags, engine)
    assert (found.ranks, found.ranks_per_pod) == (ranks, per_pod)


def test_sizes_by_name() -> None:
    found = sizes("-tp 2 -pp 1 -dp 8 -dpl 4 --enable-expert-parallel")
    assert found == World(2, 1, 1, 8, 4, 1, 16, False, False)
    assert sizes("--tp 16 --ep-size 16 --nnodes 2", SGLANG).ep == 16
    assert sizes("--no-enable-expert-parallel -dp 4").ep == 1
    assert sizes("-dp 4 -tp 4 --nnodes 2").dp_local == 2


def test_a_size_that_is_no_number_is_not_guessed() -> None:
    assert isinstance(sizes("-tp eight").tp, Unresolved)
    assert isinstance(sizes("-tp $TP -pp 2").ranks, Unresolved)
    assert isinstance(sizes("-tp $TP", TP=None).ranks_per_pod, Unresolved)


def test_engines_without_ranks_have_no_world() -> None:
    assert world(read(["llama-server", "-m", "x"])) is None
    assert world(read(["sleep", "1"])) is None


# --- anything ------------------------------------------------------------------

WORDS = st.one_of(
    st.sampled_from(
        ["vllm", "serve", "sh", "-c", "python3", "-m", "sglang.launch_server", "trtllm-serve",
         "exec", "env", "-tp", "--nnodes", "--x.y", "--kv-transfer-config.a", "$(A)", "${A:-1}",
         "llama-server", "ray", "start", "vllm serve m -tp $A", "bash -c 'vllm serve'", "--", "-"],
    ),
    st.text("ab-$(){}'\"=.1 \n;&|\\", max_size=8),
)  # fmt: skip


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=5), st.text(max_size=20))
def test_any_command_is_read(command: list[str], args: list[str], image: str) -> None:
    line = read(command, args, {"A": "8", "B": None}, image)
    world(line)
    for flag in line.flags.values():
        assert flag.position is None or flag.position < len(line.words)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["command", "args", "env", "image", "envFrom"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=4),
            lambda x: (
                st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["name", "value"]), x)
            ),
            max_leaves=5,
        ),
    )
)
def test_any_container_is_read(container: dict[str, object]) -> None:
    assert read_container(container).engine is None
