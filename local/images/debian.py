"""Files of the distribution's packages, taken through apt without installing anything.

apt itself resolves what a package needs, against an empty system, so that the result
does not depend on what this machine has installed and no list of libraries is kept here.
What was resolved is written down in the cache and used until the distribution withdraws
one of those versions: an image is not rebuilt because a package list was refreshed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import posixpath
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from local.images.table import Debian
from local.images.tree import Entry, Tree
from local.toolchain.progress import Progress, run, step
from tokenworks.errors import TokenworksError

# The sandbox user cannot write where downloads go; locks are for those who install.
_APT = ("apt-get", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1")
_URI = re.compile(r"^'[^']+' (?P<name>[^_\s]+)_(?P<version>[^_\s]+)_(?P<arch>\w+)\.deb ", re.M)
_NOT_SHIPPED = re.compile(
    r"^/(usr/share/(doc|man|info|lintian|locale|bug|doc-base|debconf|perl5|pixmaps|menu"
    r"|applications|icons)|var|usr/lib/valgrind|etc/init\.d)(/|$)"
)
_CERTIFICATES = "/usr/share/ca-certificates"
CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, order=True)
class Package:
    """One binary package, exactly."""

    name: str
    version: str
    arch: str

    @property
    def file(self) -> str:
        """Its name in the cache."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.arch}.deb"


def closure(wanted: Debian, cache: Path) -> tuple[Package, ...]:
    """The packages of an image, sorted, resolved once per machine's distribution.

    Raises:
        TokenworksError: no apt on this machine, or a package does not resolve.
    """
    note = _note(wanted, cache)
    if note.is_file():
        return tuple(Package(*row) for row in json.loads(note.read_text()))
    return _resolve(wanted, note)


def fetch(wanted: Debian, cache: Path, progress: Progress) -> list[Path]:
    """The closure's package files in the cache, fetched when missing.

    apt verifies them against the distribution's signatures.

    Raises:
        TokenworksError: a package cannot be fetched.
    """
    folder = cache / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    packages = closure(wanted, cache)
    if missing := _missing(packages, folder):
        with step(f"fetching {len(missing)} package(s) of the distribution", progress):
            if not _download(missing, folder):
                # Versions noted earlier were withdrawn: take today's.
                _update()
                packages = _resolve(wanted, _note(wanted, cache))
                _download(_missing(packages, folder), folder)
    if missing := _missing(packages, folder):
        names = ", ".join(f"{p.name}={p.version}" for p in missing)
        raise TokenworksError(
            f"apt-get download failed for {names}: is the package mirror reachable? "
            "Run `apt-get update` and try again."
        )
    return [folder / p.file for p in packages]


def _missing(packages: Iterable[Package], folder: Path) -> list[Package]:
    return [package for package in packages if not (folder / package.file).is_file()]


def add_packages(tree: Tree, files: Iterable[Path]) -> None:
    """Put the packages' files into the tree, without what only a full system uses."""
    for file in files:
        if not _add_package(tree, file):
            raise TokenworksError(f"dpkg-deb cannot read {file}: delete it and run again.")
    _bundle_certificates(tree)


def _add_package(tree: Tree, file: Path) -> bool:
    command = ["dpkg-deb", "--fsys-tarfile", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            with tarfile.open(fileobj=child.stdout, mode="r|") as tar:
                _add_members(tree, tar)
        except tarfile.ReadError:
            return False
    return child.returncode == 0


def _distribution() -> str:
    facts = platform.freedesktop_os_release()
    return f"{facts.get('ID')}-{facts.get('VERSION_CODENAME', facts.get('VERSION_ID'))}"


def _note(wanted: Debian, cache: Path) -> Path:
    what = json.dumps([wanted.model_dump(mode="json"), _distribution(), platform.machine()])
    return cache / "closures" / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.json"


def _resolve(wanted: Debian, note: Path) -> tuple[Package, ...]:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise TokenworksError(
            "local images take parts from the distribution's packages, and apt-get or dpkg-deb is "
            "missing here: use a Debian or Ubuntu machine (or container)."
        )
    try:
        packages = _wanted_packages(wanted)
    except _UnresolvedError:  # a fresh machine has no package lists yet
        _update()
        try:
            packages = _wanted_packages(wanted)
        except _UnresolvedError as error:
            raise TokenworksError(
                f"apt cannot resolve {error}: run `apt-get update` and see whether "
                "`apt-cache policy` shows a candidate for each."
            ) from None
    note.parent.mkdir(parents=True, exist_ok=True)
    temporary = note.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps([[p.name, p.version, p.arch] for p in packages]))
    temporary.replace(note)
    return packages


def _wanted_packages(wanted: Debian) -> tuple[Package, ...]:
    found = {
        package
        for package in _simulate(wanted.packages)
        if not any(re.fullmatch(pattern, package.name) for pattern in wanted.without)
    }
    found |= {package for package in _simulate(wanted.alone) if package.name in wanted.alone}
    return tuple(sorted(found))


class _UnresolvedError(Exception):
    """apt does not know the packages."""


def _simulate(packages: Sequence[str]) -> list[Package]:
    """What apt would install into an empty system to have the packages."""
    if not packages:
        return []
    empty_system = ("-o", "Dir::State::status=/dev/null")
    install = ("install", "--no-install-recommends", "--print-uris", "-y", *packages)
    result = run([*_APT, *empty_system, *install], env=_environment())
    found = [
        Package(match["name"], unquote(match["version"]), match["arch"])
        for match in _URI.finditer(result.stdout)
    ]
    if result.returncode != 0 or not found:
        raise _UnresolvedError(", ".join(packages))
    return found


def _update() -> None:
    run([*_APT, "update"], env=_environment())


def _download(packages: Sequence[Package], folder: Path) -> bool:
    if not packages:
        return True
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as temporary:
        names = [f"{p.name}:{p.arch}={p.version}" for p in packages if p.arch != "all"]
        names += [f"{p.name}={p.version}" for p in packages if p.arch == "all"]
        result = run([*_APT, "download", *names], cwd=Path(temporary), env=_environment())
        for package in packages:
            fetched = Path(temporary) / package.file
            if fetched.is_file():
                fetched.replace(folder / package.file)
    return result.returncode == 0


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


def _add_members(tree: Tree, tar: tarfile.TarFile) -> None:
    for member in tar:
        path = posixpath.normpath("/" + member.name)
        if path == "/" or _NOT_SHIPPED.match(path):
            continue
        mode = member.mode & 0o1777
        if member.isdir():
            tree.folder(path, mode)
        elif member.issym():
            tree.link(path, member.linkname)
        elif member.islnk():
            tree.put(path, tree.get(posixpath.normpath("/" + member.linkname)) or _lost(path))
        elif (content := tar.extractfile(member)) is not None:
            tree.file(path, content.read(), mode)


def _lost(path: str) -> Entry:
    raise TokenworksError(f"a package has {path} as a hard link to a file it does not carry.")


def _bundle_certificates(tree: Tree) -> None:
    """What `update-ca-certificates` does when ca-certificates is installed."""
    paths = tree.under(_CERTIFICATES)
    parts = [entry.content for path in paths if (entry := tree.get(path)) and path.endswith(".crt")]
    if parts:
        whole = b"".join(p.rstrip() + b"\n" for p in parts if isinstance(p, bytes))
        tree.file(CA_BUNDLE, whole)
        tree.remove(paths)
        tree.remove([_CERTIFICATES])
