"""Trees of which only what reads a changed document is rendered, and trees of which nothing is.

Files are kept by the content of the documents that they are made of, of the charts, of the pins
(whose go.sum has the digest of each module that charts and CRDs come from) and of this program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.files import read_bytes
from tokenworks.kept import Kept, code, content, digest, program
from tokenworks.render import Part, RenderTools, all_of, delivery, parts, render
from tokenworks.render.applications import outline
from tokenworks.render.release import Release
from tokenworks.render.tree import digests, digests_of, tree
from tokenworks.spec.common import Document
from tokenworks.spec.stack import Stack

_HERE: Final = Path(__file__).parents[3]
_BESIDE: Final = (_HERE / "charts", _HERE / "local" / "toolchain")
"""Folders that are read beside an environment's own and this program."""


def inputs(root: Path, environment: str, charts: Path) -> str | None:
    """Key of everything that an environment's tree is made of; None where that cannot be told."""
    documents = _documents(root / "stacks" / environment)
    return None if documents is None else digest("tree", _ground(charts), environment, *documents)


def _ground(charts: Path) -> str:
    """All that every tree is made of, but for documents."""
    return digest(code(), program(charts), *(content(folder) for folder in _BESIDE))


def _documents(folder: Path) -> list[str | bytes] | None:
    """Name, kind and content of everything in the folder; None where there is a link, or something
    that is no file, or is gone already."""
    found: list[str | bytes] = []
    top, waiting = len(f"{folder}/"), [str(folder)]
    try:
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
            for entry in inside:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    found += [entry.path[top:], "folder"]
                elif entry.is_file(follow_symlinks=False):
                    found += [entry.path[top:], "file", read_bytes(entry.path)]
                else:
                    return None
    except OSError:
        return None
    return found


@dataclass(frozen=True)
class _Made:
    """What came of a part."""

    files: dict[str, str]
    outlines: tuple[Release, ...]
    """What Argo CD is told about; none where it does not deliver."""

    def text(self) -> str:
        return json.dumps({"files": self.files, "outlines": [asdict(r) for r in self.outlines]})


def _made(text: str) -> _Made:
    known = json.loads(text)
    return _Made(known["files"], tuple(_release(fields) for fields in known["outlines"]))


def _release(fields: Mapping[str, Any]) -> Release:
    lists: dict[str, Any] = {name: tuple(fields[name]) for name in ("objects", "needs", "charts")}
    return Release(**{**fields, **lists})


def files(stack: Stack, tools: RenderTools) -> dict[str, str]:
    """Relative path to text of every file of the environment's tree.

    Raises:
        TokenworksError: a chart does not render.
    """
    if tools.kept is None:
        return tree(render(stack, tools))
    wanted, kept, ground = parts(stack), tools.kept, _ground(tools.charts)
    told = stack.environment.spec.delivery == "argocd"

    def make(missing: Sequence[Part]) -> list[_Made]:
        made = all_of(missing, tools) if missing else []
        return [_Made(tree(rs), tuple(map(outline, rs)) if told else ()) for rs in made]

    found = _kept_or_made(kept, wanted, _keys(wanted, ground), make)
    if told:
        outlines = [release for part in found for release in part.outlines]
        found.append(_told_argocd(stack, tools, ground, outlines))
    kept.trim()
    return {path: text for part in found for path, text in part.files.items()}


def _kept_or_made(
    kept: Kept,
    wanted: Sequence[Part],
    keys: Sequence[str | None],
    make: Callable[[Sequence[Part]], list[_Made]],
) -> list[_Made]:
    """What each part makes; only what was not kept is made, and kept then."""
    known = [None if key is None else kept.text(key) for key in keys]
    missing = [place for place, text in enumerate(known) if text is None]
    fresh_ones = dict(zip(missing, make([wanted[place] for place in missing]), strict=True))
    for place, made in fresh_ones.items():
        if (key := keys[place]) is not None:
            kept.keep(key, made.text())
    return [fresh_ones[place] if text is None else _made(text) for place, text in enumerate(known)]


def _told_argocd(
    stack: Stack, tools: RenderTools, ground: str, outlines: Sequence[Release]
) -> _Made:
    """Argo CD and what it is told: made of the environment's own documents, and of outlines."""
    assert tools.kept is not None
    said = [_told(document) for document in (stack.environment, *stack.tenants)]
    key = digest("argocd", ground, *said, _Made({}, tuple(outlines)).text())
    text = tools.kept.text(key)
    if text is not None:
        return _made(text)
    made = _Made(tree(delivery(stack, tools, outlines)), ())
    tools.kept.keep(key, made.text())
    return made


def _keys(wanted: Sequence[Part], ground: str) -> list[str | None]:
    """A key for what each part makes; None where it reads more than documents."""
    read = [_documents_of(part.stack) for part in wanted]
    # By identity: the environment is read by every part.
    each = {id(document): document for documents in read for document in documents}
    told = {number: _told(document) for number, document in each.items()}
    return [
        None
        if part.stack.manifests
        else digest("part", ground, part.name, *(told[id(document)] for document in documents))
        for part, documents in zip(wanted, read, strict=True)
    ]


def _told(document: Document) -> str:
    """All that a document says, and not what it leaves to defaults, which are code."""
    said = document.model_dump_json(by_alias=True, exclude_unset=True)
    return f"{type(document).__name__} {said}"


def _documents_of(stack: Stack) -> tuple[Document, ...]:
    return (stack.environment, *stack.tenants, *stack.models)


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
