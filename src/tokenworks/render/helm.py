"""`helm template`, and nothing else of Helm: values in, objects out."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tokenworks.errors import TokenworksError
from tokenworks.render.kept import Kept, key_of
from tokenworks.spec.stack import Manifest

_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")

# What charts may branch on; without it `helm template` assumes its own library's version.
KUBE_VERSION = "1.35.4"


@dataclass(frozen=True)
class RenderTools:
    """What rendering needs from the machine."""

    helm: Path
    module_dir: Callable[[str], Path]
    """Folder of a pinned Go module's files."""
    kept: Kept | None = None
    """Rendered charts of earlier runs; None: every chart is rendered anew."""


def parse(text: str) -> tuple[Manifest, ...]:
    """Objects of a multi-document YAML text; empty documents are dropped."""
    return tuple(d for d in yaml.load_all(text, Loader=yaml.CSafeLoader) if d)


def values_text(values: Mapping[str, Any]) -> str:
    """The values as a file that Helm reads as they are.

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
    text = values_text(values)
    if tools.kept is None:
        return _template(tools.helm, chart, name, namespace, text)
    key = key_of(tools.helm, chart, name, namespace, KUBE_VERSION, text)
    found = tools.kept.get(key)
    if found is None:
        found = _template(tools.helm, chart, name, namespace, text)
        tools.kept.put(key, found)
    return found


def _template(
    helm: Path, chart: Path, name: str, namespace: str, values: str
) -> tuple[Manifest, ...]:
    """Helm's own answer. Its caches are in a folder of this call's own."""
    with tempfile.TemporaryDirectory(prefix="tokenworks-helm-") as folder:
        path = Path(folder) / "values.yaml"
        path.write_text(values, encoding="utf-8")
        result = subprocess.run(
            [
                helm, "template", name, chart, "--namespace", namespace, "--values", path,
                "--kube-version", KUBE_VERSION, "--skip-tests",
            ],
            env={"HOME": folder, "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    if result.returncode != 0:
        raise TokenworksError(f"helm template {name} ({chart}) failed:\n{result.stderr.strip()}")
    objects = parse(result.stdout)
    if not objects:
        raise TokenworksError(f"helm template {name} ({chart}) rendered nothing")
    return objects
