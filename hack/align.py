"""Give modules that two folders under `local/toolchain/go` compile one version, the newer one.

    .venv/bin/python -P hack/align.py

Go compiles a package once for all who want it in the same version beside the same others: with
this, Istio takes Kubernetes' libraries as Kueue's build has left them, which is minutes of a first
build. `versions update` moves one program alone; `tests/local/test_toolchain.py` says when this
has to follow.
"""

from __future__ import annotations

import re
from pathlib import Path

from local.toolchain.align import APART, TOGETHER
from local.toolchain.build import go_env
from local.toolchain.pins import HERE, pins
from local.toolchain.progress import run

_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)(-.*)?")


def _age(version: str) -> tuple[int, int, int, bool, str]:
    found = _VERSION.match(version)
    if found is None:
        raise SystemExit(f"{version} is no version of a module")
    return int(found[1]), int(found[2]), int(found[3]), found[4] is None, found[4] or ""


def _go(folder: Path, *arguments: str) -> str:
    done = run(["go", *arguments], cwd=folder, env=go_env(folder.name))
    if done.returncode:
        raise SystemExit(f"{folder}: go {' '.join(arguments[:2])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _compiled(folder: Path) -> dict[str, str]:
    """Modules whose packages the folder's programs are made of, with their versions."""
    programs = [p for p in pins().programs.values() if p.group == folder.name and p.package]
    form = "{{with .Module}}{{.Path}} {{.Version}}{{end}}"
    said = _go(folder, "list", "-e", "-deps", "-f", form, *(str(p.package) for p in programs))
    pairs = (line.split() for line in said.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _align(one: Path, other: Path) -> bool:
    """Raise what is older in one of the two; whether anything was."""
    here, there = _compiled(one), _compiled(other)
    shared = [m for m in sorted(here.keys() & there.keys()) if not m.startswith(APART)]
    moved = False
    for folder, mine in ((one, here), (other, there)):
        wanted = {m: max(here[m], there[m], key=_age) for m in shared}
        older = [f"{m}@{v}" for m, v in wanted.items() if mine[m] != v]
        if older:
            print(f"{folder.name}: {', '.join(older)}")
            _go(folder, "get", *older)
            _go(folder, "mod", "tidy")
            moved = True
    return moved


if __name__ == "__main__":
    for names in TOGETHER:
        first, second = (HERE / "go" / name for name in names)
        while _align(first, second):
            pass
