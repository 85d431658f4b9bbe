"""Files that only their owner may read, whole or absent."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write(path: Path, text: str) -> bool:
    """Write a file with mode 0600 when it is not there just so; True when it did."""
    content = text.encode()
    with suppress(OSError):
        if path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o600:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)  # left by a run that was killed
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(content)
    temporary.replace(path)
    return True
