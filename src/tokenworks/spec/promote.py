"""A release's document of one environment, with what is another environment's own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenworks.errors import TokenworksError, UsageError
from tokenworks.files import replace_text
from tokenworks.spec.edit import CannotEditError, has, value_at, with_field_of, with_value, written
from tokenworks.spec.environment import OWN_FIELDS as OWN
from tokenworks.spec.environment import Promotion as Habits
from tokenworks.spec.load import load_stack
from tokenworks.spec.problems import DocumentErrors


@dataclass(frozen=True)
class Promotion:
    """What would be written."""

    file: Path
    before: str
    """Text of the target's document; empty where it has none."""
    after: str
    kept: tuple[str, ...]
    """Fields that stay as the target has them."""
    taken: tuple[str, ...]
    """Fields of the environment's own that come from the source, because the target has none."""


def promotion(
    root: Path,
    name: str,
    source: str,
    target: str,
    *,
    given: Mapping[str, str],
    keep: Sequence[str] = (),
) -> Promotion:
    """The document of release `name` in `source`, as environment `target` should have it.

    Fields of `OWN`, `keep` and the target's `promotion.keep` stay as the target's document has
    them; `given` are those of `OWN` that it should get. What it then has not is as the target's
    `promotion.set` says.

    Raises:
        UsageError: no such environment, release or field; or documents that do not load, with the
            result too where the target has no such pool, tenant ….
        TokenworksError: documents cannot be read.
    """
    for field in given:
        if field not in OWN:
            raise UsageError(
                f"--set {field}: is not the environment's own; allowed: {', '.join(OWN)}"
            )
        if any(field == kept or field.startswith(f"{kept}.") for kept in keep):
            raise UsageError(f"--set {field}: contradicts --keep; leave one of them out")
    here = _document(root, source, name)
    there = root / "stacks" / target / "models" / f"{name}.yaml"
    habits = load_stack(root, target).environment.spec.promotion
    text = _text(here)
    before = _text(there) if there.exists() else ""
    try:
        text, kept = _merged(text, before, given, keep, habits)
        taken = [field for field in OWN if field not in kept and has(text, _path(field))]
    except CannotEditError as error:
        raise UsageError(
            f"promoting {here.relative_to(root)} to {there.relative_to(root)}: {error}; write it "
            "plainly, or edit by hand"
        ) from None
    _refuse_what_does_not_load(root, target, name, text)
    return Promotion(there, before, text, tuple(kept), tuple(taken))


def _path(field: str) -> tuple[str, ...]:
    return ("spec", *field.split("."))


def _merged(
    text: str, before: str, given: Mapping[str, str], keep: Sequence[str], habits: Habits
) -> tuple[str, list[str]]:
    """The source's text with what is the target's own, and the names of that."""
    for field in keep:
        if not before or not has(before, _path(field)):
            raise UsageError(f"--keep {field}: the target has no spec.{field} to keep")
    stay = dict.fromkeys([*keep, *(f for f in habits.keep if before and has(before, _path(f)))])
    for field in stay:
        text = with_field_of(text, _path(field), before)
    kept = list(stay)
    for field in OWN:
        value = _own(text, before, field, given, habits)
        if value is not None:
            text = with_value(text, _path(field), value)
            kept.append(field)
    return text, kept


def _own(
    text: str, before: str, field: str, given: Mapping[str, str], habits: Habits
) -> str | None:
    """The target's value of a field that belongs to it, if the release has a place for it."""
    path = _path(field)
    if field in given:
        return written(given[field])
    # A claim or a store is of a kind of cache, which is the release's.
    if not has(text, path if field.startswith("caches.") else path[:-1]):
        return None
    now, habit = value_at(before, path) if before else None, habits.own.get(field)
    return now if now is not None or habit is None else written(str(habit))


def write(made: Promotion) -> None:
    """Put the document in its place, whole or not at all.

    Raises:
        TokenworksError: it cannot be written.
    """
    replace_text(made.file, made.after)


def _document(root: Path, environment: str, name: str) -> Path:
    stack = load_stack(root, environment)
    names = [model.metadata.name for model in stack.models]
    if name not in names:
        known = ", ".join(names) or "none"
        raise UsageError(
            f"environment {environment} has no model release {name!r}; it has: {known}"
        )
    return root / "stacks" / environment / "models" / f"{name}.yaml"


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8")


def _refuse_what_does_not_load(root: Path, target: str, name: str, text: str) -> None:
    """Load the target's documents as they would be."""
    with tempfile.TemporaryDirectory(prefix="tokenworks-promote-") as folder:
        copy = Path(folder) / "stacks" / target
        try:
            shutil.copytree(
                root / "stacks" / target, copy, ignore=_hidden, ignore_dangling_symlinks=True
            )
        except (shutil.Error, OSError) as error:
            raise TokenworksError(f"stacks/{target} cannot be read: {error}") from None
        file = copy / "models" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
        try:
            load_stack(Path(folder), target)
        except DocumentErrors as error:
            raise UsageError(
                f"{error}\nnothing is written (lines are those of what would be); what is "
                f"{target}'s own is given by --set, such as --set pool=NAME, or stays by --keep"
            ) from None


def _hidden(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(".")]
