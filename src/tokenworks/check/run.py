"""`check PATH…`: read files, run the rules, put file, line and column to each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import BinaryIO

from policies import Context, Finding, Violation, evaluate
from policies.servers import descend
from tokenworks.check.read import Sourced, no_collection, read_paths
from tokenworks.check.report import Report


def check_paths(paths: Sequence[str], stdin: BinaryIO, context: Context) -> Report:
    """The rules over all objects of all paths, as one set.

    Raises UsageError when a path does not exist.
    """
    reading = read_paths(paths, stdin)
    order = {name: position for position, name in enumerate(_files(reading.objects))}
    left = {(f.file, f.line, f.field) for f in reading.findings if f.rule == "leftover"}
    # What a rule says of a placeholder is that somebody left it: once is enough. A script is more.
    judged = [
        f
        for f, script in _located(reading.objects, context)
        if script or (f.file, f.line, f.field) not in left
    ]
    found = [*reading.findings, *judged]
    found.sort(
        key=lambda f: (
            order.get(f.file or "", len(order)), f.file or "", f.line or 0, f.column or 0,
        )
    )  # fmt: skip
    files = f"{reading.files} file{'' if reading.files == 1 else 's'}"
    return Report(tuple(found), len(reading.objects), files, reading.without_objects)


def _files(objects: Sequence[Sourced]) -> list[str]:
    return list(dict.fromkeys(item.file for item in objects))


def _located(objects: Sequence[Sourced], context: Context) -> list[tuple[Finding, bool]]:
    """Each finding, and whether it is about a text of several lines."""
    # Lists are flattened by the reader, so a violation's index counts these objects.
    with no_collection():
        return [
            finding
            for index, group in groupby(
                evaluate([item.manifest for item in objects], context, known=True),
                lambda v: v[0].index,
            )
            for finding in _placed(list(group), objects[index] if index >= 0 else None)
        ]


def _placed(
    found: Sequence[tuple[Violation, Finding]], item: Sourced | None
) -> Iterator[tuple[Finding, bool]]:
    """Findings of one object with file, line and column; those of a waiver have theirs."""
    if item is None:
        yield from ((finding, False) for _, finding in found)
        return
    places = item.places([violation.path for violation, _ in found])
    for (violation, finding), (line, column) in zip(found, places, strict=True):
        placed = replace(finding, file=item.file, line=line, column=column)
        text = descend(item.manifest, violation.path)
        script = isinstance(text, str) and "\n" in text.strip()
        yield placed if finding.file is None else finding, script
