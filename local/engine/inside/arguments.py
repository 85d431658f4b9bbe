"""Put command lines through vLLM's own parser: JSON in, JSON out.

Runs in the engine's Python, not in ours. Standard input is a list of argument lists, each
as it follows `vllm`. Standard output is a list of what the parser said: an empty text
where it accepted, its complaint where it did not.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from importlib import import_module
from typing import Any


def _parser() -> tuple[Any, Any]:
    """The parser of `vllm serve`, as vLLM's main program builds it, and its command."""
    serve: Any = import_module("vllm.entrypoints.cli.serve")
    flexible: Any = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    parser = flexible(prog="vllm")
    (command,) = serve.cmd_init()
    chosen = command.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    # Real use accepts `--max-model` for `--max-model-len`; a flag that lost its last words
    # would then go unnoticed until a second one begins like it.
    chosen.allow_abbrev = False
    return parser, command


def _complaint(parser: Any, command: Any, arguments: list[str]) -> str:
    """What is wrong with the arguments; empty when nothing is."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            command.validate(parser.parse_args(arguments))
    except SystemExit as end:
        return said.getvalue().strip() or f"exit code {end.code}"
    except (ValueError, TypeError, argparse.ArgumentError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Read, parse, answer."""
    lines: list[list[str]] = json.load(sys.stdin)
    # Whatever vLLM prints while it loads is no part of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        parser, command = _parser()
        answers = [_complaint(parser, command, line) for line in lines]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
