"""Commits and working trees of a Git repository: what differs between two, and what one holds."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.problems import shown


@dataclass(frozen=True)
class Repository:
    """A checkout."""

    folder: Path

    def commit(self, ref: str) -> str:
        """The commit that a name stands for.

        Raises:
            UsageError: there is none here, or this is no repository.
        """
        self._inside()
        # Without --end-of-options a name with a dash would be an option.
        done = self._run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
        if done.returncode == 0:
            return done.stdout.decode().strip()
        if self._shallow():
            raise UsageError(
                f"{shown(ref)} is no commit of this checkout, which has a part of the history "
                "only; run `git fetch --unshallow`, or in a workflow check out with fetch-depth: 0"
            )
        raise UsageError(
            f"{shown(ref)} is no commit, branch or tag of {self.folder}; `git branch --all` lists "
            "branches, `git fetch` brings those of the remote"
        )

    def fork(self, base: str, head: str) -> str:
        """The last commit that both have: what a merge of one into the other compares with.

        Raises:
            UsageError: they have none in common here.
        """
        done = self._run("merge-base", base, head)
        if done.returncode == 0:
            return done.stdout.decode().splitlines()[0]
        if self._shallow():
            raise UsageError(
                f"the history of this checkout is too short to tell where {head[:12]} left "
                f"{base[:12]}; run `git fetch --unshallow`, or in a workflow check out with "
                "fetch-depth: 0"
            )
        raise UsageError(
            f"{base[:12]} and {head[:12]} have no commit in common; name a base that has"
        )

    def differs(self, base: str, head: str | None, paths: Sequence[str]) -> bool:
        """Whether files below the paths differ between a commit and another, or the files here."""
        done = self._run("diff", "--quiet", base, *([head] if head else []), "--", *paths)
        if done.returncode not in (0, 1):
            raise TokenworksError(f"git diff failed: {done.stderr.decode(errors='replace')}")
        if done.returncode == 1 or head is not None:
            return done.returncode == 1
        new = self._run("ls-files", "--others", "--exclude-standard", "--", *paths)
        return bool(new.stdout.strip())

    def identity(self, commit: str, path: str) -> str:
        """What tells a file or folder of a commit from every other; empty where it has none."""
        done = self._run("rev-parse", "--verify", "--quiet", f"{commit}:{path}")
        return done.stdout.decode().strip() if done.returncode == 0 else ""

    def names(self, commit: str, path: str) -> tuple[str, ...]:
        """Folders in a folder of a commit, sorted; none where it has no such folder."""
        done = self._run("ls-tree", "-d", "-z", "--name-only", f"{commit}:{path}")
        listed = done.stdout.decode().split("\0") if done.returncode == 0 else []
        return tuple(sorted(name for name in listed if name and not name.startswith(".")))

    def export(self, commit: str, folder: Path) -> Path:
        """Write every file of a commit into a folder."""
        done = self._run("archive", "--format=tar", commit)
        if done.returncode != 0:
            raise TokenworksError(f"git archive failed: {done.stderr.decode(errors='replace')}")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
                archive.extractall(folder, filter="data")
        except (tarfile.TarError, OSError) as error:
            # Such as a link that leads out of the repository.
            raise TokenworksError(
                f"the files of {commit[:12]} cannot be laid out to be read: {error}; a link in a "
                "repository must lead to a place inside it"
            ) from None
        return folder

    def _inside(self) -> None:
        done = self._run("rev-parse", "--is-inside-work-tree")
        if done.returncode != 0:
            said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"])[0]
            raise UsageError(
                f"{self.folder} is no Git repository that can be read ({said}): there is nothing "
                "to compare with; clone it with git instead of copying its files"
            )

    def _shallow(self) -> bool:
        return self._run("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", "-C", self.folder, *arguments],
                stdin=subprocess.DEVNULL, capture_output=True, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise UsageError(
                "git is not installed, and `pr` compares commits; apt-get install git"
            ) from None
