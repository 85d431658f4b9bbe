"""The engine is process 1: it gets SIGTERM, and its exit code counts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.commands import words_of
from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Rule, Violation

_LINK = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"
_SPLIT = re.compile(r"\|\||&&|\|&|[;|\n]|(?<!>)&(?!>)")
"""What ends a simple command; `2>&1` and `&>` do not."""
_EXEC = re.compile(r"((then|else|do|\{|\()\s+)*(\S+=\S*\s+)*exec\s")


def _find(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container, script = program.container, program.command.script
        if script is None or program.engine is None or container.kind == "init":
            continue
        problem = _problem(script, program.engine.command)
        if problem is None or (problem == _STAYS and _bash_makes_way(program, script)):
            continue
        key = "args" if container.spec.get("args") else "command"
        yield Violation(
            container.pod.index,
            (*container.path, key),
            f"{program.title} {problem}",
            "start the engine without a shell, or with exec as the script's last command"
            + _example(program),
        )


def _example(program: Program) -> str:
    """`: exec vllm serve …`, where the engine's own words are known."""
    words = " ".join(program.line.program)
    return f": exec {words} …" if words else ""


def _bash_makes_way(program: Program, script: str) -> bool:
    """Whether the shell is bash, which becomes the last line's one plain command by itself.

    Not where the command is redirected, part of something larger, or a trap is set; and not in
    other shells. A command behind `;` or `&&` counts as staying: bash before 5.1 forks for it.
    """
    words = words_of(program.container.spec)
    first = next((word for part in words for word in part), "")
    lines = [line.strip() for line in script.replace("\\\n", " ").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if first.rpartition("/")[2] != "bash" or not lines or program.engine is None:
        return False
    last, before = lines[-1], "\n".join(lines[:-1])
    whole = not _OPEN.search(f"{before}\n") and "trap " not in before
    return whole and not _MORE.search(last) and bool(program.engine.command.search(last.lower()))


_OPEN = re.compile(r"(?m)^\s*(if|for|while|until|case|select|\{|\()(\s|$)|<<")
"""What may still be open in the last line; a complete one is judged as if it were."""
_MORE = re.compile(r"[;|&<>()`]|^\s*(if|for|while|until|case|then|else|do|time|!|\{)\s")


def _problem(script: str, engine: re.Pattern[str]) -> str | None:
    seen = False
    for text, after in _statements(script):
        if not engine.search(text.lower()):
            continue
        seen = True
        if re.match(r"eval\s+(?!['\"]?exec\s)", text):
            return _EVAL
        if after in ("|", "|&"):
            return "is piped in a shell, which swallows SIGTERM and its exit code"
        if after == "&":
            return "runs in the background of a shell, which does not pass SIGTERM on"
        if not _EXEC.match(text) and not text.startswith("eval"):
            return _STAYS
    if not seen and re.search(r"(^|[\s;&|])eval\s+(?!['\"]?exec\s)", script):
        return _EVAL
    return None


_STAYS = "runs under a shell without exec, which does not pass SIGTERM on"
_EVAL = "is started by eval in a shell, which swallows SIGTERM"


def _statements(script: str) -> Iterator[tuple[str, str]]:
    """The simple commands of a script, each with the operator that follows it."""
    joined = script.replace("\\\n", " ")
    start = 0
    for match in _SPLIT.finditer(joined):
        yield joined[start : match.start()].strip(), match[0]
        start = match.end()
    yield joined[start:].strip(), ""


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
