"""What a rule says: findings, the context they are judged in, and the rules' own type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from policies.tree import mapping, sequence, string_map, strings

if TYPE_CHECKING:
    from policies.inventory import Inventory

Manifest = dict[str, Any]
"""One Kubernetes object, as plain data."""
Path = tuple[str | int, ...]
"""Keys and indices that lead from an object to one of its fields."""
Severity = Literal["error", "warning"]
Level = Literal["off", "warning", "error", "default"]
"""What becomes of a rule's findings: dropped, at most a warning, at least an error, as they are."""


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
    column: int | None = None
    """Counted from 1."""


@dataclass(frozen=True)
class Waiver:
    """A finding that somebody answers for, until a day."""

    rule: str
    object: str
    """`Kind namespace/name`, as findings name it."""
    reason: str
    owner: str
    expires: str
    """YYYY-MM-DD, the last day it counts."""
    place: str = ""
    """Where it is written: `FILE:LINE`, or `FILE`; empty: on the object."""


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
    profile: str = "prod"
    """Name in `policies.profiles`: how strict to be."""
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])
    """Rules that weigh otherwise here than in the profile."""
    whole: bool = False
    """The set is everything that its namespaces hold: what is not there is missing."""
    waivers: tuple[Waiver, ...] = ()
    """Findings that somebody answers for."""
    today: str = ""
    """The day, YYYY-MM-DD, by which waivers expire; without it none does."""

    def to_json(self) -> str:
        """The context as one line of JSON, for an environment variable."""
        return json.dumps(
            {
                "localImages": sorted(self.local_images),
                "platformNamespaces": sorted(self.platform_namespaces),
                "unresolvedImages": sorted(self.unresolved_images),
                "unresolved": self.unresolved,
                "onlyLocalImages": self.only_local_images,
                "profile": self.profile,
                "levels": dict(sorted(self.levels.items())),
                "whole": self.whole,
                "waivers": [asdict(waiver) for waiver in self.waivers],
                "today": self.today,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Context:
        """The context `to_json` wrote. Raises ValueError when the text is something else."""
        data = mapping(json.loads(text))
        keys = (
            "localImages", "platformNamespaces", "unresolvedImages", "unresolved",
            "onlyLocalImages", "profile", "levels", "whole", "waivers", "today",
        )  # fmt: skip
        if set(data) != set(keys):
            raise ValueError(f"expected an object with {', '.join(keys)}")
        return cls(
            frozenset(strings(data["localImages"])),
            frozenset(strings(data["platformNamespaces"])),
            frozenset(strings(data["unresolvedImages"])),
            "error" if data["unresolved"] == "error" else "warning",
            data["onlyLocalImages"] is True,
            str(data["profile"]),
            cast("dict[str, Level]", string_map(data["levels"])),
            data["whole"] is True,
            tuple(Waiver(**string_map(waiver)) for waiver in sequence(data["waivers"])),
            str(data["today"]),
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


Find = Callable[["Inventory", Context], Iterator[Violation]]
"""Violations of one rule over a whole set."""


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
    find: Find
    whole_set: bool = False
    """It cannot judge an object without the others."""
    link: str = ""
    """Documentation of the field, or of what goes wrong."""
    across: bool = False
    """It judges a container by the other containers of its pod too."""


def rule(  # noqa: PLR0917 - its parts read as a text, in this order
    id: str,
    severity: Severity,
    title: str,
    reason: str,
    remedy: str,
    link: str,
    *,
    whole_set: bool = False,
    across: bool = False,
) -> Callable[[Find], Rule]:
    """Make a rule of the function that finds its violations."""

    def made(find: Find) -> Rule:
        return Rule(id, severity, title, reason, remedy, find, whole_set, link, across)

    return made


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
