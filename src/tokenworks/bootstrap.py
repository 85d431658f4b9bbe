"""Make `.venv` from the lock files. Runs before anything is installed: standard library only.

The environment is whole or rebuilt. A group counts as installed when a copy of its lock lies
in `.venv/.tokenworks/`; while pip works a file `installing` lies there, so a run that was
interrupted is found by the next one, which starts over (pip's own cache makes that cheap).
Two runs at once wait for each other on a lock of the `locks/` folder itself: it works in a
read-only clone and leaves no file behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class BootstrapError(Exception):
    """The environment cannot be made; the message says why and what cures it."""

    exit_code = 1


class UnknownGroupError(BootstrapError):
    """A group of packages that is not there: wrong usage."""

    exit_code = 2


def say(line: str) -> None:
    """One line of progress, on standard error."""
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def only_run(folder: Path) -> Generator[None]:
    """Hold the lock of `folder`; say so when another run holds it, and wait."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  … another run is preparing .venv; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class Venv:
    """The virtual environment of one clone."""

    def __init__(self, root: Path) -> None:
        """`root` holds `locks/` and gets `.venv`."""
        self.path = root / ".venv"
        self.python = self.path / "bin" / "python"
        self.locks = root / "locks"
        self.markers = self.path / ".tokenworks"
        self.installing = self.markers / "installing"

    def is_fresh(self, group: str) -> bool:
        """Whether the group's present lock is what was installed; `dev` holds every group."""
        return any(self._is_installed(name) for name in (group, "dev"))

    def _is_installed(self, group: str) -> bool:
        marker = self.markers / f"{group}.txt"
        lock = self.locks / f"{group}.txt"
        return marker.is_file() and marker.read_bytes() == lock.read_bytes()

    def is_usable(self) -> bool:
        """Whether it was made by us, is whole, and its Python is still there."""
        whole = self.markers.is_dir() and not self.installing.exists()
        return whole and self._runs("-m", "pip", "-V")

    def create(self) -> None:
        """Make it anew, with the Python that runs this."""
        need_ensurepip()
        if self.path.exists():
            shutil.rmtree(self.path)
        # The resolved path: when the system's Python is replaced, ours is gone and we see it.
        base = Path(sys.executable).resolve()
        done = subprocess.run([str(base), "-m", "venv", str(self.path)], check=False)
        if done.returncode != 0:
            raise BootstrapError(f"`{base} -m venv {self.path}` failed; its message is above")
        self.markers.mkdir()

    def install(self, group: str) -> None:
        """Install one lock: hashes required; wheels only, so installing runs no foreign code."""
        lock = self.locks / f"{group}.txt"
        self.installing.touch()
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--require-hashes"]
        # Compiling every module takes longer than installing them; Python compiles what it imports.
        options = ["--only-binary", ":all:", "--no-deps", "--no-compile"]
        options += ["--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, *options, "--root-user-action", "ignore", "-r", str(lock)],
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            raise BootstrapError(
                f"pip could not install {lock}; its message is above. "
                "Check the network or pip's index settings (pip config list), then run it again"
            )
        shutil.copyfile(lock, self.markers / f"{group}.txt")
        self.installing.unlink()

    def _runs(self, *args: str) -> bool:
        try:
            done = subprocess.run([str(self.python), *args], capture_output=True, check=False)
        except OSError:
            return False
        return done.returncode == 0


def need_ensurepip() -> None:
    """Debian ships Python without the part that makes environments: install it or say how."""
    if _has_ensurepip():
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", package]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BootstrapError(
            f"{sys.executable} cannot make virtual environments (ensurepip is missing). "
            f"Debian or Ubuntu: sudo apt-get install {package}"
        )
    say(f"  → {' '.join(command)} (this Python cannot make virtual environments without it)")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for attempt in (command, ["apt-get", "update", "-q"], command):
        done = subprocess.run(
            attempt, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        )
        if attempt is command and done.returncode == 0:
            return
    raise BootstrapError(f"`{' '.join(command)}` failed; its message is above")


def _has_ensurepip() -> bool:
    probe = [sys.executable, "-I", "-c", "import ensurepip, venv"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def prepare(groups: Sequence[str], root: Path = ROOT) -> None:
    """Make `.venv` hold every group, doing only what is missing.

    Raises BootstrapError with the remedy when that cannot be done.
    """
    venv = Venv(root)
    if unknown := [g for g in groups if not (venv.locks / f"{g}.txt").is_file()]:
        known = ", ".join(sorted(p.stem for p in venv.locks.glob("*.txt")))
        raise UnknownGroupError(f"no such group of packages: {', '.join(unknown)} (known: {known})")
    with only_run(venv.locks):
        start = time.monotonic()
        if not venv.is_usable():
            say(f"  → Python environment {venv.path} (Python {sys.version.split()[0]})")
            venv.create()
        for group in dict.fromkeys(groups):
            if not venv.is_fresh(group):
                count = (venv.locks / f"{group}.txt").read_text().count("==")
                say(f"  → Python packages for {group}: {count} from locks/{group}.txt")
                venv.install(group)
        say(f"  ✓ Python environment ready ({time.monotonic() - start:.0f} s)")


def main() -> int:
    """Prepare the groups named on the command line; 0 fine, 1 failed, 2 no such group,
    130 interrupted."""
    try:
        prepare(sys.argv[1:] or ["base"])
    except BootstrapError as error:
        say(f"tokenworks: {error}")
        return error.exit_code
    except OSError as error:  # no permission, no space, a folder that only can be read
        where = f"{error.filename}: " if error.filename else ""
        say(f"tokenworks: the Python environment cannot be made: {where}{error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        say("tokenworks: interrupted; the next run starts the Python environment over")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
