"""What a rule says: findings, the context they are judged in, and the rules' own type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from policies.tree import mapping, strings

if TYPE_CHECKING:
    from policies.inventory import Inventory

Manifest = dict[str, Any]
"""One Kubernetes object, as plain data."""
Path = tuple[str | int, ...]
"""Keys and indices that lead from an object to one of its fields."""
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One sentence about one field, and what to do about it."""

    rule: str
    severity: Severity
    object: str
    """`Kind namespace/name`."""
    field: str
    """Path of the field, as `kubectl explain` writes it, with list indices."""
    message: str
    remedy: str
    file: str | None = None
    line: int | None = None
    """Counted from 1."""


@dataclass(frozen=True)
class Context:
    """What the rules cannot read from the objects themselves."""

    local_images: frozenset[str] = frozenset()
    """Images built on this machine, which have no digest: `repository:tag`, or `repository` for
    every tag."""
    platform_namespaces: frozenset[str] = frozenset()
    """Namespaces of operators installed from upstream charts. These ship no NetworkPolicies, and
    the API server, which is no pod a policy could name, must reach their webhooks: the coverage
    rule leaves them alone."""
    unresolved_images: frozenset[str] = frozenset()
    """Images whose digest the documents call `unresolved`, as `repository:tag`: no public source
    gave it yet."""
    unresolved: Severity = "warning"
    """How these weigh: a warning while looking, an error when applying."""
    only_local_images: bool = False
    """The cluster pulls nothing: what is not among the local images cannot run."""

    def to_json(self) -> str:
        """The context as one line of JSON, for an environment variable."""
        return json.dumps(
            {
                "localImages": sorted(self.local_images),
                "platformNamespaces": sorted(self.platform_namespaces),
                "unresolvedImages": sorted(self.unresolved_images),
                "unresolved": self.unresolved,
                "onlyLocalImages": self.only_local_images,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Context:
        """The context `to_json` wrote. Raises ValueError when the text is something else."""
        data = mapping(json.loads(text))
        keys = (
            "localImages", "platformNamespaces", "unresolvedImages", "unresolved",
            "onlyLocalImages",
        )  # fmt: skip
        if set(data) != set(keys):
            raise ValueError(f"expected an object with {', '.join(keys)}")
        return cls(
            frozenset(strings(data["localImages"])),
            frozenset(strings(data["platformNamespaces"])),
            frozenset(strings(data["unresolvedImages"])),
            "error" if data["unresolved"] == "error" else "warning",
            data["onlyLocalImages"] is True,
        )


@dataclass(frozen=True)
class Violation:
    """What a rule yields; `check` adds the object's name and the rule's id."""

    index: int
    """Position of the object in the flattened list."""
    path: Path
    message: str
    remedy: str
    severity: Severity | None = None
    """Default: the rule's."""


@dataclass(frozen=True)
class Rule:
    """One rule: a pure function over a whole set of objects, and its explanation."""

    id: str
    """kebab-case."""
    severity: Severity
    title: str
    reason: str
    """Why it matters: what breaks without it."""
    remedy: str
    """What to do, in general."""
    find: Callable[[Inventory, Context], Iterator[Violation]]
    whole_set: bool = False
    """It cannot judge an object without the others."""


def field_of(path: Path) -> str:
    """`spec.containers[0].resources.limits["nvidia.com/gpu"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "a").replace("-", "a").isalnum():
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def name_of(manifest: Mapping[str, Any]) -> str:
    """`Kind namespace/name`, or as much of it as the object has."""
    meta = mapping(manifest.get("metadata"))
    name = meta.get("name") or meta.get("generateName") or "(no name)"
    namespace = meta.get("namespace")
    return f"{manifest.get('kind')} {f'{namespace}/' if namespace else ''}{name}"
