"""A release's document of one environment, with what is another environment's own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.edit import CannotEditError, value_at, values_below, with_value, written
from tokenworks.spec.load import load_stack
from tokenworks.spec.problems import DocumentErrors

OWN: Final = (
    "tenant",
    "pool",
    "replicas",
    "topology.network",
    "topology.prefill.pool",
    "topology.prefill.replicas",
    "topology.decode.pool",
    "topology.decode.replicas",
    "caches.weights.claim",
    "caches.weights.storageClass",
    "caches.offload.nvme.storageClass",
    "caches.distributed.address",
    "caches.distributed.namespace",
    "caches.distributed.claim",
)
"""Fields of spec that say where a release runs and how large it is there, not what it is."""


@dataclass(frozen=True)
class Promotion:
    """What would be written."""

    file: Path
    before: str
    """Text of the target's document; empty where it has none."""
    after: str
    kept: tuple[str, ...]
    """Fields that stay as the target has them."""
    taken: tuple[str, ...]
    """Fields of the environment's own that come from the source, because the target has none."""


def promotion(
    root: Path,
    name: str,
    source: str,
    target: str,
    *,
    given: Mapping[str, str],
    keep: Sequence[str] = (),
) -> Promotion:
    """The document of release `name` in `source`, as environment `target` should have it.

    Fields of `OWN` and `keep` stay as the target's document has them; `given` are those of `OWN`
    that it should get.

    Raises:
        UsageError: no such environment, release or field, or documents that do not load.
        TokenworksError: the result is refused where the target has no such pool, tenant ….
    """
    for field in given:
        if field not in OWN:
            raise UsageError(
                f"--set {field}: is not the environment's own; allowed: {', '.join(OWN)}"
            )
    here = _document(root, source, name)
    there = root / "stacks" / target / "models" / f"{name}.yaml"
    load_stack(root, target)
    text = _text(here)
    before = _text(there) if there.exists() else ""
    own = {path: value_at(before, path) for path in _own(before, keep, there)}
    own |= {_path(field): written(value) for field, value in given.items()}
    for path, value in own.items():
        text = text if value is None else _with(text, path, value, here)
    kept = [_field(path) for path, value in own.items() if value is not None]
    taken = [
        field for field in OWN if field not in kept and value_at(text, _path(field)) is not None
    ]
    _refuse_what_does_not_load(root, target, name, text)
    return Promotion(there, before, text, tuple(kept), tuple(taken))


def _path(field: str) -> tuple[str, ...]:
    return ("spec", *field.split("."))


def _field(path: tuple[str, ...]) -> str:
    return ".".join(path[1:])


def _own(before: str, keep: Sequence[str], file: Path) -> list[tuple[str, ...]]:
    """Paths of single values of the target's document that stay."""
    paths = [_path(field) for field in OWN] if before else []
    for field in keep:
        below = values_below(before, _path(field)) if before else ()
        if not below:
            raise UsageError(f"--keep {field}: {file} has no spec.{field} to keep")
        paths += below
    return paths


def write(made: Promotion) -> None:
    """Put the document in its place, whole or not at all.

    Raises:
        TokenworksError: it cannot be written.
    """
    beside = made.file.with_name(f".{made.file.name}.new")
    try:
        made.file.parent.mkdir(exist_ok=True)
        beside.write_bytes(made.after.encode("utf-8"))
        beside.replace(made.file)
    except OSError as error:
        raise TokenworksError(f"{made.file}: cannot be written: {error.strerror}") from None


def _document(root: Path, environment: str, name: str) -> Path:
    stack = load_stack(root, environment)
    names = [model.metadata.name for model in stack.models]
    if name not in names:
        known = ", ".join(names) or "none"
        raise UsageError(
            f"environment {environment} has no model release {name!r}; it has: {known}"
        )
    return root / "stacks" / environment / "models" / f"{name}.yaml"


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8")


def _with(text: str, path: tuple[str, ...], value: str, file: Path) -> str:
    try:
        return with_value(text, path, value)
    except CannotEditError as error:
        raise UsageError(f"{file}: {error}; the releases differ there: edit by hand") from None


def _refuse_what_does_not_load(root: Path, target: str, name: str, text: str) -> None:
    """Load the target's documents as they would be."""
    with tempfile.TemporaryDirectory(prefix="tokenworks-promote-") as folder:
        copy = Path(folder) / "stacks" / target
        shutil.copytree(root / "stacks" / target, copy)
        file = copy / "models" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
        try:
            load_stack(Path(folder), target)
        except DocumentErrors as error:
            raise TokenworksError(
                f"{error}\nnothing is written; what is {target}'s own is given by --set, such as "
                "--set pool=NAME"
            ) from None
