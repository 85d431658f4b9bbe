"""`engines`: what the catalog knows of the programs that serve models."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tokenworks.catalog.engines import Engine, load_engines
from tokenworks.catalog.options import Option
from tokenworks.errors import UsageError
from tokenworks.spec.problems import shown


def engines(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="List this engine's flags.")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", help="Flags of this version; default: the pinned.")
    ] = None,
) -> None:
    """The engines that models can be served with; with NAME, the flags it takes.

    Flags are written in spec.engine.flags without dashes at the front; those marked `derived`
    follow from other fields and may not be written.

    Example: ./tokenworks engines vllm
    """
    if name is None:
        if version is not None:
            raise UsageError("--version wants the engine whose flags are listed")
        _overview()
        return
    engine = load_engines().engine(name)
    if version is not None and version not in engine.versions:
        known = ", ".join(engine.versions)
        raise UsageError(
            f"unknown version {shown(version)} of {name}; the catalog knows {known}; name one of "
            "these"
        )
    _flags(engine, version or engine.default)


def _overview() -> None:
    table = Table(box=None, pad_edge=False)
    for head in ("engine", "versions", "topologies", "weights from", "needs a GPU"):
        table.add_column(head, overflow="fold")
    for name, engine in load_engines().engines.items():
        versions = [f"{v} (pinned)" if v == engine.default else v for v in engine.versions]
        table.add_row(
            name,
            ", ".join(versions),
            ", ".join(engine.topologies),
            ", ".join(engine.weights_from),
            "no" if engine.gpu == "optional" else "yes",
        )
    Console(soft_wrap=False).print(table)


def _flags(engine: Engine, version: str) -> None:
    derived = engine.reserved_flags()
    print(f"{engine.title} {version}; read from {engine.options_of}\n")
    for flag, option in sorted(engine.options_in(version).items()):
        mark = "  (derived)" if flag in derived else ""
        print(f"{flag}: {_type(option)}{mark}{f'  {option.meaning}' if option.meaning else ''}")


def _type(option: Option) -> str:
    return f"one of {', '.join(option.choices)}" if option.choices else option.type
