"""Who picks the pod that answers: the endpoint picker's configuration, or the engine's router."""

from __future__ import annotations

from typing import Any, Literal

from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import load_routing
from tokenworks.catalog.routers import Decision, LlmDVersion, Plugin, WorkerRouter
from tokenworks.render.command import engine_of, version_of
from tokenworks.render.quantities import mebibytes
from tokenworks.render.roles import HELPER, Release
from tokenworks.spec.common import duration_seconds, quantity_value
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.values import (
    EngineMetrics,
    PickerValues,
    RouterPodValues,
    Scorers,
    SmallResources,
)


def picker(release: Release) -> PickerValues | None:
    """The endpoint picker; None where there is nothing to pick by, or another router does it."""
    model = release.model
    metrics = _metrics(model)
    if release.own_router is not None or not (metrics.queued and metrics.kv_usage):
        return None
    routing = load_routing()
    if release.llm_d is None:
        image = bill().image("inference-extension", "epp")
        config, arguments = _config(model, metrics), ()
        group = "inference.networking.x-k8s.io"
    else:
        reference = release.llm_d.picker.image
        image = bill().image(reference.component, reference.image)
        config = _split_config(model, release.llm_d, metrics)
        arguments = _metric_arguments(model, release.llm_d, metrics)
        group = release.llm_d.picker.objective_group
    return PickerValues(
        image=image,
        verbosity=routing.picker_verbosity,
        scrape_milliseconds=routing.scrape_milliseconds,
        config=config,
        arguments=arguments,
        objective_group=group,
        failure_mode="FailClose",
        resources=HELPER,
    )


def _metrics(model: ModelRelease) -> EngineMetrics:
    """What the engine shows. Engines name adapters only where they serve some, and a gauge that
    the picker was told of and does not find is an error at each look, behind which it reports no
    other."""
    metrics = engine_of(model).metrics_of(version_of(model))
    return metrics if model.spec.lora else metrics.model_copy(update={"lora": ""})


def _scorers(model: ModelRelease) -> Scorers:
    scorers = load_routing().profiles[model.spec.route.profile]
    return scorers if model.spec.caches.prefix else scorers.model_copy(update={"prefix": 0})


def _config(model: ModelRelease, metrics: EngineMetrics) -> dict[str, object]:
    """Configuration of the Inference Extension's own picker (v1.5.0)."""
    weights = _scorers(model)
    scorers = {
        "kv-cache-utilization-scorer": weights.kv_cache,
        "lora-affinity-scorer": weights.lora if metrics.lora else 0,
        "prefix-cache-scorer": weights.prefix,
        "queue-scorer": weights.queue,
    }
    used = {name: weight for name, weight in scorers.items() if weight}
    return {
        "apiVersion": "inference.networking.x-k8s.io/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [
            *({"type": name} for name in used),
            {"type": "max-score-picker"},
            *_gauges(model, metrics),
        ],
        "schedulingProfiles": [
            {
                "name": "default",
                "plugins": [
                    *({"pluginRef": name, "weight": weight} for name, weight in used.items()),
                    {"pluginRef": "max-score-picker"},
                ],
            }
        ],
    }


def _gauges(model: ModelRelease, metrics: EngineMetrics) -> list[dict[str, object]]:
    """The plugins that scrape an engine."""
    names = {
        "queuedRequestsSpec": metrics.queued,
        "runningRequestsSpec": metrics.running,
        "kvUsageSpec": metrics.kv_usage,
        "loraSpec": metrics.lora,
        "cacheInfoSpec": metrics.cache_info,
    }
    return [
        {
            "type": "metrics-data-source",
            "parameters": {"scheme": "http", "path": engine_of(model).paths.metrics},
        },
        {
            "type": "core-metrics-extractor",
            "parameters": {
                "defaultEngine": "engine",
                "engineConfigs": [{"name": "engine", **names}],
            },
        },
    ]


# Prefill and decode through llm-d


def _split_config(
    model: ModelRelease, version: LlmDVersion, metrics: EngineMetrics
) -> dict[str, object]:
    """Two profiles: where the prompt is read, and where the answer is written."""
    facts, weights = version.picker, _scorers(model)
    plugins = facts.plugins
    decision = _decision(model, version)
    scorers = {"queue": weights.queue, "kv_cache": weights.kv_cache, "prefix": weights.prefix}
    used = {name: weight for name, weight in scorers.items() if weight}
    shared = [plugins.headers, plugins.prefix_producer if weights.prefix else None]
    declared: list[Plugin] = [
        *decision.plugins,
        *(plugin for plugin in shared if plugin is not None),
        plugins.prefill_filter,
        plugins.decode_filter,
        *(getattr(plugins, name) for name in used),
        plugins.best,
    ]
    listed = [_plugin(p) for p in declared]
    if facts.metric_flags is None:
        listed += _gauges(model, metrics)
    scoring = [
        {"pluginRef": getattr(plugins, name).type, "weight": weight}
        for name, weight in used.items()
    ]
    sides: tuple[tuple[Literal["prefill", "decode"], Plugin], ...] = (
        ("prefill", plugins.prefill_filter),
        ("decode", plugins.decode_filter),
    )
    return {
        "apiVersion": facts.config_api_version,
        "kind": facts.config_kind,
        "plugins": listed,
        "schedulingProfiles": [
            {
                "name": facts.profiles[side],
                "plugins": [
                    {"pluginRef": part.type},
                    *scoring,
                    {"pluginRef": plugins.best.type},
                ],
            }
            for side, part in sides
        ],
    }


def _decision(model: ModelRelease, version: LlmDVersion) -> Decision:
    """SGLang's pods can do nothing but their part; vLLM's decode reads short prompts itself."""
    facts = version.picker
    return facts.always if model.spec.engine.name == "sglang" else facts.uncached


def _plugin(plugin: Plugin) -> dict[str, Any]:
    named: dict[str, Any] = {"type": plugin.type}
    return {**named, "parameters": plugin.parameters} if plugin.parameters else named


def _metric_arguments(
    model: ModelRelease, version: LlmDVersion, metrics: EngineMetrics
) -> tuple[str, ...]:
    """Gauges by flags, where the release reads them so."""
    flags = version.picker.metric_flags
    if flags is None:
        return ()
    values = {
        "queued": metrics.queued,
        "kvUsage": metrics.kv_usage,
        "lora": metrics.lora,
        "cacheInfo": metrics.cache_info,
        "path": engine_of(model).paths.metrics,
    }
    return tuple(f"{flag}={values[name]}" for name, flag in sorted(flags.items()))


# The engine's own router


def router(release: Release, timeout: str, drain: int) -> RouterPodValues | None:
    """Values of the engine's own router, which watches pods by their role label."""
    facts = release.own_router
    if facts is None:
        return None
    image = bill().image(facts.image.component, facts.image.image)
    body = quantity_value(release.stack.environment.spec.gateway.max_request_body)
    return RouterPodValues(
        image=image,
        command=facts.command,
        arguments=_router_arguments(release, facts, timeout, drain),
        port=facts.port,
        metrics_port=facts.metrics_port,
        health=facts.paths.liveness,
        ready=facts.paths.readiness,
        user=65532,
        # It holds whole bodies: room for sixteen of the largest.
        resources=SmallResources(cpu="100m", memory=mebibytes(quantity_value("256Mi") + 16 * body)),
    )


def _router_arguments(
    release: Release, facts: WorkerRouter, timeout: str, drain: int
) -> tuple[str, ...]:
    names, label = facts.flags, load_routing().llm_d.role_label
    mine = f"app.kubernetes.io/instance={release.model.metadata.name}"
    tenant = next(t for t in release.stack.tenants if t.metadata.name == release.model.spec.tenant)
    mooncake = release.model.spec.topology.transfer == "mooncake"
    arguments = [
        *(facts.mooncake if mooncake else facts.switches),
        names.split,
        names.host, "0.0.0.0",
        names.port, str(facts.port),
        names.policy, "cache_aware" if release.model.spec.caches.prefix else "power_of_two",
        names.discovery,
        names.discovery_namespace, tenant.namespace,
        names.discovery_port, str(release.engine.port),
        names.prefill_selector, mine, f"{label}=prefill", "tokenworks.dev/endpoint=true",
        names.decode_selector, mine, f"{label}=decode", "tokenworks.dev/endpoint=true",
        names.metrics_host, "0.0.0.0",
        names.metrics_port, str(facts.metrics_port),
        names.request_timeout, str(int(duration_seconds(timeout))),
    ]  # fmt: skip
    if names.drain is not None:
        arguments += [names.drain, str(drain)]
    return tuple(arguments)
