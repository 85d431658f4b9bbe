"""Webhooks out of the API server's reach for a moment: what failed for that is tried again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_UNREACHED: Final = re.compile(
    r'failed calling webhook "(?P<name>[^"]+)".*('
    r"broken pipe|connection refused|connection reset|\bEOF\b|i/o timeout|TLS handshake timeout"
    r"|context deadline exceeded|no endpoints available|no route to host|http2: client connection"
    r")",
    re.DOTALL,
)
_SUMMARY: Final = re.compile(r"^(error: )?(update|destroy|refresh) failed\s*$")
"""What Pulumi says at the end of every run that failed."""


def unreached(events: Path) -> tuple[str, ...]:
    """Names of the webhooks that could not be reached, where a run failed for nothing else.

    Args:
        events: the event log of a run of Pulumi, JSON by lines; none is one without errors.
    """
    names: set[str] = set()
    for said in _errors(events):
        if _SUMMARY.match(said):
            continue
        found = _UNREACHED.search(said)
        if found is None:
            return ()
        names.add(found["name"])
    return tuple(sorted(names))


def _errors(events: Path) -> Iterator[str]:
    try:
        lines = events.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            # The last line of a run that was killed.
            continue
        said: dict[str, Any] = event.get("diagnosticEvent") or {}
        if said.get("severity") == "error":
            yield re.sub(r"<\{%[^%]*%\}>", "", str(said.get("message", "")))
        policy: dict[str, Any] = event.get("policyEvent") or {}
        if policy.get("enforcementLevel") == "mandatory":
            yield f"policy {policy.get('policyName')}"
