"""The rules, one concern a file; `ALL` is their order in every output."""

from __future__ import annotations

from policies.model import Rule
from policies.rules import (
    commands,
    gpus,
    images,
    network,
    probes,
    rollout,
    secrets,
    service_links,
    shared_memory,
)

ALL: tuple[Rule, ...] = (
    probes.STARTUP,
    probes.READINESS,
    probes.LIVENESS,
    gpus.RULE,
    images.RULE,
    network.RULE,
    secrets.RULE,
    service_links.RULE,
    shared_memory.RULE,
    rollout.SURGE,
    rollout.DRAIN,
    commands.RULE,
)
