"""The page of caches says what the renderer does, of every cache that an engine can be told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.caches import kinds, page, values
from tokenworks.catalog.engines import load_engines
from tokenworks.spec.caches import Caches, Distributed, WeightsCache

ROOT = Path(__file__).resolve().parents[2]
LINES = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in page(ROOT).splitlines()
    if line.startswith("| ") and not line.startswith(("| cache |", "|---"))
]
ENGINES = load_engines().engines
TIERS = {
    "offload: {cpu: 32Gi}": "cpu",
    "nvme": "nvme",
    "lmcache": "lmcache",
    "mooncake": "mooncake",
    "hicache": "hicache",
}


def test_it_has_the_columns_that_were_promised() -> None:
    assert "| flags, variables, files | volumes | memory and disk | risks |" in page(ROOT)
    for line in LINES:
        assert len(line) == 7 and all(line), line


def test_every_field_of_caches_has_a_row() -> None:
    said = " ".join(str(kind["say"]) for kind in kinds(ROOT))
    fields = {
        "'offload'",
        "'distributed'",
        "'prefix'",
        "'memoryFraction'",
        "'dtype'",
        "'blockSize'",
    }
    assert {field for field in fields if field not in said} == set()
    assert Caches.model_fields.keys() == {"weights", "prefix", "kv", "offload", "distributed"}
    for options in (
        WeightsCache.model_fields["kind"].annotation, Distributed.model_fields["kind"].annotation,
    ):  # fmt: skip
        for name in getattr(options, "__args__", ()):
            assert name == "none" or f"'{name}'" in said, name


@pytest.mark.parametrize("sign", TIERS)
def test_places_beyond_the_gpu_are_there_for_every_engine_that_knows_them(sign: str) -> None:
    rows = {title for line in LINES if sign in line[1] for title in line[2].split(", ")}
    knowing = {e.title for e in ENGINES.values() if TIERS[sign] in e.tier_names(e.default)}
    assert rows == knowing


def test_flags_are_those_that_are_rendered() -> None:
    (line,) = [x for x in LINES if x[1] == "`offload: {cpu: 32Gi}`" and x[2] == "vLLM"]
    rendered = values("vllm", {"caches": {"offload": {"cpu": "32Gi"}}})
    assert rendered is not None
    size = rendered.engine.flags["kv-offloading-size"]
    assert f"`--kv-offloading-size={size}`" in line[3]
    assert rendered.roles["engine"].resources.shared_memory in line[5]
    assert "32Gi of the pod's 96Gi" in line[5]


def test_what_is_refused_has_no_row() -> None:
    store = {"kind": "lmcache", "address": "a:1", "namespace": "n", "memory": "32G"}
    assert values("trtllm", {"caches": {"distributed": store}}) is None
    assert not [line for line in LINES if "lmcache" in line[1] and "TensorRT" in line[2]]


def test_the_guide_leads_to_it() -> None:
    assert "](reference/caches.md)" in (ROOT / "docs" / "caches.md").read_text()
