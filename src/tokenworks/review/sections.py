"""What is told of one environment: the parts of a comment, each a block that may be left out."""

from __future__ import annotations

import difflib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from policies import Finding
from policies.tree import is_mapping, is_sequence
from tokenworks.check.markdown import cell, code, fence, fold, plain, prose, table, tag
from tokenworks.review.capacity import Need
from tokenworks.review.difference import ORDER, Change
from tokenworks.review.effects import Effect, sizes
from tokenworks.review.objects import Difference
from tokenworks.review.paths import ABSENT, Flag, Path, shown
from tokenworks.review.review import Review
from tokenworks.review.snapshot import Cost
from tokenworks.review.workloads import parts_of

MOST: Final = 25
"""Entries of a list; the rest is counted."""
_LONG: Final = 120
"""Characters of a value that is shown on the line; a longer one is folded."""
_LINES: Final = 200
"""Lines of one folded text."""
_TRACE: Final = 40
"""Lines of what a program says when it fails."""
_WIDTH: Final = 1_000
"""Characters of one of its lines."""


@dataclass(frozen=True)
class Block:
    """Lines that are told together or not at all."""

    what: str
    """What is missing where it is left out."""
    lines: tuple[str, ...]
    rank: int
    """The lowest is told first."""


@dataclass(frozen=True)
class Limits:
    """How much of everything is told; None: all."""

    entries: int | None = MOST
    lines: int | None = _LINES
    width: int | None = _WIDTH


def blocks(review: Review, limits: Limits) -> Iterator[Block]:
    """Everything that is told of an environment, in the order in which it is read."""
    name = review.environment
    yield Block(name, ("", f"### {code(name)}"), 0)
    for what, rank, lines in (
        ("what is wrong with the documents", 0, _broken(review, limits)),
        ("whether it is new or gone", 0, _whole(review)),
        ("what is refused", 0, _refused(review, limits)),
        ("errors", 0, _errors(review, limits)),
        ("what happens", 1, _effects(review, limits)),
        ("GPUs", 2, _capacity(review)),
        ("cost", 2, _cost(review)),
        ("infrastructure", 2, _infrastructure(review, limits)),
        ("findings", 3, _findings(review, limits)),
    ):
        if lines:
            yield Block(f"{name}: {what}", ("", *lines), rank)
    yield from _releases(review, limits)


# --- documents ------------------------------------------------------------------


def _broken(review: Review, limits: Limits) -> list[str]:
    found: list[str] = []
    if review.broken:
        found += ["**The documents do not load**, so nothing more can be told.", ""]
        found += fence(_cut(review.broken, limits))
    if review.before is not None and review.before.broken:
        words = "The documents of the base do not load: everything below counts as new."
        found += [
            words,
            "",
            *fold("what is wrong there", fence(_cut(review.before.broken, limits))),
        ]
    return found


def _cut(text: str, limits: Limits) -> str:
    lines = [_narrow(line, limits) for line in text.splitlines()[: limits.lines]]
    more = len(text.splitlines()) - len(lines)
    return "\n".join([*lines, *([f"… and {more} more lines"] if more else [])])


def _narrow(line: str, limits: Limits) -> str:
    cut = limits.width is not None and len(line) > limits.width
    return f"{line[: limits.width]}…" if cut else line


def _whole(review: Review) -> list[str]:
    if review.after is None:
        return [
            "**The environment is gone from the repository.** That deletes nothing: "
            "`./tokenworks down` it first, from a commit that has it."
        ]
    return ["The environment is new."] if review.before is None else []


# --- what is refused, found and done --------------------------------------------


def _refused(review: Review, limits: Limits) -> list[str]:
    if not review.refused:
        return []
    return ["**Refused:** no cluster makes this change.", "", *_list(review.refused, limits)]


def _errors(review: Review, limits: Limits) -> list[str]:
    errors = [f for f in review.verdicts.new if f.severity == "error"]
    if not errors:
        return []
    return [f"**New errors** ({len(errors)}):", "", *_list(errors, limits)]


def _list(findings: Sequence[Finding], limits: Limits) -> list[str]:
    """Findings that say the same stand below their words."""
    grouped: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        grouped[finding.rule, finding.message, finding.remedy].append(finding)
    lines: list[str] = []
    for group in grouped.values():
        if len(group) == 1:
            lines.append(f"- **{group[0].rule}** {_where(group[0])}: {_words(group[0])}")
            continue
        below = _limited([f"- {_where(finding)}" for finding in group], limits)
        lines.append("\n".join([f"- **{group[0].rule}** {_words(group[0])}:", *_indented(below)]))
    return [line for entry in _limited(lines, limits) for line in entry.split("\n")]


def _limited(lines: Sequence[str], limits: Limits) -> list[str]:
    if limits.entries is None or len(lines) <= limits.entries:
        return list(lines)
    return [*lines[: limits.entries], f"- and {len(lines) - limits.entries} more"]


def _where(finding: Finding) -> str:
    place = ""
    if finding.file is not None:
        place = f" ({code(finding.file + (f':{finding.line}' if finding.line else ''))})"
    field = f" {code(finding.field)}" if finding.field else ""
    return f"{code(finding.object)}{field}{place}"


def _words(finding: Finding) -> str:
    return f"{prose(finding.message)}. *Remedy:* {prose(finding.remedy)}"


def _findings(review: Review, limits: Limits) -> list[str]:
    found = review.verdicts
    if not found.new and not found.fixed:
        return []
    title = f"Policies: {len(found.new)} new, {len(found.fixed)} fixed, {found.same} as before"
    warnings = [f for f in found.new if f.severity != "error"]
    body: list[str] = []
    if warnings:
        body += ["", "New warnings:", "", *_list(warnings, limits)]
    if found.fixed:
        body += ["", "Fixed:", "", *_list(found.fixed, limits)]
    return fold(title, body[1:]) if body else [f"{title}."]


def _effects(review: Review, limits: Limits) -> list[str]:
    lines = [
        f"- **renames** {code(old)} to {code(new)}: new pods start beside the old ones, and the "
        "old ones stop"
        for old, new in review.renamed
    ]
    lines += [_effect(effect) for effect in review.effects]
    lines += [_short(need) for need in review.needs if need.short]
    lines += [
        f"- **{operation.what}s** {code(operation.name)} of the infrastructure"
        for operation in (review.preview.operations if review.preview else ())
        if operation.what in ("replace", "delete")
    ]
    lines += [f"- **waived** {finding.rule}: {_where(finding)}" for finding in review.waived]
    return ["**What happens:**", "", *_limited(lines, limits)] if lines else []


def _effect(effect: Effect) -> str:
    reasons = [code(reason) for reason in effect.because[:_REASONS]]
    more = len(effect.because) - _REASONS
    reasons += [f"{more} more"] if more > 0 else []
    because = f" ({', '.join(reasons)})" if reasons else ""
    return f"- **{effect.what}** {code(effect.subject)}: {effect.words}{because}"


_REASONS: Final = 4


def _short(need: Need) -> str:
    when = "the rollout asks" if need.after <= need.has else "it asks"
    return (
        f"- **waits** for GPUs: {when} for {need.during} of pool {code(need.pool)}, which has "
        f"{need.has}: pods that need {need.short} of them stay pending"
    )


# --- numbers ------------------------------------------------------------------


def _capacity(review: Review) -> list[str]:
    if not any(need.changes for need in review.needs):
        return []
    head = ("pool", "GPU", "has at most", "asked for", "during the rollout", "after it")
    rows = [
        (
            cell(need.pool), cell(need.gpu), _moved(need.had, need.has), str(need.before),
            f"**{need.during}**" if need.short else str(need.during), str(need.after),
        )
        for need in review.needs
    ]  # fmt: skip
    return fold("GPUs", table(head, rows))


def _moved(before: int, after: int) -> str:
    return str(after) if before == after else f"{before} → {after}"


def _cost(review: Review) -> list[str]:
    before = review.before.cost if review.before else None
    after = review.after.cost if review.after else None
    if before == after or review.broken:
        return []
    none = Cost(0, 0, 0)
    old, new = before or none, after or none
    rows = [
        ("fewest that may run", *_dollars(old.least, new.least)),
        ("most that may run", *_dollars(old.most, new.most)),
    ]
    body = table(("nodes", "$ a month before", "after", "change"), rows)
    if old.unknown or new.unknown:
        body += [
            "",
            f"Without prices that are not known: {old.unknown} before, {new.unknown} after.",
        ]
    if day := new.as_of or old.as_of:
        body += ["", f"With spot prices as of {day}, an estimate: they move by the hour."]
    return fold(f"Cost: {cost_words(before, after)}", body)


def cost_words(before: Cost | None, after: Cost | None) -> str:
    """`+1,234.50 $ a month at most`; prices that are not known make it a part of the truth.

    Those of spot make it an estimate.
    """
    none = Cost(0, 0, 0)
    old, new = before or none, after or none
    unknown = max(old.unknown, new.unknown)
    moved = delta(old.most, new.most)
    spot = ", spot estimated" if new.as_of or old.as_of else ""
    return f"{moved} at most{spot}" + (f", without {unknown} not known" if unknown else "")


def _dollars(before: float, after: float) -> tuple[str, str, str]:
    return f"{before:,.2f}", f"{after:,.2f}", delta(before, after)


def delta(before: float, after: float) -> str:
    """`+1,234.50`, `−20.00`, `±0.00`."""
    moved = after - before
    if abs(moved) < _CENT:
        return "±0.00"
    return f"{'+' if moved > 0 else '−'}{abs(moved):,.2f}"


_CENT: Final = 0.005


def _infrastructure(review: Review, limits: Limits) -> list[str]:
    preview = review.preview
    done = preview.operations if preview else ()
    if not review.infrastructure and not preview:
        return []
    entries = [change_lines(change, limits) for change in review.infrastructure]
    body = [line for entry in _few(entries, limits, "settings") for line in entry]
    words = _differ(len(entries), "setting")
    if preview is not None and preview.failed:
        words += ", no preview"
        few = limits if limits.lines is None else replace(limits, lines=_TRACE)
        body += ["", "The preview fails:", "", *fence(_cut(preview.failed, few))]
    elif preview is not None:
        counts = Counter(operation.what for operation in done)
        words += f", {', '.join(f'{what} {n}' for what, n in counts.items()) or 'nothing is done'}"
        told = [f"- {plain(o.what)} {code(o.name)} ({code(o.kind)})" for o in done]
        note = "A preview without an account, from what the base would have made:"
        body += ["", note, "", *_limited(told, limits)]
    return fold(f"Infrastructure: {words}", body)


def _few(entries: list[list[str]], limits: Limits, what: str) -> list[list[str]]:
    """As many entries as are told, and a line for the rest."""
    if limits.entries is None or len(entries) <= limits.entries:
        return entries
    return [*entries[: limits.entries], [f"- and {len(entries) - limits.entries} more {what}"]]


def _differ(number: int, noun: str) -> str:
    return f"{number} {noun}{' differs' if number == 1 else 's differ'}"


# --- objects ------------------------------------------------------------------


def _releases(review: Review, limits: Limits) -> Iterator[Block]:
    by_release: dict[str, list[Difference]] = defaultdict(list)
    for difference in review.differences:
        by_release[difference.release].append(difference)
    for release, found in by_release.items():
        title = f"{tag(release)}: {counted(found)}"
        found.sort(key=lambda difference: _TOLD.index(_state(difference)))
        entries = [list(_object(review, difference, limits)) for difference in found]
        body = [line for entry in _few(entries, limits, "objects") for line in entry]
        rank = 4 if release.startswith("model-") else 5
        yield Block(f"{review.environment}: {release}", ("", *fold(title, body)), rank)


def counted(found: Iterable[Difference]) -> str:
    """`2 added, 1 changed`."""
    counts = Counter(_state(difference) for difference in found)
    return ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])


_STATES: Final = ("added", "changed", "removed")
_TOLD: Final = ("changed", "added", "removed")
"""The order in which they are told: what changes is what reviews look at."""


def _state(difference: Difference) -> str:
    if difference.before is None:
        return "added"
    return "removed" if difference.after is None else "changed"


def _object(review: Review, difference: Difference, limits: Limits) -> Iterator[str]:
    state, name = _state(difference), code(str(difference.identity))
    if state != "changed":
        side = review.after if state == "added" else review.before
        manifest = difference.after or difference.before or {}
        size = sizes(parts_of(manifest, side.pools if side else {}))
        yield f"- {state} {name}{f': {size}' if size else ''}"
        return
    yield f"- changed {name}:"
    told, schema = _without_schemas(difference)
    for entry in _few([change_lines(change, limits) for change in told], limits, "fields"):
        yield from _indented(entry)
    for version, count in schema.items():
        yield f"  - schema of {code(version)}: {_differ(count, 'place')}"


def _without_schemas(difference: Difference) -> tuple[list[Change], Counter[str]]:
    """The changes save those in schemas of a CRD, which are counted by version."""
    if difference.identity.kind != "CustomResourceDefinition":
        return list(difference.changes), Counter()
    told: list[Change] = []
    counts: Counter[str] = Counter()
    for change in difference.changes:
        if "schema" in change.path[3:4]:
            counts[shown(change.path[2:3]).strip("[]")] += 1
        else:
            before, after = (_without_schema(v) for v in (change.before, change.after))
            told.append(Change(change.path, before, after))
    return told, counts


def _without_schema(version: Any) -> Any:
    """A version of a CRD without its schema; anything else as it is."""
    if not is_mapping(version):
        return version
    return {key: child for key, child in version.items() if key != "schema"}


def change_lines(change: Change, limits: Limits) -> list[str]:
    """One change, on a line where it fits."""
    path = _place(change.path)
    if change.path[-1:] == (ORDER,):
        moved = sorted(map(str, change.before)) == sorted(map(str, change.after))
        words = "its entries have another order" if moved else "is written otherwise"
        return [f"- {_place(change.path[:-1])}: {words}"]
    before, after = change.before, change.after
    if _is_long(before) or _is_long(after):
        return [f"- {path}:", "", *_indented(fold("difference", _diff(before, after, limits)))]
    if before is ABSENT:
        return [f"- {path}: {'added' if _is_set(change) else f'now {value(after)}'}"]
    if after is ABSENT:
        return [f"- {path}: {'removed' if _is_set(change) else f'no longer {value(before)}'}"]
    return [f"- {path}: {value(before)} → {value(after)}"]


def _place(path: Path) -> str:
    return code(shown(path)) if path else "the object"


def _is_set(change: Change) -> bool:
    """Whether it is a flag without a value."""
    flag = bool(change.path) and isinstance(change.path[-1], Flag)
    return flag and True in (change.before, change.after)


def value(one: Any) -> str:
    """A value as code."""
    return code(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False, default=str))


def _is_long(one: Any) -> bool:
    if isinstance(one, str):
        return "\n" in one or len(one) > _LONG
    many = is_mapping(one) or is_sequence(one)
    return many and len(json.dumps(one, default=str)) > _LONG


def _diff(before: Any, after: Any, limits: Limits) -> list[str]:
    old, new = _lines(before), _lines(after)
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    return fence(_cut("\n".join(lines), limits), "diff")


def _lines(one: Any) -> list[str]:
    if one is ABSENT:
        return []
    if isinstance(one, str):
        return one.splitlines()
    text: str = yaml.safe_dump(one, sort_keys=True, width=100)  # pyright: ignore[reportUnknownMemberType]
    return text.splitlines()


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]
