"""A script that copies everything an environment needs to where a site without network finds it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenworks.versions.items import Item

_HEAD = """\
#!/usr/bin/env bash
# Copies what these environments need: {names}.
# Run it in the repository's root. Wants: skopeo for images, hf (huggingface_hub) for weights, go,
# pip, and apt on the distribution of the machines that will use it.
# Runs again without harm; what is there already is not copied twice.
# Then bring the repository and its folder mirror/ to where no network is, and there:
#   . mirror/use.sh
set -euo pipefail
mkdir -p mirror
"""
_PROGRAMS = """
# Programs, charts and CRDs: Go modules, checked against go.sum; and the Go that builds them.
export GOMODCACHE="$PWD/mirror/go" GOFLAGS=-modcacherw
"""
_PACKAGES = """
# Python packages, with their hashes.
mkdir -p mirror/wheels
"""
_DEBS = """
# Packages of the distribution, with all that they need, as a repository in a folder.
mkdir -p mirror/debs/partial
apt-get install --quiet=2 --download-only --yes --no-install-recommends \\
  -o Dir::State::status=/dev/null -o Dir::Cache::archives="$PWD/mirror/debs" \\
  -o Debug::NoLocking=1 -o APT::Sandbox::User=root \\
  {packages}
(
  cd mirror/debs
  for file in *.deb; do
    dpkg-deb --field "$file"
    printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' \\
      "$file" "$(stat --format %s "$file")" "$(sha256sum "$file" | cut --delimiter ' ' --fields 1)"
  done > Packages
)
"""
_USE = """
# What makes builds use it.
cat > mirror/use.sh <<'USE'
export GOPROXY="file://$PWD/mirror/go/cache/download" GOSUMDB=off GONOSUMDB='*'
export PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/mirror/wheels"
export APT_CONFIG="$PWD/mirror/apt.conf"
mkdir -p "$PWD/mirror/lists/partial"
echo "deb [trusted=yes] copy:$PWD/mirror/debs ./" > "$PWD/mirror/debs.list"
cat > "$APT_CONFIG" <<CONF
Dir::Etc::sourcelist "$PWD/mirror/debs.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$PWD/mirror/lists";
CONF
apt-get update -o APT::Sandbox::User=root
USE
"""


@dataclass(frozen=True)
class Machine:
    """What the machines of a site need beside what clusters run."""

    go: Mapping[str, str]
    """The version of Go that builds what each folder under `local/toolchain/go` pins."""
    packages: tuple[str, ...]
    """Packages of the distribution."""
    locks: tuple[str, ...]
    """Lock files of Python packages, from the repository's root."""


def script(items: Iterable[Item], names: Iterable[str], to: str, machine: Machine) -> str:
    """The script, for bash. Images go to registry `to` under their own paths."""
    every = list(items)
    return "".join(
        [
            _HEAD.format(names=", ".join(names)),
            *_images(every, to),
            *_weights(every),
            *_modules(machine),
            *_wheels(machine),
            _DEBS.format(packages=" ".join(map(shlex.quote, machine.packages))),
            _USE,
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


def _modules(machine: Machine) -> Iterator[str]:
    yield _PROGRAMS
    for version in sorted(set(machine.go.values())):
        yield f"(cd / && GOTOOLCHAIN=go{version} go version)\n"
    # A distribution's Go keeps to itself (GOTOOLCHAIN=local), and refuses what wants a newer one.
    for group, version in sorted(machine.go.items()):
        folder = f"local/toolchain/go/{group}"
        yield f"(cd {folder} && GOTOOLCHAIN=go{version} go mod download)\n"


def _wheels(machine: Machine) -> Iterator[str]:
    yield _PACKAGES
    for file in machine.locks:
        yield (
            "python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes "
            f"-d mirror/wheels -r {shlex.quote(file)}\n"
        )
