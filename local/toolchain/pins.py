"""The pins: which programs, which versions, and what makes them (`pins.yaml`, `go/*/go.mod`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@dataclass(frozen=True)
class OnPath:
    """When a program found on PATH serves instead of our own build."""

    args: tuple[str, ...]
    fits: Literal["exact", "minor"]


@dataclass(frozen=True)
class Program:
    """One pinned program. `version` carries its leading `v`."""

    name: str
    version: str
    why: str
    group: str | None = None
    """Folder under `go/` whose go.mod pins it."""
    package: str | None = None
    """Go package to build; `.` is the group's own."""
    module: str | None = None
    file: str | None = None
    """A file of the module that is the program itself (a script)."""
    source: str | None = None
    """A Go file of this repository, standard library only."""
    tags: tuple[str, ...] = ()
    """Build tags."""
    ldflags: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Files of the module that must lie beside the program: name -> path in the module."""
    on_path: OnPath | None = None
    extra: bool = False
    """No command of ours needs it: only who names it has it built."""
    minutes: float = 1
    """What its build takes on two cores beside another, for the order."""


@dataclass(frozen=True)
class DebianPackage:
    """One package of the distribution and the program that proves it is installed."""

    name: str
    program: str
    why: str


@dataclass(frozen=True)
class Pins:
    """Everything pinned."""

    go: str
    programs: dict[str, Program]
    debian: dict[str, DebianPackage]
    newer_go: dict[str, str]
    """Folder under `go/` whose modules want a newer Go: that one."""

    def go_of(self, group: str | None) -> str:
        """The Go that builds what a folder under `go/` pins."""
        return self.newer_go.get(group, self.go) if group else self.go

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the programs that commands of ours need."""
        return tuple(name for name, program in self.programs.items() if not program.extra)


_REQUIRED = r"^\s*(?:require )?([\w./~-]+) (v[\w.+-]+)"


@cache
def module_versions(group: str) -> dict[str, str]:
    """Module path to version, as `go/<group>/go.mod` requires them, directly or not."""
    text = (HERE / "go" / group / "go.mod").read_text()
    return dict(re.findall(_REQUIRED, text, re.MULTILINE))


@cache
def pinned_modules(group: str) -> dict[str, str]:
    """Module path to version of what `go/<group>/go.mod` is for: its direct requirements.

    One with a remark is only what those need, in a version of their own.
    """
    text = (HERE / "go" / group / "go.mod").read_text()
    return dict(re.findall(_REQUIRED + "$", text, re.MULTILINE))


def groups() -> tuple[str, ...]:
    """Folders under `go/`, each with a go.mod of its own."""
    return tuple(sorted(p.parent.name for p in (HERE / "go").glob("*/go.mod")))


def _program(name: str, data: dict[str, Any]) -> Program:
    group, module = data.get("group"), data.get("module")
    version = data.get("version") or module_versions(str(group))[str(module)]
    major_minor = version.lstrip("v").split(".")
    words = {"version": version, "bare": version.lstrip("v"), "minor": major_minor[1]}
    path = data.get("path")
    return Program(
        name=name,
        version=version,
        why=data["why"],
        group=group,
        package=data.get("package"),
        module=module,
        file=data.get("file"),
        source=data.get("source"),
        tags=tuple(data.get("tags", [])),
        ldflags=tuple(str(flag).format(**words) for flag in data.get("ldflags", [])),
        files=data.get("files", {}),
        on_path=OnPath(tuple(path["args"]), path["fits"]) if path else None,
        extra=data.get("extra", False),
        minutes=data.get("minutes", 1),
    )


@cache
def pins() -> Pins:
    """The pins of this checkout."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # every command waits for it
    data = yaml.load((HERE / "pins.yaml").read_text("utf-8"), Loader=loader)
    return Pins(
        go=data["go"],
        programs={n: _program(n, d) for n, d in data["programs"].items()},
        debian={n: DebianPackage(n, d["program"], d["why"]) for n, d in data["debian"].items()},
        newer_go=data["newer_go"],
    )
