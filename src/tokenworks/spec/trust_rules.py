"""Whose code engines run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenworks.spec.environment import Environment
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import Problem
from tokenworks.spec.sourced import Sourced, listed

_FLAG: Final = "trust-remote-code"
"""Every engine that has the switch calls it so."""


def check_trust(model: Sourced[ModelRelease], environment: Environment) -> Iterator[Problem]:
    """Code that comes with weights is run only where the environment names them."""
    uri, trusted = model.document.spec.model.uri, environment.spec.policies.remote_code
    if any(_covers(entry, uri) for entry in trusted):
        return
    # Roles cannot differ in it: `topology_rules` refuses the flag there.
    if model.document.spec.engine.flags.get(_FLAG, False) is not False:
        yield model.problem(
            ("spec", "engine", "flags", _FLAG),
            f"runs the code that {uri} brings",
            listed(trusted, "nothing that environment.yaml names"),
            f"remove it, or read the code and add {uri} to spec.policies.remoteCode",
        )


def _covers(entry: str, uri: str) -> bool:
    """Whether an entry is these weights, or all of their owner's (`hf://owner/*`)."""
    return uri.startswith(entry[:-1]) if entry.endswith("/*") else uri == entry
