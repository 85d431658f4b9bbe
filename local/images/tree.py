"""A file tree in memory and its one byte-exact form as a tar layer.

Every entry carries all that the layer records, and nothing is read from the machine's
file system metadata: no times, owners or orders of its own. Same tree, same bytes.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

# Debian and Ubuntu keep these as links into /usr; packages may still name the old places.
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True)
class Entry:
    """One file, folder or link. `content` is bytes, or a path to read when writing."""

    kind: Literal["file", "dir", "link"]
    mode: int
    owner: int = 0
    content: bytes | Path = b""
    target: str = ""


class Tree:
    """Entries by absolute path; the last one put at a path wins."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def file(
        self, path: str, content: bytes | str | Path, mode: int = 0o644, owner: int = 0
    ) -> None:
        """Put a file; text is UTF-8."""
        data = content.encode() if isinstance(content, str) else content
        self.put(path, Entry("file", mode, owner, content=data))

    def folder(self, path: str, mode: int = 0o755, owner: int = 0) -> None:
        """Put a folder."""
        self.put(path, Entry("dir", mode, owner))

    def link(self, path: str, target: str) -> None:
        """Put a symbolic link."""
        self.put(path, Entry("link", 0o777, target=target))

    def put(self, path: str, entry: Entry) -> None:
        """Put an entry where it belongs once /bin, /lib and their like are links into /usr."""
        place = merged(path)
        if entry.kind == "link" and place != path and not posixpath.isabs(entry.target):
            # The link moved one folder down: say absolutely what it said relatively.
            old = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.target))
            entry = replace(entry, target=old)
        if entry.kind == "dir" and place in self._entries and entry.mode == 0o755:
            return  # a package's plain folder does not undo a special one
        self._entries[place] = entry

    def get(self, path: str) -> Entry | None:
        """The entry at a path, links not followed."""
        return self._entries.get(merged(path))

    def under(self, folder: str) -> list[str]:
        """Paths below a folder, sorted."""
        prefix = merged(folder).rstrip("/") + "/"
        return sorted(p for p in self._entries if p.startswith(prefix))

    def remove(self, paths: Iterable[str]) -> None:
        """Take entries out."""
        for path in paths:
            del self._entries[path]

    def __bool__(self) -> bool:
        return bool(self._entries)

    def write(self, out: IO[bytes]) -> None:
        """Write the layer: parents first, names sorted, all times zero."""
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, entry in sorted(self._complete().items()):
                _add(tar, path, entry)

    def _complete(self) -> dict[str, Entry]:
        """The entries with every parent folder, and the links of merged /usr in use."""
        whole = dict(self._entries)
        for path in self._entries:
            while (path := posixpath.dirname(path)) != "/":
                whole.setdefault(path, Entry("dir", 0o755))
        for name in _MERGED:
            if f"/usr/{name}" in whole:
                whole[f"/{name}"] = Entry("link", 0o777, target=f"usr/{name}")
        return whole


def merged(path: str) -> str:
    """The path once /bin, /sbin and /lib* are links into /usr."""
    first = path.lstrip("/").partition("/")[0]
    clean = "/" + path.strip("/")
    return f"/usr{clean}" if first in _MERGED else clean


def _add(tar: tarfile.TarFile, path: str, entry: Entry) -> None:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.owner, entry.owner, 0
    if entry.kind == "dir":
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif entry.kind == "link":
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(info)
    elif isinstance(entry.content, bytes):
        info.size = len(entry.content)
        tar.addfile(info, io.BytesIO(entry.content))
    else:
        with entry.content.open("rb") as source:
            info.size = source.seek(0, io.SEEK_END)
            source.seek(0)
            tar.addfile(info, source)
