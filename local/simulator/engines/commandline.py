"""Reads command lines that were written for real engines.

Every spelling that engines take is read: `--flag value`, `--flag=value`, underscores for
dashes, short flags, `--no-flag`, and `--flag.key value` for JSON. Flags that mean something
here are described by `Flag`; all others are accepted as long as they look like flags, and
their names are handed back so that the log can tell.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

Kind = Literal["value", "list", "switch", "both", "json"]
"""One value; one or more values; no value; no value but with a `--no-` form; a JSON object."""


class CommandLineError(Exception):
    """The engine would not start like this: the text says what is wrong and why.

    `code` is the exit code: 2 for wrong usage, 1 for what only turns out on starting.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Flag:
    """A flag that means something here; `names` with their dashes, the first one counts."""

    names: tuple[str, ...]
    read: Callable[[str], Any] = str
    default: Any = None
    kind: Kind = "value"


@dataclass(frozen=True)
class Given:
    """What a command line says: values by flag (first name, no dashes), and the rest."""

    values: Mapping[str, Any]
    positionals: tuple[str, ...]
    without_effect: tuple[str, ...]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass
class _Reader:
    flags: dict[str, tuple[Flag, bool]]
    rest: list[str]

    def values(self) -> list[str]:
        """Takes the arguments up to the next flag."""
        taken: list[str] = []
        while self.rest and not _is_flag(self.rest[0]):
            taken.append(self.rest.pop(0))
        return taken


def read(arguments: Sequence[str], flags: Sequence[Flag]) -> Given:
    """What the arguments say.

    Raises:
        CommandLineError: a value is missing, superfluous, or not what its flag takes.
    """
    reader = _Reader(_by_name(flags), list(arguments))
    values = {_key(flag): flag.default for flag in flags}
    positionals: list[str] = []
    unknown: list[str] = []
    while reader.rest:
        argument = reader.rest.pop(0)
        if not _is_flag(argument):
            positionals.append(argument)
            continue
        name, equals, attached = argument.partition("=")
        known = reader.flags.get(_dashed(name))
        base, dot, path = name.partition(".")
        if known is not None:
            flag, positive = known
            given = [attached] if equals else None
            values[_key(flag)] = _value(flag, name, positive, given, reader)
        elif dot and (nested := reader.flags.get(_dashed(base))) and nested[0].kind == "json":
            key = _key(nested[0])
            given = attached if equals else _one(name, reader)
            values[key] = _with(values[key], path, given)
        else:
            unknown.append(name)
            if not equals:
                reader.values()
    return Given(values, tuple(positionals), tuple(dict.fromkeys(unknown)))


def _by_name(flags: Sequence[Flag]) -> dict[str, tuple[Flag, bool]]:
    table: dict[str, tuple[Flag, bool]] = {}
    for flag in flags:
        for name in flag.names:
            table[name] = (flag, True)
            if flag.kind == "both" and name.startswith("--"):
                table[f"--no-{name[2:]}"] = (flag, False)
    return table


def _is_flag(argument: str) -> bool:
    """Negative numbers are values."""
    return bool(re.match(r"--?[A-Za-z]", argument))


def _key(flag: Flag) -> str:
    return flag.names[0].lstrip("-")


def _dashed(name: str) -> str:
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def _value(
    flag: Flag, name: str, positive: bool, attached: list[str] | None, reader: _Reader
) -> Any:
    if flag.kind in ("switch", "both"):
        if attached is not None:
            raise CommandLineError(f"argument {name}: takes no value, found {attached[0]!r}")
        return positive
    if flag.kind == "list":
        texts = attached if attached is not None else reader.values()
        if not texts:
            raise CommandLineError(f"argument {name}: expected at least one value")
        return tuple(_read(flag, name, text) for text in texts)
    text = attached[0] if attached is not None else _one(name, reader)
    return _object(name, text) if flag.kind == "json" else _read(flag, name, text)


def _one(name: str, reader: _Reader) -> str:
    if not reader.rest or _is_flag(reader.rest[0]):
        raise CommandLineError(f"argument {name}: expected a value")
    return reader.rest.pop(0)


def _read(flag: Flag, name: str, text: str) -> Any:
    try:
        return flag.read(text)
    except (ValueError, argparse.ArgumentTypeError) as error:
        wanted = getattr(flag.read, "__name__", "value")
        reason = str(error) if isinstance(error, argparse.ArgumentTypeError) else f"not a {wanted}"
        raise CommandLineError(f"argument {name}: {reason}, found {text!r}") from None


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandLineError(f"argument {name}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise CommandLineError(f"argument {name}: must be a JSON object, found {text!r}")
    return cast(dict[str, Any], value)


def _with(config: Mapping[str, Any] | None, path: str, text: str) -> dict[str, Any]:
    """The object with the value at `a.b.c` set; a value that is no JSON is a text."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    key, dot, below = path.partition(".")
    old = dict(config or {})
    nested = old.get(key)
    inner = cast(dict[str, Any], nested) if isinstance(nested, dict) else None
    old[key] = _with(inner, below, text) if dot else value
    return old
