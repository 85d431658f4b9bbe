"""`--help` of every command shows an example, and every example is a command that exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer import core
from typer import main as typer_main

from tokenworks.cli.main import build

TOP = typer_main.get_command(build())
CALL = re.compile(r"\./tokenworks ((?:\"[^\"]*\"|[^|&)\n\"])*)")


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    if isinstance(command, core.TyperGroup):
        for name, child in command.commands.items():
            yield from commands(child, f"{path} {name}".strip())


EVERY = dict(commands(TOP, ""))


def examples(command: Any) -> list[list[str]]:
    """The words after `./tokenworks` in each example of a command's help."""
    text = re.sub(r"\s*\n(?!\n)\s*", "\n", command.help or "")
    lines = [line for line in text.splitlines() if line.startswith("Example: ")]
    return [shlex.split(call) for line in lines for call in CALL.findall(line)]


@pytest.mark.parametrize("path", EVERY)
def test_every_example_is_understood(path: str) -> None:
    found = examples(EVERY[path])
    assert found, f"./tokenworks {path} --help shows no example"
    for words in found:
        assert " ".join(words).startswith(path), words
        command, rest = TOP, words
        while isinstance(command, core.TyperGroup):
            command, rest = command.commands[rest[0]], rest[1:]
        # Raises a usage error for an option that is not there, or an argument too few.
        command.make_context(words[0], list(rest))


def test_an_example_that_is_wrong_would_be_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        EVERY["preview"].make_context("preview", ["local", "--nonsense"])
