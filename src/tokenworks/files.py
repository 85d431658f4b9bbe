"""Files that appear whole or not at all."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

from tokenworks.errors import TokenworksError


def replace_text(file: Path, text: str) -> None:
    """Put a text into a file, whole or not at all; a link stays one, and a mode too.

    Raises:
        TokenworksError: it cannot be written.
    """
    beside: Path | None = None
    try:
        place = file.resolve()
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o644
        with tempfile.NamedTemporaryFile(
            "wb", dir=place.parent, prefix=f".{place.name}.", delete=False
        ) as out:
            beside = Path(out.name)
            out.write(text.encode("utf-8"))
        beside.chmod(mode)
        beside.replace(place)
    except OSError as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise TokenworksError(f"{file}: cannot be written: {error.strerror}") from None
