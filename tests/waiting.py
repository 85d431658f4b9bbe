"""Programs of tests that wait for a signal."""

from __future__ import annotations

from typing import Final

FOREVER: Final = "import select\nwhile True:\n    select.select([], [], [], 0.1)\n"
"""Waits until a signal ends it. `signal.pause()` would wait for another one where the signal comes
just before it, since Python calls a handler after the next instruction alone."""
