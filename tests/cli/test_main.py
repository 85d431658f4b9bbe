"""Whatever the caller's shell and machine are like, the end is one message and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TRACES = ("Traceback", "unexpected", "This is a fault")
GOOD = ["check", "policies/examples/drain/good.yaml"]


def call(
    words: list[str], before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command line under a shell that does `before` to the streams."""
    python = [sys.executable, "-P", "-m", "tokenworks.cli"]
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {before}', "sh", *python, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", [["explain"], ["doctor"], GOOD], ids=lambda words: words[0])
@pytest.mark.parametrize("before", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(words: list[str], before: str) -> None:
    done = call(words, before)
    assert done.returncode == call(words).returncode
    assert not any(trace in done.stderr for trace in TRACES)


def test_closed_input_is_empty_input() -> None:
    done = call(["check", "-"], "<&-")
    assert done.returncode == 2
    assert "nothing to check" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [(["explain"], "No space left on device"), (GOOD, "No space left on device")],
    ids=["explain", "check"],
)
def test_a_full_disk_is_said(words: list[str], said: str) -> None:
    done = call(words, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert not any(trace in done.stderr for trace in TRACES)


@pytest.mark.parametrize("name", ["", "a" * 300, "a" * 5000, "no/such\nthing"], ids=repr)
def test_what_is_no_path_is_said(name: str) -> None:
    done = call(["check", name])
    assert done.returncode == 2
    assert "no such file, folder or environment" in done.stderr


def test_a_cluster_of_an_impossible_name_is_said(tmp_path: Path) -> None:
    done = call(["local", "status", "--env", "a" * 300], TOKENWORKS_STATE=str(tmp_path))
    assert done.returncode == 2
    assert "at most 40" in done.stderr


def test_a_cache_that_cannot_be_written_is_named() -> None:
    done = call(["toolchain", "pause"], TOKENWORKS_CACHE="/proc/cache")
    assert done.returncode == 1
    assert done.stderr.startswith("error: /proc/cache")


def test_an_interrupt_while_importing_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    done = call(["explain"], PYTHONPATH=f"{tmp_path}:{ROOT}/src:{ROOT}")
    assert done.returncode == 130
    assert done.stderr == "interrupted before anything was done\n"
