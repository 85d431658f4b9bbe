"""Files that only their owner may read, whole or absent."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str) -> bool:
    """Write a file when it differs; True when it did."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
    temporary.replace(path)
    return True
