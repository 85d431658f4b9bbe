"""Wherever, whenever and by whomever an environment is rendered, the bytes are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from local.toolchain import cache_dir
from local.toolchain.build import go_env

pytestmark = [pytest.mark.helm, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
READ = ("src", "charts", "policies", "local", "stacks")
ENVIRONMENT = "staging"

MACHINES: Mapping[str, Mapping[str, str]] = {
    "one": {"TZ": "UTC", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "GOMAXPROCS": "1"},
    "another": {
        "TZ": "Pacific/Kiritimati", "LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "4242", "HELM_NAMESPACE": "elsewhere", "HELM_DEBUG": "true",
        "KUBECONFIG": "/nowhere", "COLUMNS": "20",
    },
    "a third": {"TZ": "America/St_Johns", "LC_ALL": "POSIX", "LANG": "C", "PYTHONUTF8": "0"},
}  # fmt: skip


def rendered(place: Path, changes: Mapping[str, str]) -> dict[str, bytes]:
    """Files of an environment by a copy of the repository, on a machine of its own."""
    clone, home = place / "a clone", place / "home"
    for name in READ:
        shutil.copytree(
            ROOT / name, clone / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for path in clone.rglob("*"):  # a checkout has no times of its own
        os.utime(path, (len(changes), len(changes)), follow_symlinks=False)
    (place / "cache").mkdir()
    (place / "cache" / "bin").symlink_to(cache_dir() / "bin")
    helm = {f"HELM_{what}_HOME": str(home / what) for what in ("CACHE", "CONFIG", "DATA")}
    modules = subprocess.run(
        ["go", "env", "GOMODCACHE"], env=go_env(), capture_output=True, text=True, check=True
    )
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": f"{clone / 'src'}:{clone}",
        "TOKENWORKS_CACHE": str(place / "cache"), "GOMODCACHE": modules.stdout.strip(), **helm,
        **changes,
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "tokenworks.cli", "render", ENVIRONMENT]
    done = subprocess.run(
        [*command, "--out", str(place / "out")],
        cwd=place,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = sorted((place / "out").rglob("*.yaml"))
    return {str(path.relative_to(place / "out")): path.read_bytes() for path in found}


def test_every_machine_writes_what_is_committed(renderer: Path, tmp_path: Path) -> None:
    assert renderer.is_relative_to(cache_dir())
    folder = ROOT / "rendered"
    committed = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / ENVIRONMENT).rglob("*.yaml"))
    }
    assert len(committed) > 10
    for name, changes in MACHINES.items():
        place = tmp_path / name
        place.mkdir()
        found = rendered(place, changes)
        assert found.keys() == committed.keys(), name
        assert [path for path in found if found[path] != committed[path]] == [], name
