"""Types that every document shares: names, quantities, durations, images.

Units are in the type: a `Quantity` is a Kubernetes quantity (`10Gi`, `500m`), a
`Duration` is Gateway API duration syntax (`300s`, `1h30m`; GEP-2257), so a bare
number is refused wherever a unit is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

API_VERSION: Final = "tokenworks.dev/v1alpha1"


NO_HINT: Final = "correct the value"
"""The remedy where a form has none of its own."""


class Document(BaseModel):
    """Base of every typed part: closed, frozen, camelCase in YAML."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


def refused(
    found: str, *, allowed: str = "", remedy: str = "", field: str = "", pattern: str = ""
) -> PydanticCustomError:
    """A validation error in the words the user will read.

    `field` is the dotted YAML path below the part that validates, where that is narrower;
    `pattern` what the whole text must match.
    """
    context = {
        "found": found, "allowed": allowed, "remedy": remedy, "field": field, "pattern": pattern
    }  # fmt: skip
    reason = "; ".join(
        part
        for part in (
            f"{field}: {found}" if field else found,
            f"allowed: {allowed}" if allowed else "",
            remedy,
        )
        if part
    )
    return PydanticCustomError("refused", "{reason}", {**context, "reason": reason})


@dataclass(frozen=True)
class Form:
    """The form a text must have: a regular expression, and the same in words for messages."""

    pattern: str
    allowed: str
    remedy: str = NO_HINT
    max_length: int | None = None

    def holds(self, value: str) -> bool:
        """Whether the value has the form."""
        too_long = self.max_length is not None and len(value) > self.max_length
        return not too_long and re.fullmatch(self.pattern, value) is not None

    def check(self, value: str) -> str:
        """The value itself, if it has the form."""
        if not self.holds(value):
            raise refused("", allowed=self.allowed, remedy=self.remedy, pattern=self.pattern)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        published = {**handler(schema), "pattern": f"^({self.pattern})$"}
        if self.max_length is not None:
            published["maxLength"] = self.max_length
        return published


@dataclass(frozen=True)
class Positive:
    """A quantity or duration that must be more than zero, and why."""

    measure: Callable[[str], float]
    remedy: str

    def check(self, value: str) -> str:
        """The value itself, if it is more than zero."""
        if self.measure(value) <= 0:
            raise refused("", allowed="more than zero", remedy=self.remedy)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


@dataclass(frozen=True)
class Between:
    """The least and the most that a quantity or duration may be, both included."""

    measure: Callable[[str], float]
    least: str
    most: str
    remedy: str = "change the value"

    def check(self, value: str) -> str:
        """The value itself, if it lies between."""
        if not self.measure(self.least) <= self.measure(value) <= self.measure(self.most):
            raise refused("", allowed=f"{self.least} to {self.most}", remedy=self.remedy)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


@dataclass(frozen=True)
class LongestDomain:
    """A label key's domain has at most 253 characters, which RE2 has no expression for."""

    def check(self, value: str) -> str:
        """The key itself, if its domain is short enough."""
        domain, slash, _ = value.rpartition("/")
        if slash and len(domain) > _LONGEST_DOMAIN:
            raise refused(
                "", allowed=f"a domain of at most {_LONGEST_DOMAIN} characters before the `/`",
                remedy="shorten it",
            )  # fmt: skip
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


_LONGEST_DOMAIN: Final = 253
_SCALE: Final = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def quantity_value(quantity: str) -> float:
    """The number a Kubernetes quantity stands for (bytes, cores or a count)."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", quantity)
    if match is None or match[2] not in _SCALE:
        raise ValueError(f"{quantity!r} is not a Kubernetes quantity such as 10Gi or 500m")
    return float(match[1]) * _SCALE[match[2]]


def duration_seconds(duration: str) -> float:
    """The seconds a Gateway API duration (`300s`, `1h30m`) stands for."""
    return sum(float(n) * _SECONDS[u] for n, u in re.findall(r"([0-9]+)(ms|h|m|s)", duration))


_LABEL_NAME = r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"

Name = Annotated[
    str,
    Form(
        r"[a-z]([-a-z0-9]*[a-z0-9])?",
        "lower-case letters, digits and dashes, a letter first, no dash last, at most 40",
        max_length=40,
    ),
]
"""A DNS label. 40 leaves room for the suffixes that our charts add within Kubernetes' 63."""

Bytes = Annotated[
    str,
    Form(
        r"[0-9]{1,12}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)",
        "a size with a unit, such as 10Gi or 512Mi",
        "write number and unit without a space; the unit is Ki, Mi, Gi, Ti, k, M, G or T",
    ),
    Positive(quantity_value, "give the size that is needed"),
]
Size = Annotated[Bytes, Between(quantity_value, "1k", "1024Ti")]
"""Bytes that a person writes; what is summed up from them may be more. Kueue's quota of what is
not rationed stops there too."""
Quantity = Annotated[
    str,
    Form(
        r"[0-9]{1,12}(\.[0-9]{1,3})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?",
        'a Kubernetes quantity in quotes, such as "4", 500m or 16Gi',
        'write it like "4" or 500m',
    ),
    Positive(quantity_value, "give the amount that is needed"),
]
Cores = Annotated[
    str,
    Form(
        r"[0-9]{1,5}(\.[0-9]{1,3})?|[0-9]{1,8}m",
        'CPU cores: a number in quotes such as "4", or thousandths such as 500m',
        'write it like "4" or 500m',
    ),
    Positive(quantity_value, "give the cores that are needed"),
]
"""CPU. Quantities such as `4Gi` are cores too, billions of them; nobody means that."""
Duration = Annotated[
    str,
    Form(
        r"([0-9]{1,5}(h|m|s|ms)){1,4}",
        "a duration with a unit, such as 300s or 1h30m",
        "write number and unit without a space; the unit is h, m, s or ms",
    ),
]
Connections = Annotated[int, Field(ge=1, le=1_000_000)]
"""Connections at once to one gateway pod."""
Timeout = Annotated[
    Duration,
    Positive(duration_seconds, "zero would switch the timeout off; give the longest answer"),
    Between(duration_seconds, "1s", "168h", "seconds are s, milliseconds ms"),
]
Digest = Annotated[
    str,
    Form(
        r"sha256:[0-9a-f]{64}|unresolved",
        "sha256: and 64 hexadecimal digits, or `unresolved` until the registry has been asked",
        "copy the digest from the registry",
    ),
]
Commit = Annotated[
    str,
    Form(
        r"[0-9a-f]{40}|unresolved",
        "a commit of 40 hexadecimal digits, or `unresolved` until the hub has been asked",
        "branches and tags move: name the commit",
    ),
]
"""What a hub had at one moment, for ever."""
_LABEL_KEY = rf"({_DNS_LABEL}(\.{_DNS_LABEL})*/)?{_LABEL_NAME}"
_A_LABEL_KEY = (
    "a Kubernetes label key: an optional domain and `/`, then up to 63 letters, digits, -_."
)
LabelKey = Annotated[str, Form(_LABEL_KEY, _A_LABEL_KEY, max_length=317), LongestDomain()]
NodeLabel = Annotated[str, Form(_LABEL_KEY, _A_LABEL_KEY, max_length=316), LongestDomain()]
"""A level of a topology. Kueue's CRD takes a character less than label keys may have."""
LabelValue = Annotated[
    str,
    Form(
        rf"({_LABEL_NAME})?",
        "a Kubernetes label value: up to 63 letters, digits, -_.; first and last alphanumeric",
        max_length=63,
    ),
]
Labels = dict[LabelKey, LabelValue]
FlagName = Annotated[
    str, Form(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", "a flag in lower case without leading dashes")
]
FlagValue = str | int | float | bool | list[str] | dict[str, object]


class Image(Document):
    """A container image: repository, tag for people, digest for machines."""

    repository: Annotated[
        str,
        Form(
            r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+",
            "registry and path in lower case, such as docker.io/vllm/vllm-openai",
            "put tag and digest into their own fields",
            max_length=255,
        ),
    ] = Field(description="Registry and path, without tag and digest.")
    tag: (
        Annotated[
            str,
            Form(
                r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}",
                "a tag: up to 128 letters, digits, -_.",
            ),
        ]
        | None
    ) = Field(default=None, description="For people to read; the digest decides what runs.")
    digest: Digest | None = Field(
        default=None,
        description="Required outside the local and kind providers. `unresolved`: no public "
        "source gave one yet; previews warn and `up` refuses.",
    )


class Metadata(Document):
    """Identity of a document."""

    name: Name = Field(description="The file's name without .yaml (environment: its folder's).")
    labels: Labels = Field(
        default_factory=dict, description="Copied to every object made from the document."
    )


class Toleration(Document):
    """A pod toleration, in Kubernetes' words."""

    key: LabelKey = Field(description="Key of the taint.")
    operator: Literal["Equal", "Exists"] = Field(
        default="Exists", description="Equal compares the value too."
    )
    value: LabelValue | None = Field(default=None, description="Value of the taint, for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="NoSchedule", description="Effect of the taint."
    )
