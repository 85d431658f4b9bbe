"""`vllm serve`, played: names, size, adapters, data parallel cores, draining."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from local.simulator.engines.commandline import CommandLineError
from local.simulator.plan import Plan, Server
from tests.simulator.fleet import Engine, Fleet, plan, run

TEXT = "/v1/completions"


def serve(arguments: str, options: str = "", **environ: str) -> Server:
    (server,) = plan("vllm", f"serve Qwen/Qwen3-8B {arguments}", options, **environ).servers
    return server


def refused(arguments: str, **environ: str) -> CommandLineError:
    with pytest.raises(CommandLineError) as error:
        plan("vllm", arguments, **environ)
    return error.value


def test_defaults_are_vllm_s() -> None:
    server = serve("")
    options = server.options
    assert options.served_model_names == ("Qwen/Qwen3-8B",)
    assert (options.host, options.port) == ("0.0.0.0", 8000)
    assert (options.engine.max_num_seqs, options.engine.block_size) == (256, 16)
    assert options.engine.prefix_caching
    assert options.shutdown_timeout == 0
    assert not server.setup.adapters.may_change
    assert not server.setup.in_group


def test_flags_arrive() -> None:
    line = """
        --served-model-name a b --port 8200 --host :: --max-model-len 32k --max-num-seqs 8
        --block-size 64 --no-enable-prefix-caching --shutdown-timeout 20
    """
    options = serve(line, '{"num-kv-blocks": 600, "seed": 7, "load-seconds": 2}').options
    assert options.served_model_names == ("a", "b")
    assert (options.host, options.port, options.max_model_len) == ("::", 8200, 32000)
    assert (options.engine.max_num_seqs, options.engine.block_size) == (8, 64)
    assert (options.engine.num_blocks, options.engine.prefix_caching) == (600, False)
    assert (options.shutdown_timeout, options.seed, options.load_seconds) == (20, 7, 2)


@pytest.mark.parametrize(
    ("text", "tokens"), [("4096", 4096), ("1K", 1024), ("auto", 8192), ("-1", 8192)]
)
def test_ways_to_say_the_context(text: str, tokens: int) -> None:
    assert serve(f"--max-model-len {text}").options.max_model_len == tokens


def test_the_kv_pool_holds_the_longest_request_unless_told_otherwise() -> None:
    assert serve("--max-model-len 131072").options.engine.num_blocks == 8192
    assert serve("--max-model-len 64").options.engine.num_blocks == 2048


def test_flags_that_mean_nothing_here_are_told() -> None:
    line = "serve m --gpu-memory-utilization=0.9 --enforce-eager --dtype bfloat16 --enforce-eager"
    assert plan("vllm", line).without_effect == (
        "--gpu-memory-utilization",
        "--enforce-eager",
        "--dtype",
    )


@pytest.mark.parametrize("arguments", ["serve m", "m", "serve --model m", "serve --model=m"])
def test_the_model_comes_first_or_by_its_flag(arguments: str) -> None:
    assert plan("vllm", arguments).servers[0].options.served_model_names == ("m",)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("serve m n", 2, "unrecognized arguments: n"),
        ("serve --served-model-name m", 2, "first positional argument"),
        ("serve m --max-model-len many", 2, "not a number of tokens"),
        ("serve m --max-lora-rank 5", 2, "not a rank"),
        ("serve m --shutdown-timeout -1", 2, "must be 0 or more"),
        ("serve m --served-model-name a a", 2, "must be there and differ"),
        ("serve m --lora-modules a=/x", 1, "Use --enable-lora"),
        ("serve m --enable-lora --lora-modules a", 2, "must be name=path or JSON"),
        ('serve m --enable-lora --lora-modules {"name":"a"}', 2, "must be name=path or JSON"),
        ('serve m --kv-transfer-config {"kv_connector":"NixlConnector"}', 2, "kv_role must be"),
    ],
)
def test_what_vllm_refuses(arguments: str, code: int, message: str) -> None:
    error = refused(arguments)
    assert (error.code, message in str(error)) == (code, True), str(error)


NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"%s}'


def test_the_side_channel_comes_from_the_environment() -> None:
    line = f"--kv-transfer-config {NIXL % ''} -tp 2"
    kv = serve(line, VLLM_NIXL_SIDE_CHANNEL_HOST="10.0.0.5", VLLM_NIXL_SIDE_CHANNEL_PORT="5700")
    role: Any = kv.setup.kv
    assert (role.host, role.port, role.tp_size) == ("10.0.0.5", 5700, 2)
    assert (role.lease, role.recompute) == (30, False)
    default: Any = serve(line).setup.kv
    assert (default.host, default.port) == ("localhost", 5600)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (',"kv_load_failure_policy":"hope"', "must be fail or recompute"),
        (',"kv_connector_extra_config":{"kv_lease_duration":"x"}', "is no number"),
    ],
)
def test_what_is_wrong_with_a_connector(more: str, message: str) -> None:
    assert message in str(refused(f"serve m --kv-transfer-config {NIXL % more}"))


def test_a_side_channel_port_that_is_none() -> None:
    line = f"serve m --kv-transfer-config {NIXL % ''}"
    error = refused(line, VLLM_NIXL_SIDE_CHANNEL_PORT="tcp://10.0.0.1")
    assert (error.code, "is no port" in str(error)) == (1, True)


def test_nixl_inside_a_multi_connector_is_found_and_others_are_told() -> None:
    inner = f'[{{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}},{NIXL % ""}]'
    config = (
        '{"kv_connector":"MultiConnector","kv_role":"kv_both",'
        f'"kv_connector_extra_config":{{"connectors":{inner}}}}}'
    )
    planned: Plan = plan("vllm", f"serve m --kv-transfer-config {config}")
    assert planned.servers[0].setup.kv is not None
    assert planned.without_effect == ("kv_connector=OffloadingConnector",)


def test_another_connector_changes_nothing_and_is_told() -> None:
    config = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
    planned = plan("vllm", f"serve m --kv-transfer-config {config}")
    assert planned.servers[0].setup.kv is None
    assert planned.without_effect == ("kv_connector=LMCacheConnectorV1",)


# Adapters -------------------------------------------------------------------------------


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """An adapter of rank 32."""
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": 32}')
    return folder


def test_adapters_by_both_spellings(adapter: Path) -> None:
    line = (
        f'--enable-lora --max-lora-rank 32 --lora-modules a={adapter} {{"name":"b","path":"x/y"}}'
    )
    assert serve(line).setup.adapters.served == (("a", str(adapter)), ("b", "x/y"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--max-lora-rank 32 --lora-modules a=/no/such", "No adapter found for /no/such"),
        ("--lora-modules a=ADAPTER", "its rank 32 is greater than 16"),
    ],
)
def test_an_adapter_that_cannot_be_loaded_stops_the_start(
    adapter: Path, line: str, message: str
) -> None:
    error = refused(f"serve m --enable-lora {line.replace('ADAPTER', str(adapter))}")
    assert (error.code, message in str(error)) == (1, True), str(error)


@pytest.mark.parametrize(
    ("line", "switch", "there"),
    [
        ("--enable-lora", "True", True),
        ("--enable-lora", "1", True),
        ("--enable-lora", "0", False),
        ("", "1", False),
    ],
)
def test_adapters_change_at_run_time_only_when_both_switches_are_on(
    line: str, switch: str, there: bool
) -> None:
    async def scenario(fleet: Fleet) -> None:
        planned = plan("vllm", f"serve m {line}", VLLM_ALLOW_RUNTIME_LORA_UPDATING=switch)
        (engine,) = await fleet.start("pod-a", planned)
        load = {"lora_name": "new", "lora_path": "hub/new"}
        answer = await engine.post("/v1/load_lora_adapter", load)
        assert answer.status_code == (200 if there else 404)
        assert ("vllm:lora_requests_info" in (await engine.get("/metrics")).text) is bool(line)

    run(scenario)


def test_run_time_updates_and_several_api_servers_exclude_each_other() -> None:
    line = "serve m --enable-lora --api-server-count 2"
    assert "api_server_count > 1" in str(refused(line, VLLM_ALLOW_RUNTIME_LORA_UPDATING="1"))


def test_what_is_not_there_or_too_large_cannot_be_loaded(adapter: Path) -> None:
    async def scenario(fleet: Fleet) -> None:
        async def load(pod: str, rank: int, path: str) -> tuple[Engine, int, str]:
            line = f"serve m --enable-lora --max-lora-rank {rank}"
            planned = plan("vllm", line, VLLM_ALLOW_RUNTIME_LORA_UPDATING="true")
            (engine,) = await fleet.start(pod, planned)
            body = {"lora_name": "new", "lora_path": path}
            answer = await engine.post("/v1/load_lora_adapter", body)
            return engine, answer.status_code, answer.text

        _, status, words = await load("pod-a", 32, "/no/such")
        assert (status, "No adapter found" in words) == (404, True)
        _, status, words = await load("pod-b", 16, str(adapter))
        assert (status, "rank 32 is greater than max_lora_rank 16" in words) == (500, True)
        engine, status, _ = await load("pod-c", 32, str(adapter))
        assert status == 200
        asked = await engine.post(TEXT, {"model": "new", "prompt": "x", "max_tokens": 1})
        assert asked.json()["model"] == "new"

    run(scenario)


# Data parallel cores behind one port ----------------------------------------------------


async def cores(fleet: Fleet, arguments: str = "") -> Engine:
    planned = plan("vllm", f"serve m -dp 4 {arguments}", '{"decode-tokens-per-second": 10}')
    return (await fleet.start("pod-a", planned))[0]


def test_every_core_has_its_metrics_and_takes_its_share() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await cores(fleet)
        asked = {"prompt": "x", "max_tokens": 3}
        answers = await asyncio.gather(*(engine.post(TEXT, asked) for _ in range(8)))
        assert sorted(a.headers["x-served-rank"] for a in answers) == sorted("00112233")
        for rank in range(4):
            labels = {"engine": str(rank), "model_name": "m"}
            assert await engine.sample("vllm:generation_tokens_total", **labels) == 6
            assert await engine.sample("vllm:num_requests_waiting", **labels) == 0
            assert await engine.sample("vllm:cache_config_info", engine=str(rank)) == 1

    run(scenario)


def test_a_router_chooses_the_rank() -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = await cores(fleet)
        asked = {"prompt": "x", "max_tokens": 1}
        for rank in ("3", "1"):
            headers = {"X-data-parallel-rank": rank}
            answer = await engine.post(TEXT, asked, headers=headers)
            assert answer.headers["x-served-rank"] == rank
        wrong = await engine.post(TEXT, asked, headers={"X-data-parallel-rank": "4"})
        assert wrong.status_code == 400

    run(scenario)


# Life -----------------------------------------------------------------------------------


def test_while_it_drains_it_is_healthy_but_takes_nothing_new() -> None:
    async def scenario(fleet: Fleet) -> None:
        (engine,) = await fleet.start("pod-a", plan("vllm", "serve m --shutdown-timeout 60"))
        asked = {"prompt": "x", "max_tokens": 500, "ignore_eos": True}
        running = asyncio.create_task(engine.post(TEXT, asked))
        await fleet.clock.sleep_until(1)
        drain = asyncio.create_task(engine.service.drain())
        await fleet.clock.sleep_until(2)
        assert (await engine.get("/health")).status_code == 200
        assert (await engine.post(TEXT, asked)).status_code == 503
        await drain
        assert (await running).json()["usage"]["completion_tokens"] == 500
        assert fleet.clock.time == pytest.approx(10, abs=0.5)

    run(scenario)


def test_without_a_shutdown_timeout_what_runs_is_cut_off() -> None:
    async def scenario(fleet: Fleet) -> None:
        (engine,) = await fleet.start("pod-a", plan("vllm", "serve m"))
        asked = {"prompt": "x", "max_tokens": 500, "ignore_eos": True}
        running = asyncio.create_task(engine.post(TEXT, asked))
        await fleet.clock.sleep_until(1)
        await engine.service.drain()
        assert fleet.clock.time == pytest.approx(1)
        assert (await running).status_code == 503

    run(scenario)


def test_in_a_group_it_loads_once_all_have_joined() -> None:
    async def scenario(fleet: Fleet) -> None:
        line = "serve m -tp 8 -pp 2 --nnodes 2 --node-rank 0 --master-addr leader"
        (engine,) = await fleet.start("pod-a", plan("vllm", line, '{"load-seconds": 10}'))
        await fleet.clock.sleep_until(100)
        assert (await engine.get("/health")).status_code == 503
        engine.service.joined()
        await fleet.clock.sleep_until(109)
        assert (await engine.get("/health")).status_code == 503
        await fleet.clock.sleep_until(111)
        assert (await engine.get("/health")).status_code == 200
        engine.service.fail()
        assert (await engine.get("/health")).status_code == 503

    run(scenario)
