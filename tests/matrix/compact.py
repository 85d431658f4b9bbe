"""Objects as few lines of text: what a reader of a golden file wants to compare.

Workloads with their pods and containers, what picks the pod, and who may connect: `path = value`
below the object or container it belongs to, lists of words one a line. What is the same in every
release (rights, security contexts, the route) is left out, it is golden with the charts' examples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from tests.charts.rendering import CHARTS, Object

Facts = dict[str, list[str]]
"""Lines, by the object or container they are about."""
Path = tuple[str, ...]

KINDS: Final = frozenset(
    {
        "ConfigMap", "Deployment", "InferencePool", "LeaderWorkerSet", "NetworkPolicy",
        "RoleBasedGroup", "Service",
    }
)  # fmt: skip
_DROPPED: Final = frozenset(
    {
        "securityContext", "imagePullPolicy", "protocol", "successThreshold", "checksum/config",
        "revisionHistoryLimit", "fieldRef.apiVersion", "volumeMounts", "strategy",
        "kubectl.kubernetes.io/default-container", "automountServiceAccountToken",
        "enableServiceLinks", "policyTypes", "appProtocol", "endpointPickerRef",
    }
)  # fmt: skip
_ON_ONE_LINE: Final = frozenset(
    {
        "startupProbe", "readinessProbe", "livenessProbe", "requests", "limits", "valueFrom",
        "lifecycle", "emptyDir", "matchLabels", "selector", "rolloutStrategy", "parameters",
        "from", "to", "nodeSelector", "image",
    }
)  # fmt: skip
_SCRIPTS: Final = {
    path.read_text(): f"<{path.name}>" for path in sorted((CHARTS / "model" / "files").iterdir())
}
_OURS: Final = ("app.kubernetes.io/", "helm.sh/", "tokenworks.dev/tenant")
_TEMPLATES: Final = ("template", "leaderTemplate", "workerTemplate")
_KEYS: Final = ("name", "key", "type", "pluginRef", "containerPort")
"""Fields that tell items of a list apart."""


def facts(objects: Sequence[Object]) -> Facts:
    """What the objects say."""
    found: Facts = {}
    for item in sorted(objects, key=lambda o: (o["kind"], o["metadata"]["name"])):
        if item["kind"] in KINDS:
            title = f"{item['kind']} {item['metadata']['name']}"
            body = {k: v for k, v in item.items() if k not in ("apiVersion", "kind", "metadata")}
            labels = _kept_labels(item["metadata"].get("labels", {}))
            found |= _object(title, {**({"labels": labels} if labels else {}), **body})
    return found


def _kept_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if not key.startswith(_OURS)}


def _object(title: str, body: Mapping[str, Any]) -> Facts:
    """An object's own lines, then those of its pod templates and their containers."""
    found: Facts = {title: []}
    for path, value in _walk(body, ()):
        if _is_template(path, value):
            found |= _pod(f"{title} {_place(path)}", value)
        else:
            found[title] += _leaf(path, value)
    return found


def _is_template(path: Path, value: Any) -> bool:
    return path[-1] in _TEMPLATES and isinstance(value, dict) and "spec" in value


def _place(path: Path) -> str:
    """Which template of an object."""
    role = next((p for p in path if p.startswith("roles[")), "")
    part = {"leaderTemplate": "leader", "workerTemplate": "worker"}.get(path[-1], "pod")
    return f"{role} {part}".strip()


def _pod(title: str, template: Mapping[str, Any]) -> Facts:
    spec, metadata = dict(template["spec"]), template["metadata"]
    init, main = spec.pop("initContainers", []), spec.pop("containers")
    about = {"labels": _kept_labels(metadata.get("labels", {}))}
    body = {**about, "annotations": metadata.get("annotations", {}), **spec}
    found: Facts = {title: [line for path, value in _walk(body, ()) for line in _leaf(path, value)]}
    for kind, container in (*(("init", c) for c in init), *(("container", c) for c in main)):
        own = {k: v for k, v in container.items() if k != "name"}
        found[f"{title} {kind} {container['name']}"] = [
            line for path, value in _walk(own, ()) for line in _leaf(path, value)
        ]
    return found


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Leaves: values, lists of words, and what is shown on one line or is a pod template."""
    last = path[-1] if path else ""
    if last in _DROPPED:
        return
    if path and (last in _ON_ONE_LINE or _is_template(path, value)):
        yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _walk(part, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for place, part in enumerate(value):
            name, key = next(((k, str(part[k])) for k in _KEYS if k in part), ("", str(place)))
            rest = {k: v for k, v in part.items() if k != name}
            item = (*path[:-1], f"{last}[{key}]")
            yield from _walk(rest, item) if rest else iter([(item, "")])
    else:
        yield path, value


def _leaf(path: Path, value: Any) -> Iterator[str]:
    name = ".".join(path)
    if isinstance(value, list) and path[-1] not in _ON_ONE_LINE:
        yield from (f"{name} - {_text(part)}" for part in value)
    elif isinstance(value, str) and "\n" in value and "apiVersion:" in value:
        for inner, part in _walk(yaml.safe_load(value), (path[-1],)):
            yield from _leaf(inner, part)
    else:
        yield f"{name} = {_text(value)}" if value != "" else name


def _text(value: Any) -> str:
    if isinstance(value, str):
        return _SCRIPTS.get(value, value if value and "\n" not in value else json.dumps(value))
    return json.dumps(value, sort_keys=True)


# What is printed


def whole(found: Facts) -> list[str]:
    """All of it; engines and their pods after the first only as they differ from it."""
    first: dict[str, tuple[str, list[str]]] = {}
    lines: list[str] = []
    for title, own in found.items():
        base = first.setdefault(_sort_of(title), (title, own))
        if base[0] == title:
            lines += [title, *(f"  {line}" for line in own)]
        else:
            lines += [f"{title}, beside {base[0]}", *_changes(base[1], own)]
    return lines


def _sort_of(title: str) -> str:
    """Which pods and containers are alike enough to be compared."""
    if title.endswith((" container engine", " init rdma-check", " init wait-for-prefill")):
        return title.rpartition(" ")[2]
    picks = any(word in title for word in ("demo-epp", "demo-router"))
    return "pod" if title.endswith((" leader", " worker", " pod")) and not picks else title


def changed(base: Facts, found: Facts) -> list[str]:
    """How it differs; places with the same difference together."""
    places: dict[tuple[str, ...], list[str]] = {}
    for title in dict.fromkeys((*base, *found)):
        lines = tuple(_changes(base.get(title, []), found.get(title, [])))
        if title not in found:
            lines = ("  is gone",)
        elif title not in base:
            lines = ("  is new", *lines)
        if lines:
            places.setdefault(lines, []).append(title)
    return [line for lines, titles in places.items() for line in (*titles, *lines)]


def _changes(before: Sequence[str], after: Sequence[str]) -> list[str]:
    gone, new = [x for x in before if x not in after], [x for x in after if x not in before]
    if not gone and not new and list(before) != list(after):
        return ["  ~ in another order", *(f"  + {line}" for line in after)]
    return [*(f"  - {line}" for line in gone), *(f"  + {line}" for line in new)]
