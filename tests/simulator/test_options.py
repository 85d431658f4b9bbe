"""The command line: spellings, defaults, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local.simulator import VERSION
from local.simulator.options import parse

ROOT = Path(__file__).parent.parent.parent


def test_defaults() -> None:
    options = parse([])
    assert (options.port, options.max_model_len, options.seed) == (8000, 8192, 0)
    assert options.engine.prefix_caching
    assert options.lora_modules == ()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-num-seqs", "3", "--max-model-len", "64"],
        ["--max-num-seqs=3", "--max-model-len=64"],
        ["--max_num_seqs", "3", "--max_model_len=64"],
    ],
)
def test_every_spelling_of_a_flag(arguments: list[str]) -> None:
    options = parse(arguments)
    assert (options.engine.max_num_seqs, options.max_model_len) == (3, 64)


def test_every_flag_arrives() -> None:
    flags = """
        --served-model-name a b --port 1 --host ::1 --max-model-len 32 --max-num-seqs 2
        --num-kv-blocks 8 --block-size 4 --prefill-tokens-per-second 10
        --decode-tokens-per-second 2.5 --load-seconds 1.5 --seed 7 --no-enable-prefix-caching
        --lora-modules x=/p y --max-loras 1 --shutdown-timeout 9 --drain-accept-seconds 0
    """
    options = parse(flags.split())
    assert options.served_model_names == ("a", "b")
    assert (options.host, options.port, options.max_model_len) == ("::1", 1, 32)
    assert (options.engine.max_num_seqs, options.engine.num_blocks) == (2, 8)
    assert (options.engine.block_size, options.engine.max_loras) == (4, 1)
    assert (options.engine.prefill_rate, options.engine.decode_rate) == (10, 2.5)
    assert not options.engine.prefix_caching
    assert (options.load_seconds, options.seed) == (1.5, 7)
    assert options.lora_modules == ("x", "y")
    assert (options.shutdown_timeout, options.drain_accept_seconds) == (9, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "--port: must be between 0 and 65535"),
        (["--port", "x"], "--port"),
        (["--max-num-seqs", "0"], "--max-num-seqs: must be at least 1"),
        (["--max-num-seqs", "1.5"], "invalid whole number value"),
        (["--decode-tokens-per-second", "0"], "must be above 0"),
        (["--prefill-tokens-per-second", "nan"], "must be above 0"),
        (["--load-seconds", "-1"], "must be 0 or more"),
        (["--load-seconds", "inf"], "must be 0 or more"),
        (["--no-such-flag"], "unrecognized arguments"),
        (["--max-num", "3"], "unrecognized arguments"),
        (["--max-model-len", "100000"], "hold 32768 tokens; lower the first or raise"),
        (["--served-model-name", "a", "--lora-modules", "a"], "twice: a"),
        (["--lora-modules", "=x"], "names must be there"),
    ],
)
def test_a_wrong_value_ends_with_2_and_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "word"), [("--help", "Example:"), ("--version", VERSION)])
def test_the_package_runs_by_itself_outside_this_repository(flag: str, word: str) -> None:
    """As in its image: the package is called `simulator` and sees nothing of the rest."""
    result = subprocess.run(
        [sys.executable, "-m", "simulator", flag],
        cwd=ROOT / "local",
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ""},
    )
    assert word in result.stdout
