"""Who picks: the endpoint picker, llm-d's, or the engine's own router."""

from __future__ import annotations

from tests.charts.documents import model, stack, variants
from tokenworks.render.model import model_values


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


def test_vllms_router_is_told_the_connector() -> None:
    for transfer in ("nixl", "mooncake"):
        split = {"kind": "disaggregated", "router": "engine", "transfer": transfer}
        release = model(topology=split)
        router = model_values(stack(release), release).router
        assert router is not None
        words = list(router.arguments)
        assert words[words.index("--kv-connector") + 1] == transfer
