"""`load_stack`: the documents of one environment, read, typed and checked together.

Every problem of every file is collected and raised once, as `DocumentErrors`.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from tokenworks.catalog.engines import load_engines
from tokenworks.errors import UsageError, did_you_mean
from tokenworks.kept import Kept, code, digest
from tokenworks.spec import rules
from tokenworks.spec.common import API_VERSION, Document, Metadata
from tokenworks.spec.environment import Environment
from tokenworks.spec.fields import ANYTHING, takes_text, words_at
from tokenworks.spec.manifests import PlainObject, read_objects, repeated
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import DocumentErrors, Flaw, Problem, named, shown
from tokenworks.spec.scalars import SWITCH
from tokenworks.spec.secrets import shaped
from tokenworks.spec.sourced import Documents, EngineCatalog, Sourced
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.typed import parse
from tokenworks.spec.yamlsource import (
    Mapping,
    Node,
    Scalar,
    data_of,
    line_of,
    node_at,
    read_yaml,
)

D = TypeVar("D", bound=Document)

MAX_BYTES: Final = 4 * 1024 * 1024
"""Largest file that is read. The API server takes objects of about 1.5 MiB."""

FOLDERS: Final = ("models", "tenants", "manifests")
_IGNORED: Final = frozenset({".md", ".txt"})


def load_stack(
    root: Path, name: str, catalog: EngineCatalog | None = None, kept: Kept | None = None
) -> Stack:
    """The environment `stacks/<name>` under `root`, complete and consistent.

    `catalog` tells which engine versions exist (default: the repository's own); `kept` has the data
    of documents that were read before.
    Raises `DocumentErrors` with every problem of every file, or `UsageError` when
    there is no such environment.
    """
    folder = _folder(root, name)
    reader = _Reader(root, kept)
    problems = list(reader.layout(folder))
    environment = reader.document(Environment, folder / "environment.yaml")
    models = reader.documents(ModelRelease, folder / "models")
    tenants = reader.documents(Tenant, folder / "tenants")
    objects = reader.objects(folder / "manifests")
    documents = Documents(environment, models.documents, tenants.documents, tenants.unread)
    problems += reader.problems
    problems += rules.check(documents, catalog or load_engines())
    problems += repeated(objects)
    if problems or environment is None:
        raise DocumentErrors(f"stacks/{name}", problems)
    return _stack(environment, documents, objects)


def environment_names(root: Path) -> tuple[str, ...]:
    """Names of the environments under `root`, sorted."""
    stacks = root / "stacks"
    if not stacks.is_dir():
        return ()
    return tuple(
        sorted(p.name for p in stacks.iterdir() if p.is_dir() and not p.name.startswith("."))
    )


def _folder(root: Path, name: str) -> Path:
    names = environment_names(root)
    if name in names:
        return root / "stacks" / name
    if not names:
        raise UsageError(
            f"{root / 'stacks'}: no environments here; run the command in the repository, or write "
            "one with `./tokenworks new environment NAME`"
        )
    raise UsageError(
        f"unknown environment {shown(name)}; allowed: {', '.join(names)}; "
        f"{did_you_mean(name, names)}"
    )


def _stack(
    environment: Sourced[Environment], documents: Documents, objects: tuple[PlainObject, ...]
) -> Stack:
    all_of_them: list[Sourced[Any]] = [environment, *documents.models, *documents.tenants]
    named = {f"{item.document.kind}/{item.document.metadata.name}": item for item in all_of_them}
    return Stack(
        environment=environment.document,
        models=tuple(model.document for model in documents.models),
        tenants=tuple(tenant.document for tenant in documents.tenants),
        manifests=tuple(item.manifest for item in objects),
        manifest_sources=tuple((item.file, item.line) for item in objects),
        sources={name: item.file for name, item in named.items()},
        lines={name: item.line for name, item in named.items()},
    )


_NO_ENVIRONMENT: Final = "is missing, and without it the folder is no environment"
_WRITE_ONE: Final = "write it (docs/documents.md), bring it back, or remove the folder"


@dataclass(frozen=True)
class _Folder(Generic[D]):
    """The documents of one folder, and the names of files that hold none."""

    documents: tuple[Sourced[D], ...]
    unread: frozenset[str]


class _Reader:
    """Reads files and keeps what is wrong with them."""

    def __init__(self, root: Path, kept: Kept | None) -> None:
        self._root = root
        self._kept = kept
        self.problems: list[Problem] = []

    def layout(self, folder: Path) -> Iterator[Problem]:
        """Files and folders that nobody would read."""
        for path in sorted(folder.iterdir()):
            known = path.name in FOLDERS or path.name == "environment.yaml"
            if known or path.name.startswith(".") or path.suffix in _IGNORED:
                continue
            yield self._problem(
                path,
                "nothing reads this",
                "environment.yaml, models, tenants, manifests",
                did_you_mean(path.name, ("environment.yaml", *FOLDERS), "remove it"),
            )

    def documents(self, kind: type[D], folder: Path) -> _Folder[D]:
        """The documents in the folder, sorted by name."""
        found: list[Sourced[D]] = []
        unread: set[str] = set()
        for file in self._files(folder):
            document = self.document(kind, file)
            if document is None:
                unread.add(file.stem)
            else:
                found.append(document)
        return _Folder(tuple(found), frozenset(unread))

    def document(self, kind: type[D], file: Path) -> Sourced[D] | None:
        """The one document in the file; None when it has problems of its own."""
        shown = file.relative_to(self._root)
        text = read_text(file)
        known = _known(kind, file, text, self._kept) if isinstance(text, str) else None
        if known is not None:
            return Sourced(known, shown, cache(partial(_only_node, str(text))))
        nodes, flaws = self._nodes(text, kubernetes=False)
        if len(nodes) > 1:
            second = "found a second document", "one document a file", "give it its own file"
            flaws.append(Flaw(nodes[1].line, (), *second))
        if kind is Environment and not os.path.lexists(file):
            flaws = [Flaw(None, (), _NO_ENVIRONMENT, "an Environment", _WRITE_ONE)]
        node = nodes[0] if len(nodes) == 1 else None
        document = None
        if node is not None:
            flaws = [_of_field(kind, flaw) for flaw in flaws]
            document, typed = _typed(kind, file, node)
            places = {flaw.path for flaw in flaws}
            flaws += [flaw for flaw in typed if flaw.path not in places]
        self.problems += [Problem.of(shown, flaw) for flaw in flaws]
        if node is None or document is None or flaws:
            return None
        if self._kept is not None:
            self._kept.keep(_key(kind, str(text)), json.dumps(data_of(node)))
        return Sourced(document, shown, lambda: node)

    def objects(self, folder: Path) -> tuple[PlainObject, ...]:
        """The plain Kubernetes objects in the folder."""
        found: list[PlainObject] = []
        for file in self._files(folder):
            shown = file.relative_to(self._root)
            nodes, flaws = self._nodes(read_text(file), kubernetes=True)
            self.problems += [Problem.of(shown, flaw) for flaw in flaws]
            for node in nodes:
                for part in read_objects(shown, node):
                    if isinstance(part, Problem):
                        self.problems.append(part)
                    else:
                        found.append(part)
        return tuple(found)

    def _problem(
        self, path: Path, found: str, allowed: str | None = None, remedy: str | None = None
    ) -> Problem:
        return Problem(path.relative_to(self._root), None, "", found, allowed, remedy)

    def _files(self, folder: Path) -> list[Path]:
        """The folder's YAML files; a problem for what looks like one and would be skipped."""
        if not folder.exists() and not folder.is_symlink():
            return []
        if not folder.is_dir():
            self.problems.append(self._problem(folder, "is not a folder", None, "make it one"))
            return []
        files: list[Path] = []
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or path.suffix in _IGNORED:
                continue
            if path.suffix == ".yaml":
                files.append(path)
            else:
                self.problems.append(
                    self._problem(
                        path,
                        "nothing reads this",
                        "files that end in .yaml",
                        "rename it, or move it elsewhere",
                    )
                )
        return files

    def _nodes(self, text: str | Flaw, *, kubernetes: bool) -> tuple[tuple[Node, ...], list[Flaw]]:
        if isinstance(text, Flaw):
            return (), [text]
        content = read_yaml(text, kubernetes=kubernetes)
        if not content.documents and not content.flaws:
            return (), [Flaw(None, (), "is empty", "a document", "write it, or remove the file")]
        secrets = [flaw for document in content.documents for flaw in shaped(document)]
        return content.documents, [*content.flaws, *secrets]


def _key(kind: type[Document], text: str) -> str:
    return digest("document", code(), kind.__name__, text)


def _only_node(text: str) -> Node:
    """The YAML of a document in which nothing was wrong when its data was kept."""
    return read_yaml(text).documents[0]


def _known(kind: type[D], file: Path, text: str, kept: Kept | None) -> D | None:
    """The document, by data that was kept of the same text; None where there is none, and where
    anything is wrong, which then is said of the text itself."""
    data = None if kept is None else kept.text(_key(kind, text))
    if data is None:
        return None
    try:
        document = kind.model_validate_json(data, strict=True, by_alias=True, by_name=False)
    except ValidationError:
        return None
    wanted = file.parent.name if kind is Environment else file.stem
    return document if _name_of(document) == wanted else None


def _name_of(document: Document) -> str | None:
    metadata = getattr(document, "metadata", None)
    return metadata.name if isinstance(metadata, Metadata) else None


def read_text(file: Path) -> str | Flaw:
    """The file's text, or why it has none."""
    try:
        flaw = _not_readable(file.stat())
        return flaw or _decoded(file.read_bytes())
    except FileNotFoundError:
        if file.is_symlink():
            return Flaw(None, (), "is a link to nothing", "a file", "correct or remove the link")
        return Flaw(None, (), "is missing", None, "write it")
    except OSError as error:
        return Flaw(None, (), f"cannot be read: {error.strerror}", None, "correct or remove it")


def _not_readable(state: os.stat_result) -> Flaw | None:
    if stat.S_ISDIR(state.st_mode):
        return Flaw(None, (), "is a folder", "a file", "rename the folder")
    if not stat.S_ISREG(state.st_mode):
        return Flaw(None, (), "is not a regular file", "a file", "remove it")
    if state.st_size > MAX_BYTES:
        return Flaw(None, (), f"has {state.st_size} bytes", f"at most {MAX_BYTES}", "split it")
    return None


def _decoded(raw: bytes) -> str | Flaw:
    if raw.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
        wide = raw.startswith(codecs.BOM_UTF32_LE)
        return Flaw(1, (), f"is UTF-{32 if wide else 16}", "UTF-8", "save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return Flaw(
            line,
            (),
            f"found the byte 0x{raw[error.start]:02x}, which is not UTF-8",
            "UTF-8",
            "save it as UTF-8",
        )
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return Flaw(line, (), "is a binary file", "text", "write the document anew")
    return text


_ON: Final = ("y", "yes", "on")


def _of_field(kind: type[Document], flaw: Flaw) -> Flaw:
    """`off` is no boolean here where the field takes something else."""
    if flaw.allowed != SWITCH or not flaw.path:
        return flaw
    allowed = words_at(kind, flaw.path)
    text = flaw.found.removeprefix("found ").partition(",")[0]
    if allowed == SWITCH:
        return replace(flaw, remedy=f"write {'true' if text.lower() in _ON else 'false'}")
    if allowed == ANYTHING:
        return flaw
    remedy = flaw.remedy if takes_text(kind, flaw.path, text) else "change the value"
    return replace(flaw, allowed=allowed, remedy=remedy)


def _typed(kind: type[D], file: Path, node: Node) -> tuple[D | None, list[Flaw]]:
    if not isinstance(node, Mapping):
        found, allowed = "found no map", "a map with apiVersion, kind, metadata, spec"
        return None, [Flaw(node.line, (), found, allowed, "write the document's fields")]
    header = _header_flaws(kind, node)
    if header:
        return None, header
    document, flaws = parse(kind, node)
    if any(flaw.path == ("metadata", "name") for flaw in flaws):
        return document, list(flaws)
    return document, [*flaws, *_name_flaws(kind, file, node)]


def _header_flaws(kind: type[Document], node: Node) -> list[Flaw]:
    """Whether it is a document of the kind at all: everything else would mislead."""
    for key, wanted in (("apiVersion", API_VERSION), ("kind", kind.__name__)):
        found = node_at(node, (key,))
        if found is None:
            return [Flaw(node.line, (key,), "is missing", wanted, f"add {key}: {wanted}")]
        if not isinstance(found, Scalar) or found.value != wanted:
            shown = named(found.text) if isinstance(found, Scalar) else "a map or list"
            remedy = f"write {key}: {wanted}, or move the file to the folder of its kind"
            return [Flaw(line_of(node, (key,)), (key,), f"found {shown}", wanted, remedy)]
    return []


def _name_flaws(kind: type[Document], file: Path, node: Node) -> list[Flaw]:
    """`metadata.name` is the file's name, and the environment's its folder's."""
    path = ("metadata", "name")
    found = node_at(node, path)
    if not isinstance(found, Scalar) or not isinstance(found.value, str):
        return []
    wanted, what = file.stem, "the file's name"
    if kind is Environment:
        wanted, what = file.parent.name, "the folder's name"
    if found.value == wanted:
        return []
    others = {other.stem for other in file.parent.glob("*.yaml")}
    if kind is not Environment and found.value in others:
        return [
            Flaw(
                line_of(node, path),
                path,
                f"found {found.value}, which is the name of {found.value}.yaml too",
                named(wanted),
                "give each document a name of its own",
            )
        ]
    return [
        Flaw(
            line_of(node, path),
            path,
            f"found {named(found.text)}, but {what} is {named(wanted)}",
            named(wanted),
            "rename one of the two",
        )
    ]
