"""`render`: documents in, manifests out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenworks.cli.context import load, render_tools, root, say
from tokenworks.errors import TokenworksError

if TYPE_CHECKING:
    from tokenworks.render import RenderTools


def render_command(
    environments: Annotated[
        list[str], typer.Argument(metavar="ENV...", help="Folders of stacks/.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write <ENV>/ into; default: rendered/.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when the tree is not fresh.")
    ] = False,
) -> None:
    """Render environments into one file per release, as Argo CD and reviews read it.

    Unchanged files are not touched, files of releases that are gone are removed, and
    files that rendering did not write are left alone.

    Example: ./tokenworks render dev --check
    """
    tools = render_tools()
    stale = {
        environment: count
        for environment in dict.fromkeys(environments)
        if (count := _rendered(environment, tools, _folder(out, environment), check))
    }
    if check and stale:
        raise TokenworksError(
            "\n".join(_not_fresh(environment, count, out) for environment, count in stale.items())
        )


def _folder(out: Path | None, environment: str) -> Path:
    return (out or root() / "rendered") / environment


def _rendered(environment: str, tools: RenderTools, folder: Path, check: bool) -> int:
    """Write the tree, or only compare; how many files differed."""
    from tokenworks.render.fresh import files, fresh, inputs, remember  # noqa: PLC0415 - start-up
    from tokenworks.render.tree import compare, write  # noqa: PLC0415

    key = inputs(root(), environment, tools.charts)
    if key and tools.kept and (count := fresh(tools.kept, key, folder)) is not None:
        say(f"{folder}: {count} files, all fresh")
        return 0
    made = files(load(environment), tools)
    change = compare(made, folder) if check else write(made, folder)
    # Somebody may have saved a document meanwhile.
    if key and tools.kept and key == inputs(root(), environment, tools.charts):
        remember(tools.kept, key, made)
    for line in change.lines():
        print(line)
    if not change:
        say(f"{folder}: {len(made)} files, all fresh")
    return len(change.lines())


def _not_fresh(environment: str, count: int, out: Path | None) -> str:
    return (
        f"{_folder(out, environment)} is not fresh: {count} file(s) above differ "
        f"(+ missing, ~ changed, - stale). Run: ./tokenworks render {environment}"
        + (f" --out {shlex.quote(str(out))}" if out else "")
    )
