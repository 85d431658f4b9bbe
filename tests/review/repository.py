"""Small repositories of documents: a base that is committed, and a change on top of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tokenworks.cli.pr import compare
from tokenworks.cli.snapshot import snapshot_tools
from tokenworks.cli.states import CODE, pair
from tokenworks.review.comment import Comparison
from tokenworks.review.snapshot import Shelf, Tools
from tokenworks.review.trees import Repository

HERE = Path(__file__).parent
BASE = HERE / "base"
_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (
            ("NAME", "somebody"), ("EMAIL", "somebody@example.com"), ("DATE", "2026-01-01T00:00Z"),
        )
    },
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    """What git says in a folder, whoever runs it."""
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env={**os.environ, **_GIT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def committed(folder: Path, message: str = "change") -> str:
    """The commit of everything that is there now."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD").strip()


def repository(folder: Path, base: Path = BASE) -> Path:
    """A repository whose branch `main` holds the base, and no code: that is the running one's.

    Stand-ins for the code make its commits comparable, as commits that hold it are.
    """
    shutil.copytree(base, folder, dirs_exist_ok=True)
    for name in CODE:
        (folder / name).mkdir()
        (folder / name / "stands-in.txt").write_text("the code that runs\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    committed(folder, "base")
    return folder


@dataclass(frozen=True)
class Workshop:
    """What comparing needs, shared: a base that was rendered once is kept."""

    tools: Tools
    shelf: Shelf

    def compared(self, folder: Path, base: str = "main", head: str | None = None) -> Comparison:
        """The change that the folder holds, against a commit of it."""
        with pair(Repository(folder), base, head, self.tools, self.shelf) as states:
            return compare(states, base, ())

    def of(self, edit: Callable[[Path], None], folder: Path) -> Comparison:
        """An edit of the base."""
        edit(repository(folder))
        return self.compared(folder)


@cache
def workshop(kept: Path) -> Workshop:
    """The tools of this machine, and a folder for what is kept."""
    return Workshop(snapshot_tools(), Shelf(kept))
