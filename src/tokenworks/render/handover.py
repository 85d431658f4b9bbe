"""What `up` rendered and checked, handed to the Pulumi program that it starts.

So what was checked is what is applied, even when somebody saves a file meanwhile, and
nothing is rendered twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from tokenworks.render import RenderTools, render
from tokenworks.render.release import Release, RemoteChart
from tokenworks.spec.stack import Manifest, Stack

VARIABLE: Final = "TOKENWORKS_RENDERED"
"""Names the file. Only our own runs set it; `pulumi up` as users type it renders by itself."""


def write(releases: Iterable[Release], file: Path) -> None:
    """Write releases to a file that only its owner may read."""
    data = [{f.name: getattr(r, f.name) for f in fields(Release)} for r in releases]
    for item in data:
        item["charts"] = [asdict(chart) for chart in item["charts"]]
    new = file.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(json.dumps(data))  # in one piece: `dump` encodes in Python
    new.replace(file)


def read(file: Path) -> tuple[Release, ...]:
    """The releases that were written to the file."""
    data: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return tuple(_release(**item) for item in data)


def _release(
    objects: list[Manifest], needs: list[str], charts: list[dict[str, Any]], **rest: Any
) -> Release:
    fetched = tuple(RemoteChart(**chart) for chart in charts)
    return Release(objects=tuple(objects), needs=tuple(needs), charts=fetched, **rest)


def handed_over(environ: Mapping[str, str]) -> bool:
    """Whether our own `up` started the program, with what it rendered and checked."""
    return bool(environ.get(VARIABLE))


def releases_of(
    stack: Stack, tools: RenderTools, environ: Mapping[str, str]
) -> tuple[Release, ...]:
    """What was handed over, or the environment rendered now.

    Raises:
        TokenworksError: a chart does not render.
    """
    return read(Path(environ[VARIABLE])) if handed_over(environ) else render(stack, tools)
