"""The platform under test: a copy of the tree, the command line in it, and ways to look."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from local.cluster.spec import paths
from tests.docs.guide import copy_tree

# One a run: two test runs at once must not take each other's cluster down.
STATE = os.environ["TOKENWORKS_TESTS_STATE"]
NAMESPACE = "research"
MODEL = "qwen3-sim"


T = TypeVar("T")


def eventually(what: str, probe: Callable[[], T | None], seconds: float = 120.0) -> T:
    """What `probe` returns once it is truthy; a failed look counts as not yet.

    Raises:
        AssertionError: not within `seconds`, a bound that no healthy run comes near.
    """
    deadline, last = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            if found := probe():
                return found
        except (AssertionError, httpx.HTTPError, subprocess.SubprocessError, ValueError) as error:
            last = f": {error}"
        time.sleep(0.3)
    raise AssertionError(f"not within {seconds:.0f} s: {what}{last}")


def throughout(what: str, probe: Callable[[], bool], seconds: float) -> None:
    """Looks again and again for so long, and expects `probe` to hold each time.

    Raises:
        AssertionError: it did not once.
    """
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        assert probe(), f"not after {passed:.0f} s: {what}"
        time.sleep(5)


@dataclass(frozen=True)
class Platform:
    """The local environment, brought up from a copy of the tree."""

    tree: Path
    first_up: str
    """What the first `up` printed."""

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`./tokenworks …` in the copy, both outputs in one."""
        result = subprocess.run(
            ["./tokenworks", *arguments],
            cwd=self.tree,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert not check or result.returncode == 0, result.stdout
        return result

    def kubectl(self, *arguments: str) -> str:
        """kubectl on the cluster; fails the test when it fails."""
        return self.run("local", "kubectl", *arguments).stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get … -o json`."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def pods(self, selector: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """Pods that are not on their way out."""
        found = self.get("pods", "-n", namespace, "-l", selector)["items"]
        return [p for p in found if "deletionTimestamp" not in p["metadata"]]

    def url(self) -> str:
        """The gateway's address on this machine."""
        code = (
            "from tokenworks.cli.context import load\n"
            "from tokenworks.cli.endpoint import gateway_url\n"
            "with gateway_url(load('local')) as url: print(url)"
        )
        python = self.tree / ".venv" / "bin" / "python"
        environment = {**os.environ, "PYTHONPATH": f"{self.tree / 'src'}:{self.tree}"}
        result = subprocess.run(
            [python, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        return result.stdout.strip()

    def component(self, name: str) -> tuple[int, int]:
        """Pid and restarts of a component of the cluster."""
        row = re.search(
            rf"^{name}\s+(\d+)\s+ready\s+(\d+)", self.run("local", "status").stdout, re.MULTILINE
        )
        assert row, f"{name} is not ready"
        return int(row[1]), int(row[2])


def ask(
    url: str, prompt: str, model: str = MODEL, max_tokens: int = 4, seed: str = ""
) -> httpx.Response:
    """One chat completion, not streamed."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"{seed}{prompt}"}],
        "max_tokens": max_tokens,
    }
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)


def answered(url: str) -> bool:
    """Whether a completion comes back now."""
    return ask(url, "hello").status_code == 200


def bring_up(folder: Path) -> Platform:
    """Copy the tree and bring the local environment up from it."""
    tree = copy_tree(folder)
    first = Platform(tree, "").run("up", "local")
    return Platform(tree, first.stdout)


def _ours() -> Iterator[str]:
    """Processes of this run's clusters and pods: told by state folder or cgroup, so that a
    cluster that somebody else starts meanwhile is not taken for a leftover."""
    tag = paths("local").tag
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            group = (folder / "cgroup").read_text()
        except OSError:
            continue
        if f"{STATE}/" in words or f"/{tag}" in group:
            yield words


def snapshot() -> dict[str, set[str]]:
    """What a cluster could leave on the machine, outside its own folder."""

    def lines(*command: str) -> set[str]:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return {line.strip() for line in result.stdout.splitlines() if line.strip()}

    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    watched = (
        "/run/netns", "/run/containerd", "/var/lib/kubelet", "/var/lib/cni", "/var/log/containers",
        "/var/log/pods", "/opt/cni", "/etc/cni",
    )  # fmt: skip
    found = {str(p) for top in watched for p in (Path(top), *Path(top).rglob("*")) if p.exists()}
    groups = {str(p) for p in Path("/sys/fs/cgroup").glob("**/*tokenworks*")}
    return {
        "mounts": {m.split()[4] for m in mounts},
        "links": {re.sub(r"^\d+: ", "", x) for x in lines("ip", "-brief", "link")},
        "routes": lines("ip", "route"),
        "tables": lines("nft", "list", "tables"),
        "namespaces": lines("ip", "netns"),
        "files": found,
        "cgroups": groups,
        "processes": set(_ours()),
    }
