"""Flags of every engine: any spelling reads the same, and what is written is read back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenworks.catalog.flags import (
    Flags,
    Grammar,
    Option,
    Unresolved,
    Value,
    grammars,
    misread,
    read_flags,
    write_flags,
)
from tokenworks.catalog.shell import Word

VLLM = grammars()["vllm"]


def given_to(engine: str, *words: str) -> dict[str, Value]:
    return {name: flag.value for name, flag in flags(engine, *words).given.items()}


def flags(engine: str, *words: str) -> Flags:
    return read_flags(grammars()[engine], [Word(word) for word in words])


# --- spellings -----------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--tensor-parallel-size", "2"],
        ["--tensor-parallel-size=2"],
        ["--tensor_parallel_size", "2"],
        ["--tensor_parallel_size=2"],
        ["--tensor-parallel_size=2"],
        ["-tp", "2"],
        ["-tp=2"],
        ["--tensor-parallel", "2"],
        ["--tensor-parallel-size=8", "-tp", "2"],
    ],
    ids=str,
)
def test_every_spelling_of_a_number(words: list[str]) -> None:
    assert given_to("vllm", *words) == {"tensor-parallel-size": 2}


@pytest.mark.parametrize(
    ("engine", "words", "expected"),
    [
        ("vllm", ["--enable-prefix-caching"], {"enable-prefix-caching": True}),
        ("vllm", ["--no-enable-prefix-caching"], {"enable-prefix-caching": False}),
        ("vllm", ["--no_enable_prefix_caching"], {"enable-prefix-caching": False}),
        ("vllm", ["--headless"], {"headless": True}),
        ("vllm", ["--max-model-len", "32k"], {"max-model-len": 32_000}),
        ("vllm", ["--max-model-len=32K"], {"max-model-len": 32_768}),
        ("vllm", ["--max-model-len", "1.5k"], {"max-model-len": 1500}),
        ("vllm", ["--max-model-len", "auto"], {"max-model-len": -1}),
        ("vllm", ["--max-model-len", "-1"], {"max-model-len": -1}),
        ("vllm", ["-n2", "-r", "1"], {"nnodes": 2, "node-rank": 1}),
        ("vllm", ["-O3"], {"optimization-level": "3"}),
        ("vllm", ["--gpu-memory-utilization=0.9"], {"gpu-memory-utilization": 0.9}),
        ("vllm", ["--served-model-name", "a", "b", "--port", "1"],
         {"served-model-name": ["a", "b"], "port": 1}),
        ("vllm", ["--served-model-name=a"], {"served-model-name": ["a"]}),
        ("vllm", ["--middleware", "a", "--middleware=b"], {"middleware": ["a", "b"]}),
        ("vllm", ["--hf-token", "--port=1"], {"hf-token": True, "port": 1}),
        ("vllm", ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "n": [1, null]}'],
         {"kv-transfer-config": {"kv_connector": "NixlConnector", "n": [1, None]}}),
        ("vllm", ["--kv-transfer-config.kv_role", "kv_both",
                  "--kv_transfer_config.kv_connector=NixlConnector"],
         {"kv-transfer-config": {"kv_role": "kv_both", "kv_connector": "NixlConnector"}}),
        ("vllm", ["--compilation-config.level", "3", "-cc.pass_config.fuse", "true"],
         {"compilation-config": {"level": 3, "pass_config": {"fuse": True}}}),
        ("vllm", ["--kv-transfer-config.a.b+", "x", "--kv-transfer-config.a.b+=y,z"],
         {"kv-transfer-config": {"a": {"b": ["x", "y", "z"]}}}),
        ("vllm", ["--kv-transfer-config.cpu_bytes_to_use", "80g"],
         {"kv-transfer-config": {"cpu_bytes_to_use": 80 * 10**9}}),
        ("sglang", ["--tp", "8"], {"tp-size": 8}),
        ("sglang", ["--tensor-parallel-size=8"], {"tp-size": 8}),
        ("sglang", ["--model", "m", "--enable-metrics"],
         {"model-path": "m", "enable-metrics": True}),
        ("sglang", ["--lora-paths", "a=/a", "b=/b"], {"lora-paths": ["a=/a", "b=/b"]}),
        ("trtllm", ["--tp_size", "8", "--ep_size=4"],
         {"tensor-parallel-size": 8, "moe-expert-parallel-size": 4}),
        ("trtllm", ["--extra_llm_api_options", "f.yml"], {"config": "f.yml"}),
        ("llamacpp", ["-m", "x.gguf", "-c", "4096", "-ngl", "all"],
         {"model": "x.gguf", "ctx-size": 4096, "gpu-layers": "all"}),
        ("llamacpp", ["--ctx_size", "8", "--no-kv-offload", "-np", "4"],
         {"ctx-size": 8, "kv-offload": False, "parallel": 4}),
        ("llamacpp", ["-nkvo", "--no-cache-prompt"], {"kv-offload": False, "cache-prompt": False}),
        ("llamacpp", ["--lora", "a,b"], {"lora": ["a", "b"]}),
        ("triton", ["--model-repository=/a", "--model-store", "/b"],
         {"model-repository": ["/a", "/b"]}),
        ("triton", ["--allow-metrics=false", "--strict-readiness", "true"],
         {"allow-metrics": False, "strict-readiness": True}),
        ("llmd-sim", ["--enable-kvcache", "--lora-modules", '{"name":"a"}', '{"name":"b"}'],
         {"enable-kvcache": True, "lora-modules": ['{"name":"a"}', '{"name":"b"}']}),
        ("llmd-sim", ["--enable-kvcache=false"], {"enable-kvcache": False}),
        ("simulator", ["--max_num_seqs=8", "--no-enable-prefix-caching"],
         {"max-num-seqs": 8, "enable-prefix-caching": False}),
    ],
    ids=str,
)  # fmt: skip
def test_spellings(engine: str, words: list[str], expected: dict[str, Any]) -> None:
    read = flags(engine, *words)
    assert {name: flag.value for name, flag in read.given.items()} == expected
    assert read.unknown == () and read.extra == ()


def test_what_an_engine_does_not_read_is_not_read() -> None:
    assert flags("llamacpp", "--ctx-size=8").unknown[0].near[0] == "ctx-size"
    assert flags("sglang", "--no-enable-metrics").unknown[0].name == "no-enable-metrics"
    assert flags("triton", "--allow_metrics=1").unknown[0].near[0] == "allow-metrics"
    assert flags("ollama", "--num-parallel", "4").unknown[0].name == "num-parallel"
    assert flags("vllm", "--no-headless").unknown[0].name == "no-headless"


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("--tensor-paralel-size", "tensor-parallel-size"),
        ("--max_model_length", "max-model-len"),
        ("--enable-prefix-cache", "enable-prefix-caching"),
        ("--kv-transfer-cfg.kv_role", "kv-transfer-config"),
    ],
)
def test_an_unknown_flag_names_its_neighbours(word: str, near: str) -> None:
    read = flags("vllm", word, "2", "--port", "1")
    assert [(u.position, u.raw) for u in read.unknown] == [(0, "2")]
    assert near in read.unknown[0].near
    assert read.given["port"].value == 1


def test_the_last_of_several_counts_and_is_remarked() -> None:
    read = flags("vllm", "--port", "1", "--port=2")
    assert read.given["port"].value == 2 and read.given["port"].position == 2
    assert read.notes == ("--port is given twice; the last counts",)


def test_pieces_replace_the_whole() -> None:
    read = flags("vllm", "--kv-transfer-config.a", "1", "--kv-transfer-config", '{"b": 2}')
    assert read.given["kv-transfer-config"].value == {"a": 1}
    assert "replaces the whole" in read.notes[-1]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--port", "http"], "--port wants a whole number, found http"),
        (["--port"], "--port has no value"),
        (["--served-model-name"], "--served-model-name has no value"),
        (["--kv-transfer-config", "{'a': 1}"], "--kv-transfer-config wants JSON, found {'a': 1}"),
        (["--gpu-memory-utilization", "nan"], "--gpu-memory-utilization wants a number, found nan"),
        (["--kv-offloading-backend", "disk"],
         "--kv-offloading-backend wants one of lmcache, native, found disk"),
        (["--headless=true"], "--headless takes no value, found true"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(words: list[str], note: str) -> None:
    assert note in flags("vllm", *words).notes


def test_a_value_that_is_not_known_stays_so() -> None:
    words = [Word("--nnodes=$(SIZE)", ("SIZE",)), Word("--kv-transfer-config.port"),
             Word("$P", ("P",))]  # fmt: skip
    read = read_flags(VLLM, words)
    assert read.given["nnodes"].value == Unresolved("$(SIZE)", ("SIZE",))
    assert read.given["kv-transfer-config"].value == {"port": Unresolved("$P", ("P",))}


def test_words_of_no_flag_keep_their_positions() -> None:
    read = read_flags(VLLM, [Word(w) for w in ("m", "--port", "1", "x", "--", "--y")], start=2)
    assert [(p, w.text) for p, w in read.extra] == [(2, "m"), (5, "x"), (7, "--y")]
    assert read.given["port"].position == 3


# --- there and back ------------------------------------------------------------

TEXT = st.text("abcXYZ019._/:{} ", min_size=1, max_size=8).filter(lambda t: t.strip() == t)
PIECE = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab\"' ", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=5,
)
# Text for such a flag is taken for JSON that somebody wrote.
JSON = st.lists(PIECE, max_size=2) | st.dictionaries(st.text("ab", max_size=2), PIECE, max_size=2)


def whole(option: Option) -> st.SearchStrategy[int]:
    numbers = option.range
    if numbers.only:
        return st.sampled_from([int(number) for number in numbers.only])
    least = max(numbers.least, numbers.above + 1, 0)
    most = min(numbers.most, numbers.below - 1, 10**12)
    times = numbers.multiple_of or 1
    return st.integers(math.ceil(least / times), int(most) // times).map(lambda n: n * times)


def fraction(option: Option) -> st.SearchStrategy[float]:
    numbers = option.range
    least, most = max(numbers.least, numbers.above, 0.0), min(numbers.most, numbers.below, 1e6)
    return st.floats(
        least, most, exclude_min=numbers.above >= least, exclude_max=numbers.below <= most
    )


def value_of(option: Option) -> st.SearchStrategy[Any]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "flag": st.just(True) if option.takes == "optional" else st.booleans(),
        "integer": whole(option),
        "number": fraction(option),
        "text": TEXT,
        "json": JSON,
        "list": st.lists(st.text("abc0./=", min_size=1, max_size=5), min_size=1, max_size=3),
        "choice": st.sampled_from(option.choices or ("",)),
    }
    return kinds[option.type]


@st.composite
def settings_of(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    engine = draw(st.sampled_from(sorted(set(grammars()) - {"ollama"})))
    grammar = grammars()[engine]
    usable = sorted(name for name, option in grammar.options.items() if not option.only_env)
    names = draw(st.lists(st.sampled_from(usable), max_size=5, unique=True))
    return engine, {n: draw(value_of(grammar.options[n])) for n in names}


def can_be_off(grammar: Grammar, name: str) -> bool:
    by_value = grammar.style["off"] == "value" and grammar.options[name].takes != "none"
    required = grammar.options[name].takes == "required"
    return required or by_value or (name, False) in grammar.long.values()


@settings(deadline=None)
@given(settings_of())
def test_what_is_written_is_read_back(case: tuple[str, dict[str, Any]]) -> None:
    grammar, wanted = grammars()[case[0]], case[1]
    read = read_flags(grammar, [Word(word) for word in write_flags(grammar, wanted)])
    expected = {
        name: value
        for name, value in wanted.items()
        if value is not False or grammar.options[name].type != "flag" or can_be_off(grammar, name)
    }
    assert {name: flag.value for name, flag in read.given.items()} == expected
    assert read.unknown == () and read.extra == () and read.notes == ()


@settings(deadline=None)
@given(settings_of())
def test_a_good_value_is_not_refused(case: tuple[str, dict[str, Any]]) -> None:
    grammar, values = grammars()[case[0]], case[1]
    refused = {name for name, value in values.items() if misread(grammar, name, value)}
    # Charts write a list as most flags of the engine want it.
    otherwise = {n for n, o in grammar.options.items() if o.lists != grammar.style["lists"]}
    assert all(isinstance(values[n], list) and len(values[n]) > 1 for n in refused)
    assert refused <= otherwise


@pytest.mark.parametrize(
    ("engine", "flag", "value", "why"),
    [
        ("vllm", "max-num-seqs", "many", "--max-num-seqs wants a whole number, found many"),
        ("vllm", "max-num-seqs", True, "--max-num-seqs wants a whole number, found true"),
        ("vllm", "max-num-seqs", 1.5, "--max-num-seqs wants a whole number, found 1.5"),
        ("vllm", "gpu-memory-utilization", "most",
         "--gpu-memory-utilization wants a number, found most"),
        ("vllm", "enforce-eager", "yes", "--enforce-eager is on or off, found yes"),
        ("vllm", "kv-events-config", "{", "--kv-events-config wants JSON, found {"),
        ("vllm", "kv-offloading-backend", "disk",
         "--kv-offloading-backend wants one of lmcache, native, found disk"),
        ("ollama", "num-parallel", "some", "--num-parallel wants a whole number, found some"),
        ("vllm", "max-num-batched-tokens", "8k", None),
        ("vllm", "no-such-flag", 1, None),
        ("vllm", "runner", "pooling", None),
        ("llamacpp", "flash-attn", True, None),
        ("llamacpp", "flash-attn", "on", None),
        ("vllm", "middleware", ["a"], None),
        ("vllm", "middleware", ["a", "b"],
         "--middleware is written once a value, and charts write it once"),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_another_type_is_refused(
    engine: str, flag: str, value: Value, why: str | None
) -> None:
    assert misread(grammars()[engine], flag, value) == why


@pytest.mark.parametrize(
    ("engine", "flag", "value", "wants"),
    [
        ("vllm", "gpu-memory-utilization", 7, "a number above 0 and at most 1"),
        ("vllm", "gpu-memory-utilization", 0, "a number above 0 and at most 1"),
        ("vllm", "device-memory-utilization", 1.01, "a number above 0 and at most 1"),
        ("vllm", "gpu-memory-utilization", 1, None),
        ("vllm", "max-num-seqs", -5, "a whole number of at least 1"),
        ("vllm", "max-num-seqs", "0", "a whole number of at least 1"),
        ("vllm", "max-num-batched-tokens", "-8k", "a whole number"),
        ("vllm", "block-size", 7, "a whole number that is a multiple of 16 or 1"),
        ("vllm", "block-size", 0, "a whole number that is a multiple of 16 or 1"),
        ("vllm", "block-size", 1, None),
        ("vllm", "block-size", 64, None),
        ("vllm", "watermark", 1, "a number of at least 0 and below 1"),
        ("vllm", "max-logprobs", -1, None),
        ("vllm", "master-port", 65536, "a whole number from 1 to 65535"),
        ("sglang", "mem-fraction-static", 88, "a number above 0 and at most 1"),
        ("sglang", "chunked-prefill-size", -1, None),
        ("sglang", "max-running-requests", 0, "a whole number of at least 1"),
        ("trtllm", "max-batch-size", 0, "a whole number of at least 1"),
        ("llmd-sim", "block-size", 24, "a whole number: 8, 16, 32, 64 or 128"),
        ("llmd-sim", "failure-injection-rate", 101, "a whole number from 0 to 100"),
        ("llamacpp", "parallel", -1, None),
        ("llamacpp", "ubatch-size", 0, "a whole number of at least 1"),
        ("ollama", "num-parallel", -1, "a whole number of at least 0"),
        ("triton", "grpc-port", 0, "a whole number from 1 to 65535"),
        ("simulator", "decode-tokens-per-second", 0, "a number above 0"),
    ],
    ids=str,
)
def test_a_number_that_the_engine_does_not_take_is_refused(
    engine: str, flag: str, value: Value, wants: str | None
) -> None:
    why = misread(grammars()[engine], flag, value)
    if wants is None:
        assert why is None
    else:
        assert why is not None
        assert why.endswith(f" wants {wants}, found {value}")


def test_what_is_not_known_yet_is_in_no_range() -> None:
    read = read_flags(VLLM, [Word("--max-num-seqs=$(SEQS)", ("SEQS",))])
    assert read.notes == ()


@settings(deadline=None)
@given(st.data(), settings_of())
def test_any_mixture_of_spellings_is_the_same(
    data: st.DataObject, case: tuple[str, dict[str, Any]]
) -> None:
    grammar, wanted = grammars()[case[0]], case[1]
    plain = {n: v for n, v in wanted.items() if grammar.options[n].type != "flag"}
    words: list[str] = []
    for name, value in plain.items():
        option = grammar.options[name]
        items = (
            [str(item) for item in value]
            if isinstance(value, list) and (option.type == "list")
            else [json.dumps(value) if option.type == "json" else str(value)]
        )
        spellings = [f"--{n}" for n, target in grammar.long.items() if target == (name, True)]
        spellings += [f"-{n}" for n, target in grammar.short.items() if target == (name, True)]
        if grammar.style["underscores"]:
            spellings += [s.replace("-", "_").replace("__", "--", 1) for s in spellings
                          if s.startswith("--")]  # fmt: skip
        flag = data.draw(st.sampled_from(spellings))
        joined = grammar.style["equals"] and data.draw(st.booleans()) and len(items) == 1
        if option.type == "list" and option.lists == "comma":
            items = [",".join(items)]
        if option.type == "list" and option.lists == "repeat":
            words += [word for item in items for word in (flag, item)]
        else:
            words += [f"{flag}={items[0]}"] if joined else [flag, *items]
    read = read_flags(grammar, [Word(word) for word in words])
    assert {name: flag.value for name, flag in read.given.items()} == plain
    assert read.unknown == () and read.notes == ()


@settings(deadline=None)
@given(st.sampled_from(sorted(grammars())), st.lists(st.text("-=.+ab_{}\"'$0 ", max_size=9)))
def test_any_words_are_read(engine: str, words: list[str]) -> None:
    read = flags(engine, *words)
    assert set(read.given) <= set(grammars()[engine].options)
