"""SGLang's metric names, as of v0.5.23.

Source: the package itself, sglang/srt/observability/metrics_collector.py (2026-11-29).
Fewer labels than the real ones: no `moe_ep_rank`, no `is_streaming`.
"""

from __future__ import annotations

from functools import partial

from ..core import Core
from ..engine import BATCH_COST
from ..metrics import Book, Row


def _labels(kind: str, many: bool, model: str, rank: int) -> dict[str, str]:
    labels = {"model_name": model, "engine_type": kind, "tp_rank": "0", "pp_rank": "0"}
    return {**labels, "dp_rank": str(rank)} if many else labels


def _capacity(core: Core) -> int:
    return core.engine.config.num_blocks * core.engine.config.block_size


def _used(core: Core) -> float:
    return round(core.engine.pool.usage * _capacity(core))


def _hit_rate(core: Core) -> float:
    counters = core.engine.counters
    return counters.prefix_hits / counters.prefix_queries if counters.prefix_queries else 0.0


def _throughput(core: Core) -> float:
    running = len(core.engine.running)
    return running * core.engine.config.decode_rate / (1 + BATCH_COST * max(0, running - 1))


def book(kind: str, many: bool) -> Book:
    """Of a `unified`, `prefill` or `decode` engine; `many`: it has several ranks."""
    return Book(
        labels=partial(_labels, kind, many),
        gauges=(
            *_load(),
            *_queues(kind),
            Row("sglang:max_total_num_tokens", "Tokens that the KV pool holds", _capacity),
            Row("sglang:page_size", "Tokens of a page", lambda c: c.engine.config.block_size),
            Row("sglang:num_pages", "Pages of the KV pool", lambda c: c.engine.config.num_blocks),
        ),
        counters=_counters(),
        spans={
            "first": ("sglang:time_to_first_token_seconds", "Arrival to first token"),
            "next": ("sglang:inter_token_latency_seconds", "One token to the next"),
            "per_token": (
                "sglang:request_time_per_output_token_seconds",
                "First token to last, per token",
            ),
            "whole": ("sglang:e2e_request_latency_seconds", "Arrival to last token"),
            "queued": ("sglang:queue_time_seconds", "Arrival to the engine's start"),
        },
    )


def _load() -> tuple[Row, ...]:
    return (
        Row("sglang:num_running_reqs", "Requests in the batch", lambda c: len(c.engine.running)),
        Row("sglang:num_queue_reqs", "Requests in the queue", lambda c: len(c.engine.waiting)),
        Row("sglang:num_used_tokens", "Tokens in the KV pool", _used),
        Row("sglang:token_usage", "KV pool in use, 0 to 1", lambda c: c.engine.pool.usage),
        Row("sglang:cache_hit_rate", "Prompt tokens found, 0 to 1", _hit_rate),
        Row("sglang:gen_throughput", "Tokens a second", _throughput),
    )


def _queues(kind: str) -> tuple[Row, ...]:
    awaited, waiting = {
        "prefill": ("num_prefill_bootstrap_queue_reqs", "num_prefill_inflight_queue_reqs"),
        "decode": ("num_decode_prealloc_queue_reqs", "num_decode_transfer_queue_reqs"),
    }.get(kind, (None, None))
    if awaited is None:
        return ()
    return (
        Row(f"sglang:{awaited}", "Wait for the other side", lambda c: c.transfers.awaited),
        Row(f"sglang:{waiting}", "Wait for the transfer", lambda c: c.transfers.waiting),
    )


def _counters() -> tuple[Row, ...]:
    return (
        Row(
            "sglang:prompt_tokens",
            "Prompt tokens processed",
            lambda c: c.engine.counters.prompt_tokens,
        ),
        Row(
            "sglang:generation_tokens",
            "Tokens generated",
            lambda c: c.engine.counters.generation_tokens,
        ),
        Row(
            "sglang:cached_tokens",
            "Prompt tokens found",
            lambda c: c.engine.counters.prefix_hits,
            {"cache_source": "device"},
        ),
        Row("sglang:num_requests", "Requests", lambda c: c.ended["stop"] + c.ended["length"]),
        Row("sglang:num_aborted_requests", "Aborted requests", lambda c: c.ended["abort"]),
        Row(
            "sglang:num_retracted_requests",
            "Requests put back into the queue",
            lambda c: c.engine.counters.preemptions,
        ),
        Row(
            "sglang:num_bootstrap_failed_reqs",
            "Nobody came from the other side",
            lambda c: c.transfers.expired,
        ),
        Row(
            "sglang:num_transfer_failed_reqs",
            "Transfers that failed",
            lambda c: c.transfers.failed,
        ),
    )
