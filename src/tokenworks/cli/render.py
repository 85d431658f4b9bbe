"""`render`: documents in, manifests out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tokenworks.cli.context import load, render_tools, root, say
from tokenworks.errors import TokenworksError


def render_command(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="A folder of stacks/.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write <ENV>/ into; default: rendered/.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when the tree is not fresh.")
    ] = False,
) -> None:
    """Render an environment into one file per release, as Argo CD and reviews read it.

    Unchanged files are not touched, files of releases that are gone are removed, and
    files that rendering did not write are left alone.

    Example: ./tokenworks render dev --check
    """
    from tokenworks.render import render  # noqa: PLC0415
    from tokenworks.render.tree import compare, tree, write  # noqa: PLC0415

    folder = (out or root() / "rendered") / environment
    files = tree(render(load(environment), render_tools()))
    change = compare(files, folder) if check else write(files, folder)
    for line in change.lines():
        print(line)
    if not change:
        say(f"{folder}: {len(files)} files, all fresh")
    elif check:
        raise TokenworksError(
            f"{folder} is not fresh: {len(change.lines())} file(s) above differ "
            f"(+ missing, ~ changed, - stale). Run: ./tokenworks render {environment}"
            + (f" --out {shlex.quote(str(out))}" if out else "")
        )
