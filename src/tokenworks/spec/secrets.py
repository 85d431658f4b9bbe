"""Credentials in files: refused wherever they stand, and never repeated in a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.secrets import kind_of, names_secret, secret_flags
from tokenworks.spec.problems import FieldPath, Flaw
from tokenworks.spec.yamlsource import Mapping, Node, Scalar, line_of, node_at

IN_CLEAR: Final = "holds a secret in plain text"
REMEDY: Final = (
    "remove it, and revoke it if it was real; put it into a Secret that is made outside Git "
    "(kubectl create secret, an ExternalSecret, a SealedSecret)"
)
_ENGINE: Final = (("spec", "engine", "env"), ("spec", "engine", "flags"))


def shaped(node: Node) -> Iterator[Flaw]:
    """Keys and values of a document that look like a credential."""
    return _shaped(node, ())


def _shaped(node: Node, path: FieldPath) -> Iterator[Flaw]:
    if isinstance(node, Scalar):
        if kind := kind_of(node.text):
            yield Flaw(node.line, path, f"holds what looks like a {kind}", None, REMEDY)
    elif isinstance(node, Mapping):
        for key, entry in node.entries.items():
            if kind := kind_of(key):
                yield Flaw(entry.line, path, f"has a {kind} as a key", None, REMEDY)
            yield from _shaped(entry.node, (*path, key))
    else:
        for index, item in enumerate(node.items):
            yield from _shaped(item, (*path, index))


def hides(path: FieldPath) -> bool:
    """Whether the field's value may be a credential of any shape, which messages leave out."""
    if path == ("spec", "model", "tokenSecret"):
        return True
    holder, name = path[:3], str(path[3]) if len(path) > 3 else ""
    return holder in _ENGINE and (names_secret(name) or name in secret_flags())


def contents(node: Node) -> Flaw | None:
    """What a plain Secret among manifests holds; an empty one is filled by whoever serves it."""
    kind, version = node_at(node, ("kind",)), node_at(node, ("apiVersion",))
    if not (isinstance(kind, Scalar) and isinstance(version, Scalar)):
        return None
    if (version.text, kind.text) != ("v1", "Secret"):
        return None
    for field in ("data", "stringData"):
        held = node_at(node, (field,))
        if held is not None and not _is_empty(held):
            return Flaw(
                line_of(node, (field,)), (field,), IN_CLEAR, "Secrets without contents", REMEDY
            )
    return None


def _is_empty(node: Node) -> bool:
    if isinstance(node, Scalar):
        return not node.text
    children = [e.node for e in node.entries.values()] if isinstance(node, Mapping) else node.items
    return all(_is_empty(child) for child in children)
