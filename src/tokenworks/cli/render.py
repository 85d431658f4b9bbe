"""`render`: documents in, manifests out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenworks.cli.context import load, render_tools, root, say
from tokenworks.errors import TokenworksError

if TYPE_CHECKING:
    from tokenworks.render import RenderTools
    from tokenworks.render.tree import TreeChange


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
    files that rendering did not write are left alone; with --check they are named too, since
    whoever applies the folder applies them.

    Example: ./tokenworks render dev --check
    """
    tools = render_tools()
    names = dict.fromkeys(environments)
    # All of them first: one that cannot be rendered leaves every tree as it was.
    rendered = [_rendered(name, tools, _folder(out, name)) for name in names]
    if not check:
        for made in rendered:
            made.refuse_foreign()
    stale = {made.environment: count for made in rendered if (count := made.settle(check))}
    if check and stale:
        raise TokenworksError(
            "\n".join(_not_fresh(environment, count, out) for environment, count in stale.items())
        )


def _folder(out: Path | None, environment: str) -> Path:
    return (out or root() / "rendered") / environment


@dataclass(frozen=True)
class _Rendered:
    """An environment's tree as it should be; nothing is written yet."""

    environment: str
    folder: Path
    files: Mapping[str, str]
    change: TreeChange | None
    """None where the folder is known to have the files."""
    count: int
    remember: Callable[[], None]

    def refuse_foreign(self) -> None:
        """Refuse to take the place of files that rendering did not write.

        Raises:
            UsageError: there is one.
        """
        from tokenworks.render.tree import refuse_foreign  # noqa: PLC0415 - start-up

        if self.change is not None:
            refuse_foreign(self.change, self.folder)

    def settle(self, check: bool) -> int:
        """Write the tree, or only tell; how many files differed."""
        from tokenworks.render.tree import apply, strangers  # noqa: PLC0415 - start-up

        lines: list[str] = []
        if self.change is not None:
            if not check:
                apply(self.change, self.files, self.folder)
            lines = self.change.lines()
            self.remember()
        if check:
            lines += [f"? {path}" for path in strangers(self.folder)]
        for line in lines:
            print(line)
        if not lines:
            say(f"{self.folder}: {self.count} files, all fresh")
        return len(lines)


def _rendered(environment: str, tools: RenderTools, folder: Path) -> _Rendered:
    from tokenworks.render.fresh import files, fresh, inputs, remember  # noqa: PLC0415 - start-up
    from tokenworks.render.tree import compare  # noqa: PLC0415 - start-up

    kept, key = tools.kept, inputs(root(), environment, tools.charts)
    if key and kept and (count := fresh(kept, key, folder)) is not None:
        return _Rendered(environment, folder, {}, None, count, lambda: None)
    made = files(load(environment), tools)

    def note() -> None:
        # Somebody may have saved a document meanwhile.
        if key and kept and key == inputs(root(), environment, tools.charts):
            remember(kept, key, made)

    return _Rendered(environment, folder, made, compare(made, folder), len(made), note)


def _not_fresh(environment: str, count: int, out: Path | None) -> str:
    return (
        f"{_folder(out, environment)} is not fresh: {count} file(s) above differ "
        "(+ missing, ~ changed, - stale, ? not rendered: move it away). "
        f"Run: ./tokenworks render {environment}"
        + (f" --out {shlex.quote(str(out))}" if out else "")
    )
