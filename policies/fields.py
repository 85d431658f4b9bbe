"""Credentials in fields of custom resources: `token: …`, `apiKey: …`, `password: …`.

A variable of a container says by its name what it holds. The name of a field says less: `token`
may be the credential, the Secret that has it, or a number of tokens. What name and value leave
open is not told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

from policies.model import Manifest
from policies.model import Path as Place
from policies.tree import is_mapping, is_sequence, known_items, written


@dataclass(frozen=True)
class _Facts:
    keys: tuple[tuple[str, ...], ...]
    passwords: frozenset[str]
    other: frozenset[str]
    names: frozenset[str]
    nothing: frozenset[str]
    apart: frozenset[str]
    groups: frozenset[str]
    literal: frozenset[tuple[str, str]]


@cache
def _facts() -> _Facts:
    text = Path(__file__).with_name("secrets.json").read_text()
    data: dict[str, Any] = json.loads(text)["fields"]
    return _Facts(
        tuple(tuple(words.split()) for words in data["keys"]),
        frozenset(data["passwords"]),
        frozenset(data["other"]),
        frozenset(data["names"]),
        frozenset(data["nothing"]),
        frozenset(data["apart"]),
        frozenset(data["groups"]),
        frozenset((item["kind"], item["field"]) for item in data["literal"]),
    )


def secret_fields(manifest: Manifest) -> Iterator[tuple[Place, str]]:
    """Where a custom resource holds a credential in clear, and what its field is called."""
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    # Groups without a dot, and of k8s.io, are Kubernetes' and its projects', which hold none;
    # `sops` says that values are encrypted.
    own = "." not in group or group.endswith("k8s.io")
    if own or group in _facts().groups or "sops" in manifest:
        return
    kind = str(manifest.get("kind"))
    if not (any(kind == literal for literal, _ in _facts().literal) or _any_called(manifest)):
        return
    for key, value in known_items(manifest):
        if str(key) not in _ABOUT:
            yield from _below(kind, value, (str(key),))


_ABOUT = frozenset({"apiVersion", "kind", "metadata", "status"})


def _any_called(manifest: Manifest) -> bool:
    """Whether a field is called as a credential is: of most objects none."""
    waiting: list[Any] = [v for k, v in known_items(manifest) if str(k) not in _ABOUT]
    while waiting:
        one: Any = waiting.pop()
        if type(one) is dict:
            entries = list(cast("dict[str, Any]", one).items())
        elif is_mapping(one) or is_sequence(one):
            entries = [(str(key), child) for key, child in known_items(one)]
        else:
            continue
        for key, child in entries:
            if isinstance(child, str):
                if _called(key) or (key == "name" and _called(child)):
                    return True
            elif type(child) is list and _called(key):
                return True
            else:
                waiting.append(child)
    return False


@lru_cache(maxsize=1 << 13)
def _called(name: str) -> bool:
    """Whether a name is that of a credential, whatever its value."""
    words, facts = _words(name), _facts()
    ends = any(tuple(words[-len(end) :]) == end for end in facts.keys)
    return bool(words) and (words[-1] in facts.passwords or ends)


def _below(kind: str, value: object, path: Place) -> Iterator[tuple[Place, str]]:
    if written(value):
        # The elements of a list are called like the list.
        name = next(part for part in reversed(path) if isinstance(part, str))
        literal = (kind, ".".join(map(str, path))) in _facts().literal
        if _holds(name, value) or (literal and not _open(value)):
            yield path, name
    elif is_sequence(value):
        for position, child in known_items(value):
            yield from _below(kind, child, (*path, position))
    elif is_mapping(value):
        known = {str(key): child for key, child in known_items(value)}
        if written(known.get("name")) and written(known.get("key")):
            return  # a key of a Secret
        named, given = known.get("name"), known.get("value")
        if written(named) and written(given) and _holds(named, given):
            yield (*path, "value"), named
        for key, child in known.items():
            if is_mapping(child) and not _facts().apart.isdisjoint(_words(key)[-1:]):
                continue
            yield from _below(kind, child, (*path, key))


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(name: str) -> list[str]:
    """`hfToken`, `HF_TOKEN` and `hf-tokens` as words; the last one without its s."""
    found = [word.lower() for word in _WORD.findall(name)]
    if found and found[-1].endswith("s") and found[-1] not in ("pass", "passphrases"):
        found[-1] = found[-1].removesuffix("s")
    return found


def _holds(name: str, value: str) -> bool:
    """Whether a field of this name certainly holds a credential with this value."""
    words, facts = _words(name), _facts()
    if not words or _open(value) or not facts.other.isdisjoint(words[:-1]):
        return False
    if not facts.names.isdisjoint(_words(value)):
        return False
    if words[-1] in facts.passwords:
        return _PLAIN.fullmatch(value) is not None
    if any(tuple(words[-len(end) :]) == end for end in facts.keys):
        return _KEY.fullmatch(value) is not None
    return False


_PLAIN = re.compile(r"(?!/)(?!.*://)(?!\$\d)(?!ENC\[)[^\s{}]+")
"""A password: no path, no address, no hash, nothing that is encrypted."""
_KEY = re.compile(
    r"(?:sk|gsk|pplx|xai|nvapi|hf)[-_](?=.*\d)[\w-]{6,}"
    r"|(?=.*[A-Z_=+])(?=.*\d)(?=.*[A-Za-z])[\w=+-]{16,}"
    r"|(?=(?:.*\d){4})(?=(?:.*[a-z]){4})[a-z0-9]{20,}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[a-z0-9]{6}\.[a-z0-9]{16}"
)
"""A key or token, which no object can be called: with the beginning that a provider gives its own,
with signs that no name has, too long and too mixed for one, a UUID, or kubeadm's."""
_FILLED_IN_LATER = re.compile(
    r".*(?:\$[A-Za-z_{(]|\$\{\{|\{\{|%[A-Z_(]|<[^<>\s][^<>]*>).*"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
    r"|(?:vault|ref\+\w+|arn|secretref|env|file|valueFrom):.*",
    re.DOTALL,
)
_WORDS_FOR_PEOPLE = re.compile(
    r"(?:your|my|replace|change|insert|enter|put|add|todo|fixme|tbd|placeholder|redacted|example)"
    r"(?:me|this|it)?(?:[-_ .:].*|$)|.*[-_ ](?:here|placeholder)|[*x.-]{3,}|.*(?:x{4}|\*{3}).*",
    re.IGNORECASE,
)


def _open(value: str) -> bool:
    """Nothing, a reference, or what somebody still has to fill in."""
    text = value.strip()
    if not text or text.lower() in _facts().nothing:
        return True
    later = _FILLED_IN_LATER.fullmatch(text) or _WORDS_FOR_PEOPLE.fullmatch(text)
    return later is not None
