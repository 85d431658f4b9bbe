"""Stacks on AWS for tests: prod with other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenworks.spec.environment import Environment
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Stack

ROOT = Path(__file__).resolve().parents[2]


def changed(
    aws: dict[str, Any] | None = None,
    gateway: dict[str, Any] | None = None,
    pools: dict[str, dict[str, Any]] | None = None,
    **spec: Any,
) -> Stack:
    """prod; the dictionaries go over the cluster's, the gateway's and the pools' settings (`aws`
    of a pool over its own; None takes a setting away)."""
    stack = load_stack(ROOT, "prod")
    document = stack.environment.model_dump(by_alias=True, exclude_unset=True)
    body = document["spec"] | spec
    body["cluster"]["aws"] = _over(body["cluster"]["aws"], aws or {})
    body["gateway"] = _over(body["gateway"], gateway or {})
    for name, settings in (pools or {}).items():
        body["nodePools"][name]["aws"] = _over(body["nodePools"][name]["aws"], settings)
    document["spec"] = body
    return Stack(Environment.model_validate(document), (), stack.tenants)


def _over(given: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in {**given, **settings}.items() if v is not None}
