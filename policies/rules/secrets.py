"""Credentials stay out of manifests: whatever is written there is in Git and in every log."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, cast

from policies.commands import placed_words
from policies.engines import PLACEHOLDER, Program
from policies.fields import secret_fields
from policies.inventory import Inventory
from policies.model import Context, Manifest, Path, Rule, Violation
from policies.pods import Container, descend
from policies.rules.shared import flag_path
from policies.secrets import kind_of, names_secret, secret_flags
from policies.tree import is_mapping, is_sequence, known_items, mapping, sequence

_LINK = "https://kubernetes.io/docs/concepts/configuration/secret/"
_REMEDY = (
    "revoke it if it was real; keep it in a Secret that is made outside Git (kubectl create "
    "secret, an ExternalSecret, a SealedSecret) and refer to that"
)
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def _find(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for index, manifest in enumerate(inventory.objects):
        if manifest.get("kind") == "Secret" and manifest.get("apiVersion") == "v1":
            yield from _contents(index, manifest)
        elif manifest.get("kind") != "CustomResourceDefinition" and _any_shape(manifest):
            yield from _shapes(index, manifest, ())
        if manifest.get("kind") == "ConfigMap" and manifest.get("apiVersion") == "v1":
            yield from _named_keys(index, manifest)
    yield from _fields(inventory)
    for program in inventory.programs:
        yield from _variables(program.container)
        yield from _flags(program)
        yield from _arguments(program.container)


def _named_keys(index: int, manifest: Manifest) -> Iterator[Violation]:
    """Keys of a ConfigMap that are called as variables with a credential are."""
    for key, value in known_items(mapping(manifest.get("data"))):
        name = str(key)
        if not (name.isupper() and names_secret(name) and _is_literal(value)):
            continue
        if not _is_placeholder(value):
            yield Violation(
                index, ("data", name), f"holds a secret in clear text ({name}), in a ConfigMap",
                _REMEDY,
            )  # fmt: skip


def _fields(inventory: Inventory) -> Iterator[Violation]:
    """Fields of custom resources; a container's variables are told as such."""
    variables = {(p.container.pod.index, p.container.place(("env",))) for p in inventory.programs}
    for index, manifest in enumerate(inventory.objects):
        for path, name in secret_fields(manifest):
            told = any((index, path[:length]) in variables for length in range(len(path)))
            value = descend(manifest, path)
            if not told and not kind_of(str(value)):
                yield Violation(
                    index, path,
                    f"holds a secret in clear text ({name}), in {_a(str(manifest.get('kind')))}",
                    _REMEDY,
                )  # fmt: skip


_IMAGE = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)+(:[\w.-]+)?(@sha256:[0-9a-f]{64})?\s*")


def _is_image(name: str, value: object, field: str) -> bool:
    """The name of an image, which a generator put among secrets."""
    text = _decoded(value) if field == "data" else value
    named = name.upper().endswith("IMAGE")
    return named and isinstance(text, str) and _IMAGE.fullmatch(text) is not None


def _contents(index: int, manifest: Manifest) -> Iterator[Violation]:
    """A Secret that holds something; an empty one is filled by whoever serves it."""
    for field in ("data", "stringData"):
        given = {key: value for key, value in mapping(manifest.get(field)).items() if value}
        empty = sorted(
            key
            for key, value in given.items()
            if _is_placeholder(value) or (field == "data" and _is_placeholder(_decoded(value)))
        )
        images = {key for key, value in given.items() if _is_image(str(key), value, field)}
        keys = sorted(given.keys() - set(empty) - images)
        if keys:
            yield Violation(
                index, (field,), f"holds a secret in clear text ({', '.join(keys)})", _REMEDY
            )
        if empty:
            yield Violation(
                index,
                (field, empty[0]),
                f"holds a placeholder where a secret belongs ({', '.join(empty)}): it is applied "
                "as it stands, or filled in and committed",
                "make the Secret outside Git (kubectl create secret, an ExternalSecret, a "
                "SealedSecret), and leave it out here",
            )


_TO_FILL_IN = re.compile(
    r"(your|replace|change|insert|enter|put|add|todo|fixme|tbd|placeholder|redacted)"
    r"(me|this)?([-_ .:].*|$)"
    r"|.*[-_ ](here|placeholder|goes-here)|[*x.]{3,}",
    re.IGNORECASE,
)
"""Words that no credential consists of."""


def _is_placeholder(value: object) -> bool:
    """What somebody still has to fill in; `$NAME` too, which nothing fills in inside a Secret."""
    if not isinstance(value, str):
        return False
    text = value.strip()
    asks = _TO_FILL_IN.fullmatch(text) or _ITS_NAME.fullmatch(text)
    return PLACEHOLDER.match(text) is not None or asks is not None


_ITS_NAME = re.compile(r"([A-Z]+_)+(TOKEN|KEY|SECRET|PASSWORD|CREDENTIALS?)")
"""The name of a variable, which a script puts the credential in place of."""


def _decoded(value: object) -> object:
    """What stands in `data`; the value itself where it is not base64 of text."""
    try:
        # Kubernetes passes over line ends in it.
        return base64.b64decode(re.sub(r"[\r\n]", "", str(value)), validate=True).decode()
    except ValueError:
        return value


def _any_shape(manifest: Manifest) -> bool:
    """Whether `_shapes` finds something: most objects hold nothing of the kind."""
    waiting: list[Any] = [manifest]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if kind_of(one):
                return True
        elif type(one) is dict:
            waiting.extend(cast("Manifest", one).values())
        elif type(one) is list:
            waiting.extend(cast("list[Any]", one))
        else:
            waiting.extend(child for _, child in known_items(one))
    return False


def _shapes(index: int, value: object, path: Path) -> Iterator[Violation]:
    """Any text that looks like a credential, wherever it stands."""
    if is_mapping(value) or is_sequence(value):
        for key, child in known_items(value):
            yield from _shapes(index, child, (*path, key if is_sequence(value) else str(key)))
    elif isinstance(value, str) and (kind := kind_of(value)):
        yield Violation(index, path, f"holds what looks like {_a(kind)}", _REMEDY)


def _a(noun: str) -> str:
    return f"{'an' if noun[:1] in 'AEIOaeio' else 'a'} {noun}"


def _variables(container: Container) -> Iterator[Violation]:
    """Variables that hold a credential, by their names."""
    for position, name, value in container.literals():
        if names_secret(name) and _is_literal(value):
            empty = _is_placeholder(value)
            what = "a placeholder where a secret belongs" if empty else "a secret in clear text"
            yield Violation(
                container.pod.index,
                container.place(("env", position, "value")),
                f"{container.title} has {what} in {name}",
                "take it from a Secret: valueFrom.secretKeyRef" + ("" if empty else f"; {_REMEDY}"),
            )


def _named_flags(program: Program) -> set[str]:
    """Flags whose names say that they take a credential, and whose values are as long as one."""
    if program.engine is not None:
        return set()
    found: set[str] = set()
    for name in re.findall(r"(?:^|\s)--([a-z][\w-]*)", program.command.text):
        value = program.command.flag(name.replace("_", "-")) or ""
        if names_secret(name.replace("-", "_").upper()) and _LONG.fullmatch(value):
            found.add(name.replace("_", "-"))
    return found


_LONG = re.compile(r"(?![\w.-]*/)(?=.*[0-9])(?=.*[A-Za-z])[^\s$<>{}():]{16,}")
"""A credential's length, with letters and digits; no path, no address, no variable."""


def _flags(program: Program) -> Iterator[Violation]:
    """Flags that take a credential: those of engines, and of others those that say so."""
    container = program.container
    for flag in sorted(secret_flags() | _named_flags(program)):
        given = program.given(flag)
        if _is_literal(given):
            empty = _is_placeholder(given)
            what = "a placeholder where a secret belongs" if empty else "a secret in clear text"
            yield Violation(
                container.pod.index,
                container.place(flag_path(program, flag)),
                f"{container.title} has {what} in --{flag}",
                "give it by a variable from a Secret, if the program reads one"
                + ("" if empty else f"; {_REMEDY}"),
            )


_NOTHING = frozenset(
    {"empty", "none", "null", "dummy", "fake", "not-needed", "not_needed", "n/a", "-", "false"}
)
"""What clients give where no key is wanted."""


def _is_literal(value: object) -> bool:
    """Text that is the credential itself. What a shape gives away is found already."""
    if not isinstance(value, str) or kind_of(value):
        return False
    if _FILE.fullmatch(value):
        return False
    return bool(value) and not value.startswith("$") and value.lower() not in _NOTHING


_FILE = re.compile(r"(/[\w.-]+){2,}")
"""A path, which says where a credential lies."""


def _arguments(container: Container) -> Iterator[Violation]:
    """`$(NAME)` of a Secret: the kubelet writes its value into the process's arguments."""
    secret = {
        str(mapping(item).get("name"))
        for item in sequence(container.spec.get("env"))
        if mapping(mapping(item).get("valueFrom")).get("secretKeyRef")
    }
    for path, word in placed_words(container.spec):
        for name in sorted(set(_REFERENCE.findall(str(word))) & secret):
            yield Violation(
                container.pod.index,
                container.place(path),
                f"{container.title} puts the secret in {name} among its arguments, which "
                "every process of the node and many logs show",
                "let the program read the variable, or mount the Secret as a file",
                "warning",
            )


RULE = Rule(
    id="plain-secret",
    severity="error",
    title="No secret is written in clear text",
    reason="What a manifest holds is in Git for ever, in the rendered files, in previews and in "
    "every log of them; base64 hides nothing.",
    remedy="Refer to a Secret that is made outside Git: by kubectl create secret, by an "
    "ExternalSecret from a vault, or by a SealedSecret, which is encrypted.",
    find=_find,
    link=_LINK,
)
