"""Health checks in Lua for kinds that Argo CD has none for, or none that looks at generations."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_COMMON = "common"


@cache
def health_checks() -> dict[str, str]:
    """`<group>_<Kind>`: the check's whole text, as Argo CD runs it."""
    common = (HERE / f"{_COMMON}.lua").read_text(encoding="utf-8")
    files = sorted(path for path in HERE.glob("*.lua") if path.stem != _COMMON)
    return {path.stem: f"{common}\n{path.read_text(encoding='utf-8')}" for path in files}
