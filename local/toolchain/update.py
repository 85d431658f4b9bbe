"""Another version of a Go module in one of `go/<group>/go.mod`, by Go's own commands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.toolchain.build import go_env, require_go
from local.toolchain.pins import groups, pinned_modules
from local.toolchain.progress import run
from tokenworks.errors import TokenworksError, UsageError

_RELEASE = re.compile(r"v\d+\.\d+\.\d+")


def group_of(module: str) -> str | None:
    """The group whose go.mod is for a module; None: no group's is."""
    return next((group for group in groups() if module in pinned_modules(group)), None)


def newest(module: str) -> str:
    """The newest release of a module, leaving out those that are not final.

    Raises:
        TokenworksError: Go cannot tell.
        UsageError: there is none, only versions without a tag.
    """
    found: list[str] = _told(["go", "list", "-m", "-versions", "-json", module]).get("Versions", [])
    releases = [version for version in found if _RELEASE.fullmatch(version)]
    if not releases:
        raise UsageError(f"{module} has no released versions; name one by --to")
    return releases[-1]


def requirements(module: str, version: str) -> dict[str, str]:
    """What the go.mod of a module's version requires: module to version.

    Raises:
        TokenworksError: there is no such version, or it cannot be fetched.
    """
    said = _told(["go", "mod", "download", "-json", f"{module}@{version}"])
    text = Path(said["GoMod"]).read_text(encoding="utf-8")
    return dict(re.findall(r"^\s*(?:require )?([\w./~-]+) (v[\w.+-]+)", text, re.MULTILINE))


def resolved(module: str, version: str) -> str:
    """The version as Go writes it: a commit or a branch becomes a pseudo-version.

    Raises:
        TokenworksError: there is no such version.
    """
    return str(_told(["go", "list", "-m", "-json", f"{module}@{version}"])["Version"])


def move(folder: Path, module: str, version: str) -> dict[str, str]:
    """Require another version in a group's folder; what it requires directly afterwards.

    A group without Go files names modules for their files alone, so nothing else can move.

    Raises:
        TokenworksError: Go refuses.
    """
    wanted = f"{module}@{version}"
    if any(folder.glob("*.go")):
        _go(folder, "get", wanted)
        _go(folder, "mod", "tidy")
    else:
        _go(folder, "mod", "edit", f"-require={wanted}")
        sums = folder / "go.sum"
        lines = sums.read_text(encoding="utf-8").splitlines(keepends=True)
        sums.write_text("".join(s for s in lines if not s.startswith(f"{module} ")), "utf-8")
        _go(folder, "mod", "download", module)
    return _direct(folder)


def _direct(folder: Path) -> dict[str, str]:
    said: Mapping[str, Any] = json.loads(_go(folder, "mod", "edit", "-json"))
    required: list[dict[str, Any]] = said.get("Require") or []
    return {str(r["Path"]): str(r["Version"]) for r in required if not r.get("Indirect")}


def _go(folder: Path, *arguments: str) -> str:
    require_go()
    done = run(["go", *arguments], cwd=folder, env=go_env(folder.name))
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise TokenworksError(f"go {' '.join(arguments)} failed:\n{tail}")
    return done.stdout


def _told(command: list[str]) -> dict[str, Any]:
    require_go()
    # Outside of any module: what is asked for need not be required yet.
    done = run(command, cwd=Path("/"), env={**go_env(), "GOFLAGS": "-mod=mod"})
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = {}
    if done.returncode != 0 or not said or "Error" in said:
        why = said.get("Error") or done.stderr.strip() or "Go said nothing"
        raise TokenworksError(f"{' '.join(command)} failed: {why}")
    return said
