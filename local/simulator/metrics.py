"""Prometheus text under an engine's own names, which a `Book` lists.

Gauges and counters are read from the cores when somebody scrapes; latencies are histograms
in seconds that every token adds to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .core import Core
from .engine import Token

Span = Literal["first", "next", "per_token", "whole", "queued", "transfer"]
Labels = Callable[[str, int], dict[str, str]]
_SECONDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5,
    10.0, 20.0, 40.0, 80.0, 160.0, 640.0,
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One sample of every core. Rows of one name follow one another and differ in `more`."""

    name: str
    help: str
    read: Callable[[Core], float]
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels beside those of the core."""


@dataclass(frozen=True)
class Book:
    """An engine's names.

    `labels` makes the labels of a model's core of some rank; `extra` makes what has labels
    of its own. A counter's name goes without `_total`.
    """

    labels: Labels
    gauges: tuple[Row, ...]
    counters: tuple[Row, ...]
    spans: Mapping[Span, tuple[str, str]]
    """Name and help of histograms of seconds."""
    extra: tuple[Callable[[Sequence[Core]], Metric], ...] = ()


class Metrics:
    """Everything that scrapers see of one server."""

    def __init__(self, cores: Sequence[Core], model_name: str, book: Book) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_CoreCollector(cores, model_name, book))
        self._spans: dict[tuple[int, Span], Histogram] = {}
        for span, (name, help_text) in book.spans.items():
            labels = {core.rank: book.labels(model_name, core.rank) for core in cores}
            histogram = Histogram(
                name,
                f"{help_text}, in seconds",
                list(labels[cores[0].rank]),
                registry=self._registry,
                buckets=_SECONDS,
            )
            for rank, values in labels.items():
                self._spans[rank, span] = histogram.labels(**values) if values else histogram

    def observe(self, rank: int, token: Token) -> None:
        """Take in a token."""
        if token.since_previous is None:
            self.took(rank, "first", token.since_arrival)
            self.took(rank, "queued", token.queued)
        else:
            self.took(rank, "next", token.since_previous)
        if token.last:
            self.took(rank, "whole", token.since_arrival)
            if token.index:
                self.took(rank, "per_token", token.since_first / token.index)

    def took(self, rank: int, span: Span, seconds: float) -> None:
        """Add a duration, if the engine measures such ones."""
        if histogram := self._spans.get((rank, span)):
            histogram.observe(seconds)

    def text(self) -> bytes:
        """The text that scrapers read."""
        return generate_latest(self._registry)


class _CoreCollector(Collector):
    """The cores' present state and their counters, read when scraped."""

    def __init__(self, cores: Sequence[Core], model_name: str, book: Book) -> None:
        self._cores, self._model, self._book = cores, model_name, book

    def collect(self) -> Iterator[Metric]:
        """The metrics, in a fixed order."""
        yield from self._families(self._book.gauges, GaugeMetricFamily)
        for make in self._book.extra:
            yield make(self._cores)
        yield from self._families(self._book.counters, CounterMetricFamily)

    def _families(
        self, rows: Sequence[Row], kind: type[GaugeMetricFamily | CounterMetricFamily]
    ) -> Iterator[Metric]:
        family: GaugeMetricFamily | CounterMetricFamily | None = None
        for row in rows:
            if family is None or family.name != row.name:
                if family is not None:
                    yield family
                first = self._book.labels(self._model, self._cores[0].rank)
                family = kind(row.name, row.help, labels=[*first, *row.more])
            for core in self._cores:
                labels = {**self._book.labels(self._model, core.rank), **row.more}
                family.add_metric(list(labels.values()), row.read(core))
        if family is not None:
            yield family
