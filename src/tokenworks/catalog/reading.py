"""Facts in files beside the modules that type them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C reads the same many times faster; every command waits for some of the files."""


def read(file: Path) -> Any:
    """What a YAML file of the catalog says."""
    return yaml.load(file.read_text("utf-8"), Loader=_LOADER)
