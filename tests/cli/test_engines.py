"""`engines`: what documents may name, from the catalog."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tokenworks.catalog.engines import load_engines
from tokenworks.cli.main import build
from tokenworks.errors import UsageError

ENGINES = load_engines().engines


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(build(), ["engines", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_every_engine_is_listed() -> None:
    assert {line.split()[0] for line in printed().splitlines()[1:] if line[0] != " "} == {*ENGINES}


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_flags_are_those_of_the_version(name: str) -> None:
    engine = ENGINES[name]
    for version in engine.versions:
        lines = printed(name, "--version", version).splitlines()[2:]
        assert {line.partition(":")[0] for line in lines} == {*engine.options_in(version)}


def test_what_follows_from_other_fields_is_marked() -> None:
    (line,) = (line for line in printed("vllm").splitlines() if line.startswith("max-model-len:"))
    assert "(derived)" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], 'unknown engine "nope"'),
        (["vllm", "--version", "1"], 'unknown version "1" of vllm; the catalog knows 0.26.0'),
        (["--version", "0.26.0"], "--version wants the engine"),
    ],
)
def test_what_is_not_there_is_said(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        CliRunner().invoke(build(), ["engines", *arguments], catch_exceptions=False)
