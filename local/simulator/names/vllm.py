"""vLLM's metric names, as of v0.26 to v0.32.

Source: https://docs.vllm.ai/en/stable/usage/metrics/ and, in the package itself,
vllm/v1/metrics/loggers.py and vllm/distributed/kv_transfer/kv_connector/v1/nixl/stats.py
(2026-11-29). The endpoint picker reads the three gauges, `cache_config_info` and
`lora_requests_info`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from prometheus_client.core import GaugeMetricFamily, Metric

from ..core import Core
from ..metrics import Book, Row


def _labels(model: str, rank: int) -> dict[str, str]:
    return {"model_name": model, "engine": str(rank)}


def _cache_config(cores: Sequence[Core]) -> Metric:
    names = ("block_size", "num_gpu_blocks", "enable_prefix_caching", "engine")
    family = GaugeMetricFamily("vllm:cache_config_info", "Configuration of the cache", labels=names)
    for core in cores:
        config = core.engine.config
        values = (config.block_size, config.num_blocks, config.prefix_caching, core.rank)
        family.add_metric([str(value) for value in values], 1.0)
    return family


def _adapters(cores: Sequence[Core]) -> Metric:
    in_use = [core.engine.adapters() for core in cores]
    running = sorted({name for names, _ in in_use for name in names})
    waiting = sorted({name for _, names in in_use for name in names})
    labels = {
        "max_lora": str(cores[0].engine.config.max_loras),
        "running_lora_adapters": ",".join(running),
        "waiting_lora_adapters": ",".join(waiting),
    }
    family = GaugeMetricFamily(
        "vllm:lora_requests_info",
        "Adapters in use; the newest sample counts",
        labels=list(labels),
    )
    family.add_metric(list(labels.values()), time.time())
    return family


def _ended(reason: str) -> Row:
    return Row(
        "vllm:request_success",
        "Requests by how they ended",
        lambda core: core.ended[reason],
        {"finished_reason": reason},
    )


WITHOUT_LORA = Book(
    labels=_labels,
    gauges=(
        Row("vllm:num_requests_running", "Requests in the batch", lambda c: len(c.engine.running)),
        Row(
            "vllm:num_requests_waiting",
            "Requests in the queue, those whose KV is on its way among them",
            lambda c: len(c.engine.waiting) + c.transfers.waiting,
        ),
        Row("vllm:kv_cache_usage_perc", "KV blocks in use, 0 to 1", lambda c: c.engine.pool.usage),
    ),
    counters=(
        Row(
            "vllm:prefix_cache_queries",
            "Prompt tokens looked up",
            lambda c: c.engine.counters.prefix_queries,
        ),
        Row(
            "vllm:prefix_cache_hits",
            "Prompt tokens found",
            lambda c: c.engine.counters.prefix_hits,
        ),
        Row(
            "vllm:prompt_tokens",
            "Prompt tokens processed",
            lambda c: c.engine.counters.prompt_tokens,
        ),
        Row(
            "vllm:generation_tokens",
            "Tokens generated",
            lambda c: c.engine.counters.generation_tokens,
        ),
        Row(
            "vllm:num_preemptions",
            "Requests put back into the queue",
            lambda c: c.engine.counters.preemptions,
        ),
        *(_ended(reason) for reason in ("stop", "length", "abort")),
    ),
    spans={
        "first": ("vllm:time_to_first_token_seconds", "Arrival to first token"),
        "next": ("vllm:inter_token_latency_seconds", "One token to the next"),
        "per_token": (
            "vllm:request_time_per_output_token_seconds",
            "First token to last, per token",
        ),
        "whole": ("vllm:e2e_request_latency_seconds", "Arrival to last token"),
        "queued": ("vllm:request_queue_time_seconds", "Arrival to the engine's start"),
    },
    extra=(_cache_config,),
)
WITH_LORA = replace(WITHOUT_LORA, extra=(_cache_config, _adapters))


def with_nixl(book: Book) -> Book:
    """The book of an engine whose KV connector is NIXL."""
    counters = (
        Row(
            "vllm:nixl_num_failed_transfers",
            "KV transfers that failed, broken handshakes among them",
            lambda c: c.transfers.failed,
        ),
        Row(
            "vllm:nixl_num_kv_expired_reqs",
            "Prefilled requests whose KV nobody read in time",
            lambda c: c.transfers.expired,
        ),
    )
    transfer = ("vllm:nixl_xfer_time_seconds", "Time of a KV transfer")
    return replace(
        book, counters=(*book.counters, *counters), spans={**book.spans, "transfer": transfer}
    )
