"""What was worked out before, kept by the content of everything that it was made of.

A key is a digest of content: of what was read, and of the program that read it. Nothing is looked
up by name or time, so nothing can be out of date, and what is found is what would be made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pydantic
import yaml

from tokenworks.files import read_bytes, replace_bytes

_MOST: Final = 20_000
"""Files that a folder may have before the oldest half goes."""
_SOURCE: Final = Path(__file__).parent
_OWN: Final = (_SOURCE, _SOURCE.parents[1] / "policies")
"""Folders of the programs whose results are kept."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """A folder of results; any file of it may be deleted at any time."""

    folder: Path

    def text(self, key: str) -> str | None:
        """What was kept; None where nothing was, or its file is damaged."""
        try:
            raw = self._file(key).read_bytes()
        except OSError:
            return None
        head, _, body = raw.partition(b"\n")
        if head.decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
            return None
        return body.decode("utf-8")

    def keep(self, key: str, text: str) -> None:
        """Keep a text. A folder that cannot be written keeps none."""
        body = text.encode("utf-8")
        head = hashlib.sha256(body).hexdigest().encode()
        with contextlib.suppress(OSError):
            replace_bytes(self._file(key), head + b"\n" + body)

    def objects(self, key: str) -> tuple[Object, ...] | None:
        """Objects that were kept; None where none were."""
        text = self.text(key)
        return None if text is None else tuple(cast("list[Object]", json.loads(text)))

    def keep_objects(self, key: str, objects: tuple[Object, ...]) -> None:
        """Keep objects, if JSON tells them exactly."""
        try:
            text = json.dumps(objects)
        except (TypeError, ValueError):  # a date, which YAML has and JSON has not
            return
        if tuple(json.loads(text)) == objects:
            self.keep(key, text)

    def trim(self, most: int = _MOST) -> None:
        """Delete the half that was written longest ago, once there are more than `most`."""
        try:
            with os.scandir(self.folder) as found:
                files = [entry for entry in found if entry.name.endswith(_ENDING)]
            if len(files) <= most:
                return
            files.sort(key=lambda file: (file.stat().st_mtime, file.name))
        except OSError:  # there is none, or another run deletes too
            return
        for file in files[: len(files) // 2]:
            Path(file.path).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}{_ENDING}"


_ENDING: Final = ".kept"


def digest(*parts: str | bytes) -> str:
    """The key of these parts, in this order."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(f"{len(data)} ".encode())
        found.update(data)
    return found.hexdigest()


@cache
def code() -> str:
    """Digest of ourselves, data included, and of the libraries that read and write for us."""
    libraries = (sys.version, yaml.__version__, pydantic.VERSION)
    return digest(*libraries, *(content(folder) for folder in _OWN))


@cache
def content(folder: Path) -> str:
    """Digest of every file below a folder, through links too. A run looks once."""
    parts: list[str | bytes] = []
    for name, path in _files(folder):
        parts += [name, read_bytes(path)]
    return digest(*parts)


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Regular files, sorted, by their names below the folder; not what Python compiles, nor an
    editor's link to nothing."""
    top = len(f"{folder}/")
    for where, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = f"{where}/{name}"
            if os.path.isfile(path):  # noqa: PTH113 - thousands of them, at every start
                yield path[top:], path


@cache
def program(path: Path) -> str:
    """What tells a program from any other: its size and its first pages, in which Go's linker puts
    a digest of the whole. A run looks once."""
    with path.open("rb") as file:
        return digest(str(path.stat().st_size), file.read(_FIRST_PAGES))


_FIRST_PAGES: Final = 64 * 1024
