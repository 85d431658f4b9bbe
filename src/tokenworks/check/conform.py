"""kubeconform over a set of objects, nothing skipped."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from policies import Finding, Manifest, field_of, name_of
from tokenworks.check.schemas import LOCATION
from tokenworks.errors import TokenworksError
from tokenworks.spec.problems import FieldPath


def validate_schemas(
    objects: Sequence[Manifest], kubeconform: Path, schema_dir: Path
) -> list[Finding]:
    """What is wrong with the objects' fields, in the order of the objects.

    An object whose kind has no schema is a finding, never skipped. Raises TokenworksError when
    kubeconform does not answer for every object.
    """
    if not objects:
        return []
    results = _results(objects, kubeconform, schema_dir)
    findings: list[Finding] = []
    for position, manifest in enumerate(objects):
        findings += _findings(manifest, results[position])
    return findings


def _results(
    objects: Sequence[Manifest], kubeconform: Path, schema_dir: Path
) -> Mapping[int, Mapping[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="tokenworks-check-") as folder:
        for position, manifest in enumerate(objects):
            Path(folder, f"{position}.json").write_text(json.dumps(manifest, default=str))
        done = subprocess.run(
            [
                kubeconform, "-strict", "-verbose", "-output", "json", "-schema-location",
                f"{schema_dir}/{LOCATION}", folder,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    try:
        resources = cast("list[dict[str, Any]]", json.loads(done.stdout)["resources"])
    except (ValueError, KeyError, TypeError):
        raise TokenworksError(
            f"kubeconform failed: {(done.stderr or done.stdout).strip()}"
        ) from None
    results = {int(Path(item["filename"]).stem): item for item in resources}
    if len(resources) != len(objects) or results.keys() != set(range(len(objects))):
        raise TokenworksError(
            f"kubeconform answered for {len(results)} of {len(objects)} objects: "
            f"{done.stderr.strip() or 'no reason given'}"
        )
    return results


def _findings(manifest: Manifest, result: Mapping[str, Any]) -> list[Finding]:
    status, message = result.get("status"), str(result.get("msg") or "")
    if status == "statusValid":
        return []
    errors = list(_errors(message))
    if status == "statusInvalid" and errors:
        return [_finding(manifest, _path(manifest, pointer), text) for pointer, text in errors]
    if "could not find schema" in message or status == "statusSkipped":
        kind = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        return [
            _finding(
                manifest,
                ("apiVersion",),
                f"no schema for {kind}: neither Kubernetes nor a CRD of this environment serves it",
                "correct apiVersion and kind, or enable the component that brings the CRD",
            )
        ]
    return [_finding(manifest, (), message or str(status))]


_ENTRY = re.compile(r"( *)- at '((?:[^'\\]|\\.)*)': ")
_WANT = re.compile(r"got (.+), want (.+)")


def _errors(message: str) -> Iterator[tuple[str, str]]:
    """Pointer and text of each error that says something.

    kubeconform lists the outermost errors only, and the whole tree as one line of text, in
    which deeper ones are indented: `- at '/spec': validation failed   - at '/spec/replicas': …`.
    """
    starts = list(_ENTRY.finditer(message))
    if not starts:
        return
    ends = [*(match.start() for match in starts[1:]), len(message)]
    entries = [
        (len(match[1]), match[2], message[match.end() : end].strip())
        for match, end in zip(starts, ends, strict=True)
    ]
    position = 0
    while position < len(entries):
        depth, pointer, text = entries[position]
        position += 1
        if text == "validation failed":
            continue
        below = position
        while below < len(entries) and entries[below][0] > depth:
            below += 1
        yield pointer, _alternatives(text, [entry[2] for entry in entries[position:below]])
        position = below


def _alternatives(text: str, tried: Sequence[str]) -> str:
    """`'oneOf' failed` says nothing; what each branch wanted does."""
    if not tried:
        return text
    wants = [match for match in map(_WANT.fullmatch, tried) if match and match[2] != "null"]
    if wants and len({match[1] for match in wants}) == 1:
        return f"got {wants[0][1]}, want {' or '.join(match[2] for match in wants)}"
    return f"{text}: {'; '.join(dict.fromkeys(tried))}"


def _finding(
    manifest: Manifest, path: FieldPath, message: str, remedy: str | None = None
) -> Finding:
    unknown = re.match(r"additional propert(?:y|ies) (.+) not allowed", message)
    if unknown:
        message = f"unknown field {unknown[1]}: the API server would drop it"
        remedy = "correct the spelling or the indentation, or remove it"
    return Finding(
        "schema",
        "error",
        name_of(manifest),
        field_of(path),
        message,
        remedy or "give the field the type and value its schema asks for",
    )


def _path(manifest: object, pointer: str) -> FieldPath:
    """A JSON pointer, its list positions as numbers."""
    path: list[str | int] = []
    value = manifest
    for escaped in pointer.split("/")[1:]:
        part = re.sub(r"\\(.)", r"\1", escaped).replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and part.isdigit():
            items = cast("list[object]", value)
            path.append(int(part))
            value = items[int(part)] if int(part) < len(items) else None
        else:
            path.append(part)
            value = cast("dict[str, object]", value).get(part) if isinstance(value, dict) else None
    return tuple(path)
