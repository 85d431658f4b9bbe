"""The launcher: what it installs, when it does nothing, and how it heals.

Each test works in a clone of its own (a path with a space) whose locks name wheels made here,
so nothing is fetched and every run takes a second or two.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

# Says where it runs, what it was given and which of the wheels below can be imported.
CLI = """
import importlib.util, os, sys
wheels = [n for n in ("tw_base", "tw_pulumi", "tw_local", "tw_new") if importlib.util.find_spec(n)]
print(os.getcwd(), sys.argv[1:], wheels, os.environ["PYTHONPATH"], sep="|")
sys.exit(int(os.environ.get("EXIT", "0")))
"""


@dataclass(frozen=True)
class Clone:
    """A clone of the repository as far as the launcher sees it."""

    root: Path
    wheels: Path

    @property
    def launcher(self) -> Path:
        return self.root / "tokenworks"

    def lock(self, group: str, *names: str) -> None:
        """Write a lock naming wheels that are made here, hash-checked like the real ones."""
        lines = [f"{n.replace('_', '-')}==1.0 --hash=sha256:{self._wheel(n)}\n" for n in names]
        (self.root / "locks" / f"{group}.txt").write_text("".join(lines))

    def _wheel(self, name: str) -> str:
        path, info = self.wheels / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
        files = {
            f"{name}.py": "",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }
        with zipfile.ZipFile(path, "w") as wheel:
            for inside, text in files.items():
                wheel.writestr(zipfile.ZipInfo(inside), text)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def env(self, **more: str) -> dict[str, str]:
        pip = {"NO_INDEX": "1", "FIND_LINKS": str(self.wheels), "CONFIG_FILE": os.devnull}
        return {**os.environ, **{f"PIP_{k}": v for k, v in pip.items()}, **more}

    def run(
        self, *args: str, cwd: Path | None = None, program: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program or self.launcher), *args],
            cwd=cwd or self.root,
            env=self.env(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@dataclass(frozen=True)
class Said:
    """What the stand-in command line printed."""

    cwd: str
    argv: str
    wheels: str
    path: str


FirstRun = tuple[Clone, subprocess.CompletedProcess[str]]


def said(done: subprocess.CompletedProcess[str]) -> Said:
    assert done.returncode == 0, done.stderr
    return Said(*done.stdout.strip().split("|"))


def bare_clone(folder: Path) -> Clone:
    """A clone that never ran, under `folder`."""
    root = folder / "a clone"
    package = root / "src" / "tokenworks"
    (package / "cli").mkdir(parents=True)
    (root / "locks").mkdir()
    (folder / "wheels").mkdir()
    shutil.copy2(ROOT / "tokenworks", root / "tokenworks")
    shutil.copy2(ROOT / "src" / "tokenworks" / "bootstrap.py", package)
    (package / "__init__.py").touch()
    (package / "cli" / "__init__.py").touch()
    (package / "cli" / "__main__.py").write_text(CLI)
    clone = Clone(root, folder / "wheels")
    clone.lock("base", "tw_base")
    clone.lock("pulumi", "tw_base", "tw_pulumi")
    clone.lock("local", "tw_base", "tw_local")
    clone.lock("dev", "tw_base", "tw_pulumi", "tw_local")
    return clone


@pytest.fixture(scope="module")
def first(
    tmp_path_factory: pytest.TempPathFactory,
) -> FirstRun:
    """A clone and its first run; making an environment is slow, so the tests copy this one."""
    clone = bare_clone(tmp_path_factory.mktemp("first"))
    return clone, clone.run("check", "a file.yaml")


@pytest.fixture
def clone(first: FirstRun, tmp_path: Path) -> Clone:
    """A clone that ran once: group `base` is installed."""
    made = first[0]
    shutil.copytree(made.root, tmp_path / "a clone", symlinks=True)
    return Clone(tmp_path / "a clone", made.wheels)


@pytest.fixture
def stubbed(tmp_path: Path) -> Clone:
    """A clone that never ran, whose bootstrap only says which groups it was asked for."""
    clone = bare_clone(tmp_path)
    bootstrap = clone.root / "src" / "tokenworks" / "bootstrap.py"
    bootstrap.write_text("import sys; print(*sys.argv[1:], file=sys.stderr)")
    python = clone.root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return clone


def test_first_run_makes_the_environment_and_says_so(
    first: FirstRun,
) -> None:
    assert said(first[1]).argv == "['check', 'a file.yaml']"
    assert said(first[1]).wheels == "['tw_base']"
    assert "locks/base.txt" in first[1].stderr


def test_second_run_is_silent(clone: Clone) -> None:
    assert clone.run("check").stderr == ""


@pytest.mark.parametrize(
    ("args", "groups"),
    [
        (["doctor"], "base"),
        (["new", "model", "up"], "base"),
        (["--verbose", "check"], "base"),
        (["local", "up"], "base local"),
        (["--verbose", "local", "up"], "base local"),
        (["chat", "local"], "base local"),
        (["picks", "local"], "base local"),
        (["preview", "dev"], "base pulumi local"),
        (["up", "local"], "base pulumi local"),
        (["down", "local"], "base pulumi local"),
        (["env", "local"], "base pulumi local"),
        (["up", "--help"], "base"),
        ([], "base"),
        (["venv"], "base"),
        (["venv", "dev", "simulator"], "dev simulator"),
    ],
)
def test_a_command_asks_only_for_the_packages_it_needs(
    stubbed: Clone, args: Sequence[str], groups: str
) -> None:
    assert stubbed.run(*args).stderr.strip() == groups


def test_a_further_group_is_added_to_the_same_environment(clone: Clone) -> None:
    kept = clone.root / ".venv" / "kept"
    kept.touch()
    assert said(clone.run("local", "status")).wheels == "['tw_base', 'tw_local']"
    assert kept.exists()


def test_dev_serves_every_command(clone: Clone) -> None:
    assert clone.run("venv", "dev").returncode == 0
    done = clone.run("up", "local")
    assert done.stderr == ""
    assert said(done).wheels == "['tw_base', 'tw_pulumi', 'tw_local']"


def test_a_changed_lock_is_installed(clone: Clone) -> None:
    clone.lock("base", "tw_base", "tw_new")
    assert said(clone.run("check")).wheels == "['tw_base', 'tw_new']"


def test_exit_code_is_the_commands(clone: Clone) -> None:
    assert clone.run("check", EXIT="2").returncode == 2


def test_the_users_folder_stays_and_is_not_searched_for_modules(
    clone: Clone, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "else where"
    (elsewhere / "tokenworks").mkdir(parents=True)
    (elsewhere / "tokenworks" / "__init__.py").write_text("raise SystemExit('wrong package')")
    result = said(clone.run("check", cwd=elsewhere, PYTHONPATH=str(elsewhere)))
    assert result.cwd == str(elsewhere)
    assert result.path == f"{clone.root}/src:{clone.root}"


def test_runs_in_the_clone_when_the_current_directory_is_gone(clone: Clone, tmp_path: Path) -> None:
    script = 'mkdir "$1" && cd "$1" && rmdir "$1" && exec "$2" check'
    command = ["sh", "-c", script, "sh", str(tmp_path / "gone"), str(clone.launcher)]
    done = subprocess.run(command, env=clone.env(), capture_output=True, text=True, check=False)
    assert said(done).cwd == str(clone.root)
    assert "the current directory is gone" in done.stderr


def test_runs_through_a_symbolic_link(clone: Clone, tmp_path: Path) -> None:
    link = tmp_path / "tw"
    link.symlink_to(clone.launcher)
    assert said(clone.run("check", program=link)).wheels == "['tw_base']"


def test_an_interrupted_installation_is_started_over(clone: Clone) -> None:
    (clone.root / ".venv" / ".tokenworks" / "installing").touch()
    (clone.root / ".venv" / "half-written").touch()
    assert said(clone.run("check")).wheels == "['tw_base']"
    assert not (clone.root / ".venv" / "half-written").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(clone: Clone) -> None:
    python = clone.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert said(clone.run("check")).wheels == "['tw_base']"


def test_a_wheel_with_another_hash_is_refused(clone: Clone) -> None:
    lock = clone.root / "locks" / "base.txt"
    lock.write_text(f"tw-new==1.0 --hash=sha256:{'0' * 64}\n")
    clone.lock("made-only", "tw_new")
    done = clone.run("check")
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert "tokenworks: pip could not install" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_group_is_an_error_that_names_the_known_ones(clone: Clone) -> None:
    done = clone.run("venv", "nonsense")
    assert done.returncode == 2
    assert "nonsense (known: base, dev, local, pulumi)" in done.stderr


def test_without_a_python_it_says_what_to_install(stubbed: Clone, tmp_path: Path) -> None:
    done = stubbed.run("check", PATH=str(_old_python(tmp_path)))
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "apt-get install python3" in done.stderr


def test_a_later_name_is_found_when_python3_is_too_old(stubbed: Clone, tmp_path: Path) -> None:
    tools = _old_python(tmp_path)
    (tools / "python3.11").symlink_to(sys.executable)
    assert stubbed.run("check", PATH=str(tools)).stderr.strip() == "base"


def test_works_in_a_read_only_clone_once_ready(clone: Clone) -> None:
    before = _snapshot(clone.root)
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$1/tokenworks" check'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(clone.root)],
        env=clone.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert said(done).wheels == "['tw_base']"
    assert _snapshot(clone.root) == before


def test_two_runs_at_once_wait_for_each_other(clone: Clone) -> None:
    holder = os.open(clone.root / "locks", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    second = subprocess.Popen(
        [str(clone.launcher), "local"],
        env=clone.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert second.stderr is not None
    assert "another run is preparing .venv" in second.stderr.readline()
    assert not (clone.root / ".venv" / ".tokenworks" / "local.txt").exists()
    os.close(holder)
    out, err = second.communicate()
    assert second.returncode == 0, err
    assert "tw_local" in out


def test_after_an_interrupt_the_next_run_succeeds(clone: Clone) -> None:
    # pip waits for an answer that never comes: a named pipe as a part of the lock.
    lock, pipe = clone.root / "locks" / "pulumi.txt", clone.root / "locks" / "pipe.txt"
    text = lock.read_text()
    os.mkfifo(pipe)
    lock.write_text(f"-r pipe.txt\n{text}")
    run = subprocess.Popen(
        [str(clone.launcher), "venv", "pulumi"],
        env=clone.env(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with pipe.open("w"):  # opens once pip reads it
        os.killpg(run.pid, signal.SIGINT)
        _, err = run.communicate()
    assert run.returncode in (130, -signal.SIGINT)
    assert "tokenworks: interrupted; the next run starts" in err
    lock.write_text(text)
    assert clone.run("venv", "pulumi").returncode == 0


def _old_python(folder: Path) -> Path:
    """A folder for PATH where `python3` is too old and there is little else."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("dirname", "readlink", "cmp"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tools / "python3").chmod(0o755)
    return tools


def _snapshot(folder: Path) -> dict[str, int]:
    return {str(p): p.lstat().st_mtime_ns for p in sorted(folder.rglob("*"))}
