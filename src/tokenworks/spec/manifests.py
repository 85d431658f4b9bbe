"""Plain Kubernetes objects in `stacks/<env>/manifests/*.yaml`, for what documents do not cover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tokenworks.spec.common import API_VERSION
from tokenworks.spec.objects import found_in, misshapen
from tokenworks.spec.problems import FieldPath, Flaw, Problem, named
from tokenworks.spec.secrets import contents
from tokenworks.spec.yamlsource import Mapping, Node, Scalar, Sequence, data_of, line_of, node_at


@dataclass(frozen=True)
class PlainObject:
    """One object and where it stands."""

    manifest: dict[str, Any]
    file: Path
    """Relative to the root of the repository."""
    line: int

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Group, kind, namespace and name: what the API server keeps one of."""
        group = str(self.manifest["apiVersion"]).rpartition("/")[0]
        metadata = self.manifest["metadata"]
        return group, str(self.manifest["kind"]), metadata.get("namespace") or "", metadata["name"]


def plain_objects(node: Node) -> Iterator[Node | Flaw]:
    """The objects of one document, those inside a `List` included."""
    if not isinstance(node, Mapping):
        yield Flaw(node.line, (), "found no map", "a Kubernetes object", "begin with apiVersion")
        return
    items = node_at(node, ("items",))
    kind = node_at(node, ("kind",))
    is_list = isinstance(kind, Scalar) and kind.text.endswith("List") and items is not None
    if not is_list:
        wrong = _header(node) or list(misshapen(node, cast("Scalar", kind).text)) or _whole(node)
        hidden = None if wrong else contents(node)
        yield from wrong or [hidden or node]
    elif not isinstance(items, Sequence):
        yield Flaw(
            node.line, ("items",), "found no list", "a list of objects", "indent the objects"
        )
    else:
        for item in items.items:
            yield from plain_objects(item)


def read_objects(file: Path, node: Node) -> Iterator[PlainObject | Problem]:
    """The document's objects with their file, and what is wrong with them."""
    for part in plain_objects(node):
        if isinstance(part, Flaw):
            yield Problem.of(file, part)
        else:
            yield PlainObject(cast("dict[str, Any]", data_of(part)), file, part.line)


def repeated(objects: tuple[PlainObject, ...]) -> Iterator[Problem]:
    """Objects of which there are two: the second would overwrite the first."""
    first: dict[tuple[str, str, str, str], PlainObject] = {}
    for item in objects:
        other = first.setdefault(item.identity, item)
        if other is not item:
            _, kind, _, name = item.identity
            yield Problem(
                item.file,
                item.line,
                "metadata.name",
                f"{named(kind)} {named(name)} is in {other.file.as_posix()}:{other.line} too",
                "each object once",
                "remove one of the two",
            )


def _header(node: Mapping) -> list[Flaw]:
    """Why nobody can tell what the object is; empty where it says so."""
    flaws = [*_text_at(node, ("apiVersion",)), *_text_at(node, ("kind",))]
    version = node_at(node, ("apiVersion",))
    if not flaws and isinstance(version, Scalar) and version.text == API_VERSION:
        flaws.append(
            Flaw(
                version.line,
                ("apiVersion",),
                f"found a {API_VERSION} document",
                "Kubernetes objects",
                "move it to models/, tenants/ or environment.yaml",
            )
        )
    return flaws[:1]


def _whole(node: Mapping) -> list[Flaw]:
    """What an object lacks to be one."""
    namespace: FieldPath = ("metadata", "namespace")
    flaws = list(_text_at(node, ("metadata", "name")))
    return [*flaws, *(_text_at(node, namespace) if node_at(node, namespace) else ())]


def _text_at(node: Mapping, path: FieldPath) -> Iterator[Flaw]:
    found = node_at(node, path)
    if found is None:
        remedy = "add it: every object has one"
        yield Flaw(line_of(node, path), path, "is missing", "text", remedy)
    elif not (isinstance(found, Scalar) and isinstance(found.value, str) and found.value):
        yield Flaw(found.line, path, f"found {found_in(found)}", "text", "write text")
