"""The comment: one Markdown text that a workflow writes once and then updates in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tokenworks.check.markdown import cell, code, table
from tokenworks.review.review import Review
from tokenworks.review.sections import Block, Limits, blocks, cost_words, counted

MARKER: Final = "<!-- tokenworks-pr -->"
"""First line of every comment: who updates it finds it by this."""
LIMIT: Final = 65_536
"""Characters of a comment on GitHub; bytes are counted here, of which there are never fewer."""
_RESERVE: Final = 1_500
"""Bytes for what is said of what was left out."""
_ROWS: Final = 100
_NAMED: Final = 8


@dataclass(frozen=True)
class Comparison:
    """Two states of the repository."""

    base: str
    """As the user named it."""
    commit: str
    """What is compared with."""
    reviews: tuple[Review, ...]
    unchanged: tuple[str, ...] = ()
    """Environments whose documents, charts and code are the same."""
    notes: tuple[str, ...] = ()
    """What limits the comparison: our own words."""

    @property
    def fails(self) -> bool:
        """Whether something forbids the change."""
        return any(review.fails for review in self.reviews)

    @property
    def seen(self) -> tuple[Review, ...]:
        """Environments of which there is something to tell."""
        return tuple(review for review in self.reviews if review.changes)


def comment(comparison: Comparison, *, whole: bool = False) -> str:
    """The text, which GitHub takes unless it is to be whole."""
    limits = Limits(None, None, None) if whole else Limits()
    head, foot = _head(comparison), _foot(comparison)
    parts = [b for review in comparison.seen for b in blocks(review, limits)]
    if whole:
        return _text([*head, *(line for block in parts for line in block.lines), *foot])
    room = LIMIT - _RESERVE - _size(head) - _size(foot)
    kept = _fitting(parts, room)
    lines = [line for place, block in enumerate(parts) if place in kept for line in block.lines]
    left = [block for place, block in enumerate(parts) if place not in kept]
    return _text([*head, *lines, *_left_out(left, comparison), *foot])


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _fitting(parts: Sequence[Block], room: int) -> set[int]:
    """Positions of the blocks that are told: the weightiest that fit."""
    kept: set[int] = set()
    for place in sorted(range(len(parts)), key=lambda p: (parts[p].rank, p)):
        size = _size(parts[place].lines)
        if size <= room:
            kept.add(place)
            room -= size
    return kept


def _left_out(left: Sequence[Block], comparison: Comparison) -> list[str]:
    if not left:
        return []
    named = ", ".join(code(block.what, 80) for block in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return [
        "",
        f"**Left out**, because a comment holds {LIMIT:,} characters: {named}{more}. "
        f"{code(f'./tokenworks pr --base {comparison.base} --whole')} prints all of it.",
    ]


def _head(comparison: Comparison) -> list[str]:
    seen, total = comparison.seen, len(comparison.reviews) + len(comparison.unchanged)
    if not seen:
        return [MARKER, f"**Tokenworks:** nothing changes in {_environments(total)}."]
    words = f"**Tokenworks:** {len(seen)} of {_environments(total)} changes"
    words = words if len(seen) == 1 else words.removesuffix("s")
    verdict = ", and **something is refused**" if comparison.fails else ""
    rows = [_row(review) for review in seen[:_ROWS]]
    more = [f"… and {len(seen) - _ROWS} more"] if len(seen) > _ROWS else []
    return [MARKER, f"{words}{verdict}.", "", *table(_COLUMNS, rows), *more]


_COLUMNS: Final = ("environment", "objects", "pods and nodes", "findings", "GPUs", "$ a month")


def _environments(count: int) -> str:
    return f"{count} environment{'' if count == 1 else 's'}"


def _row(review: Review) -> tuple[str, ...]:
    if review.broken:
        return (cell(review.environment), "**does not load**", "", "", "", "")
    return (
        cell(review.environment),
        counted(review.differences) or "as before",
        _happens(review) or "as before",
        _found(review),
        _gpus(review),
        _cost(review),
    )


def _happens(review: Review) -> str:
    counts = Counter(effect.what for effect in review.effects)
    return ", ".join(f"{what} {count}" for what, count in counts.items())


def _found(review: Review) -> str:
    new, errors = review.verdicts.new, review.verdicts.errors
    parts = [
        f"**{len(review.refused)} refused**" if review.refused else "",
        f"**{errors} new error{'' if errors == 1 else 's'}**" if errors else "",
        f"{len(new) - errors} new" if len(new) > errors else "",
        f"{len(review.verdicts.fixed)} fixed" if review.verdicts.fixed else "",
    ]
    return ", ".join(part for part in parts if part) or f"{review.verdicts.same} as before"


def _gpus(review: Review) -> str:
    before = sum(need.before for need in review.needs)
    during = sum(need.during for need in review.needs)
    after = sum(need.after for need in review.needs)
    moved = str(after) if before == after else f"{before} → {after}"
    more = f", {during} during the rollout" if during > max(before, after) else ""
    return moved + more


def _cost(review: Review) -> str:
    before = review.before.cost if review.before else None
    after = review.after.cost if review.after else None
    if before is None and after is None:
        return ""
    return "as before" if before == after else cost_words(before, after)


def _foot(comparison: Comparison) -> list[str]:
    rest = [review.environment for review in comparison.reviews if not review.changes]
    others = sorted([*comparison.unchanged, *rest])
    lines = ["", "---"]
    if others and comparison.seen:
        named = ", ".join(code(name) for name in others[:_NAMED])
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        lines.append(f"Nothing changes in {named}{more}.")
    lines += comparison.notes
    lines.append(f"Compared with {code(comparison.base)} ({code(comparison.commit[:12])}).")
    return lines
