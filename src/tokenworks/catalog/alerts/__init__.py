"""Alerts on what the platform's own controllers tell, as groups of Prometheus rules."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tokenworks.catalog.reading import read


@cache
def alert_groups(component: str) -> list[dict[str, Any]]:
    """Rule groups of a component of the bill, each alert with what to do first."""
    groups: list[dict[str, Any]] = read(Path(__file__).parent / f"{component}.yaml")["groups"]
    return groups
