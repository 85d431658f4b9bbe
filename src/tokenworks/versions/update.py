"""Another version of a component in the bill, as text; and what that changes in a checkout."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tokenworks.catalog.bill import BilledComponent, parsed
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.edit import CannotEditError, with_value, written
from tokenworks.versions.pin import UNRESOLVED

BILL: Final = "src/tokenworks/catalog/versions.yaml"
MODULES: Final = {
    "gateway-api": "sigs.k8s.io/gateway-api",
    "inference-extension": "sigs.k8s.io/gateway-api-inference-extension",
    "lws": "sigs.k8s.io/lws",
    "kubernetes": "k8s.io/client-go",
}
"""What a component may be built with: the module that a go.mod requires for it."""
LEFT_OUT: Final = frozenset(
    {".git", ".venv", "__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis", "node_modules"}
)
"""What no copy of a checkout needs."""


@dataclass(frozen=True)
class Raised:
    """A component before and after."""

    name: str
    old: str
    new: str
    images: tuple[tuple[str, str, str], ...]
    """Repository, old tag, new tag."""


def raised(name: str, component: BilledComponent, version: str, tags: Mapping[str, str]) -> Raised:
    """What another version means for the component's images. `tags` are those that do not follow
    the version.

    Raises:
        UsageError: a tag does not follow, and is not given; or one is given that is no image.
    """
    for given in tags:
        if given not in component.images:
            known = ", ".join(component.images) or "none"
            raise UsageError(f"--tag {given}: {name} has no such image; it has: {known}")
    found: list[tuple[str, str, str]] = []
    for image_name, image in component.images.items():
        old = image.tag or ""
        new = tags.get(image_name) or _followed(old, component.version, version)
        if new is None:
            raise UsageError(
                f"{name}: image {image_name} has tag {old}, which does not follow version "
                f"{component.version}; give the new one: --tag {image_name}=TAG"
            )
        found.append((image.repository, old, new))
    return Raised(name, component.version, version, tuple(found))


def _followed(tag: str, old: str, new: str) -> str | None:
    """The tag of the new version; None: the old tag does not say its version."""
    bare, bare_new = old.removeprefix("v"), new.removeprefix("v")
    if bare not in tag:
        return None
    return tag.replace(bare, bare_new)


def new_bill(
    text: str,
    changes: Iterable[Raised],
    requires: Mapping[str, Mapping[str, str]],
    digests: Mapping[str, str],
    date: str,
) -> str:
    """The bill's text after changes. `requires`: component to what its go.mod requires, by module;
    `digests`: digest of `repository:tag` where one was looked up.

    Raises:
        TokenworksError: the bill is written in a way that is left to people.
    """
    try:
        for change in changes:
            text = _changed(text, change, requires.get(change.name, {}), digests, date)
    except CannotEditError as error:
        raise TokenworksError(f"{BILL}: {error}; edit it by hand") from None
    return text


def _changed(
    text: str,
    change: Raised,
    requires: Mapping[str, str],
    digests: Mapping[str, str],
    date: str,
) -> str:
    at = ("components", change.name)
    component = parsed(yaml.safe_load(text)).components[change.name]
    text = with_value(text, (*at, "version"), written(change.new))
    text = with_value(text, (*at, "date"), date)
    for (key, image), (_, _, tag) in zip(component.images.items(), change.images, strict=True):
        if tag == image.tag:
            continue
        digest = digests.get(f"{image.repository}:{tag}", UNRESOLVED)
        text = with_value(text, (*at, "images", key, "tag"), written(tag))
        if image.digest is not None:
            text = with_value(text, (*at, "images", key, "digest"), digest)
    for other in component.built_with:
        required = requires.get(MODULES[other])
        if required:
            text = with_value(text, (*at, "builtWith", other), required)
    return text


def new_table(text: str, changes: Iterable[Raised]) -> str:
    """The table of local images, whose keys are the images' names with their tags."""
    for change in changes:
        for repository, old, new in change.images:
            key = re.compile(rf"^{re.escape(f'{repository}:{old}')}:", re.MULTILINE)
            text = key.sub(f"{repository}:{new}:", text)
    return text


def new_default(text: str, name: str, versions: Iterable[str], version: str) -> str:
    """An engine's file with another default version.

    Raises:
        UsageError: the file does not know the version.
        TokenworksError: it is left to people.
    """
    known = list(versions)
    if version not in known:
        raise UsageError(
            f"engine {name} has no version {version} in src/tokenworks/catalog/engines/{name}.yaml "
            f"(it has {', '.join(known)}); add it there first, with its image and its flags"
        )
    try:
        return with_value(text, ("default",), written(version))
    except CannotEditError as error:
        raise TokenworksError(f"{name}.yaml: {error}; edit it by hand") from None


# What changed


def texts(root: Path) -> dict[str, bytes]:
    """Every file of a checkout that an update may change, by its path."""
    found: dict[str, bytes] = {}
    for folder in ("src", "local/toolchain", "local/images", "charts", "rendered", "schemas"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not LEFT_OUT.intersection(path.parts):
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def summary(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """A line for each file that changes, with how many lines come and go."""
    return [
        _counted(path, before.get(path), after.get(path))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _counted(path: str, before: bytes | None, after: bytes | None) -> str:
    mark = "+" if before is None else "-" if after is None else "~"
    lines = difflib.unified_diff(_lines(before), _lines(after), n=0, lineterm="")
    signs = [line[:1] for line in lines if not line.startswith(("+++", "---", "@@"))]
    return f"{mark} {path}: {signs.count('+')} lines come, {signs.count('-')} go"


def difference(path: str, before: bytes | None, after: bytes | None) -> str:
    """A file's change as a unified diff."""
    return "\n".join(
        difflib.unified_diff(
            _lines(before), _lines(after), f"{path} (now)", f"{path} (then)", lineterm=""
        )
    )


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", errors="replace").splitlines()
