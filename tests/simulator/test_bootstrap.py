"""SGLang's disaggregation: prefill and decode get the same request and meet in a room."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.simulator.fleet import Engine, Fleet, plan, run

PROMPT = "one two three four five six seven eight nine ten " * 20
TEXT = "/v1/completions"
HOST, PORT = "10.0.0.1", 8998


async def pair(fleet: Fleet, arguments: str = "") -> tuple[Engine, Engine]:
    """A prefill and a decode; 100 tokens a second over the wire, 5 s of patience."""
    options = '{"kv-transfer-tokens-per-second": 100, "transfer-seconds": 5}'
    line = f"--model-path /m --served-model-name m --host {HOST} --enable-metrics {arguments}"
    prefill = plan("sglang", f"{line} --disaggregation-mode prefill", options)
    decode = plan("sglang", f"{line} --disaggregation-mode decode", options)
    return (await fleet.start("prefill-0", prefill))[0], (await fleet.start("decode-0", decode))[0]


def body(room: object = 7, **more: object) -> dict[str, Any]:
    where = {"bootstrap_host": HOST, "bootstrap_port": PORT, "bootstrap_room": room}
    return {"model": "m", "prompt": PROMPT, "max_tokens": 5, **where, **more}


async def both(
    pair: tuple[Engine, Engine], path: str = TEXT, **more: object
) -> tuple[httpx.Response, httpx.Response]:
    """The same request to both at once, as routers do."""
    asked = body(**more)
    prefill, decode = await asyncio.gather(*(one.post(path, asked) for one in pair))
    return prefill, decode


def test_the_decode_answers_and_names_the_prefill() -> None:
    async def scenario(fleet: Fleet) -> None:
        engines = await pair(fleet)
        first, answer = await both(engines)
        assert (first.status_code, answer.status_code) == (200, 200)
        assert first.json()["usage"]["completion_tokens"] == 1
        assert answer.json()["usage"]["completion_tokens"] == 5
        assert answer.headers["x-prefilled-by"] == "prefill-0"
        tokens = answer.json()["usage"]["prompt_tokens"]
        expected = tokens / 8000 + tokens / 100 + 1 / 8000 + 4 / 50
        assert fleet.clock.time == pytest.approx(expected, abs=0.01)
        prefill, decode = engines
        assert await prefill.sample("sglang:num_used_tokens", engine_type="prefill") == 0
        assert await decode.sample("sglang:num_running_reqs", engine_type="decode") == 0

    run(scenario)


@pytest.mark.parametrize("path", [TEXT, "/v1/chat/completions", "/generate"])
@pytest.mark.parametrize("stream", [True, False])
def test_every_way_to_ask(path: str, stream: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        more: dict[str, Any] = {"stream": stream, "text": "hello there"}
        more["messages"] = [{"role": "user", "content": "hello there"}]
        more["sampling_params"] = {"max_new_tokens": 5}
        _, answer = await both(await pair(fleet), path, **more)
        assert answer.headers["x-prefilled-by"] == "prefill-0"
        assert "prefill-0" in answer.text
        assert answer.text.endswith("data: [DONE]\n\n") is stream

    run(scenario)


def test_rooms_do_not_mix() -> None:
    async def scenario(fleet: Fleet) -> None:
        engines = await pair(fleet)
        answers = await asyncio.gather(*(both(engines, room=room) for room in range(8)))
        assert {answer.status_code for two in answers for answer in two} == {200}

    run(scenario)


def test_arrays_of_one_mean_the_one() -> None:
    async def scenario(fleet: Fleet) -> None:
        where = {"bootstrap_host": [HOST], "bootstrap_port": [PORT]}
        _, answer = await both(await pair(fleet), room=[9], **where)
        assert answer.status_code == 200

    run(scenario)


def test_the_prefill_waits_for_the_decode_before_it_works() -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet)
        early = asyncio.create_task(prefill.post(TEXT, body()))
        await fleet.clock.sleep_until(3)
        assert await prefill.sample("sglang:num_prefill_bootstrap_queue_reqs") == 1
        assert await prefill.sample("sglang:num_used_tokens") == 0
        answer = await decode.post(TEXT, body())
        assert (await early).status_code == answer.status_code == 200

    run(scenario)


def test_a_prefill_whose_decode_does_not_come_gives_up() -> None:
    async def scenario(fleet: Fleet) -> None:
        prefill, _ = await pair(fleet)
        answer = await prefill.post(TEXT, body())
        assert answer.status_code == 500
        assert "no decode came to room 7" in answer.json()["error"]["message"]
        assert fleet.clock.time == pytest.approx(5)
        assert await prefill.sample("sglang:num_bootstrap_failed_reqs_total") == 1

    run(scenario)


def test_a_decode_whose_prefill_does_not_come_gives_up() -> None:
    async def scenario(fleet: Fleet) -> None:
        _, decode = await pair(fleet)
        answer = await decode.post(TEXT, body())
        assert answer.status_code == 500
        assert "no KV came to room 7" in answer.json()["error"]["message"]
        assert await decode.sample("sglang:num_transfer_failed_reqs_total") == 1

    run(scenario)


def test_a_decode_asks_again_while_the_bootstrap_server_is_away() -> None:
    async def scenario(fleet: Fleet) -> None:
        _, decode = await pair(fleet)
        fleet.lose(HOST, PORT)
        answer = await decode.post(TEXT, body())
        assert answer.status_code == 500
        assert "nobody is there" in answer.json()["error"]["message"]
        assert fleet.clock.time == pytest.approx(9), "ten times, a second between"

    run(scenario)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("room", [None, "x", True, [1, 2]])
def test_a_request_that_came_past_the_router_is_refused(index: int, room: object) -> None:
    async def scenario(fleet: Fleet) -> None:
        engine = (await pair(fleet))[index]
        answer = await engine.post(TEXT, body(room=room))
        assert answer.status_code == 400
        assert "without bootstrap room" in answer.json()["error"]["message"]

    run(scenario)


@pytest.mark.parametrize("change", [{"bootstrap_host": None}, {"bootstrap_port": "x"}])
def test_a_decode_needs_to_know_where_to_go(change: dict[str, object]) -> None:
    async def scenario(fleet: Fleet) -> None:
        _, decode = await pair(fleet)
        answer = await decode.post(TEXT, body(**change))
        assert answer.status_code == 500
        assert "bootstrap_host" in answer.json()["error"]["message"]

    run(scenario)


def test_the_health_check_s_own_request_needs_no_partner() -> None:
    async def scenario(fleet: Fleet) -> None:
        for engine in await pair(fleet):
            answer = await engine.post(TEXT, body(room=0, bootstrap_host="2.2.2.2"))
            assert answer.status_code == 200

    run(scenario)


def test_the_room_says_which_rank_takes_it() -> None:
    async def scenario(fleet: Fleet) -> None:
        engines = await pair(fleet, "--dp 2")
        for room in (4, 5):
            for answer in await both(engines, room=room):
                assert answer.headers["x-served-rank"] == str(room % 2)

    run(scenario)


def test_the_bootstrap_server_answers_as_the_real_one_does() -> None:
    async def scenario(fleet: Fleet) -> None:
        await pair(fleet, "--dp 2 --page-size 64")
        assert (await fleet.peer(HOST, PORT, "/health")).text == "OK"
        query = "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
        info = (await fleet.peer(HOST, PORT, f"/route?{query}")).json()
        assert (info["dp_size"], info["page_size"]) == (2, 64)

    run(scenario)


def test_a_client_that_leaves_gives_the_decode_an_end() -> None:
    """Prefill aborted by the router: what it held is free, and the decode fails."""

    async def scenario(fleet: Fleet) -> None:
        prefill, decode = await pair(fleet)
        waiting = asyncio.create_task(decode.post(TEXT, body()))
        await fleet.clock.sleep_until(0.01)
        prefill.service.fail()
        answer = await prefill.post(TEXT, body())
        assert answer.status_code == 503
        assert (await waiting).status_code == 500

    run(scenario)
