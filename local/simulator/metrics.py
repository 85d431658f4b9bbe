"""Prometheus text under vLLM's metric names.

Source of the names: vLLM's metrics documentation as of v0.26 (August 2026); the endpoint
picker reads the three gauges, `cache_config_info` and `lora_requests_info`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .engine import Engine, Token

_SECONDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5,
    10.0, 20.0, 40.0, 80.0, 160.0, 640.0,
)  # fmt: skip


class Metrics:
    """Everything /metrics shows of one engine."""

    def __init__(self, engine: Engine, model_name: str) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(engine, model_name))
        self._labels = {"model_name": model_name, "engine": "0"}
        self._first = self._histogram("time_to_first_token", "Arrival to first token")
        self._next = self._histogram("inter_token_latency", "One token to the next")
        self._whole = self._histogram("e2e_request_latency", "Arrival to last token")
        self._queued = self._histogram("request_queue_time", "Arrival to the engine's start")
        self._finished = Counter(
            "vllm:request_success",
            "Requests by how they ended",
            [*self._labels, "finished_reason"],
            registry=self._registry,
        )
        for reason in ("stop", "length", "abort"):
            self._finished.labels(**self._labels, finished_reason=reason)

    def observe(self, token: Token) -> None:
        """Take in a token."""
        if token.since_previous is None:
            self._first.observe(token.since_arrival)
            self._queued.observe(token.queued)
        else:
            self._next.observe(token.since_previous)
        if token.last:
            self._whole.observe(token.since_arrival)

    def finished(self, reason: str) -> None:
        """Count the end of a request: `stop`, `length` or `abort`."""
        self._finished.labels(**self._labels, finished_reason=reason).inc()

    def text(self) -> bytes:
        """The text that scrapers read."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, help_text: str) -> Histogram:
        return Histogram(
            f"vllm:{name}_seconds",
            f"{help_text}, in seconds",
            list(self._labels),
            registry=self._registry,
            buckets=_SECONDS,
        ).labels(**self._labels)


class _EngineCollector(Collector):
    """The engine's present state and its counters, read when scraped."""

    def __init__(self, engine: Engine, model_name: str) -> None:
        self._engine = engine
        self._labels = {"model_name": model_name, "engine": "0"}

    def collect(self) -> Iterator[Metric]:
        """The metrics, in a fixed order."""
        engine = self._engine
        yield self._gauge("num_requests_running", "Requests in the batch", len(engine.running))
        yield self._gauge("num_requests_waiting", "Requests in the queue", len(engine.waiting))
        yield self._gauge("kv_cache_usage_perc", "KV blocks in use, 0 to 1", engine.pool.usage)
        yield self._cache_config()
        yield self._adapters()
        counters = engine.counters
        for name, help_text, value in (
            ("prefix_cache_queries", "Prompt tokens looked up", counters.prefix_queries),
            ("prefix_cache_hits", "Prompt tokens found", counters.prefix_hits),
            ("prompt_tokens", "Prompt tokens processed", counters.prompt_tokens),
            ("generation_tokens", "Tokens generated", counters.generation_tokens),
            ("num_preemptions", "Requests put back into the queue", counters.preemptions),
        ):
            family = CounterMetricFamily(f"vllm:{name}", help_text, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), value)
            yield family

    def _gauge(self, name: str, help_text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", help_text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _cache_config(self) -> Metric:
        config = self._engine.config
        labels = {
            "block_size": str(config.block_size),
            "num_gpu_blocks": str(config.num_blocks),
            "enable_prefix_caching": str(config.prefix_caching),
            "engine": "0",
        }
        family = GaugeMetricFamily(
            "vllm:cache_config_info", "Configuration of the cache", labels=list(labels)
        )
        family.add_metric(list(labels.values()), 1.0)
        return family

    def _adapters(self) -> Metric:
        running, waiting = self._engine.adapters()
        labels = {
            "max_lora": str(self._engine.config.max_loras),
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
