"""What a change of an object does to it (`changes.yaml`), typed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from pydantic import Field

from tokenworks.catalog.engines import IsoDate
from tokenworks.spec.common import Document


class Fields(Document):
    """Fields of some kinds, and who says so."""

    kinds: tuple[str, ...] = Field(description="`group/Kind`.")
    fields: tuple[str, ...] = Field(description="Paths; each stands for what is below it too.")
    but: tuple[str, ...] = Field(
        default=(), description="Paths below those that may change; `*` is any entry of a list."
    )
    source: str = Field(description="Where it was read.")


class Fixed(Fields):
    """Fields that cannot change once an object is there."""

    where: dict[str, str | bool | None] = Field(
        default_factory=dict[str, str | bool | None],
        description="Only where the object has this at the path; null: anything.",
    )
    unset: dict[str, str | bool | int | list[str]] = Field(
        default_factory=dict[str, str | bool | int | list[str]],
        description="What an absent field means.",
    )
    by: str = Field(description="Who refuses the change.")


class Shape(Document):
    """What of a pod spec may not change while a queue counts it."""

    kinds: tuple[str, ...] = Field(description="`group/Kind`.")
    pod: tuple[str, ...] = Field(description="Paths in a pod spec.")
    container: tuple[str, ...] = Field(description="Paths in each container.")
    by: str = Field(description="Who refuses the change.")
    source: str = Field(description="Where it was read.")


class Changes(Document):
    """Everything that is known of changes."""

    date: IsoDate = Field(description="When the sources were read.")
    immutable: tuple[Fixed, ...] = Field(description="Fields that cannot change.")
    shape: Shape = Field(description="Pod specs that cannot change.")
    restarts: tuple[Fields, ...] = Field(description="Fields whose change restarts pods.")
    nodes: tuple[Fields, ...] = Field(description="Fields whose change replaces nodes.")


@cache
def changes() -> Changes:
    """The facts of this checkout."""
    text = Path(__file__).with_name("changes.yaml").read_text(encoding="utf-8")
    return Changes.model_validate(yaml.safe_load(text))
