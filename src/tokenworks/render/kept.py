"""Rendered charts of earlier runs, kept by what they were made of.

The key is everything that Helm reads: its own program, every file of the chart, name, namespace and
values. Nothing is looked up by name or time, so nothing can be out of date.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, cast

from tokenworks.spec.stack import Manifest

_MOST: Final = 20_000
"""Files that a folder may have before the oldest half goes."""


@dataclass(frozen=True)
class Kept:
    """A folder of rendered charts; any file of it may be deleted at any time."""

    folder: Path

    def get(self, key: str) -> tuple[Manifest, ...] | None:
        """Objects of an earlier run; None where there was none, or its file is damaged."""
        try:
            sum_, _, text = self._file(key).read_text(encoding="utf-8").partition("\n")
        except (OSError, ValueError):
            return None
        if sum_ != _digest(text):
            return None
        return tuple(cast("list[Manifest]", json.loads(text)))

    def put(self, key: str, objects: tuple[Manifest, ...]) -> None:
        """Keep objects, if JSON tells them exactly. A folder that cannot be written keeps none."""
        try:
            text = json.dumps(objects)
        except (TypeError, ValueError):  # a date, which YAML has and JSON has not
            return
        if tuple(json.loads(text)) != objects:
            return
        beside: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.folder, prefix=".", delete=False
            ) as file:
                beside = Path(file.name)
                file.write(f"{_digest(text)}\n{text}")
            beside.replace(self._file(key))
        except OSError:
            if beside is not None:
                beside.unlink(missing_ok=True)

    def trim(self, most: int = _MOST) -> None:
        """Delete the half that was written longest ago, once there are more than `most`."""
        try:
            files = sorted(
                self.folder.glob("*.json"), key=lambda file: (file.stat().st_mtime, file.name)
            )
        except OSError:  # another run deletes too
            return
        for file in files[: len(files) // 2] if len(files) > most else ():
            file.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(helm: Path, chart: Path, *parts: str) -> str:
    """The key of one run of Helm."""
    said = json.dumps([_program(helm), _content(chart), *parts])
    return hashlib.sha256(said.encode()).hexdigest()


@cache
def _program(helm: Path) -> str:
    state = helm.stat()
    return f"{helm.resolve()} {state.st_size} {state.st_mtime_ns}"


@cache
def _content(chart: Path) -> str:
    """Digest of every file below a folder, through links too."""
    found = hashlib.sha256()
    for folder, folders, files in os.walk(chart, followlinks=True):
        folders.sort()
        for name in sorted(files):
            path = Path(folder) / name
            if not path.is_file():  # an editor's link to nothing
                continue
            found.update(f"{path.relative_to(chart)}\0".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
