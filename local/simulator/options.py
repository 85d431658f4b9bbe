"""The command line. Names follow vLLM's where it has them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import VERSION
from .engine import EngineConfig


@dataclass(frozen=True)
class Options:
    """Everything the simulator was told."""

    served_model_names: tuple[str, ...]
    host: str
    port: int
    max_model_len: int
    engine: EngineConfig
    lora_modules: tuple[str, ...]
    load_seconds: float
    seed: int
    shutdown_timeout: float
    drain_accept_seconds: float


def parse(arguments: Sequence[str]) -> Options:
    """Options from a command line; `--flag value`, `--flag=value`, dashes or underscores.

    Raises:
        SystemExit: 2 with a message on wrong usage, 0 after `--help` or `--version`.
    """
    parser = _parser()
    given = parser.parse_args([_dashed(a) for a in arguments])
    engine = EngineConfig(
        max_num_seqs=given.max_num_seqs,
        num_blocks=given.num_kv_blocks,
        block_size=given.block_size,
        prefill_rate=given.prefill_tokens_per_second,
        decode_rate=given.decode_tokens_per_second,
        prefix_caching=given.enable_prefix_caching,
        max_loras=given.max_loras,
    )
    loras = tuple(name.partition("=")[0] for name in given.lora_modules)
    options = Options(
        served_model_names=tuple(given.served_model_name),
        host=given.host,
        port=given.port,
        max_model_len=given.max_model_len,
        engine=engine,
        lora_modules=loras,
        load_seconds=given.load_seconds,
        seed=given.seed,
        shutdown_timeout=given.shutdown_timeout,
        drain_accept_seconds=given.drain_accept_seconds,
    )
    if problem := _problem(options):
        parser.error(problem)
    return options


def _problem(options: Options) -> str | None:
    room = options.engine.num_blocks * options.engine.block_size
    if room < options.max_model_len:
        return (
            f"--max-model-len {options.max_model_len} does not fit: --num-kv-blocks "
            f"{options.engine.num_blocks} of --block-size {options.engine.block_size} hold "
            f"{room} tokens; lower the first or raise the second"
        )
    names = [*options.served_model_names, *options.lora_modules]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not all(names):
        return f"model and adapter names must be there and differ; twice: {', '.join(twice) or '-'}"
    return None


def _dashed(argument: str) -> str:
    """`--max_model_len=8` as `--max-model-len=8`."""
    match = re.match(r"^(--[A-Za-z_-]+)(.*)$", argument, re.DOTALL)
    return match[1].replace("_", "-") + match[2] if match else argument


def whole(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least `least`."""

    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, found {text}")
        return value

    read.__name__ = "whole number"  # argparse: "invalid whole number value: 'x'"
    return read


def number(above: float | None = None) -> Callable[[str], float]:
    """Reads a finite number of 0 or more, or above a limit."""

    def read(text: str) -> float:
        value = float(text)
        wrong = not value >= 0 if above is None else not value > above
        if wrong or value == float("inf"):
            bound = "0 or more" if above is None else f"above {above:g}"
            raise argparse.ArgumentTypeError(f"must be {bound}, found {text}")
        return value

    read.__name__ = "number"
    return read


def port(text: str) -> int:
    """Reads a port; 0 is any free one."""
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"must be between 0 and 65535, found {text}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simulator",
        description="OpenAI endpoints and vLLM's metrics over a simulated engine.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
        epilog="Example: simulator --served-model-name tiny --port 8000 --max-num-seqs 8",
    )
    parser.add_argument("--version", action="version", version=VERSION)
    _serving(parser.add_argument_group("serving"))
    _simulation(parser.add_argument_group("engine"))
    return parser


def _serving(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    add = group.add_argument
    add(
        "--served-model-name",
        nargs="+",
        default=["simulator"],
        metavar="NAME",
        help="names clients may ask for; the first is in answers to /metrics",
    )
    add("--host", default="0.0.0.0", help="address to listen on")
    add("--port", type=port, default=8000, help="port to listen on")
    add(
        "--lora-modules",
        nargs="+",
        default=[],
        metavar="NAME[=PATH]",
        help="adapters served as models of their own; nothing is read from PATH",
    )
    add(
        "--max-model-len",
        type=whole(2),
        default=8192,
        metavar="TOKENS",
        help="most tokens of prompt and answer together",
    )
    add("--seed", type=int, default=0, help="same seed and same request: same answer")
    add(
        "--load-seconds",
        type=number(),
        default=0.0,
        metavar="SECONDS",
        help="time to pretend that weights load; /health answers 503 meanwhile",
    )
    add(
        "--shutdown-timeout",
        type=number(),
        default=30.0,
        metavar="SECONDS",
        help="longest time between SIGTERM and exit; requests still running then are cut off",
    )
    add("--drain-accept-seconds", type=number(), default=5.0, metavar="SECONDS",
        help="time after SIGTERM in which new requests are still served, for gateways that "
             "have not noticed; later ones get 503")  # fmt: skip


def _simulation(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    add = group.add_argument
    add(
        "--max-num-seqs",
        type=whole(1),
        default=64,
        metavar="N",
        help="requests that run together; others wait",
    )
    add("--num-kv-blocks", type=whole(1), default=2048, metavar="N", help="KV blocks")
    add("--block-size", type=whole(1), default=16, metavar="TOKENS", help="tokens of a KV block")
    add(
        "--prefill-tokens-per-second",
        type=number(0),
        default=8000.0,
        metavar="RATE",
        help="prompt tokens a second, of all requests together",
    )
    add(
        "--decode-tokens-per-second",
        type=number(0),
        default=50.0,
        metavar="RATE",
        help="answer tokens a second of a request that runs alone",
    )
    add(
        "--enable-prefix-caching",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="reuse KV blocks of prompts that begin alike",
    )
    add("--max-loras", type=whole(1), default=4, metavar="N",
        help="different adapters that run together")  # fmt: skip
