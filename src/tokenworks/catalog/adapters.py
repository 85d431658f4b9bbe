"""What limits LoRA adapters on their way to an engine (`adapters.yaml`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from tokenworks.catalog.reading import read
from tokenworks.spec.common import Document


class AdapterFacts(Document):
    """Facts about routing by an adapter's name."""

    source: str = Field(description="Where this was read.")
    date: Annotated[str, BeforeValidator(str)] = Field(description="Day it was read.")
    paths: tuple[str, ...] = Field(description="What is routed to engines that load on request.")
    most_matches: int = Field(description="Matches of one HTTPRoute.")


@cache
def adapter_facts() -> AdapterFacts:
    """The facts of this checkout."""
    return AdapterFacts.model_validate(read(Path(__file__).with_name("adapters.yaml")))
