"""Files that appear whole or not at all."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

from tokenworks.errors import TokenworksError


def read_bytes(path: str) -> bytes:
    """A file's content, without making a Path of its name: a run reads thousands.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def replace_text(file: Path, text: str) -> None:
    """Put a text into a file, whole or not at all; a link stays one, and a mode too.

    Raises:
        TokenworksError: it cannot be written.
    """
    try:
        replace_bytes(file, text.encode("utf-8"))
    except OSError as error:
        raise TokenworksError(f"{file}: cannot be written: {error.strerror}") from None


def replace_bytes(file: Path, content: bytes) -> None:
    """The same, for any content.

    Raises:
        OSError: it cannot be written.
    """
    place = file.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o644
    beside: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "wb", dir=place.parent, prefix=f".{place.name}.", delete=False
        ) as out:
            beside = Path(out.name)
            out.write(content)
        beside.chmod(mode)
        beside.replace(place)
    except BaseException:
        # Ctrl-C too leaves nothing behind.
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise
