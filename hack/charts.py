"""Charts as they are released: versions that rise, packages, and a registry that gets them.

    hack/charts.py check --base REF         a chart that changed since REF has a higher version
    hack/charts.py package FOLDER           FOLDER/<chart>-<version>.tgz of every chart
    hack/charts.py release FOLDER oci://HOST/PATH [--sign] [--plain-http]
                                            push those; print what each became, with its digest

A registry that asks for a login gets REGISTRY_USER and REGISTRY_TOKEN, where they are set, else
what `docker login` or `helm registry login` left. `--sign` gives each digest to `cosign sign`,
which takes its identity from where it runs.

`check` is chart-testing's rule, and more: the library is a link in the other charts, so that they
change when it does.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_PUSHED = re.compile(r"^Pushed: (\S+)$", re.MULTILINE)
_DIGEST = re.compile(r"^Digest: (sha256:[0-9a-f]{64})$", re.MULTILINE)


class ChartsError(Exception):
    """What is wrong, and what to do."""


def names(root: Path) -> list[str]:
    """Folders of charts, the library too."""
    return sorted(path.parent.name for path in (root / "charts").glob("*/Chart.yaml"))


def _chart(text: str) -> dict[str, Any]:
    return yaml.safe_load(text)


def _here(root: Path, name: str) -> dict[str, Any]:
    return _chart((root / "charts" / name / "Chart.yaml").read_text(encoding="utf-8"))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ChartsError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def changed(root: Path, base: str) -> set[str]:
    """Charts of which a file differs from the commit, or whose library does."""
    since = _git(root, "merge-base", base, "HEAD").strip()
    files = _git(root, "diff", "--name-only", since, "--", "charts").splitlines()
    files += _git(root, "ls-files", "--others", "--exclude-standard", "--", "charts").splitlines()
    found = {file.split("/")[1] for file in files if file.count("/") > 1}
    return found | {name for name in names(root) if found.intersection(_uses(root, name))}


def _uses(root: Path, name: str) -> list[str]:
    dependencies: list[dict[str, Any]] = _here(root, name).get("dependencies", [])
    return [str(dependency["name"]) for dependency in dependencies]


def unraised(root: Path, base: str) -> Iterator[str]:
    """Charts that changed without a higher version, in words."""
    since = _git(root, "merge-base", base, "HEAD").strip()
    there = _git(root, "ls-tree", "-r", "--name-only", since, "--", "charts").splitlines()
    for name in sorted(changed(root, base).intersection(names(root))):
        file = f"charts/{name}/Chart.yaml"
        if file not in there:
            continue  # new
        before = str(_chart(_git(root, "show", f"{since}:{file}"))["version"])
        now = str(_here(root, name)["version"])
        if _number(now, file) <= _number(before, file):
            yield (
                f"{file}: version: {now}, and {base} has {before}, but the chart or its library "
                "changed; raise it (the major number if values of users break)"
            )


def unfit(root: Path) -> Iterator[str]:
    """Charts that name another version of the library than it has, in words."""
    versions = {name: str(_here(root, name)["version"]) for name in names(root)}
    for name in versions:
        for dependency in _here(root, name).get("dependencies", []):
            wanted = versions.get(dependency["name"])
            if wanted and str(dependency["version"]) != wanted:
                yield (
                    f"charts/{name}/Chart.yaml: dependencies: {dependency['name']} "
                    f"{dependency['version']}, which is {wanted} here; write that"
                )


def _number(version: str, file: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ChartsError(f"{file}: version: {version} is not MAJOR.MINOR.PATCH")
    return tuple(int(part) for part in match.groups())


def package(root: Path, helm: Path, folder: Path) -> list[Path]:
    """Archives of every chart that installs something.

    Raises:
        ChartsError: Helm refuses one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for name in names(root):
        chart = _here(root, name)
        if chart["type"] == "library":
            continue
        _helm(helm, "package", str(root / "charts" / name), "--destination", str(folder))
        made.append(folder / f"{chart['name']}-{chart['version']}.tgz")
    return made


@dataclass(frozen=True)
class Registry:
    """Where charts go, and how it is reached."""

    helm: Path
    to: str
    options: tuple[str, ...] = ()
    login: Path | None = None
    """A folder with Docker's `config.json`, of this run alone; None: the user's own."""

    def push(self, archive: Path) -> str:
        """`HOST/PATH/NAME@digest` of a pushed chart, which is what gets signed.

        Raises:
            ChartsError: Helm or the registry refuses it.
        """
        said = _helm(self.helm, "push", str(archive), self.to, *self.options, *self._config())
        pushed, digest = _PUSHED.search(said), _DIGEST.search(said)
        if pushed is None or digest is None:
            raise ChartsError(f"helm push {archive.name}: no digest in what it said: {said!r}")
        return f"{pushed[1].rpartition(':')[0]}@{digest[1]}"

    def log_in(self, user: str, token: str) -> None:
        """Log in, for this run.

        Raises:
            ChartsError: the registry refuses.
        """
        host = self.to.removeprefix("oci://").partition("/")[0]
        words = ["registry", "login", host, "--username", user, "--password-stdin"]
        _helm(self.helm, *words, *self.options, *self._config(), said=token)

    def sign(self, pushed: str) -> None:
        """Sign a pushed chart by its digest.

        Raises:
            ChartsError: cosign is missing, or refuses.
        """
        cosign = shutil.which("cosign")
        if cosign is None:
            raise ChartsError("cosign is not on PATH; install it, or leave out --sign")
        env = {**os.environ, **({"DOCKER_CONFIG": str(self.login)} if self.login else {})}
        done = subprocess.run(
            [cosign, "sign", "--yes", pushed],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ChartsError(f"cosign sign {pushed}: {done.stderr.strip()}")

    def _config(self) -> list[str]:
        return ["--registry-config", str(self.login / "config.json")] if self.login else []


def _helm(helm: Path, *arguments: str, said: str | None = None) -> str:
    done = subprocess.run(
        [helm, *arguments],
        input=said or "",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ChartsError(f"helm {arguments[0]} {arguments[1]}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def release(registry: Registry, archives: Sequence[Path], *, sign: bool) -> Iterator[str]:
    """Push each, and sign it.

    Raises:
        ChartsError: something refuses; what was pushed before stays, and is pushed again unchanged.
    """
    user, token = (os.environ.get(name, "") for name in ("REGISTRY_USER", "REGISTRY_TOKEN"))
    with tempfile.TemporaryDirectory(prefix="tokenworks-login-") as folder:
        if user and token:
            registry = replace(registry, login=Path(folder))
            registry.log_in(user, token)
        for archive in archives:
            pushed = registry.push(archive)
            if sign:
                registry.sign(pushed)
            yield pushed


def _built() -> Path:
    from local.toolchain import ensure  # noqa: PLC0415 - `check` needs no program

    return ensure("helm")["helm"]


def _run(options: argparse.Namespace) -> int:
    if options.command == "check":
        problems = [*unraised(ROOT, options.base), *unfit(ROOT)]
        print("\n".join(problems) or "every chart that changed has a higher version")
        return 1 if problems else 0
    if options.command == "package":
        print("\n".join(str(path) for path in package(ROOT, _built(), options.folder)))
        return 0
    archives = sorted(options.folder.glob("*.tgz"))
    if not archives:
        raise ChartsError(f"{options.folder} has no archives; run hack/charts.py package first")
    flags = ("--plain-http",) if options.plain_http else ()
    for line in release(Registry(_built(), options.to, flags), archives, sign=options.sign):
        print(line, flush=True)
    return 0


def main(arguments: list[str]) -> int:
    """0: fine. 1: a chart has to be raised, or something refused. 2: wrong use."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="versions rise with changes")
    checking.add_argument("--base", required=True, metavar="REF", help="such as origin/main")
    packing = commands.add_parser("package", help="make archives")
    packing.add_argument("folder", type=Path)
    pushing = commands.add_parser("release", help="push archives to a registry")
    pushing.add_argument("folder", type=Path)
    pushing.add_argument("to", metavar="oci://HOST/PATH")
    pushing.add_argument("--sign", action="store_true", help="sign each with cosign")
    pushing.add_argument("--plain-http", action="store_true", help="without TLS")
    try:
        return _run(parser.parse_args(arguments))
    except ChartsError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
