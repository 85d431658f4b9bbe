"""Documents to values: the arithmetic and the refusals."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.charts.documents import model, simulator, stack
from tokenworks.catalog.engines import load_engines, load_routing
from tokenworks.errors import UsageError
from tokenworks.render.model import model_ready_seconds, model_values
from tokenworks.render.weights import start_seconds
from tokenworks.spec.common import quantity_value
from tokenworks.spec.model import ModelRelease, RoutingProfile


@pytest.mark.parametrize(
    ("size", "rate", "load", "seconds"),
    [
        ("66G", "200M", "300s", 630),
        ("1Mi", "100M", "60s", 61),
        ("10Gi", "1Gi", "1m30s", 100),
        ("1Gi", "1Ti", "500ms", 1),
    ],
)
def test_a_start_is_size_by_bandwidth_and_load(
    size: str, rate: str, load: str, seconds: int
) -> None:
    release = model(model={"size": size}, startup={"downloadBytesPerSecond": rate, "load": load})
    assert start_seconds(release) == seconds


def test_a_rollout_takes_one_start_and_stop_a_pod() -> None:
    one, three = (model_ready_seconds(model(replicas=n)) for n in (1, 3))
    # Pull 900, start 630, buffer 30; then pre-stop 10, drain 120, buffer 30.
    assert (one, three) == (1720.0, 5160.0)
    assert model_ready_seconds(model(replicas=0)) == one


def test_disk_is_what_was_asked_for_or_what_the_volumes_fill() -> None:
    def disk(asked: str) -> str:
        release = model(resources={"ephemeralStorage": asked})
        return model_values(stack(release), release).roles["engine"].resources.ephemeral_storage

    assert disk("120Gi") == "120Gi"
    # 66 GB and a fifth, 2 GiB of /tmp, 6 GiB of caches, and room for the log.
    assert disk("10Gi") == "83788Mi"
    assert quantity_value("83788Mi") >= 66e9 * 1.2 + 8 * 2**30 + 64 * 2**20


def test_a_cache_size_replaces_the_fifth() -> None:
    release = model(caches={"weights": {"size": "100Gi"}})
    assert model_values(stack(release), release).weights.size == "100Gi"


@pytest.mark.parametrize("profile", ["balanced", "latency", "throughput"])
def test_the_profile_decides_the_scorers(profile: RoutingProfile) -> None:
    release = model(route={"profile": profile})
    picker = model_values(stack(release), release).picker
    assert picker is not None
    (scheduling,) = cast("list[dict[str, Any]]", picker.config["schedulingProfiles"])
    weights = {p["pluginRef"]: p.get("weight") for p in scheduling["plugins"]}
    expected = load_routing().profiles[profile]
    assert weights["queue-scorer"] == expected.queue
    assert weights["kv-cache-utilization-scorer"] == expected.kv_cache
    assert weights["prefix-cache-scorer"] == expected.prefix


def test_the_route_has_its_own_timeout_or_the_gateways() -> None:
    own, other = model(route={"timeout": "900s"}), model()
    assert model_values(stack(own), own).route.timeout == "900s"
    assert model_values(stack(other), other).route.timeout == "200s"


def test_only_pods_with_gpus_are_queued() -> None:
    queued, free = simulator(), simulator(resources={"gpus": 0}, topology={"tensorParallel": 1})
    assert model_values(stack(queued), queued).roles["engine"].queue is not None
    assert model_values(stack(free), free).roles["engine"].queue is None
    without = stack(queued, environment={"spec": {"platform": {"kueue": {"enabled": False}}}})
    assert model_values(without, queued).roles["engine"].queue is None


def test_a_commit_nobody_knows_yet_is_no_flag() -> None:
    release = model(model={"revision": "unresolved"})
    assert "revision" not in model_values(stack(release), release).engine.flags


def test_the_catalogs_image_is_the_default() -> None:
    release = model(engine={"image": None})
    image = model_values(stack(release), release).engine.image
    assert (image.repository, image.tag) == ("docker.io/vllm/vllm-openai", "v0.26.0")


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"flags": {"port": 80}}, "spec.engine.flags.port: is derived"),
        ({"flags": {"tensor-parallel-size": 2}}, "spec.engine.flags.tensor-parallel-size"),
        ({"flags": {"shutdown-timeout": 2}}, "spec.engine.flags.shutdown-timeout"),
        ({"env": {"HF_HOME": "/x"}}, "spec.engine.env.HF_HOME: is derived"),
        ({"env": {"HF_TOKEN": "x"}}, "spec.engine.env.HF_TOKEN: is derived"),
        ({"version": "9.9.9", "image": None}, "spec.engine.version: unknown version 9.9.9"),
    ],
)
def test_what_is_derived_or_unknown_is_refused(engine: dict[str, object], words: str) -> None:
    release: ModelRelease = model(engine=engine)
    with pytest.raises(UsageError, match=words):
        model_values(stack(release), release)


def test_an_engine_nobody_knows_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"unknown engine \"other\"; the catalog knows .*simulator.*vllm"
    ):
        load_engines().engine("other")


def test_versions_are_compared_as_numbers() -> None:
    engine = load_engines().engine("vllm")
    assert [engine.drains(v) for v in ("0.9.0", "0.17.12", "0.18.0", "0.100.0", "1.0.0")] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_every_engine_says_where_its_facts_come_from() -> None:
    for engine in load_engines().engines.values():
        assert engine.source and engine.date >= "2026-01-01"
