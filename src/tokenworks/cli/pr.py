"""`pr`: what a change of this repository does to each environment, as one comment."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenworks.cli.context import root
from tokenworks.errors import TokenworksError, UsageError, nearest
from tokenworks.spec.problems import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from policies import Finding
    from tokenworks.cli.states import Pair
    from tokenworks.review.comment import Comparison
    from tokenworks.review.review import Review


def pr(
    *,
    base: Annotated[str, typer.Option("--base", metavar="REF", help="What the change goes into.")],
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="REF", help="The change; default: the files as they are."),
    ] = None,
    environments: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="ENV", help="Only this one; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; default: standard output.")
    ] = None,
    infrastructure: Annotated[
        bool,
        typer.Option(
            "--infrastructure/--no-infrastructure",
            help="Preview, without an account, what changed infrastructure becomes: takes a minute "
            "an environment.",
        ),
    ] = True,
    whole: Annotated[
        bool, typer.Option("--whole", help="Leave nothing out, however long it gets.")
    ] = False,
) -> None:
    """Write one Markdown comment that says what a change does to each environment.

    Objects by field, pods that restart, nodes that are replaced, findings that are new or gone,
    GPUs during the rollout, dollars a month. It compares with the commit at which the change left
    REF; charts and code count as documents do.

    Exit code 0: nothing forbids it; 1: new errors, changes that no cluster makes, or documents
    that do not load; 2: wrong usage.

    Example: ./tokenworks pr --base main
    """
    from tokenworks.review.comment import comment  # noqa: PLC0415 - start-up time of --help

    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        wanted = "a file, not a folder" if out.is_dir() else "a file in a folder that is there"
        raise UsageError(f"--out {out}: name {wanted}")
    with _states(base, head) as states:
        comparison = compare(states, base, environments or [], preview=infrastructure)
    text = comment(comparison, whole=whole)
    if out is None or str(out) == "-":
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
    raise typer.Exit(1 if comparison.fails else 0)


def _states(base: str, head: str | None) -> AbstractContextManager[Pair]:
    """This checkout, or a commit of it, and the commit at which it left the base."""
    from local.toolchain import cache_dir  # noqa: PLC0415 - start-up time of --help
    from tokenworks.cli.snapshot import snapshot_tools  # noqa: PLC0415
    from tokenworks.cli.states import pair  # noqa: PLC0415
    from tokenworks.review.snapshot import Shelf  # noqa: PLC0415
    from tokenworks.review.trees import Repository  # noqa: PLC0415

    shelf = Shelf(cache_dir() / "snapshots")
    return pair(Repository(root()), base, head, snapshot_tools(), shelf)


def refused_since(base: str, name: str) -> tuple[Finding, ...]:
    """What no cluster does of the way from a commit to the documents of an environment here."""
    with _states(base, None) as states:
        found = compare(states, base, [name]).reviews
    return tuple(finding for review in found for finding in review.refused)


def compare(states: Pair, base: str, only: Sequence[str], *, preview: bool = False) -> Comparison:
    """The environments of two states, those that are named or all.

    Args:
        states: what is compared.
        base: what the user calls the first of them.
        only: environments; none: all.
        preview: whether infrastructure that changes is previewed.

    Raises:
        UsageError: neither state has an environment of that name.
    """
    from tokenworks.review.comment import Comparison  # noqa: PLC0415 - start-up time of --help
    from tokenworks.review.review import review  # noqa: PLC0415

    known = sorted({*states.before.names(), *states.after.names()})
    for name in only:
        if name not in known:
            near = nearest(name, known)
            raise UsageError(
                f"unknown environment {shown(name)}; allowed: {', '.join(known) or 'none'}"
                + (f"; did you mean {near}?" if near else "")
            )
    chosen = [name for name in known if not only or name in only]
    moved = [name for name in chosen if states.differs(name)]
    reviews = [
        review(name, states.before.snapshot(name), states.after.snapshot(name)) for name in moved
    ]
    if preview:
        reviews = [_previewed(one, states) for one in reviews]
    assert states.before.commit is not None
    return Comparison(
        base,
        states.before.commit,
        tuple(reviews),
        tuple(name for name in chosen if name not in moved),
        tuple(states.before.notes.lines),
    )


def _previewed(review: Review, states: Pair) -> Review:
    """The review with a preview of infrastructure that is there before and after, and differs."""
    from tokenworks.cli.previews import operations  # noqa: PLC0415 - start-up time of --help
    from tokenworks.review.review import Preview  # noqa: PLC0415

    sides = (review.before, review.after)
    if not all(side is not None and side.infrastructure for side in sides):
        return review
    if not review.infrastructure and not states.other_program():
        return review
    try:
        folders = states.before.files(), states.after.files()
        done = Preview(operations(review.environment, *folders))
    except TokenworksError as error:
        done = Preview(failed=str(error))
    return replace(review, preview=done)
