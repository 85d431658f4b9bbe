"""`promote`: a model release from one environment to the next."""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tokenworks.cli.context import root, say
from tokenworks.errors import UsageError


def promote(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the release.")],
    source: Annotated[str, typer.Option("--from", metavar="ENV", help="Where it proved itself.")],
    target: Annotated[str, typer.Option("--to", metavar="ENV", help="Where it goes.")],
    *,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="A field of the target's own."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="FIELD",
            help="A field of spec, such as resources, that stays as the target has it.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the difference, and write nothing.")
    ] = False,
) -> None:
    """Copy a release's document to another environment, and show what changes there.

    What says where it runs and how large it is there (tenant, pool, replicas, claims, stores) stays
    as the target has it, or comes from --set; everything else, comments too, is the source's. The
    target's documents have to load with it, or nothing is written. Commit it; `git revert` of that
    commit is the rollback.

    Where nodes differ, so do GPUs and memory of a pod: --keep resources --keep topology. What is so
    each time stands in the target's environment.yaml: `promotion.keep`, `promotion.set`.

    Example: ./tokenworks promote qwen3-32b --from dev --to staging --dry-run
    """
    from tokenworks.spec.promote import promotion, write  # noqa: PLC0415 - start-up time

    if source == target:
        raise UsageError(f"--from and --to are both {source}; name two environments")
    made = promotion(
        root(), model, source, target, given=dict(_fields(given or [])), keep=keep or []
    )
    name = made.file.relative_to(root()).as_posix()
    if made.before == made.after:
        say(f"{name}: is as {source} has it already")
        return
    difference = difflib.unified_diff(
        made.before.splitlines(), made.after.splitlines(),
        f"{name} (now)" if made.before else "/dev/null", f"{name} (from {source})", lineterm="",
    )  # fmt: skip
    print("\n".join(difference))
    if made.kept:
        say(f"{target}'s own: {', '.join(made.kept)}")
    if made.taken:
        say(f"as in {source}, because {target} has none of its own: {', '.join(made.taken)}")
    if dry_run:
        return
    unsaved = _unsaved(made.file)
    write(made)
    if unsaved:
        say(f"{name} had changes that no commit has; what is gone of them stands above")
    say(
        f"{name} is written; next: ./tokenworks preview {target}, ./tokenworks render {target}, "
        "and one commit of both, so that one revert takes all of it back"
    )


def _unsaved(file: Path) -> bool:
    """Whether the file is in Git, and differs from the last commit."""
    try:
        done = subprocess.run(
            ["git", "-C", file.parent, "status", "--porcelain", "--", file],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:  # no git, or no folder yet
        return False
    return bool(done.stdout) and not done.stdout.startswith("??")


def _fields(given: list[str]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for one in given:
        field, equals, value = one.partition("=")
        if field in seen:
            raise UsageError(f"--set {field} is given twice; leave one out")
        seen.add(field)
        if not equals or not field or not value:
            raise UsageError(f"--set {one!r}: write FIELD=VALUE, such as pool=g6e")
        yield field, value
