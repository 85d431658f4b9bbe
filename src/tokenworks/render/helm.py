"""Helm charts: values in, objects out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tokenworks.errors import TokenworksError
from tokenworks.kept import Kept, content, digest, program
from tokenworks.render.charts import Renderer, Request
from tokenworks.spec.stack import Manifest

_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")

# What charts may branch on; without it Helm assumes its own library's version.
KUBE_VERSION = "1.35.4"


@dataclass(frozen=True)
class RenderTools:
    """What rendering needs from the machine."""

    charts: Path
    """The program that renders charts."""
    module_dir: Callable[[str], Path]
    """Folder of a pinned Go module's files."""
    kept: Kept | None = None
    """What earlier runs rendered; None: everything is rendered anew."""
    running: Renderer | None = None
    """The program, running; None: it is started for each chart."""


def parse(text: str) -> tuple[Manifest, ...]:
    """Objects of a multi-document YAML text; empty documents are dropped."""
    return tuple(d for d in yaml.load_all(text, Loader=yaml.CSafeLoader) if d)


def values_text(values: Mapping[str, Any]) -> str:
    """The values as one line that Helm reads as they are.

    JSON is YAML without its surprises (Helm reads the key in `n: 1` as false), but for two: YAML
    has no pairs of surrogates, and some characters may not stand for themselves.
    """
    text = json.dumps(dict(values), sort_keys=True, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def template(
    tools: RenderTools, chart: Path, name: str, namespace: str, values: Mapping[str, Any]
) -> tuple[Manifest, ...]:
    """Objects of one chart, from an earlier run where nothing that Helm reads has changed.

    Raises:
        TokenworksError: Helm refused the values or the chart, or rendered nothing.
    """
    request = Request(chart, name, namespace, KUBE_VERSION, values_text(values))
    if tools.kept is None:
        return _rendered(tools, request)
    key = key_of(tools.charts, request)
    found = tools.kept.objects(key)
    if found is None:
        found = _rendered(tools, request)
        tools.kept.keep_objects(key, found)
    return found


def key_of(charts: Path, request: Request) -> str:
    """The key of everything that Helm reads: its program, the chart's files, what it is told."""
    told = (request.name, request.namespace, request.kube_version, request.values)
    return digest("chart", program(charts), content(request.chart), *told)


def _rendered(tools: RenderTools, request: Request) -> tuple[Manifest, ...]:
    if tools.running is None:
        with Renderer(tools.charts) as alone:
            objects = alone.objects(request)
    else:
        objects = tools.running.objects(request)
    if not objects:
        raise TokenworksError(f"chart {request.chart} renders nothing as {request.name}")
    return objects
