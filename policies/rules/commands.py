"""The engine is process 1: it gets SIGTERM, and its exit code counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from policies.commands import words_of
from policies.engines import Engine, Program
from policies.inventory import Inventory
from policies.model import Context, Rule, Severity, Violation
from tokenworks.catalog.commandline import Statement, Word, base_name, shell_in, statements

_LINK = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"
_GROUP = frozenset({"dumb-init", "timeout"})
"""Programs that pass SIGTERM on to whatever the program they started has started itself."""
_WAITS = frozenset({"wait", "sleep", "tail", "cat", "true", "read", "exit", "set", "cd", ":"})
_SERVES = re.compile(r"\bsglang_router\.launch_router\b|\bdynamo\.(frontend|router)\b")
"""Routers: requests pass through them, and are cut with them."""


def _find(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container, script = program.container, program.line.script
        if script is None or container.kind == "init" or _passed_on(program):
            continue
        if program.engine is not None:
            # A job that starts an engine for itself drains no stream when it is stopped.
            stays = container.pod.long_running or inventory.serves(program)
            found = _problem(program, script) if stays else None
            if found is None and program.mode == "member":
                found = _of_another(program, script)  # what joins a group starts no engine by name
        else:
            found = _of_another(program, script) if _stays(inventory, program) else None
        if found is None:
            continue
        key = "args" if container.spec.get("args") else "command"
        yield Violation(
            container.pod.index,
            container.place((key,)),
            f"{program.started} {found[0]}",
            "start the engine without a shell, or with exec as the script's last command"
            + _example(program)
            if program.engine is not None
            else "start it without a shell, or with exec as the script's last command",
            found[1],
        )


def _example(program: Program) -> str:
    """`: exec vllm serve …`, where the engine's own words are known."""
    words = " ".join(program.line.program)
    return f": exec {words} …" if words else ""


def _words(program: Program) -> tuple[Word, ...]:
    return tuple(Word(word) for part in words_of(program.container.spec) for word in part)


def _passed_on(program: Program) -> bool:
    """Whether what started the shell signals everything that runs below it."""
    words = _words(program)
    found = shell_in(words)
    before = [word.text for word in words[: found[0] if found else 0]]
    names = {base_name(word) for word in before}
    if "dumb-init" in names:
        return not {"-c", "--single-child"} & set(before)
    return not names.isdisjoint(_GROUP) or ("tini" in names and "-g" in before)


def _shell(program: Program) -> str:
    words = _words(program)
    found = shell_in(words)
    return base_name(words[found[0]].text) if found else ""


def _bash_makes_way(program: Program, script: str, first: str, *, lists: bool = False) -> bool:
    """Whether the shell is bash, which becomes the last line's one plain command by itself.

    Not where the command is redirected, part of something larger, or a trap is set; and not in
    other shells. With `lists` also a command behind `;` or `&&`: bash before 5.1 forks for it.
    """
    lines = [line.strip() for line in script.replace("\\\n", " ").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    # Of a script in a file it does not know which command is the last.
    if _shell(program) != "bash" or not lines or program.container.script:
        return False
    last, before = lines[-1], "\n".join(lines[:-1])
    if lists:
        *earlier, last = (part.strip() for part in re.split(r"&&|;", last))
        before = "\n".join([before, *earlier])
    whole = not _OPEN.search(f"{before}\n") and "trap " not in before
    return whole and not _MORE.search(last) and first in last


_OPEN = re.compile(r"(?m)^\s*(if|for|while|until|case|select|\{|\()(\s|$)|<<")
"""What may still be open in the last line; a complete one is judged as if it were."""
_MORE = re.compile(r"[;|&<>()`]|^\s*(if|for|while|until|case|then|else|do|time|!|\{)\s")

_Problem = tuple[str, Severity | None]


def _problem(program: Program, script: str) -> _Problem | None:
    """What is wrong with how a script starts its engine."""
    engine = program.engine
    found = list(statements(script, program.container.env, open_env=True))
    for statement in found:
        text = " ".join(word.text for word in statement.words)
        if engine is None or not _starts(engine, statement, text):
            continue
        first = statement.words[0].text
        if first == "eval":
            return None if text.startswith("eval exec ") else (_EVAL, None)
        if statement.after in ("|", "|&"):
            return "is piped in a shell, which swallows SIGTERM and its exit code", None
        if statement.after == "&" and "trap" not in _firsts(found):
            return _BACKGROUND, None
        if (
            first != "exec"
            and statement.after != "&"
            and not _bash_makes_way(program, script, first)
        ):
            new = _bash_makes_way(program, script, first, lists=True)
            return (_STAYS_IN_OLD, "warning") if new else (_STAYS, None)
    if _EVALUATED.search(script) and not any(
        engine is not None and _starts(engine, s, " ".join(w.text for w in s.words)) for s in found
    ):
        return _EVAL, None
    return None


def _firsts(found: Sequence[Statement]) -> set[str]:
    return {statement.words[0].text for statement in found}


def _starts(engine: Engine, statement: Statement, text: str) -> bool:
    """Whether a statement starts the engine, and does not only speak of it."""
    if base_name(statement.words[0].text) in ("echo", "printf", "pkill", "pgrep", "grep"):
        return False
    return engine.command.search(text.lower()) is not None


def _stays(inventory: Inventory, program: Program) -> bool:
    """Whether a program that we do not know is to stay and answer requests."""
    routes = _SERVES.search(program.command.text) is not None
    return inventory.serves(program) or (routes and program.container.pod.long_running)


def _of_another(program: Program, script: str) -> _Problem | None:
    """What is wrong with a script whose last command is one that we do not know, and stays."""
    found = list(statements(script, program.container.env, open_env=True))
    if not found or "trap" in _firsts(found) or any(s.after == "&" for s in found):
        return None
    if _LOOP.search(script) or not found[-1].words:
        return None
    last = found[-1].words[0].text
    if last in ("exec", "eval") or base_name(last) in _WAITS or found[-1].words[0].unknown:
        return None
    if _bash_makes_way(program, script, last, lists=True):
        return None
    if len(found) > 1 and found[-2].after in ("|", "|&"):
        return None
    return f"runs {last} under a shell without exec, which does not pass SIGTERM on", "warning"


_LOOP = re.compile(r"(^|[\s;])(while|until|for|select|case|if)\s|\(\)\s*\{")
"""What may start the last command again, or another one."""
_EVALUATED = re.compile(r"(^|[\s;&|])eval\s+(?!['\"]?exec\s)")
_STAYS = "runs under a shell without exec, which does not pass SIGTERM on"
_STAYS_IN_OLD = (
    "runs behind other commands of one line without exec: bash before 5.1 does not make way for "
    "it, and does not pass SIGTERM on"
)
_BACKGROUND = "runs in the background of a shell, which does not pass SIGTERM on"
_EVAL = "is started by eval in a shell, which swallows SIGTERM"


RULE = Rule(
    id="shell-pid1",
    severity="error",
    title="The engine is process 1",
    reason="A shell as process 1 does not pass SIGTERM on, so no stream is drained; a pipe to tee "
    "hides the engine's exit code.",
    remedy="Give the engine as command and args, or end the script with exec.",
    find=_find,
    link=_LINK,
)
