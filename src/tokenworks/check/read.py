"""Files to Kubernetes objects that still know their file and line.

One bad file never hides the others: what cannot be read is a finding, and reading goes
on. Values are read as strictly as the environment's documents are, by the same reader.
"""

from __future__ import annotations

import codecs
import gc
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from policies import Finding, Manifest, field_of
from policies.secrets import masked, names_secret
from tokenworks.check.jsonstream import Origins, is_json, readable, split
from tokenworks.errors import UsageError
from tokenworks.spec.common import API_VERSION
from tokenworks.spec.objects import found_in, misshapen, well_shaped
from tokenworks.spec.problems import FieldPath, Flaw
from tokenworks.spec.yamldata import Data, Document, compose, place_in, text_in
from tokenworks.spec.yamlshares import Told, read_all
from tokenworks.spec.yamlsource import (
    Mapping,
    Node,
    Scalar,
    data_of,
    node_at,
    place_of,
    read_yaml,
)
from tokenworks.spec.yamlsource import (
    Sequence as ListNode,
)

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
MAX_BYTES: Final = 16 * 1024 * 1024
"""Largest file that is read: ten times what the API server takes for one object."""
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "vendor"})


@dataclass(frozen=True)
class _Text:
    """What a file says, and its lines for whoever asks for a place in it."""

    whole: str

    @cached_property
    def lines(self) -> list[str]:
        return self.whole.split("\n")


@dataclass(frozen=True)
class Lines:
    """The lines of a document that holds objects; they are read anew when a place is asked for."""

    file: _Text
    document: Document

    @property
    def text(self) -> str:
        """What they say."""
        return "\n".join(self.file.lines[self.document.first : self.document.after])

    @cached_property
    def _list(self) -> Any:
        return compose(self.text)

    def places(self, within: FieldPath, paths: Sequence[FieldPath]) -> list[tuple[int, int]]:
        """Line and column of each field, or of what would contain it."""
        if not within and not any(paths):
            return [self.document.place] * len(paths)
        # A list is read once for all its items; another object is asked once, and not kept.
        node = self._list if within else compose(self.text)
        found = [self._place(node, (*within, *path)) for path in paths]
        return [(line + self.document.first, column) for line, column in found]

    def _place(self, node: Any, path: FieldPath) -> tuple[int, int]:
        """Line and column in the document; inside a text that is written line by line too."""
        line, column = place_in(node, path)
        inner = text_in(node, path)
        if inner is None:
            return line, column
        line += inner
        text = self.file.lines[self.document.first + line - 1]
        return line, len(text) - len(text.lstrip(" -")) + 1


@dataclass(frozen=True)
class Sourced:
    """One object, and where it was written."""

    manifest: Manifest
    file: str
    source: Node | Lines
    within: FieldPath = ()
    """Where it stands in its document: an item of a list."""
    origins: Origins | None = None
    """Where the documents of a JSON stream stand, which were read with markers between them."""

    def line(self, path: FieldPath = ()) -> int:
        """Line of a field, or of what would contain it."""
        return self.place(path)[0]

    def place(self, path: FieldPath = ()) -> tuple[int, int]:
        """Line and column of a field, or of what would contain it."""
        return self.places([path])[0]

    def places(self, paths: Sequence[FieldPath]) -> list[tuple[int, int]]:
        """Of several fields at once, which is quicker."""
        if isinstance(self.source, Lines):
            found = self.source.places(self.within, paths)
        else:
            found = [place_of(self.source, path) for path in paths]
        origins = self.origins
        return found if origins is None else [origins.place(*place) for place in found]


@dataclass(frozen=True)
class Reading:
    """What was read."""

    objects: tuple[Sourced, ...]
    findings: tuple[Finding, ...]
    """What could not be read, or should not be there."""
    files: int
    """Files that were read or tried."""
    without_objects: tuple[str, ...]
    """Files of a folder that hold other things than Kubernetes objects."""


def read_paths(paths: Sequence[str], stdin: BinaryIO) -> Reading:
    """The objects of all files, of all `.yaml`, `.yml` and `.json` files below all folders, and
    of standard input for `-`.

    Raises UsageError when a path does not exist.
    """
    with no_collection():
        parts = list(_parts(paths, stdin))
        if sum(len(part.objects) for part in parts) > _MANY:
            gc.freeze()
    return Reading(
        tuple(item for part in parts for item in part.objects),
        tuple(finding for part in parts for finding in part.findings),
        len(parts),
        tuple(part.file for part in parts if not part.objects and not part.findings),
    )


_MANY: Final = 500
"""Objects from which on looking through all of them for garbage takes a noticeable time."""


@contextmanager
def no_collection() -> Generator[None]:
    """No search for garbage meanwhile: whatever is read stays, and is looked through in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _parts(paths: Iterable[str], stdin: BinaryIO) -> Iterator[_Part]:
    loaded = list(_loaded(paths, stdin))
    texts = [item.text for item in loaded if isinstance(item, _Loaded)]
    read = iter(read_all(texts, _look))
    for item in loaded:
        yield _of_text(item, next(read)) if isinstance(item, _Loaded) else item


def _loaded(paths: Iterable[str], stdin: BinaryIO) -> Iterator[_Part | _Loaded]:
    """Each file's text, or what is wrong with it."""
    patches: dict[Path, frozenset[str]] = {}
    for name, named in dict(_files(paths)).items():
        folder = Path(name).parent
        if folder not in patches and not named:
            patches[folder] = _patches(folder)
        if not named and Path(name).name in patches[folder]:
            yield _Part(name, (), ())  # kustomize adds it to an object that is elsewhere
            continue
        yield _load(name, stdin, named=named)


def _files(paths: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Names of files to read, and whether the user named them one by one."""
    for name in paths:
        path = Path(name)
        if name == "-":
            yield name, True
        elif path.is_dir():
            yield from ((found, False) for found in _below(path))
        elif path.exists():
            yield os.path.normpath(name), True
        else:
            raise UsageError(f"{name}: no such file or folder; name one, or - for standard input")


_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_PATCHES: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")


def _patches(folder: Path) -> frozenset[str]:
    """Files of a folder that its kustomization uses as patches: they are parts of objects."""
    found: set[str] = set()
    for name in _KUSTOMIZATIONS:
        path = folder / name
        text = _text(_bytes(path)) if path.is_file() else ""
        for document in read_yaml(text).documents if isinstance(text, str) else ():
            for key in _PATCHES:
                listed = node_at(document, (key,))
                for item in listed.items if isinstance(listed, ListNode) else ():
                    named = item if isinstance(item, Scalar) else node_at(item, ("path",))
                    if isinstance(named, Scalar):
                        found.add(os.path.normpath(named.text))
    return frozenset(found)


def _below(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in _SKIPPED_FOLDERS
        )
        for file in sorted(files):
            path = Path(parent) / file
            named = path.suffix.lower() in SUFFIXES and not file.startswith(".")
            # A pipe would wait for a writer that never comes; a link to nothing is said.
            if named and (path.is_file() or not path.exists()):
                yield os.path.normpath(path)


# --- one file ----------------------------------------------------------------


@dataclass(frozen=True)
class _Loaded:
    """A file that is text."""

    file: str
    text: str
    named: bool
    """The user named it, and did not only name its folder."""
    origins: Origins | None


@dataclass(frozen=True)
class _Part:
    file: str
    objects: tuple[Sourced, ...]
    findings: tuple[Finding, ...]


def _finding(file: str, rule: str, flaw: Flaw, kind: str = "") -> Finding:
    allowed = f"; allowed: {flaw.allowed}" if flaw.allowed else ""
    return Finding(
        rule,
        "error",
        kind,
        field_of(flaw.path),
        f"{flaw.found}{allowed}",
        flaw.remedy or "correct the file",
        file,
        flaw.line,
    )


def _load(name: str, stdin: BinaryIO, *, named: bool) -> _Part | _Loaded:
    shown = "(standard input)" if name == "-" else name
    try:
        data = stdin.read(MAX_BYTES + 1) if name == "-" else _bytes(Path(name))
    except OSError as error:
        reason = error.strerror or str(error)
        return _Part(shown, (), (_finding(shown, "unreadable", Flaw(None, (), reason)),))
    text = _text(data)
    if isinstance(text, Flaw):
        return _Part(shown, (), (_finding(shown, "unreadable", text),))
    conflict = _conflict(text)
    if conflict:
        return _Part(shown, (), (_finding(shown, "leftover", conflict),))
    origins: Origins | None = None
    if name.lower().endswith(".json") or is_json(text):
        text = readable(text)
        text, origins = split(text) or (text, None)
    return _Loaded(shown, text, named, origins)


def _of_text(loaded: _Loaded, read: Sequence[Told] | None) -> _Part:
    """The objects of a text, and what is wrong with it."""
    shown, text = loaded.file, loaded.text
    part = _of_data(shown, text, read or ()) or _of_nodes(shown, text, named=loaded.named)
    if loaded.origins is not None:
        part = _moved(part, loaded.origins)
    return replace(part, findings=(*part.findings, *_repeated(part.objects)))


def _moved(part: _Part, origins: Origins) -> _Part:
    """What was read of a JSON stream, where it stands in it."""
    return replace(
        part,
        objects=tuple(replace(item, origins=origins) for item in part.objects),
        findings=tuple(
            replace(found, line=origins.place(found.line, 1)[0]) if found.line else found
            for found in part.findings
        ),
    )


def _of_data(shown: str, text: str, read: Iterable[Told]) -> _Part | None:
    """A file that holds objects and nothing else; None where it has to be read again, with care."""
    file = _Text(text)
    objects: list[Sourced] = []
    findings: list[Finding] = []
    for document, looks in read:
        if looks == _ODD:
            return None
        held = Lines(file, document)
        objects += (
            Sourced(cast("Manifest", data), shown, held, path)
            for path, data in _held_in(document.data)
        )
        findings += _doubts(shown, held) if looks == _DOUBTFUL else ()
    if not objects:
        return None
    return _Part(shown, tuple(objects), tuple(findings))


_SOUND, _DOUBTFUL, _ODD = range(3)


def _look(data: Data) -> int:
    """Whether a document holds objects that are sound, one that may be not, or something else."""
    found = list(_held_in(data))
    if not all(_is_object(item) for _, item in found):
        return _ODD
    doubtful = any(_is_doubtful(cast("Manifest", item)) for _, item in found)
    if doubtful and found[0][0]:
        return _ODD  # the whole list would be read anew for each
    return _DOUBTFUL if doubtful else _SOUND


def _held_in(data: Data) -> Iterator[tuple[FieldPath, Any]]:
    """The object of a document, or what its `List` lists, and where it stands there."""
    given = data if isinstance(data, dict) else {}
    items = given.get("items")
    if not isinstance(items, list) or given.get("kind") != "List":
        yield (), data
        return
    for position, item in enumerate(cast("list[Any]", items)):
        yield ("items", position), item


def _is_doubtful(manifest: Manifest) -> bool:
    return not well_shaped(manifest) or _may_be_left(manifest)


def _is_object(data: object) -> bool:
    """An object of Kubernetes, and no list of several."""
    if not isinstance(data, dict):
        return False
    version, kind = (cast("Manifest", data).get(key) for key in ("apiVersion", "kind"))
    if not (isinstance(version, str) and version and isinstance(kind, str) and kind):
        return False
    return version != API_VERSION and not kind.endswith("List")


def _doubts(shown: str, held: Lines) -> Iterator[Finding]:
    """What is wrong with an object's shape and texts, by reading it with care."""
    for node in read_yaml(held.text, kubernetes=True).documents:
        item = Sourced(cast("Manifest", held.document.data), shown, node)
        for finding in (*_leftovers(item, node), *_misshapen(item, node, frozenset())):
            yield replace(finding, line=(finding.line or 1) + held.document.first)


def _of_nodes(shown: str, text: str, *, named: bool) -> _Part:
    """A file read with care: every line is kept, and what is wrong with it is said."""
    yaml = read_yaml(text, kubernetes=True)
    findings = [_finding(shown, *_named(flaw, text)) for flaw in yaml.flaws]
    objects: list[Sourced] = []
    for document in yaml.documents:
        for node in _objects(document):
            # What a list holds is meant to be an object, wherever the file was found.
            outcome = _object(shown, node, named=named or node is not document)
            if isinstance(outcome, Sourced):
                objects.append(outcome)
                findings += _leftovers(outcome, node)
                findings += _misshapen(outcome, node, {flaw.path for flaw in yaml.flaws})
            elif outcome:
                findings.append(outcome)
    return _Part(shown, tuple(objects), tuple(findings))


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
                (codecs.BOM_UTF16_BE, "utf-16-be"))  # fmt: skip


def _text(data: bytes) -> str | Flaw:
    """The file as text, line ends as LF; a byte order mark is not part of it."""
    if len(data) > MAX_BYTES:
        return Flaw(None, (), f"larger than {MAX_BYTES // 2**20} MiB", None, "split the file")
    encoding = "utf-8"
    for mark, name in _BOMS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    remedy = "save it as UTF-8 text, or leave it out"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Flaw(line, (), f"not {encoding} text: byte 0x{data[error.start]:02x}", None, remedy)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return Flaw(line, (), "binary: it contains NUL bytes", None, remedy)
    return text.replace("\r\n", "\n")


_MARKERS: Final = ("<<<<<<<", ">>>>>>>", "|||||||")
_CONFLICT: Final = re.compile(r"^(<{7}|>{7}|\|{7})(?: .*)?$", re.MULTILINE)


def _conflict(text: str) -> Flaw | None:
    if not any(marker in text for marker in _MARKERS):
        return None  # a search for plain text takes next to no time
    match = _CONFLICT.search(text)
    if match is None:
        return None
    line = text.count("\n", 0, match.start()) + 1
    return Flaw(
        line, (), f"a merge conflict is not resolved: {match[1]}", None, "choose one of the sides"
    )


_HELM: Final = re.compile(
    r"\{\{-?\s*(?:\$?\.(?:Values|Release|Chart|Capabilities|Files|Template)\b"
    r"|(?:include|template|toYaml|tpl|define|if|else|end|range|with)\b)"
)


def _named(flaw: Flaw, text: str) -> tuple[str, Flaw]:
    """The rule a reader's flaw belongs to: a template that nobody rendered, or bad YAML."""
    lines = text.split("\n")
    near = lines[max(0, flaw.line - 2) : flaw.line] if flaw.line else lines
    if not flaw.found.startswith("unreadable YAML") and "as a key" not in flaw.found:
        return "unreadable", flaw
    if not any("{{" in line or "{%" in line for line in near) and not _HELM.search(text):
        return "unreadable", flaw
    why = "it holds template syntax: {{ … }}"
    first = next((n for n, line in enumerate(lines, 1) if "{{" in line or "{%" in line), flaw.line)
    return "leftover", Flaw(first, (), why, None, "render the template first: helm template …")


# --- objects -----------------------------------------------------------------


def _objects(node: Node) -> Iterator[Node]:
    """The document, or the items of a `List`."""
    kind, items = _field(node, "kind"), node_at(node, ("items",))
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, ListNode)):
        yield node
        return
    for item in items.items:
        yield from _objects(_inheriting(item, node, kind.removesuffix("List")))


def _inheriting(item: Node, parent: Node, kind: str) -> Node:
    """Items of a `DeploymentList` may leave out what the list says already."""
    if not kind or not isinstance(item, Mapping) or not isinstance(parent, Mapping):
        return item
    entries = {k: v for k, v in parent.entries.items() if k in ("apiVersion", "kind")}
    line = entries["kind"].line
    entries["kind"] = type(entries["kind"])(line, Scalar(line, kind, kind))
    return Mapping(item.line, {**entries, **item.entries}, item.size)


def _field(node: Node, *path: str) -> str | None:
    found = node_at(node, path)
    value = found.value if isinstance(found, Scalar) else None
    return value if isinstance(value, str) and value else None


def _object(file: str, node: Node, *, named: bool) -> Sourced | Finding | None:
    """The object; a finding when it is none but should be; None when it is something else."""
    if not isinstance(node, Mapping):
        flaw = Flaw(node.line, (), "found no map", "a Kubernetes object", "begin with apiVersion")
        return _finding(file, "not-an-object", flaw) if named else None
    if _field(node, "apiVersion") == API_VERSION:
        flaw = Flaw(
            node.line, ("apiVersion",), f"a {API_VERSION} document is not a Kubernetes object",
            None, "check the environment by its name: ./tokenworks check ENV",
        )  # fmt: skip
        return _finding(file, "not-an-object", flaw) if named else None
    missing = [key for key in ("apiVersion", "kind") if _field(node, key) is None]
    if not missing:
        return Sourced(cast("Manifest", data_of(node)), file, node)
    signs = {"apiVersion", "kind", "metadata", "spec"} & node.entries.keys()
    if not named and (not signs or (len(signs) == 1 and "kind" not in signs)):
        return None
    typed = [key for key in missing if key in node.entries]
    if typed:
        key = typed[0]
        found = f"found {found_in(node.entries[key].node)}"
        flaw = Flaw(node.entries[key].line, (key,), f"{key} is no text: {found}",
                    f"text such as {_SAMPLES[key]}", f"correct {key}")  # fmt: skip
        return _finding(file, "not-an-object", flaw)
    flaw = Flaw(node.line, (missing[0],), f"{missing[0]} is missing", "a Kubernetes object has "
                "apiVersion and kind", f"add {missing[0]}")  # fmt: skip
    return _finding(file, "not-an-object", flaw)


_SAMPLES: Final = {"apiVersion": "apps/v1", "kind": "Deployment"}


def _label(node: Node, kind: str) -> str:
    """`Kind namespace/name`, as far as they are text."""
    name = _field(node, "metadata", "name") or "(no name)"
    namespace = _field(node, "metadata", "namespace")
    return f"{kind} {f'{namespace}/' if namespace else ''}{name}"


def _misshapen(item: Sourced, node: Node, said: Set[FieldPath]) -> Iterator[Finding]:
    """Fields of a wrong shape, save those of which something was said already."""
    kind = str(item.manifest.get("kind"))
    for flaw in misshapen(node, kind):
        if flaw.path not in said:
            yield _finding(item.file, "malformed", flaw, _label(node, kind))


_PLACEHOLDER: Final = re.compile(r"\{\{|\$[A-Za-z_{(]|<[^<>\s][^<>]*>|%\{|__[A-Z][A-Z0-9_]*__")
_NO_NAME: Final = re.compile(rf"{_PLACEHOLDER.pattern}|[A-Z_]")
"""What no object can be called: a placeholder, also one in capitals."""
_NAMES_ANOTHER: Final = frozenset(
    {"serviceAccountName", "claimName", "secretName", "priorityClassName", "runtimeClassName"}
)
"""Fields that hold the name of another object."""
_HOLDS_NAME: Final = frozenset(
    {"secretKeyRef", "configMapKeyRef", "secretRef", "configMapRef", "configMap"}
)
"""Fields whose `name` is that of another object."""
_ANGLES: Final = re.compile(r"<([A-Za-z][A-Za-z0-9]*(?:[-_ ][A-Za-z0-9]+)*)>")
_ASKS: Final = frozenset({"your", "my", "replace", "insert", "enter", "placeholder", "todo"})
_MEANT: Final = frozenset(
    {
        "id", "name", "token", "key", "secret", "password", "bucket", "region", "zone", "account",
        "project", "path", "url", "uri", "host", "hostname", "ip", "address", "domain", "registry",
        "namespace", "repository", "arn", "server", "endpoint", "node", "cluster", "class",
    }
)  # fmt: skip
"""What somebody has to put in, as the last word of a placeholder in angle brackets."""
_ALONE: Final = frozenset(
    {"bucket", "region", "account", "project", "hostname", "domain", "registry", "password", "arn"}
)
"""Of these, what no tokenizer calls a token of its own, such as `<image>` and `<pad>`."""
_WHOLE: Final = re.compile(
    r"(?:REPLACE|CHANGE)[-_ ]?(?:ME|THIS|WITH[-_ ].*)|(?:replace|change)[-_]?(?:me|this)"
    r"|YOUR[-_][A-Z0-9_-]+|your-[a-z0-9-]*(?:id|name|token|key|bucket|region|account|project|url"
    r"|host|domain|namespace|password)|(?i:todo|fixme|tbd)"
    r"|(?:fs|fsap|vol|subnet|sg|ami|vpc|i)-x{3,}(?:::.*)?|[xX]{4,}"
)
"""Values that are nothing but a request to replace them."""
_ENVIRONMENT: Final = re.compile(r"\$(?:[A-Z][A-Z0-9_]+\b|\{[A-Z][A-Z0-9_]*\})")
_PLACES: Final = frozenset({"volumeAttributes", "volumeHandle", "nodeSelector", "storageUri"})
"""Fields that nobody expands variables in."""
_MAY_ASK: Final = re.compile(
    r"<[a-z]|\A(?:replace|change|your|todo|fixme|tbd|xxxx|(?:fs|fsap|vol|subnet|sg|ami|vpc|i)-x)",
    re.I,
)
"""What is in every text that `_asks` may mean."""


def _asks(text: str, *, whole: bool) -> bool:
    """Whether somebody still has to put a value into a text; `whole`: the text is one value."""
    for match in _ANGLES.finditer(text):
        words = re.split(r"[-_ ]", match[1].lower())
        capital = match[1].isupper() and len(match[1]) > 3
        if not _ASKS.isdisjoint(words):
            return True
        if words[-1] in _MEANT and (len(words) > 1 or capital or words[0] in _ALONE):
            return True
    return whole and _WHOLE.fullmatch(text) is not None


_OPAQUE: Final = frozenset({"ConfigMap", "Secret", "CustomResourceDefinition"})
"""Kinds that carry other people's text, templates among it."""
_TEMPLATED: Final = frozenset(
    {
        "LLMInferenceServiceConfig", "ServingRuntime", "ClusterServingRuntime", "ExternalSecret",
        "ApplicationSet", "Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate",
        "CronWorkflow", "ClusterPolicy", "Policy", "ConstraintTemplate", "Template",
        "PrometheusRule", "AlertmanagerConfig",
    }
)  # fmt: skip
"""Kinds whose own controllers fill in templates."""


_COMMENTED: Final = re.compile(r"(?m)^[ \t]*#.*$")
"""A line of a script that nobody runs."""


def _leftovers(item: Sourced, node: Node) -> Iterator[Finding]:
    """Template syntax and placeholders where they can only be an oversight."""
    kind = str(item.manifest.get("kind"))
    name = f"{kind} {_field(node, 'metadata', 'name') or '(no name)'}"
    templated = kind in _OPAQUE or kind in _TEMPLATED
    for path, scalar in () if templated else _scalars(node, ()):
        said = _COMMENTED.sub("", scalar.text) if {"command", "args"} & set(path) else scalar.text
        if _pattern_of(path).search(said) or _is_asked(node, path, said):
            # Before it is cut short, when a secret could not be told.
            text = masked(_line_of(path, said))
            shown = text if len(text) <= 60 else f"{text[:57]}…"
            flaw = Flaw(scalar.line, path, f"a placeholder was left: {shown}", None,
                        "write the value, or render the template first")  # fmt: skip
            yield _finding(item.file, "leftover", flaw, name)


def _line_of(path: FieldPath, text: str) -> str:
    """The line of a script that holds the placeholder; all of any other text."""
    lines = [line.strip() for line in text.splitlines()]
    pattern = _pattern_of(path)
    told = (line for line in lines if pattern.search(line) or _asks(line, whole=False))
    return next(told, text) if len(lines) > 1 else text


def _is_asked(node: Node, path: FieldPath, text: str) -> bool:
    """A placeholder in a value, or in a command line; what holds blanks elsewhere is prose."""
    if path[:1] in (("status",), ("apiVersion",), ("kind",)):
        return False
    if path[:1] == ("metadata",) and path[1:2] not in (("labels",), ("annotations",)):
        return False
    if _PLACES & set(path) and _ENVIRONMENT.search(text):
        return True
    one = re.search(r"\s", _ANGLES.sub("", text)) is None
    if not one and not {"command", "args"} & set(path):
        return False
    if path[-1:] == ("value",):
        # What a Secret should hold is said by plain-secret, with what to do.
        named = node_at(node, (*path[:-1], "name"))
        if isinstance(named, Scalar) and names_secret(named.text):
            return False
    return _asks(text, whole=one)


def _pattern_of(path: FieldPath) -> re.Pattern[str]:
    """What gives a placeholder away in a field."""
    if path in (("metadata", "name"), ("metadata", "namespace")) or path[-1:] == ("image",):
        return _PLACEHOLDER
    named = path[-1:] == ("name",) and path[-2:-1] and path[-2] in _HOLDS_NAME
    if "spec" in path[:1] and (named or path[-1] in _NAMES_ANOTHER):
        return _NO_NAME
    return _HELM


def _may_be_left(manifest: Manifest) -> bool:
    """Whether `_leftovers` may find something in an object."""
    kind = manifest["kind"]
    if kind in _OPAQUE or kind in _TEMPLATED:
        return False
    meta: Any = manifest.get("metadata")
    given = cast("Manifest", meta) if isinstance(meta, dict) else {}
    named = [given.get(key) for key in ("name", "namespace")]
    return any(isinstance(n, str) and _PLACEHOLDER.search(n) for n in named) or _hints(manifest)


def _hints(value: Any) -> bool:
    if type(value) is str:
        return _may_ask(value)
    if type(value) is list:
        return any(map(_hints, cast("list[Any]", value)))
    if type(value) is not dict:
        return False
    for key, child in cast("dict[str, Any]", value).items():
        if _may_ask(child) if type(child) is str else _hints(child):
            return True
        if key in _PARTICULAR and _hints_at(key, child):
            return True
    return False


@lru_cache(maxsize=1 << 13)
def _may_ask(text: str) -> bool:
    """Objects of one file have most of their texts in common."""
    return "{{" in text or _MAY_ASK.search(text) is not None


def _hints_at(key: str, child: Any) -> bool:
    if key in _PLACES:
        return _ENVIRONMENT.search(str(child)) is not None
    if key in _CHECKED:
        return type(child) is str and _NO_NAME.search(child) is not None
    return _names_nothing(child)


def _names_nothing(reference: Any) -> bool:
    name = cast("Manifest", reference).get("name") if isinstance(reference, dict) else None
    return isinstance(name, str) and _NO_NAME.search(name) is not None


_CHECKED: Final = _NAMES_ANOTHER | {"image"}
_PARTICULAR: Final = _PLACES | _CHECKED | _HOLDS_NAME
"""Fields of which more is expected than of others."""


def _scalars(node: Node, path: FieldPath) -> Iterator[tuple[FieldPath, Scalar]]:
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            yield path, node
    elif isinstance(node, Mapping):
        for key, entry in node.entries.items():
            yield from _scalars(entry.node, (*path, key))
    else:
        for position, child in enumerate(node.items):
            yield from _scalars(child, (*path, position))


def _repeated(objects: Sequence[Sourced]) -> Iterator[Finding]:
    """Objects that one file holds twice: the second overwrites the first."""
    first: dict[tuple[str, ...], Sourced] = {}
    for item in objects:
        meta = item.manifest.get("metadata")
        named = cast("Manifest", meta) if isinstance(meta, dict) else {}
        name, namespace = named.get("name"), named.get("namespace")
        if not isinstance(name, str) or not name:
            continue
        namespace = namespace if isinstance(namespace, str) else ""
        group = str(item.manifest["apiVersion"]).rpartition("/")[0]
        kind = str(item.manifest["kind"])
        other = first.setdefault((group, kind, namespace, name), item)
        if other is not item:
            flaw = Flaw(item.line(), ("metadata", "name"), f"the same object is in line "
                        f"{other.line()} too", None, "remove one of the two")  # fmt: skip
            label = f"{kind} {f'{namespace}/' if namespace else ''}{name}"
            yield _finding(item.file, "repeated-object", flaw, label)
