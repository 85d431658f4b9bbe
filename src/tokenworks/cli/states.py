"""States of the repository: an environment as a commit has it, or as the files here have it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tokenworks.check.context import today
from tokenworks.cli.context import say
from tokenworks.review.snapshot import FORMAT, Shelf, Snapshot, Tools, of_json, take
from tokenworks.review.trees import Repository

CODE: Final = ("src", "charts", "policies", "local")
"""What decides what documents render, and how it is judged."""
PROGRAM: Final = ("components", "__main__.py", "Pulumi.yaml")
"""What else decides what infrastructure is made."""
_SHORT: Final = 12


@dataclass
class Notes:
    """What limits a comparison, each said once."""

    lines: list[str] = field(default_factory=list[str])

    def add(self, line: str) -> None:
        """Note it, unless it is noted."""
        if line not in self.lines:
            self.lines.append(line)
            say(line)


@dataclass(frozen=True)
class State:
    """One state of the repository."""

    repository: Repository
    commit: str | None
    """None: the files as they are here."""
    scratch: Path
    """A folder of this run's own."""
    tools: Tools
    shelf: Shelf
    notes: Notes

    def names(self) -> tuple[str, ...]:
        """Its environments, sorted."""
        if self.commit is not None:
            return self.repository.names(self.commit, "stacks")
        folder = self.repository.folder / "stacks"
        found = folder.iterdir() if folder.is_dir() else ()
        return tuple(sorted(p.name for p in found if p.is_dir() and not p.name.startswith(".")))

    def snapshot(self, name: str) -> Snapshot | None:
        """An environment in this state; None where it has none of that name."""
        if name not in self.names():
            return None
        if self.commit is None:
            return take(self.repository.folder, name, self.tools)
        key = self._key(name)
        found = self.shelf.get(key) if key else None
        if found is not None:
            return found
        say(f"{name}: rendering it as {self.commit[:_SHORT]} has it")
        own = self._asked(name) if self._own_code() else take(self.files(), name, self.tools)
        if own is None:
            self.notes.add(
                f"The code of {self.commit[:_SHORT]} cannot be asked: its documents were rendered "
                "by the code here, so that what charts and code change is not shown."
            )
            return take(self.files(), name, self.tools)
        if key:
            self.shelf.put(key, own)
        return own

    def _key(self, name: str) -> str:
        """Everything that decides the snapshot; empty where the code is no part of the commit."""
        assert self.commit is not None
        made_of = (*CODE, f"stacks/{name}")
        parts = [self.repository.identity(self.commit, path) for path in made_of]
        return " ".join([str(FORMAT), today(), *parts]) if all(parts) else ""

    def _asked(self, name: str) -> Snapshot | None:
        """What the commit's own code says; None when it does not run, or is older than `pr`."""
        folder = self.files()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tokenworks.cli.snapshot", name],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return of_json(done.stdout) if done.returncode == 0 else None

    def files(self) -> Path:
        """Its files: those here, or the commit's, written once."""
        if self.commit is None:
            return self.repository.folder
        folder = self.scratch / self.commit
        return folder if folder.is_dir() else self.repository.export(self.commit, folder)

    def _own_code(self) -> bool:
        """Whether its code is another than the one that runs: the code of the files here."""
        assert self.commit is not None
        if not self.repository.identity(self.commit, "src/tokenworks"):
            return False
        return self.repository.differs(self.commit, None, CODE)


@dataclass(frozen=True)
class Pair:
    """Two states, and what tells them apart."""

    before: State
    after: State

    def differs(self, name: str) -> bool:
        """Whether anything differs that decides what an environment is."""
        return self._differ((*CODE, *PROGRAM, f"stacks/{name}"))

    def other_program(self) -> bool:
        """Whether the program differs that makes infrastructure, or what it reads."""
        return self._differ((*CODE, *PROGRAM))

    def _differ(self, paths: tuple[str, ...]) -> bool:
        assert self.before.commit is not None
        return self.before.repository.differs(self.before.commit, self.after.commit, paths)


@contextmanager
def pair(
    repository: Repository, base: str, head: str | None, tools: Tools, shelf: Shelf
) -> Generator[Pair]:
    """The state in which `head` (None: the files here) left `base`, and its own.

    Raises:
        UsageError: one is no commit here, or they have no common past.
    """
    target = repository.commit(head) if head is not None else None
    fork = repository.fork(repository.commit(base), target or repository.commit("HEAD"))
    notes = Notes()
    with tempfile.TemporaryDirectory(prefix="tokenworks-pr-") as folder:
        scratch = Path(folder)
        yield Pair(
            State(repository, fork, scratch, tools, shelf, notes),
            State(repository, target, scratch, tools, shelf, notes),
        )
