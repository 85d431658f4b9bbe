"""Words of a container's command, as Kubernetes and a POSIX shell read them.

Nothing is run and nothing is guessed: a word that depends on what is not written down says
so. Reading never fails; what is unfinished (a quote, a bracket) ends with the text. Standard
library alone, for the policies import it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_KUBERNETES = re.compile(rf"\$(\$)?\(({_NAME})\)")
_OPERATOR = re.compile(r"\|\||&&|\|&|;;|&>>?|<<<|<<-?|>>|>&|<&|>\||[;&|\n()<>]")
_REDIRECTION = frozenset({"&>", "&>>", "<<<", "<<", "<<-", ">>", ">&", "<&", ">|", "<", ">"})
_VARIABLE = re.compile(rf"\$({_NAME}|[0-9@*#?!$-])")
_ASSIGNMENT = re.compile(rf"({_NAME})(\+?)=(.*)", re.DOTALL)
_LIST = re.compile(rf"({_NAME})(\+?)=\(")
_ALL = re.compile(rf"\$(?:([@*])|\{{([@*])\}}|\{{({_NAME})\[[@*]\]\}})")
"""All arguments, or all elements of an array."""
_DEFAULT = re.compile(rf"({_NAME})(:?[-=?+])(.*)", re.DOTALL)
_OPENS = frozenset({"if", "case", "for", "while", "until"})
_CLOSES = frozenset({"fi", "esac", "done"})
_KEYWORDS = _OPENS | _CLOSES | {"then", "else", "elif", "do", "!", "{", "}", "time"}
_DEEPEST = 20
"""Defaults within defaults that are followed."""
_INJECTED = re.compile(r"LWS_|TPU_|JOB_COMPLETION_INDEX$|HOSTNAME$|KUBERNETES_|MY_POD_|POD_|NODE_")
"""Variables that controllers, webhooks and Kubernetes itself add to pods."""


@dataclass(frozen=True)
class Word:
    """One word, and the variables or commands it depends on that are not known."""

    text: str
    unknown: tuple[str, ...] = ()
    bare: bool = True
    """No part of it was quoted."""


@dataclass(frozen=True)
class Statement:
    """A simple command: its words, variables set for it alone, and what follows it."""

    words: tuple[Word, ...]
    env: dict[str, Word] = field(default_factory=dict[str, Word])
    after: str = ""
    """The operator behind it: `;`, `&&`, `|`, `&` or a line's end."""


def expand(text: str, env: Mapping[str, str | None]) -> Word:
    """A word of an exec form: `$(NAME)` is replaced where the value is literal.

    `env` holds the container's variables, None for those whose value is elsewhere.
    """
    unknown: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        value = env.get(match[2])
        if value is None:
            unknown.append(match[2])
            return match[0]
        return value

    return Word(_KUBERNETES.sub(replaced, text), tuple(unknown))


def script_of(words: Sequence[Word]) -> tuple[int, Word] | None:
    """Position and text of the script that a shell gets by `-c`; the first word is the shell."""
    if not words or base_name(words[0].text) not in SHELLS:
        return None
    for position, word in enumerate(words[1:-1], start=1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word.text):
            # `--` ends the shell's options, and the script comes after it.
            at = position + 1 + (words[position + 1].text == "--")
            return (at, words[at]) if at < len(words) else None
        if not word.text.startswith(("-", "+")) and word.text != "pipefail":
            return None
    return None


def base_name(path: str) -> str:
    """`/usr/bin/python3` as `python3`."""
    return path.rpartition("/")[2]


def statements(script: str, env: Mapping[str, str | None], open_env: bool) -> list[Statement]:
    """The simple commands of a script, in the order in which they stand.

    `open_env`: there may be variables beyond `env`, so that no default is taken for granted.
    """
    known = {name: _known(name, value) for name, value in env.items()}
    return _Reader(script, known, open_env).run()


def _known(name: str, value: str | None) -> Word:
    return Word(f"${name}", (name,)) if value is None else Word(value)


class _Reader:
    """One pass over a script. Variables are set as the text sets them."""

    def __init__(self, text: str, env: dict[str, Word], open_env: bool, level: int = 0) -> None:
        self.text, self.env, self.open, self.level = text, env, open_env, level
        self.at, self.depth = 0, 0
        self.words: list[Word] = []
        self.done: list[Statement] = []
        self.documents: list[str] = []
        self.lists: dict[str, tuple[Word, ...] | None] = {}
        """Arrays, and arguments that the script gave itself as `@`; None where one branch did."""

    def run(self) -> list[Statement]:
        while self.at < len(self.text):
            self._step()
        self._finish("")
        return self.done

    def _step(self) -> None:
        char = self.text[self.at]
        if char in " \t\r":
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
        elif char == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif found := _OPERATOR.match(self.text, self.at):
            self.at = found.end()
            self._operator(found[0])
        else:
            self.words += self._word()

    def _operator(self, found: str) -> None:
        if found in _REDIRECTION:
            self._redirect(found)
            return
        self._finish(found)
        if found == "\n":
            self._skip_documents()

    def _redirect(self, found: str) -> None:
        if self.words and self.words[-1].text.isdigit() and self.words[-1].bare:
            before = self.text[: self.at - len(found)]
            if before.endswith(self.words[-1].text):
                self.words.pop()
        self._blanks()
        target = self._word() if self.at < len(self.text) else []
        if found in ("<<", "<<-") and target:
            self.documents.append(target[0].text)

    def _blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1

    def _skip_documents(self) -> None:
        for end in self.documents:
            match = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(self.text, self.at)
            self.at = match.end() if match else len(self.text)
        self.documents.clear()

    def _finish(self, after: str) -> None:
        words = self._without_keywords(self.words)
        self.words = []
        env: dict[str, Word] = {}
        while words and (match := _ASSIGNMENT.fullmatch(words[0].text)):
            env[match[1]] = self._assigned(match, words[0].unknown)
            words = words[1:]
        if words and base_name(words[0].text) in ("export", "declare", "readonly", "local"):
            matches = ((w, _ASSIGNMENT.fullmatch(w.text)) for w in words[1:])
            self._set({m[1]: self._assigned(m, w.unknown) for w, m in matches if m})
        if [word.text for word in words[:2]] == ["set", "--"]:
            self.lists["@"] = None if self.depth > 0 else tuple(words[2:])
        if words:
            self.done.append(Statement(tuple(words), {**env}, after))
        else:
            self._set(env)

    def _without_keywords(self, words: list[Word]) -> list[Word]:
        for position, word in enumerate(words):
            if not word.bare or word.text not in _KEYWORDS:
                return words[position:]
            self.depth += (word.text in _OPENS) - (word.text in _CLOSES)
        return []

    def _assigned(self, match: re.Match[str], unknown: tuple[str, ...]) -> Word:
        """The value of `NAME=value`, or of `NAME+=value` behind the one it has."""
        before = self.env.get(match[1]) if match[2] else None
        if before is None:
            return Word(match[3], unknown)
        return Word(before.text + match[3], before.unknown + unknown)

    def _set(self, env: dict[str, Word]) -> None:
        for name, value in env.items():
            # What one branch sets is not known after it.
            self.env[name] = _known(name, None) if self.depth > 0 else value

    # --- words -----------------------------------------------------------------

    def _word(self) -> list[Word]:
        """One word, or several where an unquoted variable holds blanks."""
        parts = [_Part()]
        if found := _LIST.match(self.text, self.at):
            return self._list(found)
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r\n" or _OPERATOR.match(self.text, self.at):
                break
            if self._all(parts):
                continue
            if char == "'":
                self._single(parts[-1])
            elif char == '"':
                self._double(parts[-1])
            elif char == "\\":
                self._escaped(parts[-1])
            elif char in "$`":
                self._split(parts, self._expansion())
            else:
                parts[-1].text += char
                self.at += 1
        return [part.word() for part in parts if part.text or part.quoted or part.unknown]

    def _list(self, found: re.Match[str]) -> list[Word]:
        """The words of an array, which are kept; nothing of it is a word of the statement."""
        self.at, elements = found.end(), list[Word]()
        while self.at < len(self.text) and self.text[self.at] != ")":
            before = self.at
            if self.text[self.at] in " \t\r\n":
                self.at += 1
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            else:
                elements += self._word()
                self.at += self.at == before
        self.at += 1
        held = self.lists.get(found[1], ()) if found[2] else ()
        # What one branch adds is not known after it.
        self.lists[found[1]] = None if held is None or self.depth > 0 else (*held, *elements)
        return []

    def _all(self, parts: list[_Part]) -> bool:
        """Whether all arguments or elements stand here; they become words of their own."""
        quoted = self.text.startswith('"', self.at)
        found = _ALL.match(self.text, self.at + quoted)
        if found is None or (quoted and not self.text.startswith('"', found.end())):
            return False
        name = found[3] or "@"
        elements = self.lists.get(name)
        self.at = found.end() + quoted
        if elements is None:
            # What the script was given is put in by who knows it.
            whose = "$@" if name == "@" and name not in self.lists else name
            parts[-1].add(Word("$@" if name == "@" else found[0], (whose,), bare=False))
            return True
        for position, word in enumerate(elements):
            if position:
                parts.append(_Part())
            parts[-1].add(word)
        return True

    def _single(self, part: _Part) -> None:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        part.text += self.text[self.at + 1 : end]
        part.quoted = True
        self.at = end + 1

    def _double(self, part: _Part) -> None:
        part.quoted = True
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                self._escaped(part)
            elif char in "$`":
                part.add(self._expansion())
            else:
                part.text += char
                self.at += 1
        self.at += 1

    def _escaped(self, part: _Part) -> None:
        char = self.text[self.at + 1 : self.at + 2]
        part.text += "" if char == "\n" else char
        part.quoted = part.quoted or char != "\n"
        self.at += 2

    def _split(self, parts: list[_Part], value: Word) -> None:
        """Unquoted values are split at blanks."""
        if value.unknown or not value.bare or not re.search(r"\s", value.text):
            parts[-1].add(value)
            return
        pieces = re.split(r"\s+", value.text)
        parts[-1].text += pieces[0]
        parts.extend(_Part(piece) for piece in pieces[1:])

    # --- expansions ------------------------------------------------------------

    def _expansion(self) -> Word:
        start = self.text[self.at : self.at + 3]
        if start.startswith("`"):
            return self._unknown(self._until("`", 1))
        if start.startswith("$("):
            inside = self._balanced("(", ")", 1)
            return self._arithmetic(inside) if start == "$((" else self._unknown(inside)
        if start.startswith("${"):
            return self._braced(self._balanced("{", "}", 1))
        return self._variable(start)

    def _variable(self, start: str) -> Word:
        if match := _VARIABLE.match(self.text, self.at):
            self.at = match.end()
            return self._value(match[1])
        if start.startswith("$'"):
            self.at += 1
            part = _Part()
            self._single(part)
            return part.word()
        self.at += 1
        return Word("$")

    def _until(self, end: str, skip: int) -> str:
        found = self.text.find(end, self.at + skip)
        stop = len(self.text) if found < 0 else found + len(end)
        text, self.at = self.text[self.at : stop], stop
        return text

    def _balanced(self, opens: str, closes: str, skip: int) -> str:
        """Text up to the bracket that closes the one behind `$`."""
        depth, start = 0, self.at
        for position in range(start + skip, len(self.text)):
            depth += (self.text[position] == opens) - (self.text[position] == closes)
            if depth == 0:
                self.at = position + 1
                return self.text[start : self.at]
        self.at = len(self.text)
        return self.text[start:]

    def _unknown(self, text: str) -> Word:
        # `$(NAME)` was left by Kubernetes, which does not know the value yet.
        match = re.fullmatch(r"\$\(([A-Z_][A-Z0-9_]*)\)", text)
        return Word(text, (match[1] if match else text,))

    def _value(self, name: str) -> Word:
        if not re.fullmatch(_NAME, name):
            return Word(f"${name}", (f"${name}",))
        return self.env.get(name, Word(f"${name}", (name,)))

    def _braced(self, text: str) -> Word:
        inside = text[2:-1] if text.endswith("}") else text[2:]
        if re.fullmatch(_NAME, inside):
            return self._value(inside)
        match = _DEFAULT.fullmatch(inside)
        if match is None:
            return self._unknown(text)
        return self._or_default(match[1], match[2], match[3], text)

    def _or_default(self, name: str, sign: str, default: str, text: str) -> Word:
        value = self.env.get(name)
        if value is not None and value.unknown:
            return Word(text, (name,))
        present = value is not None and (value.text != "" or ":" not in sign)
        if value is None and (self.open or _INJECTED.match(name)):
            return Word(text, (name,))
        if sign.endswith("+"):
            return self._nested(default) if present else Word("")
        if present and value is not None:
            return value
        return self._nested(default) if sign[-1] in "-=" else Word(text, (name,))

    def _nested(self, text: str) -> Word:
        """A default, which may be quoted and hold variables itself."""
        inner, part = _Reader(text, self.env, self.open, self.level + 1), _Part()
        if inner.level > _DEEPEST:
            return self._unknown(text)
        while inner.at < len(inner.text):
            start = inner.at
            words = inner._word()
            for word in words:
                part.add(word)
            if inner.at == start:
                part.text += inner.text[start]
                inner.at += 1
        return part.word()

    def _arithmetic(self, text: str) -> Word:
        inside = text.removeprefix("$((").removesuffix("))")
        unknown: list[str] = []

        def number(match: re.Match[str]) -> str:
            value = self._braced(match[0]) if match[0].startswith("${") else None
            value = value or self._value(match[0].lstrip("$"))
            unknown.extend(value.unknown)
            return value.text or "0"

        filled = re.sub(rf"\$\{{[^}}]*\}}|\$?{_NAME}", number, inside)
        result = None if unknown else calculate(filled)
        return Word(text, tuple(unknown) or (text,)) if result is None else Word(str(result))


class _Part:
    """A word that is being read."""

    def __init__(self, text: str = "") -> None:
        self.text, self.quoted = text, False
        self.unknown: tuple[str, ...] = ()

    def add(self, word: Word) -> None:
        self.text += word.text
        self.unknown += word.unknown
        self.quoted = self.quoted or not word.bare

    def word(self) -> Word:
        return Word(self.text, self.unknown, not self.quoted)


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a // b,
    ast.Mod: operator.mod,
}


def calculate(text: str) -> int | None:
    """A whole number from `2 * (8 - 1)`; None for anything else."""
    if len(text) > 100 or not re.fullmatch(r"[0-9+\-*/%() \t]+", text) or "**" in text:
        return None
    try:
        return _evaluate(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _evaluate(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATIONS:
            return _OPERATIONS[type(sign)](_evaluate(left), _evaluate(right))
        case _:
            raise ValueError("not a calculation")


def flat(parts: Sequence[Statement]) -> Iterator[Word]:
    """Every word of every statement."""
    for statement in parts:
        yield from statement.words
