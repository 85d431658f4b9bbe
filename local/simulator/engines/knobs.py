"""SIMULATOR_OPTIONS: what the simulator has to know besides a real engine's arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from .commandline import CommandLineError


@dataclass(frozen=True)
class Knobs:
    """Speeds are tokens a second. Names in the JSON object have dashes for underscores."""

    num_kv_blocks: int = 0
    """KV blocks of a core; 0: for 32768 tokens, or the longest request if it is longer."""
    max_model_len: int = 8192
    """The context of the model, for command lines that do not limit it."""
    prefill_tokens_per_second: float = 8000.0
    decode_tokens_per_second: float = 50.0
    kv_transfer_tokens_per_second: float = 40000.0
    load_seconds: float = 0.0
    """Time to pretend that weights load."""
    drain_accept_seconds: float = 0.0
    """Time after SIGTERM in which new requests are still served; real engines have none."""
    join_seconds: float = 600.0
    """Time for all members of a group to come."""
    failure_seconds: float = 2.0
    """Between the loss of a member and the end of the process."""
    transfer_seconds: float = 300.0
    """Time that SGLang's prefill and decode wait for each other."""
    ray_nodes: int = 0
    """Machines of the Ray cluster; 0: as LWS_GROUP_SIZE says."""
    models: tuple[str, ...] = ()
    """Models on Ollama's disk."""
    seed: int = 0
    """Same seed and same request: same answer."""


def knobs(text: str) -> Knobs:
    """Read the JSON object; an empty text has no wishes.

    Raises:
        CommandLineError: it is none, or has a name or value that is not for it.
    """
    try:
        given: object = json.loads(text or "{}")
    except ValueError as error:
        raise CommandLineError(f"SIMULATOR_OPTIONS: not JSON: {error}") from None
    if not isinstance(given, dict):
        raise CommandLineError("SIMULATOR_OPTIONS: must be a JSON object")
    known = {field.name.replace("_", "-"): field for field in fields(Knobs)}
    values: dict[str, Any] = {}
    for name, value in cast(Mapping[str, object], given).items():
        if name not in known:
            raise CommandLineError(
                f"SIMULATOR_OPTIONS: {name} is not one of {', '.join(sorted(known))}"
            )
        values[known[name].name] = _checked(name, known[name].default, value)
    return Knobs(**values)


def _checked(name: str, default: object, value: object) -> Any:
    if isinstance(default, tuple):
        items = cast(list[object], value) if isinstance(value, list) else [None]
        if not all(isinstance(item, str) and item for item in items):
            raise CommandLineError(f"SIMULATOR_OPTIONS: {name} must be an array of texts")
        return tuple(items)
    wanted, fits = _RULES["whole" if isinstance(default, int) else "number"]
    if isinstance(value, bool) or not fits(value):
        raise CommandLineError(f"SIMULATOR_OPTIONS: {name} must be {wanted}, found {value!r}")
    if name.endswith("per-second") and not value:
        raise CommandLineError(f"SIMULATOR_OPTIONS: {name} must be above 0, found {value!r}")
    return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < float("inf")


_RULES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "whole": ("a whole number of 0 or more", _is_whole),
    "number": ("a number of 0 or more", _is_number),
}
