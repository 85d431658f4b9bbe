"""`versions update`: another version of something, and everything that this changes."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from tokenworks.cli.context import root, say
from tokenworks.errors import TokenworksError, UsageError, nearest
from tokenworks.versions.update import BILL, Raised

TABLE: Final = "local/images/images.yaml"
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")


def update(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A component, an engine or a program.")
    ],
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="Default: the newest release of its module."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option(
            "--tag", metavar="IMAGE=TAG", help="Tag of an image that does not follow the version."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and write nothing.")
    ] = False,
) -> None:
    """Put another version into the bill, render again, and show what changes.

    A component's Go module moves with it, and what that module needs in a newer version; digests
    are asked of the registries, and are `unresolved` where those cannot be reached. An engine's
    version is one that its file in the catalog knows. All of it is tried in a copy of the
    checkout first: where versions do not fit, or something cannot be rendered, nothing is written.

    Example: ./tokenworks versions update kueue --to v0.19.2 --dry-run
    """
    from tokenworks.versions.check import moves  # noqa: PLC0415 - start-up time
    from tokenworks.versions.update import difference, summary, texts  # noqa: PLC0415

    if to is not None and not _VERSION.fullmatch(to):
        raise UsageError(f"--to {to!r}: write a version, such as v1.2.3")
    plan = _planned(name, to, _tags(tags or []))
    # Of a module, Go has made a version of it by now.
    for option, version in (("--to", plan.version), *(("--tag", t) for t in plan.tags.values())):
        if moves(version):
            raise UsageError(f"{option} {version}: moves; write a release, such as v1.2.3")
    before = texts(root())
    with _copy() as copy:
        _edit(plan, copy)
        _render(copy)
        after = texts(copy)
    changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    if not changed:
        say(f"{name} is {plan.version} already; nothing changes")
        return
    for path in sorted(path for path in changed if _worth_reading(path)):
        print(difference(path, before.get(path), after.get(path)))
    print("\n".join(summary(before, after)))
    if dry_run:
        say("nothing is written")
        return
    _write(after, changed)
    say("next: `make generate`, review `git diff`, and ./tokenworks preview ENV")


@dataclass(frozen=True)
class _Plan:
    """What is asked for."""

    name: str
    version: str
    module: str | None
    tags: Mapping[str, str]
    engine: bool = False


def _tags(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        image, _, tag = one.partition("=")
        if not image or not tag or image in found:
            raise UsageError(f"--tag {one!r}: write IMAGE=TAG, each image once")
        found[image] = tag
    return found


def _planned(name: str, to: str | None, tags: Mapping[str, str]) -> _Plan:
    from local.toolchain.pins import pins  # noqa: PLC0415 - start-up time
    from local.toolchain.update import newest, resolved  # noqa: PLC0415
    from tokenworks.catalog.bill import bill  # noqa: PLC0415
    from tokenworks.catalog.engines import load_engines  # noqa: PLC0415

    components, engines, programs = bill().components, load_engines().engines, pins().programs
    if name in components:
        module = components[name].module
    elif name in engines:
        if to is None or tags:
            raise UsageError(f"{name} is an engine: it takes --to VERSION, and no --tag")
        return _Plan(name, to, None, {}, engine=True)
    elif name in programs:
        module = programs[name].module
        if tags or module is None or not _version_is_its_modules(name):
            raise UsageError(
                f"{name}: its version stands in local/toolchain/pins.yaml beside what else depends "
                "on it; edit it there"
                if not tags
                else f"{name} is a program and has no images"
            )
    else:
        near = nearest(name, [*components, *engines, *programs])
        raise UsageError(
            f"unknown name {name!r}; {f'did you mean {near}? ' if near else ''}"
            "`./tokenworks versions list` has all; Python packages are raised in pyproject.toml, "
            "by `make lock`"
        )
    if module is None:
        if to is None:
            raise UsageError(f"{name} has no Go module that tells its newest release; give --to")
        return _Plan(name, to, None, tags)
    return _Plan(name, resolved(module, to or newest(module)), module, tags)


def _version_is_its_modules(name: str) -> bool:
    """Whether a program's version is its module's, and nothing else is held to it."""
    from local.toolchain.pins import module_versions, pins  # noqa: PLC0415 - start-up time

    program = pins().programs[name]
    if program.group is None or program.module is None or name == "kube":
        return False
    return module_versions(program.group).get(program.module) == program.version


@contextmanager
def _copy() -> Generator[Path]:
    """A copy of this checkout, to try things in."""
    with tempfile.TemporaryDirectory(prefix="tokenworks-update-") as folder:
        copy = Path(folder) / "tree"
        copied(root(), copy)
        yield copy


def copied(checkout: Path, to: Path) -> None:
    """Copy what a checkout is made of, without its history, environment and caches.

    Raises:
        TokenworksError: it cannot be read, or there is no room.
    """
    from tokenworks.versions.update import LEFT_OUT  # noqa: PLC0415 - start-up time

    try:
        shutil.copytree(checkout, to, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    except (shutil.Error, OSError) as error:
        raise TokenworksError(f"{checkout} cannot be copied: {error}") from None


def _edit(plan: _Plan, copy: Path) -> None:
    from tokenworks.catalog.engines import load_engines  # noqa: PLC0415 - start-up time
    from tokenworks.versions.update import new_bill, new_default, new_table  # noqa: PLC0415

    if plan.engine:
        file = copy / "src/tokenworks/catalog/engines" / f"{plan.name}.yaml"
        versions = load_engines().engines[plan.name].versions
        text = new_default(file.read_text("utf-8"), plan.name, versions, plan.version)
        file.write_text(text, "utf-8")
        return
    moved = _move(plan, copy) if plan.module else {}
    changes = list(_changes(plan, moved))
    digests = dict(_digests([image for change in changes for image in change.images]))
    requires = {change.name: _requirements(change.name, change.new) for change in changes}
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    for file, text in (
        (BILL, new_bill((copy / BILL).read_text("utf-8"), changes, requires, digests, today)),
        (TABLE, new_table((copy / TABLE).read_text("utf-8"), changes)),
    ):
        (copy / file).write_text(text, "utf-8")
    for change in changes:
        print(f"{change.name}: {change.old} -> {change.new}")


def _move(plan: _Plan, copy: Path) -> dict[str, str]:
    """The module, moved in its group; what the group's go.mod requires then."""
    from local.toolchain.progress import step  # noqa: PLC0415 - start-up time
    from local.toolchain.update import group_of, move  # noqa: PLC0415

    module = str(plan.module)
    group = group_of(module)
    if group is None:
        raise TokenworksError(f"{module} is required by no local/toolchain/go/*/go.mod")
    with step(f"go get {module}@{plan.version} in local/toolchain/go/{group}", say):
        after = move(copy / "local/toolchain/go" / group, module, plan.version)
    if after.get(module) != plan.version:
        raise TokenworksError(
            f"{module} stays {after.get(module)}: something beside it in local/toolchain/go/"
            f"{group}/go.mod needs that version"
        )
    return after


def _changes(plan: _Plan, moved: Mapping[str, str]) -> Iterator[Raised]:
    """The component, and others whose modules move with its."""
    from tokenworks.catalog.bill import bill  # noqa: PLC0415 - start-up time
    from tokenworks.versions.update import raised  # noqa: PLC0415

    for name, component in bill().components.items():
        version = plan.version if name == plan.name else moved.get(component.module or "")
        if version is not None and version != component.version:
            yield raised(name, component, version, plan.tags if name == plan.name else {})


def _requirements(name: str, version: str) -> dict[str, str]:
    from local.toolchain.update import requirements  # noqa: PLC0415 - start-up time
    from tokenworks.catalog.bill import bill  # noqa: PLC0415

    component = bill().components[name]
    if not component.module or not component.built_with:
        return {}
    return requirements(component.module, version)


def _digests(images: list[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Digests of new tags, where a registry tells them."""
    from tokenworks.versions.registry import Registries  # noqa: PLC0415 - start-up time

    with Registries() as registries:
        for repository, old, new in images:
            if old == new:
                continue
            try:
                yield f"{repository}:{new}", registries.digest(repository, new)
            except TokenworksError as error:
                say(f"  {repository}:{new}: its digest is unresolved: {error}")


def _render(copy: Path) -> None:
    """What is made of the catalog, made again in the copy by the copy's own code."""
    from local.toolchain.progress import step  # noqa: PLC0415 - start-up time

    kept = sorted(path.name for path in (root() / "rendered").iterdir() if path.is_dir())
    for title, arguments in (
        ("values of charts", ["tokenworks.render.chart_files"]),
        ("whether versions fit", ["tokenworks.cli", "versions", "check"]),
        *((f"render {name}", ["tokenworks.cli", "render", name]) for name in kept),
    ):
        with step(title, say):
            _run(copy, arguments)


def _run(copy: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).replace(f"{copy}/", "")
        raise TokenworksError(f"{said}\nnothing is written")


def _worth_reading(path: str) -> bool:
    """Rendered files and checksums are long; `git diff` shows them."""
    return not path.startswith("rendered/") and not path.endswith("go.sum")


def _write(after: Mapping[str, bytes], changed: list[str]) -> None:
    """The bill last: until then another run finds the same to do."""
    from tokenworks.files import replace_text  # noqa: PLC0415 - start-up time

    for path in sorted(changed, key=lambda path: (path == BILL, path)):
        if path in after:
            replace_text(root() / path, after[path].decode("utf-8"))
        else:
            (root() / path).unlink()
