"""A script that copies everything an environment needs to where a site without network finds it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenworks.versions.items import Item

_HEAD = """\
#!/usr/bin/env bash
# Copies what these environments need: {names}.
# Run it in the repository's root. Wants: skopeo, go, pip, and hf (huggingface_hub) for weights.
# Runs again without harm; what is there already is not copied twice.
set -euo pipefail
"""
_PROGRAMS = """
# Programs, charts and CRDs: Go modules, checked against go.sum. Without network:
#   export GOPROXY=file://$PWD/mirror/go/cache/download GOSUMDB=off
"""
_PACKAGES = """
# Python packages, with their hashes. Without network:
#   export PIP_NO_INDEX=1 PIP_FIND_LINKS=$PWD/mirror/wheels
"""


def script(items: Iterable[Item], names: Iterable[str], to: str, root: Path) -> str:
    """The script, for bash. Images go to registry `to` under their own paths."""
    every = list(items)
    return "".join(
        [
            _HEAD.format(names=", ".join(names)),
            *_images(every, to),
            *_weights(every),
            *_modules(root),
            *_wheels(root),
        ]
    )


def destination(repository: str, to: str) -> str:
    """Where an image goes: the registry that it came from becomes the first part of its path, in
    which no colon may be."""
    host, slash, path = repository.partition("/")
    return f"{to}/{host.replace(':', '-') if slash else host}{slash}{path}"


def listed(items: Iterable[Item], to: str) -> list[dict[str, Any]]:
    """The same as data: what, from where, to where."""
    return [
        {"kind": i.kind, "from": _reference(i), "to": destination(_tagged(i), to)}
        if i.kind == "image"
        else {"kind": i.kind, "from": i.name, "version": i.version, "pin": i.pin}
        for i in items
    ]


def _tagged(item: Item) -> str:
    return f"{item.name}:{item.version}" if item.version else item.name


def _reference(item: Item) -> str:
    # Tools that copy take a tag or a digest, not both.
    return _tagged(item) if item.pin == "unresolved" else f"{item.name}@{item.pin}"


def _images(items: list[Item], to: str) -> Iterator[str]:
    yield "\n# Images, with all their platforms and their digests.\n"
    for item in items:
        if item.kind == "image":
            source, target = _reference(item), destination(_tagged(item), to)
            yield (
                "skopeo copy --all --preserve-digests "
                f"{shlex.quote(f'docker://{source}')} {shlex.quote(f'docker://{target}')}\n"
            )


def _weights(items: list[Item]) -> Iterator[str]:
    models = [i for i in items if i.kind in ("model", "adapter")]
    if models:
        yield "\n# Weights.\n"
    for item in models:
        name = item.name.removeprefix("hf://")
        if item.name.startswith("hf://"):
            revision = "" if item.pin == "unresolved" else f" --revision {shlex.quote(item.pin)}"
            folder = shlex.quote(f"mirror/weights/{name}")
            yield f"hf download {shlex.quote(name)}{revision} --local-dir {folder}\n"
        elif not item.name.startswith("oci://"):  # an image, which is copied above
            yield f"# {item.name}: on your own storage\n"


def _modules(root: Path) -> Iterator[str]:
    yield _PROGRAMS
    for file in sorted((root / "local" / "toolchain" / "go").glob("*/go.mod")):
        folder = file.parent.relative_to(root).as_posix()
        yield f'(cd {folder} && GOMODCACHE="$OLDPWD/mirror/go" go mod download -modcacherw)\n'


def _wheels(root: Path) -> Iterator[str]:
    yield _PACKAGES
    for file in sorted((root / "locks").glob("*.txt")):
        yield f"pip download --no-deps -d mirror/wheels -r {file.relative_to(root).as_posix()}\n"
