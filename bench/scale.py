"""A thousand releases in five environments, rendered from nothing and after a change."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from bench.helm import helm_commands, helmfile_command
from bench.measure import ROUNDS, Row, Run, run, timed
from bench.repository import ENVIRONMENTS, generate, one_change
from local.toolchain import cache_dir
from tokenworks import render as rendering
from tokenworks.cli.context import render_tools, root
from tokenworks.render.charts import Renderer, Request
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Manifest

RELEASES = 1000
FEWER = 250
SAMPLE = 60
"""Charts that the loop renders; its time is that of as many, times what there are more."""


@dataclass(frozen=True)
class Place:
    """A generated repository, and what was kept of it."""

    root: Path
    cache: Path

    def environ(self) -> Mapping[str, str]:
        """For a command line that belongs to it. What Python compiled is kept, as for anyone."""
        own = {
            "PYTHONPATH": f"{self.root / 'src'}:{self.root}",
            "PYTHONPYCACHEPREFIX": str(self.root / "compiled"),
            "TOKENWORKS_CACHE": str(self.cache),
        }
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, **own}

    def command(self, *arguments: str) -> Run:
        """A command line of ours in it."""
        command = [sys.executable, "-P", "-m", "tokenworks.cli", *arguments]
        return run(command, self.environ())

    def render(self) -> Run:
        """Every environment."""
        return self.command("render", *ENVIRONMENTS)

    def cold(self) -> Run:
        """The same with nothing kept and nothing rendered."""
        with tempfile.TemporaryDirectory() as folder:
            cache = _cache(Path(folder))
            out = str(Path(folder) / "out")
            return replace(self, cache=cache).command("render", *ENVIRONMENTS, "--out", out)


def _cache(folder: Path) -> Path:
    """A cache with the programs that are there, and nothing else."""
    (folder / "bin").symlink_to(cache_dir() / "bin")
    return folder


@contextmanager
def place(releases: int) -> Iterator[Place]:
    """A repository of so many releases."""
    with tempfile.TemporaryDirectory(prefix="tokenworks-bench-") as folder:
        made, cache = Path(folder) / "repository", Path(folder) / "cache"
        made.mkdir()
        cache.mkdir()
        generate(made, releases, root())
        here = Place(made, _cache(cache))
        here.command("--help")  # compiles what is imported
        yield here


def _sample(made: Path) -> list[Request]:
    """Charts of releases, evenly over the repository."""
    seen: list[Request] = []
    real = Renderer.objects

    def note(self: Renderer, request: Request) -> tuple[Manifest, ...]:
        seen.append(request)
        return real(self, request)

    stack = load_stack(made, ENVIRONMENTS[0])
    fewer = replace(stack, models=stack.models[:: max(1, len(stack.models) // SAMPLE)])
    with mock.patch.object(Renderer, "objects", note):
        rendering.render(fewer, replace(render_tools(), kept=None))
    return [request for request in seen if request.chart.name == "model"][:SAMPLE]


def _loop(made: Path) -> float:
    """Seconds of one `helm template` after another, for the sample."""
    with tempfile.TemporaryDirectory() as folder:
        commands = helm_commands(_sample(made), Path(folder))

        def one_after_another() -> None:
            for command in commands:
                subprocess.run(command, capture_output=True, check=True)

        return timed(one_after_another) / len(commands)


def _helmfile(made: Path) -> float:
    """Seconds of each release where `helmfile template` renders the sample at once."""
    sample = _sample(made)
    with tempfile.TemporaryDirectory() as folder:
        command = helmfile_command(sample, Path(folder))
        own = {**os.environ, "HOME": folder}
        whole = timed(lambda: subprocess.run(command, env=own, capture_output=True, check=True))
        return whole / len(sample)


def _again(here: Place) -> tuple[float, float]:
    """Medians: after a change of one file, and after none."""
    changed: list[float] = []
    same: list[float] = []
    for turn in range(ROUNDS + 1):
        one_change(here.root, turn)
        changed.append(here.render().seconds)
        same.append(here.render().seconds)
    return statistics.median(changed[1:]), statistics.median(same[1:])


def _git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def _reviewed(here: Place) -> tuple[float, float]:
    """Seconds of `pr` for a change of one file: where the base is not known yet, and the median of
    those after it."""
    for link in [path for path in here.root.iterdir() if path.is_symlink()]:
        whole = link.resolve()
        link.unlink()
        shutil.copytree(whole, link, ignore=shutil.ignore_patterns("__pycache__"))
    (here.root / ".gitignore").write_text("/compiled/\n/rendered/\n__pycache__/\n")
    _git(here.root, "init", "--quiet")
    _git(here.root, "add", "--all")
    _git(here.root, "commit", "--quiet", "--message", "everything")
    taken: list[float] = []
    for turn in range(ROUNDS):
        one_change(here.root, 1000 + turn)
        taken.append(here.command("pr", "--base", "HEAD").seconds)
    return taken[0], statistics.median(taken[1:])


def measure() -> list[Row]:
    """Rows of the large repository; the smaller one is rendered beside it."""
    environment = ENVIRONMENTS[0]
    with place(RELEASES) as large, place(FEWER) as small:
        loops = [_loop(large.root)]
        cold, fewer = large.cold(), small.cold()
        loops.append(_loop(large.root))
        helmfile = _helmfile(large.root) * RELEASES
        large.render()
        changed, same = _again(large)
        check = large.command("check", environment)
        first, later = _reviewed(large)
    loop = statistics.mean(loops) * RELEASES
    what = f"{RELEASES} releases in {len(ENVIRONMENTS)} environments"
    scaled = f"helm template, {SAMPLE} in a loop, scaled"
    return [
        Row(f"render {what}, nothing kept", cold.seconds, scaled, loop, "at most 0.2 times"),
        Row("  the same, nothing kept", cold.seconds,
            f"helmfile template, {SAMPLE} at once, scaled", helmfile),
        Row("  the same, after a change of one file", changed, scaled, loop, "under 1.5 s"),
        Row("  the same, after none", same, scaled, loop),
        Row("  the same, nothing kept", cold.seconds, f"{FEWER} releases", fewer.seconds,
            f"at most {RELEASES / FEWER * 1.1:.1f} times"),
        Row("  its memory, all programs", cold.peak / 2**20, f"{FEWER} releases",
            fewer.peak / 2**20, "under 1024 MiB", unit="MiB"),
        Row(f"check one of the environments, {RELEASES // len(ENVIRONMENTS)} releases",
            check.seconds),
        Row("pr, a change of one file, its base not seen before", first),
        Row("  the same, another change", later),
    ]  # fmt: skip
