"""Command lines written for real engines: every spelling, and what is refused."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from local.simulator.engines import FORMS, plan_as
from local.simulator.engines.commandline import CommandLineError, Flag, read
from local.simulator.engines.knobs import Knobs, knobs
from local.simulator.options import whole

FLAGS = (
    Flag(("--tensor-parallel-size", "-tp"), whole(1), 1),
    Flag(("--names",), kind="list", default=()),
    Flag(("--headless",), kind="switch", default=False),
    Flag(("--caching",), kind="both", default=True),
    Flag(("--config",), kind="json"),
    Flag(("--offset",), int, 0),
)


@pytest.mark.parametrize(
    "text",
    [
        "--tensor-parallel-size 2",
        "--tensor-parallel-size=2",
        "--tensor_parallel_size 2",
        "--tensor_parallel_size=2",
        "-tp 2",
        "-tp=2",
    ],
)
def test_spellings_of_a_value(text: str) -> None:
    assert read(text.split(), FLAGS)["tensor-parallel-size"] == 2


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("", "tensor-parallel-size", 1),
        ("--names a b --headless", "names", ("a", "b")),
        ("--names=a", "names", ("a",)),
        ("--headless", "headless", True),
        ("", "caching", True),
        ("--no-caching", "caching", False),
        ("--no_caching", "caching", False),
        ("--no-caching --caching", "caching", True),
        ("-tp 2 -tp 3", "tensor-parallel-size", 3),
        ("--offset -1", "offset", -1),
        ('--config {"a":1}', "config", {"a": 1}),
        ("--config.a 1 --config.b.c=x", "config", {"a": 1, "b": {"c": "x"}}),
        ('--config {"a":1,"b":{"c":2}} --config.b.d 3', "config", {"a": 1, "b": {"c": 2, "d": 3}}),
    ],
)
def test_what_is_said(text: str, key: str, value: Any) -> None:
    assert read(text.split(), FLAGS)[key] == value


def test_unknown_flags_are_told_once_and_swallow_their_values() -> None:
    given = read(
        ["MODEL", "--x", "1", "--y=2", "--z", "a", "b", "-tp", "2", "--x", "3", "-q"], FLAGS
    )
    assert given.without_effect == ("--x", "--y", "--z", "-q")
    assert given.positionals == ("MODEL",)
    assert given["tensor-parallel-size"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-tp", "argument -tp: expected a value"),
        ("-tp --headless", "argument -tp: expected a value"),
        ("-tp 0", "argument -tp: must be at least 1"),
        ("-tp x", "not a whole number, found 'x'"),
        ("--names", "expected at least one value"),
        ("--headless=yes", "takes no value"),
        ("--no-headless x", ""),
        ("--config {", "not JSON"),
        ("--config 5", "must be a JSON object"),
    ],
)
def test_wrong_values_are_refused(text: str, message: str) -> None:
    if not message:  # a switch has no `--no-` form: it is some other flag
        assert read(text.split(), FLAGS).without_effect == ("--no-headless",)
        return
    with pytest.raises(CommandLineError, match=message) as refused:
        read(text.split(), FLAGS)
    assert refused.value.code == 2


def test_options_of_the_simulation() -> None:
    assert knobs("") == Knobs()
    found = knobs('{"num-kv-blocks": 512, "load-seconds": 1, "seed": 7, "models": ["a"]}')
    assert (found.num_kv_blocks, found.load_seconds, found.seed) == (512, 1, 7)
    assert found.models == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"speed": 1}', "speed is not one of decode-tokens-per-second"),
        ('{"seed": 1.5}', "seed must be a whole number"),
        ('{"seed": true}', "seed must be a whole number"),
        ('{"load-seconds": "1"}', "load-seconds must be a number"),
        ('{"load-seconds": NaN}', "load-seconds must be a number"),
        ('{"decode-tokens-per-second": 0}', "must be above 0"),
        ('{"models": "a"}', "must be an array of texts"),
    ],
)
def test_wrong_options_of_the_simulation_are_refused(text: str, message: str) -> None:
    with pytest.raises(CommandLineError, match=message):
        knobs(text)


@pytest.mark.parametrize(
    ("arguments", "options", "code", "message"),
    [
        (["nothing"], "", 2, "ENGINE one of vllm, sglang, trtllm, llamacpp, ollama, triton, ray"),
        ([], "", 2, "ENGINE one of"),
        (["vllm", "serve"], "", 2, "write --as ENGINE -- ARGUMENTS"),
        (["vllm", "--", "serve", "m", "n"], "", 2, "vllm: error: unrecognized arguments: n"),
        (["vllm", "--", "m", "--port", "x"], "", 2, "argument --port: not a port, found 'x'"),
        (["vllm", "--", "m"], "{", 2, "SIMULATOR_OPTIONS: not JSON"),
        (["vllm", "--", "m"], '{"num-kv-blocks": 1}', 1, "too few for a context of 8192"),
        (["sglang", "--"], "", 2, "required: --model-path"),
    ],
)
def test_the_process_ends_with_the_code_and_a_line(
    arguments: list[str],
    options: str,
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        plan_as(arguments, {"SIMULATOR_OPTIONS": options})
    assert ended.value.code == code
    assert message in capsys.readouterr().err


def test_the_guide_lists_every_option_and_engine() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    tables = guide.partition("## What tests can see")[0]
    named = re.findall(r"^\| `([a-z-]+)` \|", tables, re.MULTILINE)
    known = [field.name.replace("_", "-") for field in fields(Knobs)]
    assert sorted(named) == sorted([*known, *FORMS])
