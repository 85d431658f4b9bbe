"""llama.cpp's metric names, as of b10519; they have no labels.

Source: github.com/ggml-org/llama.cpp tools/server/server-task.cpp (2026-11-29).
"""

from __future__ import annotations

from ..metrics import Book, Row


def _labels(model: str, rank: int) -> dict[str, str]:
    del model, rank
    return {}


BOOK = Book(
    labels=_labels,
    gauges=(
        Row(
            "llamacpp:requests_processing",
            "Requests in a slot",
            lambda c: len(c.engine.running),
        ),
        Row(
            "llamacpp:requests_deferred",
            "Requests that wait for a slot",
            lambda c: len(c.engine.waiting),
        ),
    ),
    counters=(
        Row(
            "llamacpp:prompt_tokens",
            "Prompt tokens processed",
            lambda c: c.engine.counters.prompt_tokens - c.engine.counters.prefix_hits,
        ),
        Row(
            "llamacpp:prompt_tokens_cached",
            "Prompt tokens found",
            lambda c: c.engine.counters.prefix_hits,
        ),
        Row(
            "llamacpp:tokens_predicted",
            "Tokens generated",
            lambda c: c.engine.counters.generation_tokens,
        ),
    ),
    spans={},
)
