"""vLLM's disaggregation with NIXL: prefill, transfer, decode, and what goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.fleet import Engine, Fleet, plan, run

CONFIG = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
ASKED = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
PROMPT = "one two three four five six seven eight nine ten " * 20
CHAT = "/v1/completions"


async def pair(
    fleet: Fleet, decode_config: str = CONFIG, arguments: str = "", prefill_arguments: str = ""
) -> tuple[Engine, Engine]:
    """A prefill and a decode; 100 tokens a second over the wire."""
    options = '{"kv-transfer-tokens-per-second": 100}'
    prefill = plan(
        "vllm",
        f"serve /m --served-model-name m --kv-transfer-config {CONFIG} {prefill_arguments}",
        options,
        VLLM_NIXL_SIDE_CHANNEL_HOST="10.0.0.1",
    )
    decode = plan(
        "vllm",
        f"serve /m --served-model-name m --kv-transfer-config {decode_config} {arguments}",
        options,
        VLLM_NIXL_SIDE_CHANNEL_HOST="10.0.0.2",
    )
    return (await fleet.start("prefill-0", prefill))[0], (await fleet.start("decode-0", decode))[0]


def body(**more: object) -> dict[str, Any]:
    return {"model": "m", "prompt": PROMPT, "max_tokens": 5, **more}


async def prefilled(prefill: Engine) -> dict[str, Any]:
    """What a router gets from the prefill and hands on."""
    asked = body(max_tokens=1, max_completion_tokens=1, min_tokens=1, kv_transfer_params=ASKED)
    answer = await prefill.post(CHAT, asked)
    assert answer.status_code == 200
    return answer.json()["kv_transfer_params"]


def test_the_prefill_says_where_its_kv_is_and_keeps_it() -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, _ = await pair(fleet, prefill_arguments="-tp 4")
        params = await prefilled(prefill)
        assert params["do_remote_prefill"] is True
        assert (params["remote_host"], params["remote_port"]) == ("10.0.0.1", 5600)
        assert params["tp_size"] == 4
        tokens = params["remote_num_tokens"]
        assert [len(group) for group in params["remote_block_ids"]] == [-(-tokens // 16)]
        assert await prefill.sample("vllm:kv_cache_usage_perc") > 0
        assert await prefill.sample("vllm:num_requests_running") == 0

    run(scenario)


def test_the_decode_reads_the_kv_and_need_not_compute_it() -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet)
        params = await prefilled(prefill)
        began = fleet.clock.time
        answer = await decode.post(CHAT, body(kv_transfer_params=params))
        took = fleet.clock.time - began
        tokens = params["remote_num_tokens"]
        # The transfer, the last prompt token, and 4 more tokens at 50 a second.
        assert took == pytest.approx(tokens / 100 + 1 / 8000 + 4 / 50, abs=0.01)
        assert answer.headers["x-prefilled-by"] == "prefill-0"
        assert answer.headers["x-served-by"] == "decode-0"
        assert answer.json()["prefilled_by"] == "prefill-0"
        assert await prefill.sample("vllm:kv_cache_usage_perc") == 0, "it was freed"
        assert await decode.sample("vllm:nixl_xfer_time_seconds_count") == 1
        assert await decode.sample("vllm:nixl_xfer_time_seconds_sum") == pytest.approx(tokens / 100)
        alone = await prefill.post(CHAT, body())
        assert alone.json()["choices"] == answer.json()["choices"], "the same words as one engine"
        assert "x-prefilled-by" not in alone.headers

    run(scenario)


def test_a_stream_names_the_prefill_in_every_event() -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet)
        params = await prefilled(prefill)
        answer = await decode.post(CHAT, body(kv_transfer_params=params, stream=True))
        events = [line for line in answer.text.splitlines() if line.startswith("data: {")]
        assert len(events) == 5
        assert all('"prefilled_by":"prefill-0"' in line for line in events)

    run(scenario)


def test_kv_that_nobody_reads_is_freed_when_the_lease_ends() -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet)
        params = await prefilled(prefill)
        began = fleet.clock.time
        await fleet.clock.sleep_until(began + 29)
        assert await prefill.sample("vllm:kv_cache_usage_perc") > 0
        await fleet.clock.sleep_until(began + 31)
        assert await prefill.sample("vllm:kv_cache_usage_perc") == 0
        assert await prefill.sample("vllm:nixl_num_kv_expired_reqs_total") == 1
        late = await decode.post(CHAT, body(kv_transfer_params=params))
        assert late.status_code == 500

    run(scenario)


def test_a_lease_lasts_while_it_is_read() -> None:
    async def scenario(fleet: Fleet) -> None:
        config = CONFIG.replace("}", ',"kv_connector_extra_config":{"kv_lease_duration":0.5}}')
        options = '{"kv-transfer-tokens-per-second": 100}'
        planned = plan("vllm", f"serve /m --kv-transfer-config {config}", options)
        (engine,) = await fleet.start("both-0", planned)
        request = {"prompt": PROMPT, "max_tokens": 1}
        first = await engine.post(CHAT, {**request, "kv_transfer_params": ASKED})
        params = first.json()["kv_transfer_params"]
        assert params["remote_num_tokens"] / 100 > 0.5
        second = await engine.post(CHAT, {**request, "kv_transfer_params": params})
        assert second.status_code == 200
        assert await engine.sample("vllm:nixl_num_kv_expired_reqs_total") == 0

    run(scenario)


RECOMPUTE = CONFIG.replace("}", ',"kv_load_failure_policy":"recompute"}')


@pytest.mark.parametrize(
    "change",
    [
        {"remote_host": "localhost"},
        {"remote_port": 5601},
        {"remote_port": "x"},
        {"remote_engine_id": "another"},
        {"remote_request_id": "another"},
    ],
)
def test_kv_that_cannot_be_had_fails_the_request_by_default(change: dict[str, object]) -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet)
        params = {**await prefilled(prefill), **change}
        answer = await decode.post(CHAT, body(kv_transfer_params=params))
        assert answer.status_code == 500
        assert "KV transfer failed" in answer.json()["error"]["message"]
        assert await decode.sample("vllm:nixl_num_failed_transfers_total") == 1
        assert await decode.sample("vllm:num_requests_waiting") == 0

    run(scenario)


def test_with_the_policy_recompute_the_decode_computes_itself() -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet, RECOMPUTE)
        params = await prefilled(prefill)
        fleet.lose("10.0.0.1", 5600)
        answer = await decode.post(CHAT, body(kv_transfer_params=params))
        assert answer.status_code == 200
        assert "x-prefilled-by" not in answer.headers
        assert await decode.sample("vllm:nixl_num_failed_transfers_total") == 1

    run(scenario)


@pytest.mark.parametrize("arguments", ["--kv-cache-dtype fp8", "--block-size 32"])
def test_two_sides_that_differ_cannot_exchange_kv(arguments: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet, arguments=arguments)
        params = await prefilled(prefill)
        answer = await decode.post(CHAT, body(kv_transfer_params=params))
        assert answer.status_code == 500
        assert "handshake" in answer.json()["error"]["message"]

    run(scenario)


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        "text",
        {"do_remote_prefill": True},
        {"do_remote_prefill": True, "remote_block_ids": [[1]], "remote_host": "10.0.0.1"},
    ],
)
def test_without_usable_parameters_a_decode_computes_itself(params: object) -> None:
    async def scenario(fleet: Fleet) -> None:
        _, decode = await pair(fleet)
        answer = await decode.post(CHAT, body(kv_transfer_params=params))
        assert answer.status_code == 200
        assert "kv_transfer_params" not in answer.json()
        assert await decode.sample("vllm:nixl_num_failed_transfers_total") == 0

    run(scenario)


def test_every_rank_has_a_side_channel_of_its_own() -> None:
    async def scenario(fleet: Fleet) -> None:
        planned = plan("vllm", f"serve /m -dp 2 --kv-transfer-config {CONFIG}")
        (engine,) = await fleet.start("both-0", planned)
        for rank in (0, 1):
            asked = {"prompt": "x y z", "max_tokens": 1, "kv_transfer_params": ASKED}
            headers = {"x-data-parallel-rank": str(rank)}
            answer = await engine.post(CHAT, asked, headers=headers)
            assert answer.headers["x-served-rank"] == str(rank)
            assert answer.json()["kv_transfer_params"]["remote_port"] == 5600 + rank

    run(scenario)


def test_an_engine_without_connector_ignores_the_parameters_and_has_no_such_metrics() -> None:
    async def scenario(fleet: Fleet) -> None:
        (engine,) = await fleet.start("alone-0", plan("vllm", "serve /m"))
        asked = {"prompt": "x", "max_tokens": 1, "kv_transfer_params": ASKED}
        assert "kv_transfer_params" not in (await engine.post(CHAT, asked)).json()
        assert "nixl" not in (await engine.get("/metrics")).text

    run(scenario)
