"""`doctor` and `toolchain`: what is wanted, what is there, and the command that cures the rest."""

from __future__ import annotations

import os
import platform
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tokenworks.cli.context import say
from tokenworks.errors import TokenworksError

Row = tuple[str, str, str, str, str]
"""What, wanted, found, source, cure."""


def _machine_rows() -> list[Row]:
    python = platform.python_version()
    root = os.geteuid() == 0
    return [
        ("python", "3.11 or newer", python, sys.executable, ""),
        ("user", "root, for the local cluster", "root" if root else "not root", "",
         "" if root else "sudo ./tokenworks …"),
        ("system", "Linux", platform.system(), platform.release(),
         "" if platform.system() == "Linux" else "the local cluster needs Linux; use kind"),
    ]  # fmt: skip


def _go_row() -> Row:
    from local.toolchain.build import OLDEST_GO, go_found, go_serves  # noqa: PLC0415
    from local.toolchain.pins import pins  # noqa: PLC0415

    found = go_found()
    cure = "" if go_serves() else f"install Go {OLDEST_GO} or newer"
    wanted = f"{pins().go} (an older one fetches it)"
    return ("go", wanted, found or "missing", "PATH" if found else "", cure)


def _program_rows() -> list[Row]:
    from local.toolchain import find, pins  # noqa: PLC0415

    rows: list[Row] = []
    for name in pins().needed:
        now = find(name)
        program = now.program
        found = program.version if now.source == "cache" else now.seen or "missing"
        source = str(now.path) if now.path else "PATH, does not fit" if now.seen else ""
        cure = "" if now.path else f"./tokenworks toolchain {name}"
        rows.append((name, program.version, found, source, cure))
    return rows


def _debian_rows() -> list[Row]:
    from local.toolchain.build import debian_present  # noqa: PLC0415
    from local.toolchain.pins import pins  # noqa: PLC0415

    rows: list[Row] = []
    for package in pins().debian.values():
        there = debian_present(package)
        found = "present" if there else "missing"
        cure = "" if there else f"apt-get install {package.name}"
        rows.append((package.name, package.program, found, "distribution", cure))
    return rows


def doctor() -> None:
    """Show every program Tokenworks needs: wanted, found, where, and the cure for what is missing.

    Nothing is built or installed. What is missing is made when a command needs it, so a
    missing program is no fault; exit 1 only when nothing can be made, for want of Go.

    Example: ./tokenworks doctor
    """
    go, made = _go_row(), [*_program_rows(), *_debian_rows()]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "wanted", "found", "source", "missing? run"):
        table.add_column(column, overflow="fold")
    for row in (*_machine_rows(), go, *made):
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    missing = [row[0] for row in made if row[4]]
    if go[4]:
        raise TokenworksError(f"Go is missing or too old, so nothing can be built: {go[4]}")
    say(
        f"{len(missing)} to be made on demand: {', '.join(missing)}" if missing else "All is there."
    )


def toolchain(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Programs; default: all that commands need."),
    ] = None,
) -> None:
    """Build what is missing now instead of when a command needs it; a second run builds nothing.

    Example: ./tokenworks toolchain helm kubeconform
    """
    from local.toolchain import ensure, ensure_debian, pins  # noqa: PLC0415

    for name, path in ensure(*(names or pins().needed)).items():
        print(f"{name} {path}")
    if not names:
        ensure_debian()
