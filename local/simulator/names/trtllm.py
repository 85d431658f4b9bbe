"""TensorRT-LLM's metric names.

Source: github.com/NVIDIA/TensorRT-LLM tensorrt_llm/metrics/collector.py and
tensorrt_llm/serve/openai_server.py, which labels everything `undefined` (2026-11-29).
"""

from __future__ import annotations

from ..core import Core
from ..metrics import Book, Row


def _labels(model: str, rank: int) -> dict[str, str]:
    del model, rank
    return {"model_name": "undefined", "engine_type": "undefined"}


def _hit_rate(core: Core) -> float:
    counters = core.engine.counters
    return counters.prefix_hits / counters.prefix_queries if counters.prefix_queries else 0.0


def _ended(reason: str) -> Row:
    return Row(
        "trtllm_request_success",
        "Requests by how they ended",
        lambda core: core.ended[reason],
        {"finished_reason": reason},
    )


BOOK = Book(
    labels=_labels,
    gauges=(
        Row("trtllm_num_requests_running", "Active requests", lambda c: len(c.engine.running)),
        Row("trtllm_num_requests_waiting", "Queued requests", lambda c: len(c.engine.waiting)),
        Row("trtllm_kv_cache_utilization", "KV blocks in use", lambda c: c.engine.pool.usage),
        Row("trtllm_kv_cache_hit_rate", "Share of prompts found", _hit_rate),
        Row("trtllm_kv_cache_max_blocks", "KV blocks", lambda c: c.engine.config.num_blocks),
        Row("trtllm_kv_cache_free_blocks", "Free KV blocks", lambda c: c.engine.pool.free),
        Row(
            "trtllm_kv_cache_tokens_per_block",
            "Tokens of a KV block",
            lambda c: c.engine.config.block_size,
        ),
    ),
    counters=(
        *(_ended(reason) for reason in ("stop", "length")),
        Row(
            "trtllm_prompt_tokens",
            "Prompt tokens processed",
            lambda c: c.engine.counters.prompt_tokens,
        ),
        Row(
            "trtllm_generation_tokens",
            "Tokens generated",
            lambda c: c.engine.counters.generation_tokens,
        ),
    ),
    spans={
        "first": ("trtllm_time_to_first_token_seconds", "Arrival to first token"),
        "per_token": ("trtllm_time_per_output_token_seconds", "First token to last, per token"),
        "whole": ("trtllm_e2e_request_latency_seconds", "Arrival to last token"),
        "queued": ("trtllm_request_queue_time_seconds", "Arrival to the engine's start"),
    },
)
