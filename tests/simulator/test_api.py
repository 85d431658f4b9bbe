"""The simulator as its clients see it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from local.simulator.api import create_app
from tests.simulator.conftest import Client, Simulator, make_service

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def say(content: object = "hello there", **more: object) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **more}


def ask(prompt: object = "hello there", **more: object) -> dict[str, Any]:
    return {"model": "tiny", "prompt": prompt, **more}


def events(client: Simulator, path: str, body: dict[str, Any]) -> list[Any]:
    """The JSON of every event; the end mark must be last."""
    answer = client.post(path, json={**body, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def sample(client: Simulator, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(client.get("/metrics").text)
    found = [
        s.value
        for family in families
        for s in family.samples
        if s.name == name and labels.items() <= s.labels.items()
    ]
    assert len(found) == 1, (name, found)
    return found[0]


# Answers --------------------------------------------------------------------------------


def test_a_chat_completion(client: Client) -> None:
    body = client().post(CHAT, json=say(max_tokens=6)).json()
    assert body["object"] == "chat.completion"
    assert body["model"] == "tiny"
    (choice,) = body["choices"]
    assert choice["message"]["role"] == "assistant"
    assert len(choice["message"]["content"].split()) == 6
    assert choice["finish_reason"] == "length"
    assert body["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 6,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_a_text_completion_has_sixteen_tokens_by_default(client: Client) -> None:
    body = client().post(TEXT, json=ask()).json()
    assert body["object"] == "text_completion"
    assert body["usage"]["completion_tokens"] == 16
    assert body["choices"][0]["text"]


def test_a_stream_has_an_event_a_token_and_the_same_text(client: Client) -> None:
    simulator = client()
    whole = simulator.post(CHAT, json=say(max_tokens=12)).json()
    parts = events(simulator, CHAT, say(max_tokens=12))
    assert len(parts) == 12
    deltas = [part["choices"][0]["delta"] for part in parts]
    assert deltas[0]["role"] == "assistant"
    assert not any("role" in delta for delta in deltas[1:])
    text = "".join(delta["content"] for delta in deltas)
    assert text == whole["choices"][0]["message"]["content"]
    reasons = [part["choices"][0]["finish_reason"] for part in parts]
    assert reasons == [None] * 11 + ["length"]
    assert len({part["id"] for part in parts}) == 1
    assert {part["object"] for part in parts} == {"chat.completion.chunk"}


def test_a_text_stream(client: Client) -> None:
    parts = events(client(), TEXT, ask(max_tokens=3))
    assert {part["object"] for part in parts} == {"text_completion"}
    assert all(part["choices"][0]["text"] for part in parts)


def test_usage_comes_in_an_event_of_its_own_when_asked_for(client: Client) -> None:
    simulator = client()
    last = events(simulator, CHAT, say(max_tokens=3, stream_options={"include_usage": True}))[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert "usage" not in events(simulator, CHAT, say(max_tokens=3))[-1]


@pytest.mark.parametrize(("path", "body"), [(CHAT, say), (TEXT, ask)])
def test_the_answering_pod_is_named(
    client: Client, path: str, body: Callable[..., dict[str, Any]]
) -> None:
    simulator = client()
    answer = simulator.post(path, json=body(max_tokens=2))
    assert answer.headers["x-served-by"] == "pod-a"
    assert answer.json()["system_fingerprint"] == "pod-a"
    assert {e["system_fingerprint"] for e in events(simulator, path, body(max_tokens=2))} == {
        "pod-a"
    }


def test_the_request_id_is_echoed_or_made(client: Client) -> None:
    simulator = client()
    named = simulator.post(CHAT, json=say(max_tokens=1), headers={"x-request-id": "r-1"})
    assert named.headers["x-request-id"] == "r-1"
    assert named.json()["id"] == "chatcmpl-r-1"
    ids = {simulator.get("/health").headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2


def test_the_same_request_gets_the_same_answer_from_every_pod_with_the_seed(
    client: Client,
) -> None:
    def text(*arguments: str, **more: object) -> str:
        answer = client(*arguments).post(CHAT, json=say(max_tokens=20, **more)).json()
        return answer["choices"][0]["message"]["content"]

    assert text() == text() == text("--max-num-seqs", "1")
    assert text("--seed", "1") != text()
    assert text(seed=1) != text()
    assert text(temperature=0.5) != text()


def test_stop_strings_end_the_answer(client: Client) -> None:
    simulator = client()
    text = simulator.post(TEXT, json=ask(max_tokens=30)).json()["choices"][0]["text"]
    stop = text.split()[4]
    choice = simulator.post(TEXT, json=ask(max_tokens=30, stop=stop)).json()["choices"][0]
    assert choice["text"] == text[: text.find(stop)]
    assert choice["finish_reason"] == "stop"


def test_limits_of_the_answer(client: Client) -> None:
    simulator = client()
    free = simulator.post(CHAT, json=say()).json()
    assert free["choices"][0]["finish_reason"] == "stop"
    forced = simulator.post(CHAT, json=say(max_completion_tokens=300, ignore_eos=True)).json()
    assert forced["usage"]["completion_tokens"] == 300
    least = simulator.post(CHAT, json=say(min_tokens=200)).json()
    assert least["usage"]["completion_tokens"] >= 200


def test_content_parts_and_token_ids_are_prompts_too(client: Client) -> None:
    simulator = client()
    parts = [{"type": "text", "text": "hello "}, {"type": "text", "text": "there"}]
    one, two = (
        simulator.post(CHAT, json=say(c, max_tokens=5)).json() for c in ("hello there", parts)
    )
    assert one["choices"] == two["choices"]
    assert simulator.post(TEXT, json=ask([1, 2, 3])).json()["usage"]["prompt_tokens"] == 3
    assert simulator.post(TEXT, json=ask(["one text"])).status_code == 200


def test_a_repeated_prefix_is_reported_as_cached(client: Client) -> None:
    simulator = client()
    system = [{"role": "system", "content": "You are a helpful assistant. " * 20}]
    usages: list[Any] = []
    for question in ("first", "second"):
        messages = [*system, {"role": "user", "content": question}]
        body = {"model": "tiny", "messages": messages, "max_tokens": 2}
        usages.append(simulator.post(CHAT, json=body).json()["usage"])
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[0] == 0
    assert cached[1] > 0.8 * usages[1]["prompt_tokens"]
    assert sample(simulator, "vllm:prefix_cache_hits_total") == cached[1]


# Errors ---------------------------------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], str | None, str]] = [
    (CHAT, say(max_tokens="5"), "max_tokens", "whole number"),
    (CHAT, say(max_tokens=0), "max_tokens", "at least 1"),
    (CHAT, say(max_tokens=True), "max_tokens", "found boolean"),
    (CHAT, say(max_tokens=1.5), "max_tokens", "whole number"),
    (CHAT, say(max_tokens=9000), "max_tokens", "maximum context length is 8192"),
    (CHAT, say("word " * 9000), "messages", "maximum context length is 8192"),
    (TEXT, ask("word " * 9000), "prompt", "maximum context length is 8192"),
    (CHAT, say(min_tokens=9, max_tokens=8), "min_tokens", "at most 8"),
    (CHAT, say(n=2), "n", "must be 1"),
    (TEXT, ask(best_of=2), "best_of", "must be 1"),
    (CHAT, say(stream="yes"), "stream", "true or false"),
    (CHAT, say(stream_options={"include_usage": True}), "stream_options", "only with stream"),
    (CHAT, say(stream=True, stream_options=1), "stream_options", "an object"),
    (CHAT, say(stop=[""]), "stop", "not empty"),
    (CHAT, say(stop=5), "stop", "found number"),
    (CHAT, say(temperature=3), "temperature", "0 to 2"),
    (CHAT, say(temperature="hot"), "temperature", "a number"),
    (CHAT, say(seed="x"), "seed", "whole number"),
    (CHAT, say(tools=[{"type": "function"}]), "tools", "simulator"),
    (CHAT, say(logprobs=True), "logprobs", "simulator"),
    (CHAT, say(response_format={"type": "json_object"}), "response_format", "text"),
    (CHAT, {"model": "tiny"}, "messages", "at least one"),
    (CHAT, {"model": "tiny", "messages": []}, "messages", "at least one"),
    (CHAT, {"model": "tiny", "messages": ["hi"]}, "messages[0]", "an object"),
    (CHAT, {"model": "tiny", "messages": [{"content": "x"}]}, "messages[0].role", "user"),
    (CHAT, say(5), "messages[0].content", "a string"),
    (CHAT, say([{"type": "image_url"}]), "messages[0].content[0]", "type text"),
    (CHAT, {**say(), "model": 5}, "model", "a string"),
    (TEXT, {"model": "tiny"}, "prompt", "one text"),
    (TEXT, ask(["a", "b"]), "prompt", "one text"),
    (TEXT, ask([1, "b"]), "prompt", "one text"),
    (TEXT, ask(""), "prompt", "one text"),
]


@pytest.mark.parametrize(("path", "body", "param", "message"), BAD)
def test_a_wrong_field_is_a_400_that_names_it(
    client: Client, path: str, body: dict[str, Any], param: str, message: str
) -> None:
    answer = client().post(path, json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert message in error["message"]
    assert (error["type"], error["code"]) == ("BadRequestError", 400)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_object_is_a_400(client: Client, raw: bytes) -> None:
    answer = client().post(CHAT, content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "BadRequestError"


def test_errors_carry_the_pod_and_the_id_too(client: Client) -> None:
    answer = client().post(CHAT, content=b"{", headers={"x-request-id": "r-2"})
    assert answer.headers["x-served-by"] == "pod-a"
    assert answer.headers["x-request-id"] == "r-2"


def test_an_unknown_model_is_a_404(client: Client) -> None:
    answer = client().post(CHAT, json={**say(), "model": "other"})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "The model `other` does not exist."
    assert answer.json()["error"]["type"] == "NotFoundError"


def test_an_unknown_path_or_method_answers_in_the_same_format(client: Client) -> None:
    simulator = client()
    assert simulator.get("/v2").json()["error"]["code"] == 404
    assert simulator.get(CHAT).json()["error"]["code"] == 405


def test_a_request_without_model_goes_to_the_first(client: Client) -> None:
    body = say(max_tokens=1)
    del body["model"]
    assert client().post(CHAT, json=body).json()["model"] == "tiny"


# Models and adapters --------------------------------------------------------------------


def test_models_and_adapters_are_listed_and_answer_by_their_names(client: Client) -> None:
    simulator = client("--lora-modules", "sql=/adapters/sql", "chat")
    cards = simulator.get("/v1/models").json()["data"]
    assert [(c["id"], c["parent"]) for c in cards] == [
        ("tiny", None),
        ("chat", "tiny"),
        ("sql", "tiny"),
    ]
    assert {c["max_model_len"] for c in cards} == {8192}
    base, adapted = (
        simulator.post(CHAT, json={**say(max_tokens=9), "model": m}).json() for m in ("tiny", "sql")
    )
    assert adapted["model"] == "sql"
    assert adapted["choices"] != base["choices"]


def test_adapters_come_and_go_at_run_time(client: Client) -> None:
    simulator = client()
    load = {"lora_name": "new", "lora_path": "/adapters/new"}
    assert simulator.post("/v1/load_lora_adapter", json=load).text.startswith("Success")
    assert simulator.post("/v1/load_lora_adapter", json=load).status_code == 400
    assert simulator.post(CHAT, json={**say(max_tokens=1), "model": "new"}).status_code == 200
    assert simulator.post("/v1/unload_lora_adapter", json={"lora_name": "new"}).status_code == 200
    assert simulator.post("/v1/unload_lora_adapter", json={"lora_name": "new"}).status_code == 404
    assert simulator.post(CHAT, json={**say(), "model": "new"}).status_code == 404


@pytest.mark.parametrize("body", [{}, {"lora_name": ""}, {"lora_name": "x"}, {"lora_name": 1}])
def test_a_wrong_adapter_request_is_a_400(client: Client, body: dict[str, Any]) -> None:
    assert client().post("/v1/load_lora_adapter", json=body).status_code == 400


def test_an_adapter_may_not_take_the_model_s_name(client: Client) -> None:
    load = {"lora_name": "tiny", "lora_path": "/x"}
    assert client().post("/v1/load_lora_adapter", json=load).status_code == 400


# Metrics --------------------------------------------------------------------------------


def test_metrics_have_vllm_s_names(client: Client) -> None:
    simulator = client("--lora-modules", "sql")
    simulator.post(CHAT, json=say(max_tokens=4))
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert sample(simulator, f"vllm:{name}", model_name="tiny", engine="0") == 0
    assert sample(simulator, "vllm:cache_config_info", block_size="16", num_gpu_blocks="2048") == 1
    assert sample(simulator, "vllm:lora_requests_info", max_lora="4", running_lora_adapters="") > 0
    assert sample(simulator, "vllm:prompt_tokens_total", model_name="tiny") == 5
    assert sample(simulator, "vllm:generation_tokens_total", model_name="tiny") == 4
    assert sample(simulator, "vllm:num_preemptions_total", model_name="tiny") == 0
    assert sample(simulator, "vllm:prefix_cache_queries_total", model_name="tiny") == 5
    assert sample(simulator, "vllm:request_success_total", finished_reason="length") == 1


def test_latencies_are_the_engine_s(client: Client) -> None:
    simulator = client("--prefill-tokens-per-second=100", "--decode-tokens-per-second=10")
    simulator.post(CHAT, json=say(max_tokens=4))
    assert sample(simulator, "vllm:time_to_first_token_seconds_sum") == pytest.approx(0.05)
    assert sample(simulator, "vllm:inter_token_latency_seconds_sum") == pytest.approx(0.3)
    assert sample(simulator, "vllm:inter_token_latency_seconds_count") == 3
    assert sample(simulator, "vllm:e2e_request_latency_seconds_sum") == pytest.approx(0.35)
    assert sample(simulator, "vllm:request_queue_time_seconds_count") == 1


def test_metrics_are_plain_prometheus_text(client: Client) -> None:
    answer = client().get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    names = re.findall(r"^# TYPE (\S+)", answer.text, re.MULTILINE)
    assert len(names) == len(set(names))


# Clients that leave ---------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("waiting", [True, False])
def test_a_client_that_leaves_frees_what_it_held(stream: bool, waiting: bool) -> None:
    """Running or still in the queue, streaming or not: the slot and the blocks come back."""
    service = make_service("--max-num-seqs", "1", "--decode-tokens-per-second", "1")
    app = create_app(service)
    body = json.dumps(ask(max_tokens=1000, ignore_eos=True, stream=stream)).encode()

    async def scenario() -> None:
        runner = asyncio.create_task(service.run())
        left = asyncio.Event()
        stay = asyncio.Event()
        calls: list[asyncio.Task[Any]] = []
        if waiting:
            calls.append(asyncio.create_task(call(app, body, stay)))
            await until(lambda: len(service.engine.running) == 1)
        calls.append(asyncio.create_task(call(app, body, left)))
        queue = service.engine.waiting if waiting else service.engine.running
        await until(lambda: len(queue) == 1)
        left.set()
        await calls[-1]
        assert len(service.engine.waiting) == 0
        assert len(service.engine.running) == (1 if waiting else 0)
        assert (service.engine.pool.usage > 0) is waiting
        stay.set()
        await asyncio.gather(*calls)
        assert service.engine.pool.usage == 0
        assert b'finished_reason="abort",model_name="tiny"} 0.0' not in service.metrics.text()
        runner.cancel()

    asyncio.run(scenario())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("never happened")


async def call(app: Any, body: bytes, leave: asyncio.Event) -> list[Any]:
    """One request whose client closes its connection at `leave`."""
    sent: list[Any] = []
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": TEXT,
        "raw_path": TEXT.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)
    return sent
