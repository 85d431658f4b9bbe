"""Argo CD delivering the local environment: a Git server for it, and ways to look."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from local.cluster.spec import NODE_IP, paths
from tests.e2e.platform import Platform, ask, eventually

ROOT = "tokenworks"
APPLICATIONS = ("applications.argoproj.io", "-n", "argocd")
DOCUMENT = f"""\
  delivery: argocd
  argocd:
    repository: git://{NODE_IP}/platform.git
    poll: 5s
    requests: {{cpu: 50m, memory: 192Mi}}
"""


def git(folder: Path, *arguments: str) -> str:
    """What `git` says; fails the test when it fails."""
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def served(folder: Path) -> Generator[Path]:
    """An empty repository, served to the cluster's pods while the context lasts."""
    bare = folder / "served" / "platform.git"
    bare.mkdir(parents=True)
    git(bare, "init", "--quiet", "--bare", "--initial-branch=main")
    daemon = ["git", "daemon", "--export-all", "--reuseaddr", f"--base-path={bare.parent}"]
    there = ["nsenter", f"--net={paths('local').netns}", "--", *daemon, f"--listen={NODE_IP}"]
    with subprocess.Popen(there, stderr=subprocess.PIPE) as process:
        try:
            yield bare
        finally:
            process.terminate()


@dataclass(frozen=True)
class Delivery:
    """The platform, and the clone from which its rendered tree is pushed."""

    platform: Platform
    clone: Path

    @property
    def document(self) -> Path:
        """The environment's document."""
        return self.platform.tree / "stacks" / "local" / "environment.yaml"

    @property
    def tree(self) -> Path:
        """The rendered tree in the clone."""
        return self.clone / "rendered" / "local"

    def render(self) -> None:
        """Render the environment into the clone."""
        self.platform.run("render", "local", "--out", str(self.clone / "rendered"))

    def push(self, why: str) -> str:
        """Commit what is in the clone and push it; the commit."""
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "--quiet", "-m", why)
        git(self.clone, "push", "--quiet", "origin", "HEAD:main")
        return git(self.clone, "rev-parse", "HEAD")

    def revert(self) -> str:
        """Take the last commit back, and push that; the commit."""
        git(self.clone, "revert", "--no-edit", "HEAD")
        git(self.clone, "push", "--quiet", "origin", "HEAD:main")
        return git(self.clone, "rev-parse", "HEAD")

    def applications(self) -> dict[str, dict[str, Any]]:
        """Every Application by name."""
        found = self.platform.get(*APPLICATIONS)["items"]
        return {item["metadata"]["name"]: item for item in found}

    def sets(self) -> dict[str, dict[str, Any]]:
        """Every ApplicationSet by name."""
        found = self.platform.get("applicationsets.argoproj.io", "-n", "argocd")["items"]
        return {item["metadata"]["name"]: item for item in found}

    def states(self) -> dict[str, tuple[str, str]]:
        """Sync and health of every Application."""
        return {
            name: (
                item.get("status", {}).get("sync", {}).get("status", ""),
                item.get("status", {}).get("health", {}).get("status", ""),
            )
            for name, item in self.applications().items()
        }

    def settled(self, revision: str = "") -> bool:
        """Whether every Application is synced, at the revision, and healthy."""
        found = self.applications()
        return bool(found) and all(
            item.get("status", {}).get("sync", {}).get("status") == "Synced"
            and item["status"].get("health", {}).get("status") == "Healthy"
            and (not revision or item["status"]["sync"].get("revision") == revision)
            for item in found.values()
        )

    def refresh(self) -> None:
        """Have every Application compared anew, without any cache, and wait until it was."""
        key = "argocd.argoproj.io/refresh"
        self.platform.kubectl("annotate", *APPLICATIONS, "--all", f"{key}=hard", "--overwrite")

        def done() -> bool:
            found = self.applications().values()
            return all(key not in item["metadata"].get("annotations", {}) for item in found)

        eventually("every application is compared anew", done)

    def syncs(self) -> dict[str, str]:
        """When each Application's last sync began."""
        return {
            name: item["status"]["operationState"]["startedAt"]
            for name, item in self.applications().items()
        }


@dataclass
class Asking:
    """Short questions, one after another, until the context ends; every answer counts."""

    url: str
    answers: list[str] = field(default_factory=list[str])
    _over: threading.Event = field(default_factory=threading.Event)

    def _ask(self) -> None:
        while not self._over.wait(0.3):
            try:
                self.answers.append(str(ask(self.url, "still there?").status_code))
            except httpx.HTTPError as error:
                self.answers.append(type(error).__name__)

    @contextmanager
    def on(self) -> Generator[list[str]]:
        """Ask while the context lasts."""
        thread = threading.Thread(target=self._ask, daemon=True)
        thread.start()
        try:
            yield self.answers
        finally:
            self._over.set()
            thread.join(120)


def edited(file: Path, change: Callable[[str], str]) -> None:
    """Change a file's text; a change that changes nothing fails the test."""
    before = file.read_text()
    after = change(before)
    assert after != before, file
    file.write_text(after)


def seconds(time: str) -> str:
    """A time of the API, which sorts as text."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time), time
    return time
