"""Python packages from lock files: fetched by pip, verified by hash, unpacked."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

from local.images.table import ROOT, Wheels
from local.images.tree import Tree
from local.toolchain.progress import Progress, run, step
from tokenworks.errors import TokenworksError


def fetch(wanted: Wheels, cache: Path, key: str, progress: Progress) -> list[Path]:
    """The lock file's wheels in the cache (folder `key`), fetched when missing; sorted.

    Raises:
        TokenworksError: a wheel cannot be fetched, or is not the one the lock names.
    """
    folder = cache / "wheels" / key
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (
            step(f"fetching the wheels of {wanted.lock}", progress),
            tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as temporary,
        ):
            _download(ROOT / wanted.lock, Path(temporary) / "wheels")
            if not folder.is_dir():  # unless another run was faster
                (Path(temporary) / "wheels").rename(folder)
    return sorted(folder.glob("*.whl"))


def add_wheels(tree: Tree, wanted: Wheels, wheels: list[Path]) -> None:
    """Put the wheels' files into the tree: everything under `into`, or the chosen `files`."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                place = _place(name, wanted)
                if place is not None and not name.endswith("/"):
                    tree.file(place, archive.read(name), 0o755 if name in wanted.files else 0o644)
    lost = [path for path in wanted.files.values() if tree.get(path) is None]
    if lost:
        raise TokenworksError(f"{wanted.lock} has no wheel with the file for {', '.join(lost)}.")


def _place(name: str, wanted: Wheels) -> str | None:
    if name in wanted.files:
        return wanted.files[name]
    return f"{wanted.into}/{name}" if wanted.into else None


def _download(lock: Path, folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes"]
    result = run([*pip, *options, "--dest", folder, "--requirement", lock])
    if result.returncode != 0:
        raise TokenworksError(
            f"pip download of {lock.relative_to(ROOT)} failed: {result.stderr.strip()[-500:]}"
        )
