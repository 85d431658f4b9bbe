"""Triton's metric names, its own and those of its TensorRT-LLM backend.

Source: https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/
user_guide/metrics.html; those of the backend are what the endpoint picker v1.5.0 reads by
default (2026-11-29).
"""

from __future__ import annotations

from collections.abc import Callable

from ..core import Core
from ..metrics import Book, Row


def _labels(model: str, rank: int) -> dict[str, str]:
    del rank
    return {"model": model, "version": "1"}


def _requests(kind: str, read: Callable[[Core], float]) -> Row:
    return Row("nv_trt_llm_request_metrics", "Requests by state", read, {"request_type": kind})


def _blocks(kind: str, read: Callable[[Core], float]) -> Row:
    more = {"kv_cache_block_type": kind}
    return Row("nv_trt_llm_kv_cache_block_metrics", "KV blocks", read, more)


BOOK = Book(
    labels=_labels,
    gauges=(
        Row(
            "nv_inference_pending_request_count",
            "Requests that wait",
            lambda c: len(c.engine.waiting),
        ),
        # Counters in truth, but their names have no `_total`.
        Row(
            "nv_inference_request_success",
            "Requests that were answered",
            lambda c: c.ended["stop"] + c.ended["length"],
        ),
        Row("nv_inference_request_failure", "Requests that were not", lambda c: c.ended["abort"]),
        _requests("waiting", lambda c: len(c.engine.waiting)),
        _requests("scheduled", lambda c: len(c.engine.running)),
        _requests("max", lambda c: c.engine.config.max_num_seqs),
        _blocks("fraction", lambda c: c.engine.pool.usage),
        _blocks("tokens_per", lambda c: c.engine.config.block_size),
        _blocks("max", lambda c: c.engine.config.num_blocks),
        _blocks("free", lambda c: c.engine.pool.free),
        _blocks("used", lambda c: c.engine.config.num_blocks - c.engine.pool.free),
    ),
    counters=(),
    spans={},
)
