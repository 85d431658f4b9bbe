"""Build the images of the table into the cache, each once for the same inputs.

An image's file is named by the hash of everything that made it and appears by one
rename, so it is whole or absent, and an unchanged image costs a hash.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.images import debian, wheels
from local.images.oci import Config, architecture, write_image
from local.images.table import HERE, ROOT, Image, table
from local.images.tree import Tree
from local.toolchain import module_dir
from local.toolchain.progress import Progress, say, step
from tokenworks.errors import TokenworksError, UsageError

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Files per image kept in the cache: the one in use, and one of another checkout.
_KEPT = 2


@dataclass(frozen=True)
class _Sources:
    """Where an image's parts come from on this machine."""

    programs: Mapping[str, Path]
    cache: Path
    progress: Progress


def local_image_names() -> frozenset[str]:
    """Names (`registry/repository:tag`) of the images made here; builds nothing."""
    return frozenset(table())


def images_for(named: Iterable[str]) -> frozenset[str]:
    """Images of the table that a cluster gets whose objects name the images `named`.

    A digest, with which objects may name an image, does not matter.
    """
    plain = {name.partition("@")[0] for name in named}
    return frozenset(n for n, image in table().items() if image.when == "always" or n in plain)


def programs_needed(only: Iterable[str] | None = None) -> frozenset[str]:
    """Names of the toolchain programs that the images contain.

    Raises:
        UsageError: `only` names an image that the table does not have.
    """
    return frozenset(p for name in _chosen(only) for p in table()[name].programs)


def build_images(
    programs: Mapping[str, Path],
    cache: Path,
    only: Iterable[str] | None = None,
    progress: Progress = say,
) -> dict[str, Path]:
    """Archives of the images by image name, building those that the cache lacks.

    Args:
        programs: toolchain program -> its file; at least `programs_needed(only)`.
        cache: folder of all caches; images go to `images/` below it.
        only: the images wanted; all of the table that are not opt-in when absent.
        progress: takes one line per step.

    Raises:
        UsageError: an unknown image, or a program that is missing from `programs`.
        TokenworksError: a package, wheel or module cannot be had.
    """
    sources = _Sources(programs, cache / "images", progress)
    sources.cache.mkdir(parents=True, exist_ok=True)
    with _locked(sources):
        return {name: _built(name, table()[name], sources) for name in _chosen(only)}


def _chosen(only: Iterable[str] | None) -> list[str]:
    names = sorted(table() if only is None else set(only))
    unknown = [name for name in names if name not in table()]
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)}: not in local/images/images.yaml, which has "
            f"{', '.join(sorted(table()))}"
        )
    return names


@contextmanager
def _locked(sources: _Sources) -> Generator[None]:
    path = sources.cache / ".lock"
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sources.progress(f"  … another run is building images ({path}); waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _built(name: str, image: Image, sources: _Sources) -> Path:
    slug = name.replace("/", "_").replace(":", "_")
    final = sources.cache / f"{slug}-{_key(name, image, sources)}.tar"
    if final.is_file():
        final.touch()
        return final
    with step(f"image {name} ({image.why})", sources.progress):
        layers = [tree for tree in _layers(image, sources) if tree]
        # Fetching may have found newer packages than the key was made with.
        final = sources.cache / f"{slug}-{_key(name, image, sources)}.tar"
        with tempfile.TemporaryDirectory(dir=sources.cache, prefix=".building-") as folder:
            archive = Path(folder) / "image.tar"
            write_image(name, layers, _config(image), archive)
            archive.replace(final)
    _prune(sources.cache, slug)
    return final


def _prune(cache: Path, slug: str) -> None:
    newest = sorted(cache.glob(f"{slug}-*.tar"), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in newest[_KEPT:]:
        old.unlink()


def _key(name: str, image: Image, sources: _Sources) -> str:
    """Hash of everything that determines the archive's bytes."""
    digest = hashlib.sha256()
    made_of = image.model_dump(mode="json", exclude={"why", "when"})
    parts: list[object] = [name, made_of, architecture()]
    parts += [[program, _sum(_program(program, sources))] for program in image.programs]
    if image.debian:
        packages = debian.closure(image.debian, sources.cache)
        parts.append([[p.name, p.version, p.arch] for p in packages])
    files = sorted(HERE.glob("*.py"))
    files += [ROOT / image.wheels.lock] if image.wheels else []
    files += [file for folder in image.copy_ for file in _sources_of(folder)]
    files += [ROOT / script for script in image.scripts]
    files += [module_dir(m) / file for m, chosen in image.module.items() for file in chosen]
    parts += [[file.name, _sum(file)] for file in files]
    digest.update(json.dumps(parts, sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _program(name: str, sources: _Sources) -> Path:
    path = sources.programs.get(name)
    if path is None or not path.is_file():
        raise UsageError(
            f"the image table needs the program {name}, and {path or 'no file'} was given for it"
        )
    return path


def _sources_of(folder: str) -> list[Path]:
    """Files of a folder of this repository that belong into an image, sorted."""
    found = [p for p in (ROOT / folder).rglob("*") if p.is_file() and p.suffix in (".py", ".yaml")]
    if not found:
        raise TokenworksError(f"{folder} has no files to put into an image")
    return sorted(found)


def _layers(image: Image, sources: _Sources) -> Iterator[Tree]:
    """The image's layers, what changes least first, so that images share the early ones."""
    yield _base(image)
    yield _packages(image, sources)
    yield _wheels(image, sources)
    yield _files(image, sources)


def _base(image: Image) -> Tree:
    tree, user = Tree(), image.user
    accounts = {
        0: ("root", "/root"),
        65534: ("nobody", "/nonexistent"),
        user.id: (user.name, user.home),
    }
    tree.file(
        "/etc/passwd",
        "".join(f"{n}:x:{i}:{i}:{n}:{h}:/sbin/nologin\n" for i, (n, h) in sorted(accounts.items())),
    )
    tree.file("/etc/group", "".join(f"{n}:x:{i}:\n" for i, (n, _) in sorted(accounts.items())))
    tree.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    tree.folder("/root", 0o700)
    tree.folder("/tmp", 0o1777)
    tree.folder("/run")
    tree.link("/var/run", "/run")
    tree.folder(user.home, 0o700, user.id)
    for path in image.dirs:
        tree.folder(path, 0o755, user.id)
    return tree


def _packages(image: Image, sources: _Sources) -> Tree:
    tree = Tree()
    if image.debian:
        debian.add_packages(tree, debian.fetch(image.debian, sources.cache, sources.progress))
    for program, names in image.links.items():
        folder, _, target = program.rpartition("/")
        for name in names:
            tree.link(f"{folder}/{name}", target)
    return tree


def _wheels(image: Image, sources: _Sources) -> Tree:
    tree = Tree()
    if image.wheels:
        key = _sum(ROOT / image.wheels.lock)[:16]
        found = wheels.fetch(image.wheels, sources.cache, key, sources.progress)
        wheels.add_wheels(tree, image.wheels, found)
    return tree


def _files(image: Image, sources: _Sources) -> Tree:
    tree = Tree()
    for program, path in image.programs.items():
        tree.file(path, _program(program, sources), 0o755)
    for module, chosen in image.module.items():
        for file, path in chosen.items():
            # Modules keep no modes.
            tree.file(path, module_dir(module) / file, 0o755 if file.endswith(".sh") else 0o644)
    for folder, place in image.copy_.items():
        for source in _sources_of(folder):
            tree.file(f"{place}/{source.relative_to(ROOT / folder)}", source)
    for script, path in image.scripts.items():
        tree.file(path, ROOT / script, 0o755)
    return tree


def _config(image: Image) -> Config:
    return Config(
        user=f"{image.user.id}:{image.user.id}",
        entrypoint=image.entrypoint,
        command=image.command,
        env={"PATH": _PATH, "SSL_CERT_FILE": debian.CA_BUNDLE, **image.env},
        workdir=image.workdir,
    )
