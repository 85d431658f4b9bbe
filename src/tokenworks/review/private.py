"""What of a change is nobody's business: values of credentials, wherever objects hold them.

A review is read by more people than a cluster. That a credential is in Git at all is a finding;
here it only is not said again, in the old state, the new one, or the difference of two texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from policies.secrets import HIDDEN, names_secret
from policies.tree import is_mapping, is_sequence
from tokenworks.review.difference import ORDER, Change
from tokenworks.review.paths import ABSENT, Flag, Item, Path

_OPEN: Final = (
    ("type",), ("immutable",), ("apiVersion",), ("kind",), ("metadata", "name"),
    ("metadata", "namespace"), ("metadata", "labels"),
)  # fmt: skip
"""What of a Secret may be shown."""
_COMMANDS: Final = frozenset({"args", "command"})
_DATA: Final = frozenset({"data", "stringData", "binaryData"})
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = r"[^\s\"',;&|]"
_GIVEN: Final = re.compile(
    rf"(?P<flag>(?<=--)[A-Za-z][\w-]{{0,80}}[ \t]+)(?P<word>(?!-){_WORD}+)"
    r"|(?P<name>(?<![\w.-])-{0,2}[A-Za-z][\w.-]{0,80})(?P<between>[\"']?[ \t]*[:=][ \t]*[\"']?)"
    rf"(?P<value>(?:(?:[Bb]earer|[Bb]asic)[ \t]+)?{_WORD}+)"
)
"""A name and what it is given: `--password x`; `password: x`, `export TOKEN=x`, `"token": "x"`."""
_HEADERS: Final = frozenset({"AUTHORIZATION", "PROXY-AUTHORIZATION", "COOKIE"})
_REFERENCE: Final = ("$", "{", "<", "(", "%")
"""With what begins what stands for a value that lies elsewhere."""


def without(change: Change, *, secret: bool) -> Change:
    """The change, in which no credential's value is left.

    Args:
        change: as the objects have it.
        secret: whether the object is a Secret.
    """
    if change.path[-1:] == (ORDER,):
        return change  # nothing of it is shown
    before, after = (
        one if one is ABSENT else _cleaned(one, change.path, secret=secret)
        for one in (change.before, change.after)
    )
    if before is not ABSENT and before == after and change.before != change.after:
        # Nothing but credentials differs: that it does is to be seen.
        before = after = HIDDEN
    return replace(change, before=before, after=after)


def _cleaned(value: Any, path: Path, *, secret: bool) -> Any:
    if _hidden(value, path, secret=secret):
        return HIDDEN
    if is_mapping(value):
        return {
            key: _cleaned(child, (*path, *_named(value, key)), secret=secret)
            for key, child in value.items()
        }
    if is_sequence(value):
        if path and path[-1] in _COMMANDS:
            return _words(value)
        return [_cleaned(child, (*path, n), secret=secret) for n, child in enumerate(value)]
    return _text(value) if isinstance(value, str) else value


def _named(value: Mapping[str, Any], key: Any) -> Path:
    """The way to a field, by the name of what holds it: that is how variables are known."""
    name = value.get("name")
    return (Item(name), str(key)) if isinstance(name, str) else (str(key),)


def _hidden(value: Any, path: Path, *, secret: bool) -> bool:
    """Whether the value at the path is a credential, by what it is called."""
    if secret:
        around = any(path == open_[: len(path)] for open_ in _OPEN)
        return not around and not any(path[: len(open_)] == open_ for open_ in _OPEN)
    container = is_mapping(value) or is_sequence(value)
    if container or isinstance(value, bool) or str(value).startswith(_REFERENCE):
        return False
    last = path[-1] if path else ""
    match last:
        case Flag():
            return _credential(last.name.lstrip("-"))
        case str() if last == "value":
            names = [part.name for part in path if isinstance(part, Item)]
            return any(map(_credential, names[-1:]))
        case str():
            return isinstance(value, str) and _is_key(last, data=bool(_DATA.intersection(path)))
        case _:
            return len(path) > 1 and isinstance(path[-2], Flag) and _hidden(
                value, path[:-1], secret=False
            )  # fmt: skip


def _is_key(name: str, *, data: bool) -> bool:
    """Whether a field of that name holds a credential; `secretName` and its like name one."""
    named = name.upper() != "KEY" and _credential(name)
    return named and (data or "SECRET" not in name.upper())


def _words(words: Sequence[Any]) -> list[Any]:
    """A command line without what its flags are given."""
    found: list[Any] = []
    follows = False
    for word in words:
        is_flag = isinstance(word, str) and word.startswith("-")
        found.append(HIDDEN if follows and not is_flag else _text(str(word)))
        follows = is_flag and "=" not in word and _credential(word.lstrip("-"))
    return found


def _text(text: str) -> str:
    return _GIVEN.sub(_without_value, text)


def _without_value(match: re.Match[str]) -> str:
    value = match["word"] or match["value"]
    name = match["flag"] or match["name"]
    if value.startswith(_REFERENCE) or not _is_key(name.strip("- \t").replace(".", "_"), data=True):
        return match[0]
    return match[0].removesuffix(value) + HIDDEN


def _credential(name: str) -> bool:
    """Whether a variable, flag, header or field of that name holds a credential."""
    return names_secret(_HUMP.sub("_", name)) or name.upper() in _HEADERS
