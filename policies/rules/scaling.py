"""Autoscalers that look at what engines really say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from policies.engines import Program
from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Path, Violation, rule
from policies.rules.shared import of_item
from policies.tree import is_mapping, is_sequence, mapping, quantity, sequence
from tokenworks.catalog.commandline import grammars

_HPA = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_METRICS = "https://docs.vllm.ai/en/stable/design/metrics/"
_KINDS = (
    "HorizontalPodAutoscaler", "ScaledObject", "PrometheusRule", "VerticalPodAutoscaler",
    "VariantAutoscaling", "ConfigMap",
)  # fmt: skip
_NAME = re.compile(r"\b(?:vllm|sglang)[:_][a-z0-9_]+")
_SUFFIX = re.compile(r"_(?:bucket|count|sum|total|created)$")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:3])


def _texts(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if is_mapping(value):
        for key, child in value.items():
            yield from _texts(child, (*path, key))
    elif is_sequence(value):
        for position, child in enumerate(value):
            yield from _texts(child, (*path, position))
    elif isinstance(value, str):
        yield path, value


@rule(
    "metric-names",
    "warning",
    "Metrics have the names that the engine's version gives them",
    "A query for a name that is gone answers nothing: the scaler stays at its minimum, the alert "
    "stays silent.",
    "Ask for the name of the version that runs; during an upgrade for both, with `or`.",
    _METRICS,
    whole_set=True,
)
def metric_names(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    versions = _versions(inventory)
    for item in inventory.graph.of_kind(*_KINDS):
        if item.kind == "ConfigMap" and not _rules_inside(item):
            continue
        key = "data" if item.kind == "ConfigMap" else "spec"
        for path, text in _texts(item.manifest.get(key), (key,)):
            for name in dict.fromkeys(_NAME.findall(text)):
                problem = _problem(name, text, versions)
                if problem:
                    yield of_item(item, path, *problem)


def _rules_inside(item: Item) -> bool:
    """A ConfigMap of the Prometheus adapter, or of rules."""
    return any(
        "seriesQuery" in str(v) or "expr:" in str(v)
        for v in mapping(item.manifest.get("data")).values()
    )


def _versions(inventory: Inventory) -> dict[str, tuple[int, ...]]:
    """Oldest version of each engine of the set, as far as tags tell."""
    found: dict[str, tuple[int, ...]] = {}
    for program in inventory.programs:
        tag = program.container.image.partition("@")[0].rpartition(":")[2]
        match = re.match(r"v?(\d+\.\d+\.\d+)", tag)
        if match and program.line.engine:
            version = _version(match[1])
            found[program.line.engine] = min(found.get(program.line.engine, version), version)
    return found


def _problem(
    name: str, text: str, versions: Mapping[str, tuple[int, ...]]
) -> tuple[str, str] | None:
    engine = "vllm" if name.startswith("vllm") else "sglang"
    facts = grammars()[engine].facts
    plain = _SUFFIX.sub("", name)
    current: dict[str, str] = {key: str(value) for key, value in facts["metrics"].items() if value}
    running = versions.get(engine)
    for change in facts["metricsBefore"]:
        for key, old in change["names"].items():
            new, before = current.get(key, ""), _version(change["before"])
            renamed = bool(old and new) and plain == _SUFFIX.sub("", old) and new not in text
            if renamed and (running is None or running >= before):
                return (
                    f"asks for {name}, which {facts['title']} calls {new} since {change['before']}",
                    f"ask for {new}",
                )
    known = {_SUFFIX.sub("", value) for value in current.values()}
    # Before 1.0 some exporters wrote an underscore instead of the colon; both are read.
    typo = next((k for k in sorted(known) if _near(plain, k)), None)
    if typo and plain not in known:
        return f"asks for {name}, which {facts['title']} does not have", f"ask for {typo}"
    return None


def _near(name: str, known: str) -> bool:
    """One letter changed, or left out."""
    if name == known or abs(len(name) - len(known)) > 1:
        return False
    if len(name) == len(known):
        pairs = [(a, b) for a, b in zip(name, known, strict=True) if a != b]
        return len(pairs) == 1 and pairs[0] != ("_", ":") and not pairs[0][0].isdigit()
    longer, shorter = (name, known) if len(name) > len(known) else (known, name)
    return any(longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer)))


def _scaled(inventory: Inventory, item: Item) -> str | None:
    """The engine that a scaler scales, as its container is called."""
    program = _target(inventory, item)
    return program.title if program else None


def _target(inventory: Inventory, item: Item) -> Program | None:
    """The engine that a scaler scales."""
    ref = mapping(item.spec.get("scaleTargetRef"))
    kind, name = str(ref.get("kind") or "Deployment"), str(ref.get("name"))
    for program in inventory.in_namespace(item.namespace):
        pod = program.container.pod
        if (pod.kind, pod.name) == (kind, name) and (
            program.needs_gpu and program.mode == "server"
        ):
            return program
    return None


def _cpu(item: Item) -> Iterator[tuple[Path, str]]:
    if item.kind == "HorizontalPodAutoscaler":
        if "targetCPUUtilizationPercentage" in item.spec:
            yield ("spec", "targetCPUUtilizationPercentage"), "cpu"
        yield from _resources(item.spec, ("spec",))
        if not item.spec.get("metrics") and "targetCPUUtilizationPercentage" not in item.spec:
            yield ("spec", "metrics"), "cpu, the default"
    for position, trigger in enumerate(sequence(item.spec.get("triggers"))):
        if mapping(trigger).get("type") in ("cpu", "memory"):
            yield ("spec", "triggers", position, "type"), str(mapping(trigger)["type"])


def _resources(spec: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    """CPU and memory among the metrics of an autoscaler."""
    for position, metric in enumerate(sequence(spec.get("metrics"))):
        for key in ("resource", "containerResource"):
            name = mapping(mapping(metric).get(key)).get("name")
            if name in ("cpu", "memory"):
                yield (*path, "metrics", position, key, "name"), str(name)


@rule(
    "scale-on-cpu",
    "warning",
    "Engines are scaled by their queue, not by CPU or memory",
    "An engine keeps a core busy while it waits and holds its memory for ever: CPU and memory say "
    "nothing about load.",
    "Scale on waiting and running requests, or on the use of the KV cache.",
    _HPA,
    whole_set=True,
)
def scale_on_cpu(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("HorizontalPodAutoscaler", "ScaledObject"):
        title = _scaled(inventory, item)
        for path, name in _cpu(item) if title else ():
            yield of_item(
                item, path, f"scales {title} on {name}",
                "scale on waiting requests (vllm:num_requests_waiting) or KV use",
            )  # fmt: skip
    for item in inventory.graph.of_kind("NIMService"):
        scale = mapping(item.spec.get("scale"))
        if scale.get("enabled") is True:
            for path, name in _resources(mapping(scale.get("hpa")), ("spec", "scale", "hpa")):
                yield of_item(
                    item, path, f"is scaled on {name}",
                    "scale on waiting requests or on the use of the KV cache",
                )  # fmt: skip


_AVERAGES = re.compile(r"^\s*avg\s*[({b]|\)\s*/\s*(scalar\s*\(\s*)?count\s*[({b]")
"""A query that averages: over series, or by their number."""


@rule(
    "metric-average",
    "warning",
    "No average is divided twice",
    "KEDA and the HPA divide an AverageValue by the number of replicas; a query that averages "
    "already asks for too few of them.",
    "Use sum() with AverageValue, or metricType Value with avg().",
    "https://keda.sh/docs/latest/concepts/scaling-deployments/",
)
def metric_average(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("ScaledObject"):
        for position, trigger in enumerate(sequence(item.spec.get("triggers"))):
            entry = mapping(trigger)
            query = str(mapping(entry.get("metadata")).get("query") or "")
            kind = entry.get("metricType") or "AverageValue"
            if kind == "AverageValue" and _AVERAGES.search(query):
                yield of_item(
                    item, ("spec", "triggers", position, "metadata", "query"),
                    "averages, and AverageValue divides by the replicas once more",
                    "write sum(…), or set metricType: Value",
                )  # fmt: skip


@rule(
    "metric-ceiling",
    "warning",
    "Thresholds are below what the metric can reach",
    "The use of the KV cache is a share from 0 to 1, and no more requests run than --max-num-seqs "
    "lets in: a threshold above that is never passed, and the scaler or the alert never acts.",
    "Write shares as 0.8, not 80, and running requests below --max-num-seqs.",
    _METRICS,
    whole_set=True,
)
def metric_ceiling(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item, path, name, threshold, shown in _thresholds(inventory):
        ceiling, why = _ceiling(inventory, item, name)
        if ceiling is not None and threshold > ceiling:
            yield of_item(
                item, path,
                f"waits for {name} above {shown}, and it never passes {ceiling} ({why})",
                "write 0.8 for 80 %" if ceiling == 1 else f"write less than {ceiling}",
            )  # fmt: skip


def _shares() -> frozenset[str]:
    """Names of the gauges that go from 0 to 1, of all versions, with a colon."""
    found: set[str] = set()
    for engine in ("vllm", "sglang"):
        facts = grammars()[engine].facts
        found.add(str(facts["metrics"]["kvUsage"]))
        found |= {str(old["names"].get("kvUsage")) for old in facts["metricsBefore"]}
    return frozenset(name for name in found if ":" in name)


def _ceiling(inventory: Inventory, item: Item, name: str) -> tuple[int | None, str]:
    if name in _shares():
        return 1, "a share"
    program = _target(inventory, item) if name == "vllm:num_requests_running" else None
    most = program.line.value("max-num-seqs") if program else None
    if isinstance(most, int) and not isinstance(most, bool):
        return most, "--max-num-seqs"
    return None, ""


_GAUGE = r"((?:vllm|sglang)[:_][a-z0-9_]+)(?:\{[^{}]*\})?(?:\[\w+\])?"
_ALONE = re.compile(rf"\s*(sum|avg|max|min|max_over_time|avg_over_time)?[\s(]*{_GAUGE}[\s)]*")
_COMPARED = re.compile(rf"{_GAUGE}[\s)]*>=?\s*(\d+(?:\.\d+)?)(?![\w.*/])(?!\s*[*/])")


def _colon(name: str) -> str:
    """The gauge's own name: adapters write an underscore for the colon."""
    return re.sub(r"^(vllm|sglang)_", r"\1:", name)


def _thresholds(inventory: Inventory) -> Iterator[tuple[Item, Path, str, Fraction, str]]:
    """Comparisons of one gauge by itself with a number: the gauge, the number, as it is written."""
    graph = inventory.graph
    for item in graph.of_kind("ScaledObject"):
        for position, trigger in enumerate(map(mapping, sequence(item.spec.get("triggers")))):
            data = mapping(trigger.get("metadata"))
            match = _ALONE.fullmatch(str(data.get("query") or ""))
            number = quantity(data.get("threshold"))
            summed = (
                match is not None and match[1] == "sum" and trigger.get("metricType") == "Value"
            )
            if match and number is not None and not summed:
                path = ("spec", "triggers", position, "metadata", "threshold")
                yield item, path, _colon(match[2]), number, str(data["threshold"])
    for item in graph.of_kind("HorizontalPodAutoscaler"):
        yield from _of_hpa(item)
    for item in graph.of_kind("PrometheusRule"):
        for path, text in _texts(item.spec.get("groups"), ("spec", "groups")):
            for match in _COMPARED.finditer(text) if path[-1] == "expr" else ():
                number = quantity(match[2])
                if number is not None and _colon(match[1]) in _shares() and "sum" not in text:
                    yield item, path, _colon(match[1]), number, match[2]


def _of_hpa(item: Item) -> Iterator[tuple[Item, Path, str, Fraction, str]]:
    for position, metric in enumerate(map(mapping, sequence(item.spec.get("metrics")))):
        for key in ("pods", "external", "object"):
            source = mapping(metric.get(key))
            target = mapping(source.get("target"))
            for field in ("averageValue",) if key != "object" else ("averageValue", "value"):
                number = quantity(target.get(field))
                name = str(mapping(source.get("metric")).get("name") or "")
                if number is not None:
                    path = ("spec", "metrics", position, key, "target", field)
                    yield item, path, _colon(name), number, str(target[field])


ALL = (metric_names, scale_on_cpu, metric_average, metric_ceiling)
