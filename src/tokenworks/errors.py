"""Errors the CLI shows without a traceback, each with the exit code it stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TokenworksError(Exception):
    """What was asked failed, or found something: exit code 1."""

    exit_code = 1


class UsageError(TokenworksError):
    """Wrong usage or wrong input; nothing was changed: exit code 2."""

    exit_code = 2


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that somebody may have meant; case and what stands between words do not count."""
    plain = {_plain(name): name for name in names}
    near = difflib.get_close_matches(_plain(word), plain, 1, _ALIKE)
    return plain[near[0]] if near else None


def did_you_mean(word: str, names: Iterable[str], otherwise: str = "name one of these") -> str:
    """The remedy for a name that is not there; `otherwise` where none looks like it."""
    near = nearest(word, names)
    return f"did you mean {near}?" if near else otherwise


_ALIKE = 0.6
"""How much of two names must be the same, from 0 to 1."""


def _plain(word: str) -> str:
    return "".join(character for character in word.lower() if character.isalnum())
