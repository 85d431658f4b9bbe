"""Flags and ports by which ranks find each other."""

from __future__ import annotations

from tests.charts.documents import model, variants
from tokenworks.catalog.engines import load_engines
from tokenworks.catalog.network import load_networks
from tokenworks.render.ranks import Ranks, ranks
from tokenworks.spec.layout import layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.values import RolePort


def found(release: ModelRelease, role: int = 0, network: str | None = None) -> Ranks:
    """Ranks of one role."""
    facts = load_networks()[network] if network else None
    engine = load_engines().engine(release.spec.engine.name)
    return ranks(release, layout(release.spec)[role], engine, facts)


def test_counts_of_one_are_left_out() -> None:
    assert found(model()).flags == {"tensor-parallel-size": 2}
    four = model(topology={"dataParallel": 2}, resources={"gpus": 4})
    assert found(four).flags == {"tensor-parallel-size": 2, "data-parallel-size": 2}


def test_a_group_names_its_first_pod() -> None:
    group = found(variants()["group"])
    assert group.flags["nnodes"] == 2 and group.flags["pipeline-parallel-size"] == 2
    assert group.flags["master-addr"] == "$(LWS_LEADER_ADDRESS)"
    assert group.worker is not None and group.worker.flags == {"headless": True}


def test_each_local_copy_of_experts_has_a_port() -> None:
    experts = found(variants()["experts"], network="efa")
    assert (experts.flags["data-parallel-size"], experts.endpoints) == (8, 4)


def test_tokens_travel_as_the_network_lets_them() -> None:
    """DeepEP sends from the GPU, which neither EFA nor TCP can."""
    usual = {
        network: found(variants()["experts"], network=network).flags["all2all-backend"]
        for network in ("efa", "roce", "tcp", None)
    }
    collective = "allgather_reducescatter"
    assert usual == {
        "efa": collective, "roce": "deepep_low_latency", "tcp": collective, None: collective,
    }  # fmt: skip
    topology = {"kind": "wide-ep", "allToAll": "deepep_high_throughput"}
    asked = model(model={"experts": 64}, topology=topology, resources={"gpus": 8})
    assert found(asked, network="roce").flags["all2all-backend"] == "deepep_high_throughput"


def test_groups_of_prefill_and_decode_have_no_stages() -> None:
    """The KV of a rank is handed over with all its layers: vLLM refuses pipelines there."""
    topology = {"kind": "disaggregated", "nodes": 2, "tensorParallel": 8}
    for engine in ("vllm", "sglang"):
        split = model(engine={"name": engine}, topology=topology, resources={"gpus": 8})
        for role in (0, 1):
            flags = found(split, role, "efa").flags
            tensor = load_engines().engine(engine).flags.tensor_parallel or ""
            tensor = tensor or load_engines().engine(engine).parallel.tensor or ""
            assert (flags["nnodes"], flags[tensor]) == (2, 16)
            assert not {"pipeline-parallel-size", "pp-size"} & flags.keys()


def test_every_rank_hands_kv_over_at_a_port_of_its_own() -> None:
    split = variants()["split"]
    for role in (0, 1):
        assert found(split, role, "efa").ports["nixl"] == RolePort(port=5600, count=2)


def test_the_later_of_two_wins() -> None:
    one = Ranks(flags={"a": 1, "b": 1}, endpoints=4)
    both = one.plus(Ranks(flags={"b": 2}, health_port=9))
    assert (both.flags, both.endpoints, both.health_port) == ({"a": 1, "b": 2}, 4, 9)
