"""TensorRT-LLM, llama.cpp, Ollama and Triton, played."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.simulator.engines.commandline import CommandLineError
from tests.simulator.fleet import Engine, Fleet, plan, run

TEXT = "/v1/completions"
ASKED = {"prompt": "hello there", "max_tokens": 2}


async def start(
    fleet: Fleet, engine: str, arguments: str, options: str = "", **environ: str
) -> Engine:
    return (await fleet.start("pod-a", plan(engine, arguments, options, **environ)))[0]


# TensorRT-LLM ---------------------------------------------------------------------------


def test_trtllm_s_flags() -> None:
    line = "serve org/m --host 0.0.0.0 --port 9000 --tp_size 2 --max_seq_len 64 --max_batch_size 3"
    (server,) = plan("trtllm", f"{line} --backend pytorch").servers
    options = server.options
    assert options.served_model_names == ("org/m",)
    assert (options.host, options.port, options.max_model_len) == ("0.0.0.0", 9000, 64)
    assert options.engine.max_num_seqs == 3
    assert plan("trtllm", "m").servers[0].options.host == "localhost"


def test_trtllm_names_the_model_by_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    assert plan("trtllm", f"serve {folder}").servers[0].options.served_model_names == ("tiny",)


def test_trtllm_measures_only_when_configured(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("backend: pytorch\nreturn_perf_metrics: true\n")

    async def scenario(fleet: Fleet) -> None:
        plain = await start(fleet, "trtllm", "serve m")
        assert (await plain.get("/prometheus/metrics")).status_code == 404
        assert (await plain.get("/metrics")).json() == []
        engine = await start(fleet, "trtllm", f"serve m --extra_llm_api_options {config}")
        await engine.post(TEXT, ASKED)
        assert (await engine.get("/health")).status_code == 200
        where = "/prometheus/metrics"
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_utilization"):
            assert await engine.sample(f"trtllm_{name}", where, model_name="undefined") == 0
        assert await engine.sample("trtllm_kv_cache_tokens_per_block", where) == 32
        assert await engine.sample("trtllm_kv_cache_max_blocks", where) == 1024
        ended = await engine.sample("trtllm_request_success_total", where, finished_reason="length")
        assert ended == 1

    run(scenario)


# llama.cpp ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "slots", "context"),
    [
        ("-m /m.gguf", 4, 8192),
        ("-m /m.gguf -c 4096", 4, 4096),
        ("-m /m.gguf -c 4096 -np 2", 2, 2048),
        ("-m /m.gguf -c 4096 --parallel 2 --kv-unified", 2, 4096),
    ],
)
def test_llamacpp_s_slots_share_the_context(arguments: str, slots: int, context: int) -> None:
    (server,) = plan("llamacpp", arguments).servers
    assert server.options.engine.max_num_seqs == slots
    assert server.options.max_model_len == context


def test_llamacpp_s_flags_count_more_than_its_variables() -> None:
    environ = {
        "LLAMA_ARG_MODEL": "/e.gguf",
        "LLAMA_ARG_PORT": "9000",
        "LLAMA_ARG_HOST": "0.0.0.0",
        "LLAMA_ARG_ENDPOINT_METRICS": "1",
    }
    (server,) = plan("llamacpp", "--port 9001 --alias tiny", **environ).servers
    assert (server.options.host, server.options.port) == ("0.0.0.0", 9001)
    assert server.options.served_model_names == ("tiny",)
    assert server.setup.model_path == "/e.gguf"
    assert plan("llamacpp", "-hf org/m:Q4").servers[0].options.port == 8080


def test_llamacpp_s_endpoints() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet, "llamacpp", "-m /m.gguf -c 64 -np 2 --metrics")
        assert (await engine.get("/health")).json() == {"status": "ok"}
        assert [slot["n_ctx"] for slot in (await engine.get("/slots")).json()] == [32, 32]
        assert (await engine.get("/props")).json()["total_slots"] == 2
        for _ in range(2):
            answer = await engine.post(TEXT, {**ASKED, "model": "whatever"})
            assert answer.json()["model"] == "/m.gguf", "it has one model and serves it"
        assert await engine.sample("llamacpp:requests_processing") == 0
        assert await engine.sample("llamacpp:requests_deferred") == 0
        assert await engine.sample("llamacpp:tokens_predicted_total") == 4
        assert await engine.sample("llamacpp:prompt_tokens_cached_total") == 1

    run(scenario)


def test_llamacpp_without_metrics_says_so() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet, "llamacpp", "-m /m.gguf --no-slots", '{"load-seconds": 5}')
        assert (await engine.get("/health")).json()["error"]["message"] == "Loading model"
        for path in ("/metrics", "/slots"):
            answer = await engine.get(path)
            assert answer.status_code == 501
            assert f"Start it with `--{path[1:]}`" in answer.json()["error"]["message"]

    run(scenario)


# Ollama ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("127.0.0.1", 11434)),
        ("0.0.0.0", ("0.0.0.0", 11434)),
        ("0.0.0.0:8000", ("0.0.0.0", 8000)),
        ("http://:8000", ("127.0.0.1", 8000)),
        ("[::]:8000", ("::", 8000)),
        ("[::]", ("::", 11434)),
    ],
)
def test_ollama_s_address(text: str, address: tuple[str, int]) -> None:
    options = plan("ollama", "serve", OLLAMA_HOST=text).servers[0].options
    assert (options.host, options.port) == address


def test_ollama_s_size() -> None:
    environ = {"OLLAMA_CONTEXT_LENGTH": "512", "OLLAMA_NUM_PARALLEL": "2"}
    options = plan("ollama", "serve", **environ).servers[0].options
    assert (options.max_model_len, options.engine.max_num_seqs) == (512, 2)


def test_ollama_runs_without_models_and_answers_for_those_it_has() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet, "ollama", "serve")
        assert (await engine.get("/")).text == "Ollama is running"
        assert "version" in (await engine.get("/api/version")).json()
        assert (await engine.get("/api/tags")).json() == {"models": []}
        assert (await engine.post(TEXT, {**ASKED, "model": "qwen3"})).status_code == 404
        assert (await engine.post(TEXT, ASKED)).status_code == 404
        pulled = await engine.post("/api/pull", {"model": "qwen3"})
        assert pulled.json() == {"status": "success"}
        assert (await engine.get("/api/tags")).json()["models"][0]["name"] == "qwen3:latest"
        for name in ("qwen3", "qwen3:latest"):
            answer = await engine.post(TEXT, {**ASKED, "model": name})
            assert answer.json()["model"] == "qwen3:latest"
        loaded = await engine.post("/api/generate", {"model": "qwen3"})
        assert loaded.json()["done_reason"] == "load"
        prompted = await engine.post("/api/generate", {"model": "qwen3", "prompt": "x"})
        assert prompted.status_code == 400

    run(scenario)


def test_ollama_s_models_may_be_there_from_the_start() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet, "ollama", "serve", '{"models": ["a", "b:1b"]}')
        names = [card["id"] for card in (await engine.get("/v1/models")).json()["data"]]
        assert names == ["a:latest", "b:1b"]

    run(scenario)


# Triton ---------------------------------------------------------------------------------


def test_triton_s_health_and_metrics_have_ports_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "tiny" / "1").mkdir(parents=True)

    async def scenario(fleet: Fleet) -> None:
        line = f"--model-repository={tmp_path} --metrics-port=9002"
        engine = await start(fleet, "triton", line, '{"load-seconds": 5}')
        assert (await engine.get("/v2/health/live")).status_code == 200
        assert (await engine.get("/v2/health/ready")).status_code == 400
        await fleet.clock.sleep_until(6)
        assert (await engine.get("/v2/health/ready")).status_code == 200
        assert (await engine.get("/v2/models/tiny/ready")).status_code == 200
        assert (await engine.get("/v2/models/none/ready")).status_code == 400
        assert (await engine.get("/metrics")).status_code == 404
        await engine.post(TEXT, {**ASKED, "model": "tiny"})
        text = (await fleet.peer("0.0.0.0", 9002, "/metrics")).text
        labels = 'model="tiny",request_type="waiting",version="1"'
        assert f"nv_trt_llm_request_metrics{{{labels}}} 0.0" in text
        assert 'kv_cache_block_type="tokens_per"' in text
        assert 'nv_inference_request_success{model="tiny",version="1"} 1.0' in text

    run(scenario)


def test_triton_without_metrics(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (server,) = plan("triton", f"--model-store {tmp_path} --allow-metrics=false").servers
    assert server.more.__name__ == "_nothing"


# All ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "arguments", "message"),
    [
        ("trtllm", "serve", "one MODEL is needed, found none"),
        ("trtllm", "serve a b", "one MODEL is needed, found a b"),
        ("trtllm", "serve a --config /no/such", "/no/such"),
        ("llamacpp", "", "--model or --hf-repo is needed"),
        ("llamacpp", "-m a b", "unrecognized arguments: b"),
        ("llamacpp", "-m a -np 0", "--parallel must be above 0"),
        ("llamacpp", "-m a -c x", "argument -c: not a whole number"),
        ("ollama", "run x", "only `serve` is played"),
        ("ollama", "serve --port 5", "unknown flag: --port"),
        ("triton", "", "--model-repository must be specified"),
        ("triton", "--model-repository /no/such", "no model is in the repository"),
    ],
)
def test_what_they_refuse(engine: str, arguments: str, message: str) -> None:
    with pytest.raises(CommandLineError) as refused:
        plan(engine, arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("OLLAMA_HOST", "x:y"), ("OLLAMA_NUM_PARALLEL", "0"), ("OLLAMA_CONTEXT_LENGTH", "x")],
)
def test_variables_that_ollama_cannot_use(name: str, value: str) -> None:
    with pytest.raises(CommandLineError, match=name) as refused:
        plan("ollama", "serve", **{name: value})
    assert refused.value.code == 1
