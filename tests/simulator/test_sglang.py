"""SGLang's server, played: flags, endpoints, metrics, adapters, groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from local.simulator.engines.commandline import CommandLineError
from local.simulator.group import Meeting
from tests.simulator.fleet import Engine, Fleet, plan, run

TEXT = "/v1/completions"
LINE = "--model-path /m --served-model-name m"


async def start(fleet: Fleet, arguments: str = "") -> Engine:
    return (await fleet.start("pod-a", plan("sglang", f"{LINE} {arguments}")))[0]


def test_defaults_are_sglang_s() -> None:
    (server,) = plan("sglang", "--model-path org/model").servers
    options = server.options
    assert options.served_model_names == ("org/model",)
    assert (options.host, options.port) == ("127.0.0.1", 30000)
    assert (options.engine.block_size, options.engine.num_blocks) == (1, 32768)
    assert options.engine.prefix_caching
    assert options.shutdown_timeout > 3600, "it drains as long as it may"


def test_flags_arrive() -> None:
    line = """
        serve --model-path /m --host 0.0.0.0 --port 8000 --context-length 512 --page-size 64
        --max-running-requests 3 --tp 8 --dp 2 --disable-radix-cache --mem-fraction-static 0.8
    """
    planned = plan("sglang", line)
    (server,) = planned.servers
    options = server.options
    assert (options.host, options.port, options.max_model_len) == ("0.0.0.0", 8000, 512)
    assert (options.engine.block_size, options.engine.max_num_seqs) == (64, 3)
    assert not options.engine.prefix_caching
    assert server.setup.ranks == (0, 1)
    assert planned.without_effect == ("--mem-fraction-static",)


@pytest.mark.parametrize("flag", ["--tp", "--tp-size", "--tensor-parallel-size"])
def test_spellings_of_a_size_are_what_server_info_says(flag: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet, f"{flag} 4 --dp-size 2")
        for path in ("/server_info", "/get_server_info"):
            info = (await engine.get(path)).json()
            assert (info["tp_size"], info["dp_size"], info["served_model_name"]) == (4, 2, "m")
        for path in ("/model_info", "/get_model_info"):
            info = (await engine.get(path)).json()
            assert (info["model_path"], info["is_generation"]) == ("/m", True)

    run(scenario)


@pytest.mark.parametrize("path", ["/health", "/health_generate"])
def test_health_has_no_body_and_ends_with_the_signal(path: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet)
        answer = await engine.get(path)
        assert (answer.status_code, answer.content) == (200, b"")
        await engine.service.drain()
        assert (await engine.get(path)).status_code == 503

    run(scenario)


def test_there_are_metrics_only_when_asked_for() -> None:
    async def scenario(fleet: Fleet) -> None:
        assert (await (await start(fleet)).get("/metrics")).status_code == 404
        engine = await start(fleet, "--enable-metrics --page-size 16")
        asked = {"prompt": "one two three four " * 8, "max_tokens": 3}
        for _ in range(2):
            await engine.post(TEXT, asked)
        labels = {"model_name": "m", "engine_type": "unified", "tp_rank": "0"}
        for name in ("num_running_reqs", "num_queue_reqs", "token_usage", "num_used_tokens"):
            assert await engine.sample(f"sglang:{name}", **labels) == 0
        assert await engine.sample("sglang:page_size") == 16
        assert await engine.sample("sglang:num_pages") == 2048
        assert await engine.sample("sglang:max_total_num_tokens") == 32768
        assert await engine.sample("sglang:generation_tokens_total") == 6
        assert await engine.sample("sglang:num_requests_total") == 2
        assert await engine.sample("sglang:cached_tokens_total", cache_source="device") == 32
        assert 0 < await engine.sample("sglang:cache_hit_rate") < 0.5
        assert await engine.sample("sglang:time_to_first_token_seconds_count") == 2

    run(scenario)


def test_generate_streams_the_answer_so_far() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet)
        asked: dict[str, Any] = {"text": "hello there", "sampling_params": {"max_new_tokens": 4}}
        whole = (await engine.post("/generate", asked)).json()
        assert len(whole["output_ids"]) == 4
        assert whole["meta_info"]["finish_reason"] == {"type": "length", "length": 4}
        assert whole["meta_info"]["served_by"] == "pod-a"
        streamed = (await engine.post("/generate", {**asked, "stream": True})).text
        events = streamed.split("\n\n")
        assert len(events) == 6, "four, the end mark, and what follows it"
        assert whole["text"] in events[3]
        ids = {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 1}}
        assert (await engine.post("/generate", ids)).json()["meta_info"]["prompt_tokens"] == 3
        assert (await engine.post("/generate", {"text": ""})).status_code == 400
        wrong = await engine.post("/generate", {"text": "x", "sampling_params": 5})
        assert wrong.status_code == 400

    run(scenario)


def test_an_adapter_is_asked_for_behind_a_colon_and_any_name_is_the_model() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet, "--lora-paths sql=hub/sql other")
        cards = (await engine.get("/v1/models")).json()["data"]
        assert [card["id"] for card in cards] == ["m", "other", "sql"]

        async def asked(model: str) -> str:
            answer = await engine.post(TEXT, {"model": model, "prompt": "x", "max_tokens": 8})
            assert answer.json()["model"] == model, "the name comes back as it was written"
            return answer.json()["choices"][0]["text"]

        base, adapted = await asked("m"), await asked("m:sql")
        assert adapted != base
        assert await asked("base:sql") == adapted
        assert await asked("sql") == base, "silently, as the real one does"
        assert await asked("whatever") == base
        none = await engine.post(TEXT, {"model": "m:none", "prompt": "x"})
        assert none.status_code == 404

    run(scenario)


def test_adapters_come_and_go() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await start(fleet, "--enable-lora")
        load = {"lora_name": "new", "lora_path": "hub/new"}
        answer = await engine.post("/load_lora_adapter", load)
        assert answer.json() == {"success": True, "loaded_adapters": {"new": "hub/new"}}
        gone = await engine.post("/unload_lora_adapter", {"lora_name": "new"})
        assert gone.json()["loaded_adapters"] == {}
        assert (await (await start(fleet)).post("/load_lora_adapter", load)).status_code == 404

    run(scenario)


NODES = f"{LINE} --tp 16 --nnodes 2 --dist-init-addr lead.svc:5000"


def test_the_first_node_serves_and_others_answer_health_checks() -> None:
    first = plan("sglang", f"{NODES} --node-rank 0")
    assert first.meeting == Meeting("lead.svc", 5000, "node", 2, (0,), 600, True)
    assert first.servers[0].setup.in_group
    second = plan("sglang", f"{NODES} --node-rank 1 --port 8000 --host 0.0.0.0")
    assert second.servers == ()
    assert second.meeting == Meeting("lead.svc", 5000, "node", 2, (1,), 600, False)
    (listener,) = second.idle
    assert (listener.host, listener.port) == ("0.0.0.0", 8000)

    async def scenario(_: Fleet) -> None:
        app: ASGIApp = listener.app
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://it") as client:
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/v1/models")).status_code == 404

    run(scenario)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (f"{LINE} x", 2, "unrecognized arguments: x"),
        (f"{LINE} --disaggregation-mode both", 2, "must be null, prefill, decode"),
        (f"{LINE} --nnodes 2 --tp 2", 2, "needs --dist-init-addr"),
        (f"{LINE} --nnodes 2 --tp 2 --dist-init-addr lead:99999", 2, "needs --dist-init-addr"),
        (f"{NODES} --node-rank 2", 2, "--node-rank 2 is not below --nnodes 2"),
        (f"{LINE} --nnodes 2 --dist-init-addr lead:1", 2, "divisible by number of nodes"),
        (f"{LINE} --lora-paths a=/no/such", 1, "No adapter found"),
        (f"{LINE} --lora-paths {{}}", 2, "must be name=path or JSON"),
    ],
)
def test_what_sglang_refuses(arguments: str, code: int, message: str) -> None:
    with pytest.raises(CommandLineError) as refused:
        plan("sglang", arguments)
    assert message in str(refused.value)
    assert refused.value.code == code


def test_the_rank_of_adapters_is_limited_only_when_said(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"r": 64}')
    assert plan("sglang", f"{LINE} --lora-paths a={tmp_path}").servers
    with pytest.raises(CommandLineError, match="greater than 8"):
        plan("sglang", f"{LINE} --max-lora-rank 8 --lora-paths a={tmp_path}")
