"""Find or build the pinned programs.

A program is taken from PATH when its version fits, else from the cache, else it is
built into the cache. An entry of the cache is named by the hash of everything that
made it and appears by one rename, so it is whole or absent; Go's own build cache
makes an interrupted build cheap to resume.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from local.toolchain.pins import (
    HERE,
    ROOT,
    DebianPackage,
    Program,
    groups,
    module_versions,
    pinned_modules,
    pins,
)
from local.toolchain.progress import Progress, Running, run, say, step
from tokenworks.errors import TokenworksError, UsageError, did_you_mean

# Without these a build differs from machine to machine or takes a fifth longer.
_GO_ENV = {"CGO_ENABLED": "0", "GOGC": "400", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
OLDEST_GO = "1.21"
"""The first that fetches a newer one by itself."""
_ASK_SECONDS = 20.0
_ROOM = 16 << 30
"""Bytes of memory in which two programs can be compiled at once."""
_UNFINISHED = ".building-"
_GO_BUILD = ("go", "build", "-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false")


@dataclass(frozen=True)
class Found:
    """Where a program is, or that it is missing."""

    program: Program
    path: Path | None
    source: Literal["PATH", "cache", "missing"]
    seen: str = ""
    """Version of a program on PATH that does not fit, for `doctor`."""


def cache_dir() -> Path:
    """Where built things live: `$TOKENWORKS_CACHE`, or the user's cache folder."""
    if chosen := os.environ.get("TOKENWORKS_CACHE"):
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "tokenworks"


@contextmanager
def locked(name: str, progress: Progress = say) -> Generator[None]:
    """Hold the cache's lock `name`; say so when another run holds it, and wait."""
    path = cache_dir() / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"  … another run is working on this ({path}); waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _key(program: Program) -> str:
    """Hash of everything that determines the built program."""
    made_of = (
        program.package, program.file, program.tags, program.ldflags, sorted(program.files.items())
    )  # fmt: skip
    go = pins().go_of(program.group)
    inputs = (program.name, program.version, made_of, go, _GO_BUILD, sorted(_GO_ENV.items()))
    digest = hashlib.sha256(repr(inputs).encode())
    sources = [ROOT / program.source] if program.source else []
    if program.group:
        sources += sorted(p for p in (HERE / "go" / program.group).rglob("*") if p.is_file())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def cached_path(program: Program) -> Path:
    """Where the cache has (or would have) the program."""
    folder = cache_dir() / "bin" / f"{program.name}-{program.version}-{_key(program)}"
    return folder / program.name


def _fits(program: Program, seen: str) -> bool:
    if program.on_path is None:
        return False
    parts = 3 if program.on_path.fits == "exact" else 2
    return seen.split(".")[:parts] == program.version.lstrip("v").split(".")[:parts]


@cache
def _on_path(program_name: str) -> tuple[Path, str] | None:
    program = pins().programs[program_name]
    where = shutil.which(program.name) if program.on_path else None
    if where is None or program.on_path is None:
        return None
    try:
        result = run([where, *program.on_path.args], timeout=_ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return Path(where), "unknown"
    match = re.search(r"(\d+\.\d+\.\d+)", result.stdout + result.stderr)
    return Path(where), match[1] if match else "unknown"


def find(name: str) -> Found:
    """Where the pinned program is now; builds nothing.

    Raises:
        UsageError: no such program is pinned.
    """
    if name not in pins().programs:
        known = ", ".join(sorted(pins().programs))
        hint = did_you_mean(name, pins().programs)
        raise UsageError(f"unknown program {name!r}; known: {known}; {hint}")
    program = pins().programs[name]
    on_path = _on_path(name)
    if on_path and _fits(program, on_path[1]):
        return Found(program, on_path[0], "PATH", on_path[1])
    seen = on_path[1] if on_path else ""
    path = cached_path(program)
    if path.is_file():
        return Found(program, path, "cache", seen)
    return Found(program, None, "missing", seen)


def go_env(group: str | None = None) -> dict[str, str]:
    """Environment of every call of Go: the group's pinned toolchain, no cgo, no workspace."""
    wanted = pins().go_of(group)
    local = _go_version() == wanted
    # Without a home Go has no place for modules; its own is asked of the system.
    home = {"HOME": str(Path.home())}
    return {
        **home,
        **os.environ,
        **_GO_ENV,
        **_collecting(),
        "GOTOOLCHAIN": "local" if local else f"go{wanted}",
    }


def _memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _collecting() -> dict[str, str]:
    """How the compilers free memory: where there is much, hardly ever, which saves a sixth of all
    the time. What they make is the same."""
    if _memory() < _ROOM:
        return {}
    return {"GOGC": "off", "GOMEMLIMIT": f"{_memory() // 3 >> 20}MiB"}


@cache
def _go_version() -> str | None:
    if shutil.which("go") is None:
        return None
    # The installed one, not the one that a go.mod in the working directory asks for.
    said = run(["go", "version"], env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    match = re.search(r"go version go(\d+\.\d+(?:\.\d+)?)", said)
    return match[1] if match else None


def go_found() -> str | None:
    """Version of Go on PATH, or None."""
    return _go_version()


def go_serves() -> bool:
    """Whether the Go on PATH can build the pinned programs."""
    found = _go_version()
    return found is not None and _release(found) >= _release(OLDEST_GO)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")[:2])


def require_go() -> None:
    if go_serves():
        return
    found = _go_version()
    problem = "go is not on PATH" if found is None else f"go {found} on PATH is too old"
    raise TokenworksError(
        f"{problem}: Go builds what is missing (wanted: {pins().go}, or any from {OLDEST_GO} on, "
        "which fetches it). Install it and run the command again."
    )


@cache
def module_dir(module: str) -> Path:
    """Folder of a pinned Go module's files, fetched and verified against go.sum when absent.

    Raises:
        TokenworksError: the module is not pinned, or cannot be fetched.
    """
    # Others may need the module too, in a version that is not the pinned one.
    group = next((g for g in groups() if module in pinned_modules(g)), None)
    if group is None:
        raise TokenworksError(f"module {module} is pinned by none of local/toolchain/go/*/go.mod")
    return _module_files(group, module, pinned_modules(group)[module])


def files_of(program: Program) -> Path:
    """The folder of the module that a program comes from, in the version that its go.mod takes:
    what it is built of may be needed by others only, and is pinned all the same."""
    group, module = str(program.group), str(program.module)
    return _module_files(group, module, module_versions(group)[module])


@cache
def _module_files(group: str, module: str, version: str) -> Path:
    require_go()
    wanted = f"{module}@{version}"
    command = ["go", "mod", "download", "-json", wanted]
    result = run(command, cwd=HERE / "go" / group, env=go_env(group))
    try:
        return Path(json.loads(result.stdout)["Dir"])
    except (ValueError, KeyError):
        why = result.stderr.strip() or _go_error(result.stdout)
        raise TokenworksError(f"go mod download {wanted} failed: {why}") from None


def _go_error(said: str) -> str:
    """Why Go could not fetch a module, from its JSON."""
    try:
        return str(json.loads(said)["Error"])
    except (ValueError, KeyError, TypeError):
        return said.strip()


def _compile(program: Program, target: Path, running: Running) -> None:
    """Put the program at `target` (and its files beside it)."""
    if program.file and program.module:
        shutil.copyfile(files_of(program) / program.file, target)
    else:
        flags = " ".join(("-s", "-w", *program.ldflags))
        what = str(ROOT / program.source) if program.source else str(program.package)
        folder = HERE / "go" / program.group if program.group else HERE
        tags = ",".join(program.tags)
        command = [*_GO_BUILD, "-tags", tags, "-ldflags", flags, "-o", target, what]
        result = run(command, cwd=folder, env=go_env(program.group), running=running)
        if result.returncode != 0:
            tail = "\n".join(result.stderr.strip().splitlines()[-15:])
            raise TokenworksError(
                f"building {program.name} {program.version} failed:\n{tail}\n"
                "What was compiled is kept: run the command again to resume."
            )
    target.chmod(0o755)
    for name, path in program.files.items():
        assert program.module is not None
        shutil.copyfile(files_of(program) / path, target.parent / name)


def _build(program: Program, progress: Progress, running: Running) -> Path:
    """Make the program, under the cache's lock; its folder appears by one rename."""
    final = cached_path(program)
    store = final.parent.parent
    verb = "copying" if program.file else "building"
    with step(f"{verb} {program.name} {program.version} ({program.why})", progress):
        scratch = Path(tempfile.mkdtemp(dir=store, prefix=_UNFINISHED))
        try:
            _compile(program, scratch / program.name, running)
            scratch.chmod(0o755)
            if final.parent.exists():  # without the program in it, or we would not be here
                shutil.rmtree(final.parent)
            scratch.rename(final.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return final


def ensure(*names: str, progress: Progress = say) -> dict[str, Path]:
    """Paths of the named programs, building what is missing.

    Raises:
        TokenworksError: Go is absent, or a build failed.
        UsageError: no such program is pinned.
    """
    found = {name: find(name) for name in names}
    if all(f.path for f in found.values()):
        return {n: f.path for n, f in found.items() if f.path}
    require_go()
    with locked("toolchain", progress):
        now = {name: find(name) for name in names}  # another run may have built it meanwhile
        missing = [f.program for f in now.values() if f.path is None]
        if built := sum(program.file is None for program in missing):
            progress(f"Building {built} program(s) once, into {cache_dir()}:")
        made = _build_all(missing, progress)
        return {name: f.path or made[name] for name, f in now.items()}


def _build_all(programs: Sequence[Program], progress: Progress) -> dict[str, Path]:
    """Build programs, some at once: one compiles while another is fetched or linked, which takes
    one core. When one fails, or we are told to end, none is begun any more."""
    store = cache_dir() / "bin"
    store.mkdir(parents=True, exist_ok=True)
    for killed in store.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(killed)
    running, failed = Running(), threading.Event()

    def one_by_one(line: Sequence[Program]) -> dict[str, Path]:
        made: dict[str, Path] = {}
        for program in line:
            if not failed.is_set():
                made[program.name] = _build(program, progress, running)
        return made

    with ThreadPoolExecutor(at_once()) as pool:
        try:
            jobs = [pool.submit(one_by_one, line) for line in _lines(programs)]
            for job in as_completed(jobs):
                job.result()
        except BaseException as error:
            failed.set()
            pool.shutdown(wait=False, cancel_futures=True)
            if not isinstance(error, TokenworksError):
                running.end()
            raise
    return {name: path for job in jobs for name, path in job.result().items()}


def _lines(programs: Iterable[Program]) -> list[list[Program]]:
    """What is built one after the other: programs of one go.mod share most of their packages, and
    two at once would compile them twice. What takes longest comes first, so that no core waits
    for it in the end."""
    lines: dict[str, list[Program]] = {}
    for program in programs:
        lines.setdefault(program.group or program.name, []).append(program)
    return sorted(lines.values(), key=lambda line: -sum(program.minutes for program in line))


def at_once() -> int:
    """How many programs are built at the same time: two, where memory allows."""
    return 2 if _memory() >= _ROOM else 1


def debian_present(package: DebianPackage) -> bool:
    """Whether what the package is for is on this machine."""
    if package.program.startswith("/"):
        return Path(package.program).exists()
    return shutil.which(package.program) is not None


def ensure_debian(names: Iterable[str] | None = None, progress: Progress = say) -> None:
    """Install the distribution's packages that are missing.

    Raises:
        TokenworksError: not root, no apt, or the installation failed.
    """
    wanted = [pins().debian[n] for n in (names if names is not None else pins().debian)]
    missing = [p for p in wanted if not debian_present(p)]
    if not missing:
        return
    packages = [p.name for p in missing]
    command = f"apt-get install -y {' '.join(packages)}"
    if shutil.which("apt-get") is None:
        raise TokenworksError(
            f"missing: {', '.join(packages)}. Install them with your distribution's tools."
        )
    if os.geteuid() != 0:
        raise TokenworksError(f"missing: {', '.join(packages)}. Run as root: {command}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with locked("apt", progress), step(f"installing {', '.join(packages)}", progress):
        install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
        result = run(install, env=env)
        if result.returncode != 0:  # a fresh machine has no package lists yet
            run(["apt-get", "update"], env=env)
            result = run(install, env=env)
    if result.returncode != 0:
        raise TokenworksError(f"`{command}` failed: {result.stderr.strip()[-500:]}")
