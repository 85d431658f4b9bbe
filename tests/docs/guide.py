"""Guides as programs: the commands of their ```console blocks, and what they must print.

A line that starts with `$ ` is a command; the lines below it, up to the next command, are
expected, in this order, among what it prints. `…` in an expected line stands for anything;
a line that is only `…` says that more is printed. A block marked ```console e2e needs the
local cluster.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """One command of a guide."""

    line: int
    command: str
    expected: tuple[str, ...]
    e2e: bool


def steps(text: str) -> list[Step]:
    """The commands of a guide, in order."""
    found: list[Step] = []
    for block in BLOCK.finditer(text):
        kind = block["kind"].strip()
        if kind not in ("", "e2e"):
            raise ValueError(f"```console {kind}: only `e2e` may follow")
        first = text.count("\n", 0, block.start("body")) + 1
        found += _commands(block["body"], first, kind == "e2e")
    return found


def _commands(body: str, first: int, e2e: bool) -> list[Step]:
    if not body.startswith("$ "):
        raise ValueError(f"line {first}: a console block starts with `$ `")
    found: list[Step] = []
    for number, line in enumerate(body.splitlines(), start=first):
        if line.startswith("$ "):
            found.append(Step(number, line.removeprefix("$ "), (), e2e))
        elif line.startswith("> "):  # a command that goes on
            last = found[-1]
            found[-1] = Step(last.line, f"{last.command}\n{line[2:]}", (), e2e)
        else:
            last = found[-1]
            found[-1] = Step(last.line, last.command, (*last.expected, line.rstrip()), e2e)
    return found


def missing(expected: tuple[str, ...], printed: str) -> str | None:
    """The first expected line that does not come, in order; None when all do."""
    lines = iter(printed.splitlines())
    for wanted in expected:
        pieces = [re.escape(piece) for piece in wanted.split("…")]
        pattern = re.compile(".*".join(pieces))
        if wanted not in ("…", "") and not any(pattern.fullmatch(line.rstrip()) for line in lines):
            return wanted
    return None


def copy_tree(target: Path) -> Path:
    """A copy of the repository to run a guide in, so that guides may write; .venv is shared."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file() or source.is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    (target / ".venv").symlink_to((ROOT / ".venv").resolve())
    return target


def with_history(folder: Path) -> None:
    """Make the copy a repository whose one commit is all of it."""
    somebody = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "all")):
        subprocess.run(
            ["git", "-C", str(folder), *somebody, *words], stdin=subprocess.DEVNULL, check=True
        )


def run(step: Step, folder: Path) -> str | None:
    """Run one command as a reader would type it; None, or what went wrong."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", step.command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return f"exit code {done.returncode}\n{done.stdout}"
    if (line := missing(step.expected, done.stdout)) is not None:
        return f"did not print: {line}\nprinted:\n{done.stdout}"
    return None
