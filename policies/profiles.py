"""How strict the rules are: on one machine, while developing, in production, and where all counts.

A profile says what becomes of a rule's findings. What it does not name is as the rule says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.model import Context, Level, Severity

_OPERATIONS: Final[Mapping[str, Level]] = {
    "disruption-budget": "off",
    "consolidation": "off",
    "serving-priority": "off",
    "model-revision": "off",
    "weights-download": "off",
    "ephemeral-limit": "off",
    "hub-offline": "off",
    "progress-deadline": "off",
}
"""What only matters where others depend on it."""

PROFILES: Final[Mapping[str, Mapping[str, Level]]] = {
    "local": {
        **_OPERATIONS,
        "engine-exposed": "warning",
        "remote-code": "warning",
        "network-dns": "warning",
    },
    "dev": {
        "image-digest": "warning",
        "engine-exposed": "warning",
        "remote-code": "warning",
        "disruption-budget": "off",
        "serving-priority": "off",
        "weights-download": "off",
        "model-revision": "off",
        "hub-offline": "off",
    },
    "prod": {"hub-offline": "off"},
    "strict": {},
}
MEANING: Final[Mapping[str, str]] = {
    "local": "one machine: what matters only to others is off",
    "dev": "a shared cluster: images may move, what production needs is a warning",
    "prod": "as the rules say",
    "strict": "every rule counts, and every warning is an error",
}


def weigh(rule: str, severity: Severity, context: Context) -> Severity | None:
    """How bad a finding is in this context; None where it is none."""
    level: Level = context.levels.get(rule) or PROFILES[context.profile].get(rule, "default")
    if context.profile == "strict" and level == "default":
        level = "error"
    if level == "off":
        return None
    return severity if level == "default" else level
