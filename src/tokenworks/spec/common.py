"""Types that every document shares: names, quantities, durations, images.

Units are in the type: a `Quantity` is a Kubernetes quantity (`10Gi`, `500m`), a
`Duration` is Gateway API duration syntax (`300s`, `1h30m`; GEP-2257), so a bare
number is refused wherever a unit is needed.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

API_VERSION = "tokenworks.dev/v1alpha1"


class Document(BaseModel):
    """Base of every typed part: closed, frozen, camelCase in YAML."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


_QUANTITY = re.compile(r"^\d+(\.\d+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")
_DURATION = re.compile(r"^([0-9]{1,5}(h|m|s|ms)){1,4}$")
_SCALE = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def quantity_value(quantity: str) -> float:
    """The number a Kubernetes quantity stands for (bytes, cores or a count)."""
    match = re.match(r"^([\d.]+)(\w*)$", quantity)
    if match is None or match[2] not in _SCALE:
        raise ValueError(f"{quantity!r} is not a Kubernetes quantity such as 10Gi or 500m")
    return float(match[1]) * _SCALE[match[2]]


def duration_seconds(duration: str) -> float:
    """The seconds a Gateway API duration (`300s`, `1h30m`) stands for."""
    return sum(float(n) * _SECONDS[u] for n, u in re.findall(r"(\d+)(ms|h|m|s)", duration))


def _bytes(value: str) -> str:
    if not re.match(r"^\d+(\.\d+)?(Ki|Mi|Gi|Ti|k|M|G|T)$", value):
        raise ValueError("must be a size with a unit, such as 10Gi or 512Mi")
    return value


def _quantity(value: str) -> str:
    if not _QUANTITY.match(value):
        raise ValueError("must be a Kubernetes quantity, such as 4, 500m or 16Gi")
    return value


def _duration(value: str) -> str:
    if not _DURATION.match(value):
        raise ValueError("must be a duration with a unit, such as 300s or 1h30m")
    return value


Name = Annotated[
    str,
    Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40,
          description="DNS label: lower-case letters, digits and dashes, at most 40 characters."),
]  # fmt: skip
Bytes = Annotated[str, AfterValidator(_bytes), Field(description="A size with a unit, e.g. 10Gi.")]
Quantity = Annotated[
    str, AfterValidator(_quantity), Field(description="A Kubernetes quantity, e.g. 500m or 4.")
]
Duration = Annotated[
    str, AfterValidator(_duration), Field(description="A duration with a unit, e.g. 300s.")
]
Digest = Annotated[
    str,
    Field(pattern=r"^(sha256:[0-9a-f]{64}|unresolved)$",
          description="sha256:<64 hex digits>, or `unresolved` until `versions pin` fills it."),
]  # fmt: skip
LabelKey = Annotated[str, Field(pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$")]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?$", max_length=63)]
Labels = dict[LabelKey, LabelValue]


class Image(Document):
    """A container image: repository, tag for people, digest for machines."""

    repository: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._:/-]*[a-z0-9]$")]
    tag: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")] | None = None
    digest: Digest | None = Field(
        default=None, description="Required outside the local and kind providers."
    )


class Metadata(Document):
    """Identity of a document."""

    name: Name
    labels: Labels = Field(default_factory=dict, description="Copied to every object made from it.")


class Toleration(Document):
    """A pod toleration, in Kubernetes' words."""

    key: LabelKey
    operator: Literal["Equal", "Exists"] = "Exists"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
