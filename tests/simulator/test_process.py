"""The simulator as a process: it listens, and SIGTERM lets streams finish."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.slow

LOCAL = Path(__file__).parent.parent.parent / "local"
BODY = {"prompt": "x", "ignore_eos": True, "stream": True}


@contextmanager
def process(*arguments: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A simulator on a free port of loopback, and its address."""
    child = subprocess.Popen(
        [sys.executable, "-m", "simulator", "--host", "127.0.0.1", "--port", "0", *arguments],
        cwd=LOCAL,
        env={**os.environ, "POD_NAME": "pod-a"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stderr is not None
        for line in child.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                yield child, found[1]
                return
        raise AssertionError("it never listened")
    finally:
        child.kill()
        child.wait()
        if child.stderr is not None:
            child.stderr.close()


def data(lines: Iterator[str]) -> list[str]:
    return [line.removeprefix("data: ") for line in lines if line]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_stream_finish_and_then_ends_the_process(sig: signal.Signals) -> None:
    arguments = ("--drain-accept-seconds=0", "--decode-tokens-per-second=200")
    with process(*arguments) as (child, address):
        body = {**BODY, "max_tokens": 200}
        with httpx.stream("POST", f"{address}/v1/completions", json=body) as stream:
            assert stream.headers["x-served-by"] == "pod-a"
            lines = stream.iter_lines()
            assert json.loads(next(lines).removeprefix("data: "))["system_fingerprint"] == "pod-a"
            child.send_signal(sig)
            rest = data(lines)
        assert len(rest) == 200, "199 more tokens and the end mark"
        assert rest[-1] == "[DONE]"
        assert child.wait(timeout=30) == 0


def test_a_stream_that_takes_too_long_ends_with_an_error_event() -> None:
    arguments = ("--shutdown-timeout=0.2", "--decode-tokens-per-second=20")
    with process(*arguments) as (child, address):
        body = {**BODY, "max_tokens": 8000}
        with httpx.stream("POST", f"{address}/v1/completions", json=body) as stream:
            lines = stream.iter_lines()
            next(lines)
            child.send_signal(signal.SIGTERM)
            rest = data(lines)
        assert json.loads(rest[-1])["error"]["code"] == 503
        assert child.wait(timeout=30) == 0


def test_a_second_signal_ends_it_at_once() -> None:
    with process("--shutdown-timeout=3600", "--drain-accept-seconds=3600") as (child, address):
        child.send_signal(signal.SIGTERM)
        while httpx.get(f"{address}/health").status_code != 503:
            pass
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=30) == -signal.SIGTERM
