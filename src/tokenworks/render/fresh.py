"""Trees that need not be rendered, because nothing that rendering reads has changed.

What is known of an environment is kept by the content of its documents, of the charts, of the pins
(whose go.sum has the digest of each module that charts and CRDs come from) and of this program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tokenworks.kept import Kept, code, content, digest, program
from tokenworks.render.tree import digests, digests_of

_HERE: Final = Path(__file__).parents[3]
_BESIDE: Final = (_HERE / "charts", _HERE / "local" / "toolchain")
"""Folders that are read beside an environment's own and this program."""


def inputs(root: Path, environment: str, charts: Path) -> str | None:
    """Key of everything that an environment's tree is made of; None where that cannot be told."""
    documents = _documents(root / "stacks" / environment)
    if documents is None:
        return None
    beside = (content(folder) for folder in _BESIDE)
    return digest("tree", code(), program(charts), *beside, environment, *documents)


def _documents(folder: Path) -> list[str | bytes] | None:
    """Name, kind and content of everything in the folder; None where there is a link, or something
    that is no file, or is gone already."""
    parts: list[str | bytes] = []
    try:
        for where, folders, names in os.walk(folder):
            folders.sort()
            for name in (*folders, *sorted(names)):
                path = Path(where) / name
                if path.is_symlink() or not (path.is_file() or path.is_dir()):
                    return None
                kind = "folder" if path.is_dir() else "file"
                parts += [str(path.relative_to(folder)), kind]
                parts += [path.read_bytes()] if kind == "file" else []
    except OSError:
        return None
    return parts


def remember(kept: Kept, key: str, files: Mapping[str, str]) -> None:
    """Keep what these inputs are rendered to."""
    kept.keep(key, json.dumps(digests(files)))


def fresh(kept: Kept, key: str, folder: Path) -> int | None:
    """How many files the tree has, where it is known to be as it would be rendered."""
    text = kept.text(key)
    if text is None:
        return None
    known: dict[str, str] = json.loads(text)
    return len(known) if known == digests_of(folder) else None
