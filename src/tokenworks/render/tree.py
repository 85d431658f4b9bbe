"""The rendered tree: one file per release under `<out>/<environment>/<layer>/`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tokenworks.errors import UsageError
from tokenworks.files import read_bytes, replace_text
from tokenworks.kept import digest
from tokenworks.render.release import Release

HEADER = "# Rendered by `./tokenworks render`; edit stacks/ and render again.\n"


@dataclass(frozen=True)
class TreeChange:
    """What differs between a tree on disk and what would be rendered; paths are relative."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def lines(self) -> list[str]:
        """One line per file, sorted by file."""
        marked = [(p, "+") for p in self.added] + [(p, "~") for p in self.changed]
        marked += [(p, "-") for p in self.removed]
        return [f"{mark} {path}" for path, mark in sorted(marked)]


class _Dumper(yaml.CSafeDumper):
    """Multi-line text as blocks, so that reviews read scripts and configuration as such."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    # The stubs of PyYAML leave the value untyped.
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _text)


def release_text(release: Release) -> str:
    """The bytes of a release's file."""
    documents = [*release.objects, *(chart.manifest() for chart in release.charts)]
    body = yaml.dump_all(  # pyright: ignore[reportUnknownMemberType]
        documents, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=100,
        allow_unicode=True,
    )  # fmt: skip
    return HEADER + body


def tree(releases: Iterable[Release]) -> dict[str, str]:
    """Relative path to text, for every release."""
    return {f"{r.layer}/{r.name}.yaml": release_text(r) for r in releases}


def _ours(folder: Path) -> dict[str, bytes]:
    """Files that an earlier rendering wrote: nobody else's file is ever touched."""
    head = HEADER.encode()
    top, found = len(f"{folder}/"), dict[str, bytes]()
    for where, _, names in os.walk(folder):
        for name in names:
            path = f"{where}/{name}"
            if name.endswith(".yaml") and os.path.isfile(path):  # noqa: PTH113 - there are many
                raw = read_bytes(path)
                if raw.startswith(head):
                    found[path[top:]] = raw
    return found


_APPLIED: Final = frozenset({".yaml", ".yml", ".json"})
"""Files that `kubectl apply` and Argo CD read of a folder."""


def strangers(folder: Path) -> tuple[str, ...]:
    """Files that no rendering wrote, and that whoever applies the folder applies too."""
    ours, every = _ours(folder), folder.rglob("*")
    found = (p.relative_to(folder).as_posix() for p in every if p.suffix in _APPLIED)
    return tuple(sorted(p for p in found if p not in ours and not (folder / p).is_dir()))


def digests(files: Mapping[str, str]) -> dict[str, str]:
    """What tells whether a tree on disk has these files, and no others."""
    return {path: digest(text) for path, text in files.items()}


def digests_of(folder: Path) -> dict[str, str]:
    """The same of a tree on disk."""
    return {path: digest(raw) for path, raw in _ours(folder).items()}


def compare(files: dict[str, str], folder: Path) -> TreeChange:
    """What writing `files` to `folder` would change."""
    there = _ours(folder)
    return TreeChange(
        added=tuple(sorted(files.keys() - there.keys())),
        changed=tuple(
            sorted(p for p in files.keys() & there.keys() if there[p] != files[p].encode())
        ),
        removed=tuple(sorted(there.keys() - files.keys())),
    )


def refuse_foreign(change: TreeChange, folder: Path) -> None:
    """Refuse to write over a file that no rendering wrote.

    Raises:
        UsageError: there is one.
    """
    foreign = [p for p in change.added if os.path.lexists(folder / p)]
    if foreign:
        raise UsageError(
            f"{folder / foreign[0]}: no rendering wrote this (its first line is another), and one "
            "would take its place; move it away, or name another folder with --out"
        )


def write(files: dict[str, str], folder: Path) -> TreeChange:
    """Make `folder` hold exactly `files`; unchanged files are not touched.

    Raises:
        UsageError: another's file is in the way; nothing was written.
    """
    change = compare(files, folder)
    refuse_foreign(change, folder)
    apply(change, files, folder)
    return change


def apply(change: TreeChange, files: Mapping[str, str], folder: Path) -> None:
    """Make the change of which `compare` told."""
    for path in (*change.added, *change.changed):
        replace_text(folder / path, files[path])
    for path in change.removed:
        (folder / path).unlink()
        parent = (folder / path).parent
        if not any(parent.iterdir()):
            parent.rmdir()
