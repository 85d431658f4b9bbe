"""The engine in virtual time: queueing, batching, caching, saturation, preemption."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local.simulator.engine import BATCH_COST, STEP_TOKENS, Engine, EngineConfig, Job, Token

# Round numbers: a prompt token takes 1 ms, a lone answer token 10 ms.
CONFIG = EngineConfig(
    max_num_seqs=4,
    num_blocks=64,
    block_size=4,
    prefill_rate=1000.0,
    decode_rate=100.0,
    max_loras=1,
)


def job(
    name: str, prompt: int = 8, output: int = 4, start: int = 0, lora: str | None = None
) -> Job:
    """A request whose prompt shares nothing with one of another `start`."""
    tokens = range(1000 * start, 1000 * start + prompt)
    answer = range(500_000 + start, 500_000 + start + output)
    return Job(name, tuple(tokens), tuple(answer), 0.0, lora)


def run(engine: Engine, now: float = 0.0) -> dict[str, list[Token]]:
    """Step until idle; the tokens of each request."""
    tokens: dict[str, list[Token]] = {}
    while (step := engine.begin(now)) is not None:
        now += step.duration
        for token in engine.finish(step, now):
            tokens.setdefault(token.id, []).append(token)
    return tokens


def serve(config: EngineConfig, *jobs: Job) -> tuple[Engine, dict[str, list[Token]]]:
    engine = Engine(config)
    for each in jobs:
        engine.submit(each)
    return engine, run(engine)


def test_one_request_takes_its_prefill_and_then_a_step_a_token() -> None:
    _, tokens = serve(CONFIG, job("a", prompt=8, output=3))
    first, *others = tokens["a"]
    assert first.since_arrival == pytest.approx(0.008)
    assert [t.since_previous for t in others] == pytest.approx([0.01, 0.01])
    assert [t.last for t in tokens["a"]] == [False, False, True]


def test_companions_slow_decoding_a_little_and_raise_throughput_a_lot() -> None:
    _, tokens = serve(CONFIG, *(job(str(i), start=i, output=10) for i in range(4)))
    gap = tokens["0"][-1].since_previous
    assert gap is not None
    assert gap == pytest.approx(0.01 * (1 + 3 * BATCH_COST))
    assert 4 / gap > 3.5 * 100


def test_requests_beyond_the_slots_wait_their_turn() -> None:
    engine = Engine(replace(CONFIG, max_num_seqs=1))
    for i in range(3):
        engine.submit(job(str(i), start=i))
    engine.begin(0.0)
    assert [s.id for s in engine.running] == ["0"]
    assert [s.id for s in engine.waiting] == ["1", "2"]
    _, tokens = serve(replace(CONFIG, max_num_seqs=1), *(job(str(i), start=i) for i in range(3)))
    queued = [tokens[str(i)][0].queued for i in range(3)]
    assert queued[0] == 0
    assert queued[0] < queued[1] < queued[2]


def test_a_known_prefix_costs_no_prefill() -> None:
    engine = Engine(CONFIG)
    engine.submit(job("cold", prompt=40))
    cold = run(engine)["cold"][0]
    engine.submit(job("warm", prompt=40))
    warm = run(engine)["warm"][0]
    assert cold.cached == 0
    assert warm.cached == 36, "the last token's block is always computed"
    assert warm.since_arrival == pytest.approx(cold.since_arrival / 10)
    assert (engine.counters.prefix_queries, engine.counters.prefix_hits) == (80, 36)


def test_a_following_turn_finds_the_answer_of_the_one_before() -> None:
    engine = Engine(CONFIG)
    first = job("first", prompt=8, output=8)
    engine.submit(first)
    run(engine)
    follow = Job("second", (*first.prompt, *first.output, 1, 2), (9,), 0.0)
    engine.submit(follow)
    assert run(engine)["second"][0].cached == 12, "7 of the 8 answer tokens have KV: 3 blocks"


def test_prompts_that_begin_differently_share_nothing() -> None:
    engine = Engine(CONFIG)
    engine.submit(job("a", prompt=16))
    run(engine)
    other = Job("b", (7, *job("a", prompt=16).prompt[1:]), (1,), 0.0)
    engine.submit(other)
    assert run(engine)["b"][0].cached == 0


def test_an_adapter_has_a_cache_of_its_own() -> None:
    engine = Engine(CONFIG)
    engine.submit(job("base", prompt=16))
    run(engine)
    engine.submit(job("lora", prompt=16, lora="x"))
    engine.submit(job("again", prompt=16, lora="x"))
    tokens = run(engine)
    assert tokens["lora"][0].cached == 0


def test_without_prefix_caching_nothing_is_found_or_counted() -> None:
    engine = Engine(replace(CONFIG, prefix_caching=False))
    for name in ("a", "b"):
        engine.submit(job(name, prompt=40))
        assert run(engine)[name][0].cached == 0
    assert engine.counters.prefix_queries == 0


def test_a_cache_that_is_too_small_forgets_the_oldest_prompt() -> None:
    engine = Engine(replace(CONFIG, num_blocks=20))
    for start in (0, 1, 2):  # 10 blocks each: the third evicts the first
        engine.submit(job(str(start), prompt=36, start=start))
        run(engine)
    for start, found in ((2, True), (0, False)):
        engine.submit(job("again", prompt=36, start=start))
        assert (run(engine)["again"][0].cached > 0) is found


def test_blocks_in_use_are_counted_and_given_back() -> None:
    engine = Engine(CONFIG)
    engine.submit(job("a", prompt=8))
    engine.begin(0.0)
    assert engine.pool.usage == pytest.approx(2 / 64)
    run(engine)
    assert engine.pool.usage == 0


def test_a_prompt_that_does_not_fit_waits_though_slots_are_free() -> None:
    engine = Engine(replace(CONFIG, num_blocks=8))
    engine.submit(job("big", prompt=24, output=2))
    engine.submit(job("also", prompt=24, output=2, start=1))
    engine.begin(0.0)
    assert (len(engine.running), len(engine.waiting)) == (1, 1)
    assert set(run(engine)) == {"also"} | {"big"}


def test_out_of_blocks_the_youngest_is_preempted_and_still_answers_in_full() -> None:
    config = replace(CONFIG, num_blocks=8)
    jobs = [job(str(i), prompt=8, output=16, start=i) for i in range(3)]
    engine, tokens = serve(config, *jobs)
    assert engine.counters.preemptions > 0
    assert {name: len(t) for name, t in tokens.items()} == {"0": 16, "1": 16, "2": 16}
    assert [t.index for t in tokens["2"]] == list(range(16)), "no token twice"
    assert tokens["0"][-1].since_arrival < tokens["2"][-1].since_arrival
    assert engine.pool.usage == 0


def test_saturation_lengthens_the_queue_not_the_batch() -> None:
    waits: list[float] = []
    for load in (4, 8, 16):
        _, tokens = serve(CONFIG, *(job(str(i), start=i) for i in range(load)))
        waits.append(max(t[0].queued for t in tokens.values()))
    assert waits[0] == 0
    assert waits[1] > 0
    assert waits[2] > 2 * waits[1]


def test_a_long_prompt_is_chunked_and_does_not_stop_others_tokens() -> None:
    config = replace(CONFIG, num_blocks=4096)
    engine = Engine(config)
    engine.submit(job("short", prompt=4, output=50))
    step = engine.begin(0.0)
    assert step is not None
    engine.finish(step, 0.01)
    engine.submit(job("long", prompt=3 * STEP_TOKENS, output=1, start=9))
    steps_until_long = 0
    tokens_of_short = 0
    now = 0.01
    while (step := engine.begin(now)) is not None and engine.running[-1].id == "long":
        now += step.duration
        done = engine.finish(step, now)
        steps_until_long += 1
        tokens_of_short += sum(t.id == "short" for t in done)
        assert sum(count for _, count in step.work) <= STEP_TOKENS
    assert tokens_of_short == steps_until_long == 4


def test_an_adapter_beyond_the_limit_waits_and_lets_others_pass() -> None:
    engine = Engine(CONFIG)
    for name, lora in (("a", "one"), ("b", "two"), ("c", "one"), ("d", None)):
        engine.submit(job(name, lora=lora))
    engine.begin(0.0)
    assert [s.id for s in engine.running] == ["a", "c", "d"]
    assert engine.adapters() == (["one"], ["two"])
    assert len(run(engine)["b"]) == 4


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_aborted_request_frees_all_it_holds_and_says_no_more(steps: int) -> None:
    engine = Engine(CONFIG)
    engine.submit(job("a", output=8))
    now = 0.0
    for _ in range(steps):
        step = engine.begin(now)
        assert step is not None
        now += step.duration
        engine.finish(step, now)
    step = engine.begin(now)
    assert step is not None
    assert engine.abort("a")
    assert engine.finish(step, now + step.duration) == []
    assert (len(engine.running), len(engine.waiting), engine.pool.usage) == (0, 0, 0)
    assert not engine.abort("a")


def test_a_waiting_request_can_be_aborted() -> None:
    engine = Engine(replace(CONFIG, max_num_seqs=1))
    engine.submit(job("a"))
    engine.submit(job("b", start=1))
    engine.begin(0.0)
    assert engine.abort("b")
    assert not engine.waiting


def test_what_could_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 65 KV blocks of 64"):
        Engine(CONFIG).submit(job("a", prompt=256, output=4))


def test_the_same_load_gives_the_same_times() -> None:
    jobs = [(str(i), 8 + i % 5, 4 + i % 7, i % 3) for i in range(20)]
    runs = [serve(CONFIG, *(job(*each) for each in jobs))[1] for _ in range(2)]
    assert runs[0] == runs[1]


def test_counters_add_up() -> None:
    engine, tokens = serve(CONFIG, job("a", 8, 4), job("b", 12, 6, start=1))
    assert engine.counters.prompt_tokens == 20
    assert engine.counters.generation_tokens == sum(map(len, tokens.values())) == 10


# KV of other engines --------------------------------------------------------------------


def test_kept_blocks_are_held_until_they_are_let_go() -> None:
    kept = replace(job("a", prompt=8, output=1), keep=True)
    engine, tokens = serve(CONFIG, kept)
    assert [token.last for token in tokens["a"]] == [True]
    assert (len(engine.running), engine.pool.usage) == (0, 2 / 64)
    assert not engine.abort("a"), "it is over"
    assert engine.let_go("a")
    assert engine.pool.usage == 0
    assert not engine.let_go("a")


def test_kept_blocks_leave_others_less_room() -> None:
    engine, _ = serve(CONFIG, replace(job("a", prompt=200, output=1), keep=True))
    engine.submit(job("b", prompt=100, output=1, start=1))
    assert engine.begin(0.0) is None
    engine.let_go("a")
    assert engine.begin(0.0) is not None


def test_given_kv_needs_no_prefill_but_for_the_last_token() -> None:
    _, tokens = serve(CONFIG, replace(job("a", prompt=100, output=2), given=100))
    first, second = tokens["a"]
    assert first.since_arrival == pytest.approx(0.001)
    assert first.cached == 0, "the cache here had no part in it"
    assert second.since_previous == pytest.approx(0.01)


def test_given_kv_is_lost_with_a_preemption() -> None:
    small = replace(CONFIG, num_blocks=8, prefix_caching=False)
    jobs = (job("a", 12, 16), replace(job("b", 12, 16, start=1), given=12))
    engine, tokens = serve(small, *jobs)
    assert engine.counters.preemptions > 0
    assert [len(tokens[name]) for name in "ab"] == [16, 16]
    gaps = [token.since_previous or 0.0 for token in tokens["b"]]
    assert max(gaps) > 0.1, "it waited, and was computed again"


def test_the_time_since_the_first_token() -> None:
    _, tokens = serve(CONFIG, job("a", prompt=8, output=3))
    assert [token.since_first for token in tokens["a"]] == pytest.approx([0, 0.01, 0.02])
