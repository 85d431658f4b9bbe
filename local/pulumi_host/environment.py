"""The Python environment a program or policy pack runs in, and what is installed there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

_SITE_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


class InterpreterError(Exception):
    """The environment cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Plugin:
    """A Pulumi plugin that an installed package needs."""

    name: str
    version: str
    server: str


@dataclass(frozen=True)
class PythonEnvironment:
    """One interpreter and its packages."""

    python: Path
    virtualenv: Path | None

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with the virtual environment activated."""
        if self.virtualenv is None:
            return dict(base)
        path = f"{self.virtualenv / 'bin'}{os.pathsep}{base.get('PATH', '')}"
        activated = {**base, "PATH": path, "VIRTUAL_ENV": str(self.virtualenv)}
        activated.pop("PYTHONHOME", None)
        return activated

    def site_packages(self) -> Path:
        """Folder of the installed packages."""
        if self.python == Path(sys.executable):
            import sysconfig  # noqa: PLC0415 - only this branch needs it

            return Path(sysconfig.get_path("purelib"))
        command = [str(self.python), "-I", "-c", _SITE_PACKAGES]
        return Path(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        )

    def version(self) -> str:
        """Version of the interpreter, such as 3.11.7."""
        command = [
            str(self.python),
            "-I",
            "-c",
            "import platform; print(platform.python_version())",
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def plugins(self) -> Iterator[Plugin]:
        """Resource plugins that installed packages declare in their `pulumi-plugin.json`."""
        for file in sorted(self.site_packages().glob("*/pulumi-plugin.json")):
            declared = json.loads(file.read_text(encoding="utf-8"))
            if declared.get("resource") and declared.get("name") and declared.get("version"):
                yield Plugin(declared["name"], declared["version"], declared.get("server", ""))

    def packages(self, transitive: bool) -> list[tuple[str, str]]:
        """Name and version of what is installed; without `transitive`, only what nothing needs."""
        installed = list(distributions(path=[str(self.site_packages())]))
        needed = set[str]() if transitive else {n for d in installed for n in _requirements(d)}
        return sorted((d.name, d.version) for d in installed if _canonical(d.name) not in needed)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements(distribution: Distribution) -> Iterator[str]:
    for line in distribution.requires or []:
        match = re.match(r"[A-Za-z0-9][\w.-]*", line)
        if match and "extra ==" not in line:
            yield _canonical(match[0])


def environment_of(options: Mapping[str, object], root: Path) -> PythonEnvironment:
    """The environment that `runtime.options` of Pulumi.yaml or PulumiPolicy.yaml names.

    Raises:
        InterpreterError: an option this host does not know, or no interpreter.
    """
    unknown = sorted(set(options) - {"virtualenv", "toolchain"})
    if unknown or options.get("toolchain", "pip") != "pip":
        raise InterpreterError(
            f"runtime options in {root}: found {', '.join(unknown) or options.get('toolchain')}; "
            "this language host knows virtualenv, and toolchain pip. Remove the option, or put "
            "the official pulumi-language-python on PATH."
        )
    if name := options.get("virtualenv"):
        virtualenv = (root / str(name)).resolve()
        python = virtualenv / "bin" / "python"
        if not python.is_file():
            raise InterpreterError(
                f"no virtual environment at {virtualenv}: make it with `./tokenworks venv pulumi`"
            )
        return PythonEnvironment(python, virtualenv)
    command = os.environ.get("PULUMI_PYTHON_CMD")
    found = shutil.which(command) if command else shutil.which("python3") or shutil.which("python")
    if found is None:
        raise InterpreterError(f"{command or 'python3'} is not on PATH")
    return PythonEnvironment(Path(found), None)
