"""Objects by kind and name, selectors, and who refers to whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property
from typing import Any

from policies.made import made_of
from policies.model import Manifest
from policies.pods import Pod
from policies.tree import at, is_mapping, is_sequence, mapping, sequence, string_map, strings

_CLUSTER = frozenset(
    {
        "Namespace", "Node", "PersistentVolume", "StorageClass", "ClusterRole",
        "ClusterRoleBinding", "PriorityClass", "IngressClass", "GatewayClass", "RuntimeClass",
        "ClusterQueue", "ResourceFlavor", "Cohort", "NodePool", "EC2NodeClass", "Topology",
        "CustomResourceDefinition", "DeviceClass", "AdmissionCheck",
        "ClusterPolicy", "NVIDIADriver", "WorkloadPriorityClass",
    }
)  # fmt: skip
"""Kinds without a namespace."""
_BUILT_IN = frozenset(
    {
        "", "apps", "batch", "networking.k8s.io", "policy", "autoscaling", "storage.k8s.io",
        "rbac.authorization.k8s.io", "scheduling.k8s.io", "node.k8s.io", "coordination.k8s.io",
        "gateway.networking.k8s.io", "inference.networking.k8s.io",
        "inference.networking.x-k8s.io", "leaderworkerset.x-k8s.io", "kueue.x-k8s.io",
        "monitoring.coreos.com", "keda.sh", "apiextensions.k8s.io", "llm-d.ai", "karpenter.sh",
        "karpenter.k8s.aws", "cert-manager.io", "external-secrets.io",
        "admissionregistration.k8s.io", "resource.k8s.io",
    }
)  # fmt: skip
"""Groups whose objects make no pods beside the templates that they hold."""


@dataclass(frozen=True)
class Item:
    """One object of the set."""

    index: int
    manifest: Manifest
    group: str
    kind: str
    namespace: str
    """Empty for kinds without one; an absent one reads as `default`."""
    name: str

    @property
    def title(self) -> str:
        """`Service team-a/llama`."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapping(self.manifest.get("spec"))


@dataclass(frozen=True)
class Graph:
    """The objects of a set, by kind."""

    items: tuple[Item, ...]
    kinds: Mapping[str, tuple[Item, ...]]
    pods: tuple[Pod, ...]

    @classmethod
    def of(cls, objects: Sequence[Manifest], pods: tuple[Pod, ...]) -> Graph:
        """The graph of a flattened set."""
        items = tuple(_item(index, manifest) for index, manifest in enumerate(objects))
        kinds: dict[str, list[Item]] = {}
        for item in items:
            kinds.setdefault(item.kind, []).append(item)
        return cls(items, {kind: tuple(found) for kind, found in kinds.items()}, pods)

    def of_kind(self, *kinds: str) -> Iterator[Item]:
        """The objects of some kinds."""
        for kind in kinds:
            yield from self.kinds.get(kind, ())

    def of_namespace(self, kind: str, namespace: str) -> tuple[Item, ...]:
        """The objects of a kind in one namespace."""
        return self._placed.get((kind, namespace), ())

    @cached_property
    def _placed(self) -> dict[tuple[str, str], tuple[Item, ...]]:
        found: dict[tuple[str, str], list[Item]] = {}
        for item in self.items:
            found.setdefault((item.kind, item.namespace), []).append(item)
        return {key: tuple(items) for key, items in found.items()}

    @cached_property
    def _named(self) -> dict[tuple[str, str, str], Item]:
        found: dict[tuple[str, str, str], Item] = {}
        for item in self.items:
            found.setdefault((item.kind, item.namespace, item.name), item)
        return found

    @cached_property
    def _pods(self) -> dict[str, tuple[Pod, ...]]:
        found: dict[str, list[Pod]] = {}
        for pod in self.pods:
            found.setdefault(pod.namespace, []).append(pod)
        return {namespace: tuple(pods) for namespace, pods in found.items()}

    def pods_in(self, namespace: str) -> tuple[Pod, ...]:
        """The pods of one namespace."""
        return self._pods.get(namespace, ())

    def find(self, kind: str, namespace: str, name: str) -> Item | None:
        """One object; `namespace` is empty for kinds without one."""
        return self._named.get((kind, namespace, name))

    def made(self, kind: str, namespace: str, name: str) -> bool:
        """Whether a controller makes it of another object of the set."""
        return not self._made.isdisjoint({(kind, namespace, name), (kind, "", name)})

    @cached_property
    def _made(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(found for item in self.items for found in made_of(item.manifest))

    def near(self, kind: str, namespace: str, name: str) -> str | None:
        """A name of that kind which looks like it."""
        key = (kind, namespace, name)
        if key not in self._looks:
            names = [i.name for i in self.of_namespace(kind, namespace)]
            close = get_close_matches(name, names, 3, 0.8)
            self._looks[key] = next((o for o in close if _slip(name, o)), None)
        return self._looks[key]

    @cached_property
    def _looks(self) -> dict[tuple[str, str, str], str | None]:
        """What `near` found, since many pods ask for the same."""
        return {}

    def brings(self, kind: str, namespace: str) -> bool:
        """Whether the set holds objects of that kind in that namespace."""
        return (kind, namespace) in self._placed

    def orphan(self, kind: str, namespace: str) -> bool:
        """Whether the set holds one of that kind in that namespace that no text of it names."""
        return any(not self.mentioned(i.name) for i in self.of_namespace(kind, namespace))

    def mentioned(self, name: str) -> bool:
        """Whether a pod of the set names something of that name."""
        return name in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(text for pod in self.pods for text in _texts(pod.spec))

    def selected(self, namespace: str, labels: Mapping[str, str]) -> list[Pod]:
        """Pods that certainly carry all the labels."""
        return [
            pod
            for pod in self.pods_in(namespace)
            if labels and labels.items() <= pod.labels.items()
        ]

    def hidden(self, namespace: str) -> bool:
        """Whether something in the namespace makes pods whose labels are not written down."""
        return namespace in self._hidden

    @cached_property
    def _hidden(self) -> frozenset[str]:
        pods = (pod.namespace for pod in self.pods if not pod.labels_known)
        others = (item.namespace for item in self.items if item.group not in _BUILT_IN)
        return frozenset((*pods, *others))


def _slip(name: str, other: str) -> bool:
    """Whether one name may be a slip of the pen for the other: no part more or less, which tools
    add, no other number, which tells copies apart, and no other word."""
    first, second = (re.split(r"[-._]", text) for text in (name, other))
    if re.sub(r"\D", "", name) != re.sub(r"\D", "", other):
        return False
    if len(first) != len(second):
        return "".join(first) == "".join(second)
    return all(_alike(a, b) for a, b in zip(first, second, strict=True) if a != b)


def _alike(first: str, second: str) -> bool:
    short = max(len(first), len(second)) <= 2
    return short or SequenceMatcher(None, first, second).ratio() >= 0.7


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_mapping(value):
        for child in value.values():
            yield from _texts(child)
    elif is_sequence(value):
        for child in value:
            yield from _texts(child)


def _item(index: int, manifest: Manifest) -> Item:
    kind = str(manifest.get("kind") or "")
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    namespace = "" if kind in _CLUSTER else str(at(manifest, "metadata", "namespace") or "default")
    return Item(index, manifest, group, kind, namespace, str(at(manifest, "metadata", "name")))


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector, as Kubernetes writes it, picks these labels."""
    return string_map(selector.get("matchLabels")).items() <= labels.items() and all(
        _matches(mapping(expression), labels)
        for expression in sequence(selector.get("matchExpressions"))
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(expression.get("key")), strings(expression.get("values"))
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
