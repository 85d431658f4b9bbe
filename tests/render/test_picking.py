"""Who picks: the endpoint picker, llm-d's, or the engine's own router."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.documents import LORA, model, stack, variants
from tokenworks.render.model import model_values
from tokenworks.spec.model import ModelRelease


def test_one_of_them_picks_where_there_is_something_to_pick_by() -> None:
    expected = {"vllm": (True, False), "split-router": (False, True), "plain": (False, False)}
    for name, picks in expected.items():
        release = variants()[name]
        values = model_values(stack(release), release)
        assert (values.picker is not None, values.router is not None) == picks, name


def test_without_prefix_cache_nothing_scores_by_prefix() -> None:
    release = model(caches={"prefix": False})
    picker = model_values(stack(release), release).picker
    assert picker is not None and "prefix" not in str(picker.config)


def test_gauges_are_named_as_the_release_of_llm_d_reads_them() -> None:
    release = variants()["split"]
    for version, flags in (("0.4.0", True), ("0.10.0", False)):
        lab = stack(release, environment={"spec": {"platform": {"llmD": {"router": version}}}})
        picker = model_values(lab, release).picker
        assert picker is not None
        named = any("vllm:kv_cache_usage_perc" in word for word in picker.arguments)
        assert named == flags
        assert ("vllm:kv_cache_usage_perc" in str(picker.config)) != flags


def scraped(release: ModelRelease) -> dict[str, Any]:
    """Gauges that the release's picker is told of."""
    picker = model_values(stack(release), release).picker
    assert picker is not None
    plugins: Any = picker.config["plugins"]
    (extractor,) = [p for p in plugins if p["type"] == "core-metrics-extractor"]
    (engine,) = extractor["parameters"]["engineConfigs"]
    return engine


@pytest.mark.parametrize("load", ["start", "sidecar"])
def test_the_gauge_of_adapters_is_asked_for_where_there_are_some(load: str) -> None:
    """Engines show it only with adapters, and a gauge that is not there is an error each time."""
    limits = {"maxLoaded": 2, "maxKept": 8, "maxRank": 32} if load == "sidecar" else {}
    with_some = scraped(model(lora={**LORA, "load": load, **limits}))
    without = scraped(model())
    assert with_some["loraSpec"] == "vllm:lora_requests_info"
    # Empty is how the picker is told not to look; left out, it would be looked for.
    assert without == {**with_some, "loraSpec": ""}


def test_llm_d_asks_no_split_release_for_adapters() -> None:
    release = variants()["split"]
    lab = stack(release, environment={"spec": {"platform": {"llmD": {"router": "0.4.0"}}}})
    picker = model_values(lab, release).picker
    assert picker is not None
    assert "--lora-info-metric=" in picker.arguments
    later = stack(release, environment={"spec": {"platform": {"llmD": {"router": "0.10.0"}}}})
    assert "lora_requests" not in str(model_values(later, release).picker)


def test_vllms_router_is_told_the_connector() -> None:
    for transfer in ("nixl", "mooncake"):
        split = {"kind": "disaggregated", "router": "engine", "transfer": transfer}
        release = model(topology=split)
        router = model_values(stack(release), release).router
        assert router is not None
        words = list(router.arguments)
        assert words[words.index("--kv-connector") + 1] == transfer
