"""Plays `ray start`: the machines of a Ray cluster that an engine spreads over.

A worker joins the head and lives as long as it. The head itself is a part of the simulated
engine (`vllm serve --distributed-executor-backend ray` listens on Ray's port), so
`ray start --head` has nothing left to do and returns, as the real one does without --block.
Source: https://docs.ray.io/en/latest/cluster/cli.html (2026-11-29).
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence

from ..group import Meeting
from ..options import port
from ..plan import Plan
from .commandline import CommandLineError, Flag, read
from .common import no_positionals
from .knobs import Knobs
from .vllm_parallel import RAY_PORT

_FLAGS = (
    Flag(("--address",)),
    Flag(("--head",), kind="switch", default=False),
    Flag(("--block",), kind="switch", default=False),
)


def plan(arguments: Sequence[str], environ: Mapping[str, str], knobs: Knobs) -> Plan:
    """What `ray start` does with these arguments.

    Raises:
        CommandLineError: it would not start, or is something that is not played.
    """
    del environ
    given = read(arguments, _FLAGS)
    no_positionals(given, "start")
    if given["head"]:
        if given["block"]:
            raise CommandLineError(
                "--head --block is not played: the head is a part of the simulated engine; "
                "start the engine with --distributed-executor-backend ray instead"
            )
        return Plan(without_effect=given.without_effect)
    if not given["address"]:
        raise CommandLineError("either --head or --address is needed")
    if not given["block"]:
        raise CommandLineError("without --block a worker has no process: not played")
    host, _, number = given["address"].rpartition(":")
    host, number = (host, number) if host else (number, str(RAY_PORT))
    try:
        where = port(number)
    except (ValueError, ArgumentTypeError):
        raise CommandLineError(f"argument --address: no port in {given['address']!r}") from None
    meeting = Meeting(host.strip("[]"), where, "ray node", 0, (), knobs.join_seconds, False)
    return Plan(meeting=meeting, without_effect=given.without_effect)
