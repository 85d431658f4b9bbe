"""Whether an object's fields have the shape that Kubernetes gives them: maps, lists, texts.

Rules read what is no map as an empty one, so a wrong shape would look clean. The schemas that
`check ENV` asks say more; these few shapes need neither them nor a program, and are those that
every rule relies on. What is absent is right here; so is null, which the API server reads as
absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, cast

from tokenworks.spec.problems import FieldPath, Flaw, shown
from tokenworks.spec.yamlsource import Mapping as MapNode
from tokenworks.spec.yamlsource import Node, Scalar, data_of, line_of
from tokenworks.spec.yamlsource import Sequence as ListNode


class Kind(Enum):
    """What stands at a place, in words."""

    TEXT = "text"
    MAP = "a map"
    LIST = "a list"
    NUMBER = "a whole number"


@dataclass(frozen=True)
class Fields:
    """A map; of its fields those that are known here."""

    of: Mapping[str, Shape]


@dataclass(frozen=True)
class Each:
    """A list, and what each of its items is."""

    item: Shape


Shape = Kind | Fields | Each

_TEXT, _MAP, _LIST = Kind.TEXT, Kind.MAP, Kind.LIST
_MAPS: Final = Each(_MAP)
_NAMED: Final = Each(Fields({"name": _TEXT}))
_META: Final = Fields(
    {
        "name": _TEXT, "generateName": _TEXT, "namespace": _TEXT, "labels": _MAP,
        "annotations": _MAP, "finalizers": Each(_TEXT), "ownerReferences": _MAPS,
    }
)  # fmt: skip
_CONTAINERS: Final = Each(
    Fields(
        {
            "name": _TEXT, "image": _TEXT, "workingDir": _TEXT, "imagePullPolicy": _TEXT,
            "command": _LIST, "args": _LIST, "env": _NAMED, "envFrom": _MAPS, "ports": _MAPS,
            "resources": Fields({"limits": _MAP, "requests": _MAP, "claims": _NAMED}),
            "volumeMounts": Each(Fields({"name": _TEXT, "mountPath": _TEXT})),
            "startupProbe": _MAP, "readinessProbe": _MAP, "livenessProbe": _MAP,
            "lifecycle": _MAP, "securityContext": _MAP,
        }
    )
)  # fmt: skip
_POD: Final = Fields(
    {
        "containers": _CONTAINERS, "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS, "volumes": _NAMED, "nodeSelector": _MAP,
        "tolerations": _MAPS, "affinity": _MAP, "securityContext": _MAP,
        "serviceAccountName": _TEXT, "imagePullSecrets": _MAPS, "topologySpreadConstraints": _MAPS,
    }
)  # fmt: skip
_TEMPLATE: Final = Fields({"metadata": _META, "spec": _POD})
_SELECTOR: Final = Fields({"matchLabels": _MAP, "matchExpressions": _MAPS})


def _workload(**more: Shape) -> Shape:
    common: dict[str, Shape] = {
        "replicas": Kind.NUMBER, "selector": _SELECTOR, "template": _TEMPLATE,
    }  # fmt: skip
    return Fields({**common, **more})


_RULES: Final = Each(Fields({"from": _MAPS, "to": _MAPS, "ports": _MAPS}))
_SPECS: Final[Mapping[str, Shape]] = {
    "Pod": _POD,
    "Deployment": _workload(strategy=_MAP),
    "ReplicaSet": _workload(),
    "StatefulSet": _workload(updateStrategy=_MAP, volumeClaimTemplates=_MAPS),
    "DaemonSet": _workload(updateStrategy=_MAP),
    "Job": _workload(),
    "CronJob": Fields({"jobTemplate": Fields({"spec": _workload()}), "schedule": _TEXT}),
    "LeaderWorkerSet": Fields(
        {
            "replicas": Kind.NUMBER,
            "leaderWorkerTemplate": Fields(
                {"leaderTemplate": _TEMPLATE, "workerTemplate": _TEMPLATE, "size": Kind.NUMBER}
            ),
        }
    ),
    "Service": Fields({"ports": _MAPS, "selector": _MAP, "type": _TEXT}),
    "NetworkPolicy": Fields(
        {
            "podSelector": _SELECTOR, "policyTypes": Each(_TEXT), "ingress": _RULES,
            "egress": _RULES,
        }
    ),
    "PersistentVolumeClaim": Fields({"accessModes": Each(_TEXT), "resources": _MAP}),
    "HTTPRoute": Fields({"parentRefs": _MAPS, "hostnames": Each(_TEXT), "rules": _MAPS}),
    "Gateway": Fields({"listeners": _MAPS}),
}  # fmt: skip
"""Of kinds that rules look into. Of others a spec is a map."""
_DATA: Final = {"data": _MAP, "stringData": _MAP, "binaryData": _MAP}


def misshapen(node: Node, kind: str) -> Iterator[Flaw]:
    """Fields of another shape than an object of the kind has them, one by one."""
    yield from _of(node, _fields(kind), (), node)
    yield from _names(node)
    data = data_of(node) if kind in _SPECS else None
    if isinstance(data, dict):
        for path, *words in _refused(cast("dict[str, Any]", data)):
            yield _flaw(node, path, *words)


@cache
def _fields(kind: str) -> Fields:
    known: dict[str, Shape] = {"metadata": _META, "spec": _SPECS.get(kind, _MAP)}
    if kind in ("ConfigMap", "Secret"):
        known |= _DATA
    if kind.endswith("List"):
        known["items"] = _LIST
    return Fields(known)


def well_shaped(manifest: Mapping[str, Any]) -> bool:
    """Whether `misshapen` finds nothing in an object, as far as its plain data tells: what it
    doubts may be right."""
    kind = str(manifest.get("kind"))
    meta: Any = manifest.get("metadata")
    if kind in _SPECS and next(_refused(manifest), None) is not None:
        return False
    return _suits(manifest, _fields(kind)) and (
        not isinstance(meta, dict)
        or all(_sound(cast("dict[str, Any]", meta).get(key)) for key in ("name", "namespace"))
    )


def _suits(value: Any, shape: Shape) -> bool:
    if value is None:
        return True
    if isinstance(shape, Fields):
        if not isinstance(value, dict):
            return False
        entries = cast("dict[str, Any]", value)
        of = shape.of
        return all(_suits(entries[key], of[key]) for key in entries.keys() & of.keys())
    if isinstance(shape, Each):
        return isinstance(value, list) and all(
            _suits(item, shape.item) for item in cast("list[Any]", value)
        )
    return type(value) is _TYPES[shape]


_TOP: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_SELECTING: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})
_STARTED: Final = frozenset({"command", "args", "ports", "env", "readinessProbe"})


def _refused(manifest: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str, str, str]]:
    """What the API server refuses of kinds with a spec, whose fields are known: fields beside it,
    and a workload that does not select its own pods. A patch of a workload is none."""
    for key in manifest.keys() - {*_TOP}:
        remedy = "indent it below the field that it belongs to, such as spec, or remove it"
        yield (str(key),), "found a field that no object has", ", ".join(_TOP), remedy
    if manifest.get("kind") in _SELECTING and str(manifest.get("apiVersion")).startswith("apps/"):
        yield from _unselected(_map(manifest.get("spec")))


def _unselected(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str, str, str]]:
    template = _map(spec.get("template"))
    labels = _map(_map(template.get("metadata")).get("labels"))
    selector = _map(spec.get("selector"))
    wanted = _map(selector.get("matchLabels"))
    if not selector and _is_whole(_map(template.get("spec")).get("containers")):
        yield (
            ("spec",), "found no selector", "a selector that the labels of the template fit",
            "add selector.matchLabels, and the same labels to template.metadata.labels",
        )  # fmt: skip
    elif wanted and "spec" in template:
        apart = [key for key, value in wanted.items() if key not in labels or labels[key] != value]
        yield from (_unfit(str(key)) for key in apart[:1])


def _unfit(missing: str) -> tuple[FieldPath, str, str, str]:
    return (
            ("spec", "selector", "matchLabels", str(missing)),
            f"found a label that the template does not have: {missing}",
            "labels of template.metadata.labels", "add the label to the template, or correct it",
        )  # fmt: skip


def _is_whole(containers: object) -> bool:
    """Whether a list of containers is all there is of them, and no patch."""
    items = (
        [_map(item) for item in cast("list[Any]", containers)]
        if isinstance(containers, list)
        else []
    )
    return bool(items) and all("image" in item and not _STARTED.isdisjoint(item) for item in items)


def _map(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


_TYPES: Final = {Kind.TEXT: str, Kind.MAP: dict, Kind.LIST: list, Kind.NUMBER: int}


def _sound(name: object) -> bool:
    return name is None or (
        isinstance(name, str) and _A_NAME.fullmatch(name) is not None and not _DATE.fullmatch(name)
    )


def _of(node: Node, shape: Shape, path: FieldPath, top: Node) -> Iterator[Flaw]:
    if isinstance(node, Scalar) and node.value is None:
        return
    if not _fits(node, shape):
        yield _flaw(top, path, _found(node), _wanted(shape), _REMEDY[_kind(shape)])
    elif isinstance(shape, Fields) and isinstance(node, MapNode):
        for key, inner in shape.of.items():
            if key in node.entries:
                yield from _of(node.entries[key].node, inner, (*path, key), top)
    elif isinstance(shape, Each) and isinstance(node, ListNode):
        for position, item in enumerate(node.items):
            yield from _of(item, shape.item, (*path, position), top)


def _kind(shape: Shape) -> Kind:
    match shape:
        case Fields():
            return Kind.MAP
        case Each():
            return Kind.LIST
        case _:
            return shape


def _fits(node: Node, shape: Shape) -> bool:
    match _kind(shape):
        case Kind.MAP:
            return isinstance(node, MapNode)
        case Kind.LIST:
            return isinstance(node, ListNode)
        case Kind.TEXT:
            return isinstance(node, Scalar) and isinstance(node.value, str)
        case Kind.NUMBER:
            return isinstance(node, Scalar) and _is_count(node)


def _is_count(node: Scalar) -> bool:
    """A number, or text that something else still makes one of: `${REPLICAS}`."""
    if isinstance(node.value, str):
        return re.search(r"[$<{]", node.value) is not None
    return isinstance(node.value, int) and not isinstance(node.value, bool)


def _wanted(shape: Shape) -> str:
    if isinstance(shape, Each):
        items = {Kind.MAP: "maps", Kind.TEXT: "texts"}.get(_kind(shape.item), "values")
        return f"a list of {items}"
    if isinstance(shape, Fields):
        return f"a map with fields such as {', '.join(list(shape.of)[:3])}"
    return shape.value


_REMEDY: Final = {
    Kind.MAP: "write its fields on lines of their own, indented, as `name: value`",
    Kind.LIST: "write each item on a line of its own, after `- `",
    Kind.TEXT: "write text, in quotes if it looks like a number or a boolean",
    Kind.NUMBER: "write digits only, without quotes",
}


def found_in(node: Node) -> str:
    """What stands there, in words."""
    if isinstance(node, MapNode):
        return "a map"
    if isinstance(node, ListNode):
        return "a list"
    if isinstance(node.value, str):
        return shown(node.text)
    return "nothing" if node.value is None else node.text


def _found(node: Node) -> str:
    return f"found {found_in(node)}"


def _flaw(top: Node, path: FieldPath, found: str, allowed: str, remedy: str) -> Flaw:
    return Flaw(line_of(top, path), path, found, allowed, remedy)


_A_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DATE: Final = re.compile(r"\d{4}-\d\d?-\d\d?")
_NAME_WORDS: Final = "lower-case letters, digits, - and ., alphanumeric first and last"
_BY_PATH: Final = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})
"""Kinds whose names may be anything that a path can hold, such as `system:node`."""


def _names(node: Node) -> Iterator[Flaw]:
    """Names that the API server refuses, or that readers of YAML understand differently."""
    kind = _scalar(node, ("kind",))
    for path in (("metadata", "name"), ("metadata", "namespace")):
        name = _scalar(node, path)
        if name is None or not isinstance(name.value, str) or re.search(r"[$<{%]", name.text):
            continue
        if _DATE.fullmatch(name.text) and not name.quoted:
            found = f"found {name.text}, which some readers of YAML take for a date"
            yield _flaw(node, path, found, "text", f'write "{name.text}" in quotes')
        elif not _A_NAME.fullmatch(name.text) and not (kind and kind.text in _BY_PATH):
            yield _flaw(node, path, f"found {shown(name.text)}", _NAME_WORDS, "rename it")


def _scalar(node: Node, path: FieldPath) -> Scalar | None:
    for part in path:
        if not isinstance(node, MapNode) or part not in node.entries:
            return None
        node = node.entries[str(part)].node
    return node if isinstance(node, Scalar) else None
