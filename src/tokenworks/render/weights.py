"""Where a release's weights live, who brings them there, and how long that takes."""

from __future__ import annotations

import math
from typing import Final

from tokenworks.render.command import STREAMED, WEIGHTS_PATH, fetched, played, source
from tokenworks.render.quantities import mebibytes
from tokenworks.spec.common import Image, duration_seconds, quantity_value
from tokenworks.spec.layout import layout
from tokenworks.spec.lora_rules import adapter_bytes
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.stack import Stack
from tokenworks.spec.values import ClaimValues, FetchValues, SmallResources, WeightsValues

FETCHER: Final = SmallResources(cpu="1", memory="1Gi")
"""Four files at once; what was written and is not yet on the disk counts as memory."""


def _download(model: ModelRelease) -> float:
    rate = quantity_value(model.spec.startup.download_bytes_per_second)
    return quantity_value(model.spec.model.size) / rate


def _before(model: ModelRelease) -> bool:
    """Whether the weights are on the disk when the engine's container starts."""
    return fetched(model) or (source(model).scheme == "oci" and not played(model))


def fetch_seconds(model: ModelRelease) -> int:
    """How long the engine's container waits for its weights: size / bandwidth, or nothing."""
    return math.ceil(_download(model)) if _before(model) else 0


def start_seconds(model: ModelRelease) -> int:
    """From container start to healthy: what is not on the disk yet, then load. Every deadline
    builds on it."""
    load = duration_seconds(model.spec.startup.load)
    rate = quantity_value(model.spec.startup.download_bytes_per_second)
    adapters = adapter_bytes(model.spec) / rate
    return max(1, math.ceil(load + adapters + (0 if _before(model) else _download(model))))


def downloads(model: ModelRelease, weights: WeightsValues) -> bool:
    """Whether engine pods fetch weights over HTTPS."""
    return source(model).downloads and weights.kind != "pvc" and not played(model)


def _image(reference: str) -> Image:
    """`registry/image:tag@sha256:…` taken apart."""
    name, _, digest = reference.partition("@")
    head, slash, last = name.rpartition("/")
    repository, _, tag = last.partition(":")
    return Image(repository=f"{head}{slash}{repository}", tag=tag or None, digest=digest or None)


def _fifth_more(model: ModelRelease) -> str:
    return mebibytes(quantity_value(model.spec.model.size) * 1.2)


def weights_values(stack: Stack, model: ModelRelease) -> WeightsValues:
    """Where weights live inside the pods."""
    where, cache = source(model), model.spec.caches.weights
    if where.scheme == "pvc":
        claim = where.rest.partition("/")[0]
        return WeightsValues(kind="pvc", claim=claim, path=WEIGHTS_PATH)
    if where.scheme == "oci":
        return WeightsValues(kind="image", image=_image(where.rest), path=WEIGHTS_PATH)
    # Streamed weights go to GPU memory and never touch the disk.
    if cache.kind == "none" or where.scheme in (*STREAMED, "dummy") or played(model):
        return WeightsValues(kind="none", path=WEIGHTS_PATH)
    if cache.kind == "pvc":
        return _claimed(model)
    if cache.kind == "node":
        return _of_node(stack, model)
    return WeightsValues(kind="ephemeral", size=cache.size or _fifth_more(model), path=WEIGHTS_PATH)


def _claimed(model: ModelRelease) -> WeightsValues:
    cache, make = model.spec.caches.weights, None
    if cache.made:
        make = ClaimValues(size=cache.size or _fifth_more(model), storage_class=cache.storage_class)
    return WeightsValues(
        kind="pvc",
        claim=cache.claim or f"{model.metadata.name}-weights",
        make=make,
        fetch=_fetch(model) if fetched(model) else None,
        path=WEIGHTS_PATH,
    )


def _of_node(stack: Stack, model: ModelRelease) -> WeightsValues:
    pools = stack.environment.spec.node_pools
    storage = [pools[role.pool].local_storage for role in layout(model.spec) if role.pool in pools]
    folder = next((found.path for found in storage if found), None)
    return WeightsValues(kind="node", folder=folder, fetch=_fetch(model), path=WEIGHTS_PATH)


def _fetch(model: ModelRelease) -> FetchValues:
    return FetchValues(
        repository=source(model).rest,
        revision=model.spec.model.revision or "unresolved",
        token=model.spec.model.token_secret,
        resources=FETCHER,
    )
