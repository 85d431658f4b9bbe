"""What a container runs: its words, its shell script if there is one, its flags."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.tree import Unknown, known_items, sequence, unread_items
from tokenworks.catalog.commandline import Word, grammars, shell_in

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class Command:
    """Command and arguments of a container, read the way the kernel and the shell read them."""

    words: tuple[str, ...]
    """All words, those inside a shell script included."""
    script: str | None
    """The text given to `sh -c`, or None without a shell."""
    explicit: bool
    """The container overrides the image's entry point."""

    @property
    def text(self) -> str:
        """The words, joined by blanks."""
        return " ".join(self.words)

    @property
    def program(self) -> str:
        """Base name of the first word, or empty when the image decides."""
        return self.words[0].rpartition("/")[2] if self.explicit and self.words else ""

    def flag(self, *names: str) -> str | None:
        """Value of a flag, the last one given; `""` for a bare flag, None when absent.

        `--tensor-parallel-size 2`, `--tensor_parallel_size=2` and `-tp 2` are the same flag;
        names come without dashes at the front.
        """
        found: str | None = None
        for position, word in enumerate(self.words):
            if not word.startswith("-"):
                continue
            key, separator, value = word.partition("=")
            if key.lstrip("-").replace("_", "-") not in names:
                continue
            after = self.words[position + 1] if position + 1 < len(self.words) else "-"
            found = value if separator else "" if after.startswith("-") else after
        return found


LATER = "$(KNOWN_AFTER_UP)"
"""What stands for a value that is not known yet: a variable whose value is elsewhere."""


def words_of(container: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Command and arguments as they are written; `LATER` for a flag's value that is not known yet.

    Any other unknown word may be a flag: reading it is told (`policies.tree.watched`).
    """
    found: list[str] = []
    ends: list[int] = []
    for key in ("command", "args"):
        listed = sequence(container.get(key))
        for position, word in enumerate(unread_items(listed)):
            value_only = isinstance(word, Unknown) and found and _takes_value(found[-1])
            found.append(LATER if value_only else str(listed[position]))
        ends.append(len(found))
    return tuple(found[: ends[0]]), tuple(found[ends[0] :])


def placed_words(container: Mapping[str, Any]) -> Iterator[tuple[tuple[str, int], Any]]:
    """The words of command and arguments that are known, each with where it stands."""
    for key in ("command", "args"):
        for position, word in known_items(container.get(key)):
            yield (key, position), word


def _takes_value(word: str) -> bool:
    """Whether the word after this one can only be its value: the flag's, or the weights."""
    if word == "serve":
        return True
    if re.fullmatch(r"-[a-z]*c", word):
        return False  # of a shell: its script
    found = [
        grammar.options[option[0]].takes
        for grammar in grammars().values()
        if word.startswith("-") and "=" not in word and (option := grammar.find(word)) is not None
    ]
    return bool(found) and set(found) == {"required"}


def command_of(container: Mapping[str, Any], env: Mapping[str, str | None]) -> Command:
    """The command of a container or of an exec probe, `$(VAR)` replaced where it is literal."""
    command, args = words_of(container)
    words = tuple(_expand(word, env) for word in (*command, *args))
    script = _script(words)
    if script is None:
        return Command(words, None, bool(command))
    return Command(_split(script), script, bool(command))


def _expand(word: str, env: Mapping[str, str | None]) -> str:
    def value(match: re.Match[str]) -> str:
        return env.get(match[1] or match[2]) or match[0]

    return _REFERENCE.sub(value, word)


def _script(words: tuple[str, ...]) -> str | None:
    found = shell_in([Word(word) for word in words])
    return found[1][1].text if found else None


def _split(script: str) -> tuple[str, ...]:
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        return tuple(lexer)
    except ValueError:
        return tuple(script.split())
