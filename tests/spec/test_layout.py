"""Roles, pods and ranks that a topology stands for."""

from __future__ import annotations

from typing import Any

import pytest

from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelReleaseSpec


def spec(topology: dict[str, Any], gpus: int = 8, **more: Any) -> ModelReleaseSpec:
    """A release of two replicas on pods of so many GPUs."""
    return ModelReleaseSpec.model_validate(
        {
            "tenant": "research",
            "model": {"uri": "hf://org/name", "size": "1Gi", "maxContext": 8192},
            "engine": {"name": "vllm"},
            "topology": topology,
            "pool": "h100",
            "replicas": 2,
            "resources": {"gpus": gpus, "cpu": "1", "memory": "16Gi"},
            **more,
        }
    )


def only(topology: dict[str, Any], gpus: int = 8) -> RoleLayout:
    """The one role of a release."""
    (role,) = layout(spec(topology, gpus))
    return role


@pytest.mark.parametrize(
    ("topology", "gpus", "nodes", "ranks"),
    [
        # tensor, pipeline, data of one replica
        ({"tensorParallel": 8}, 8, 1, (8, 1, 1)),
        ({"tensorParallel": 2, "dataParallel": 4}, 8, 1, (2, 1, 4)),
        ({"tensorParallel": 2, "pipelineParallel": 4}, 8, 1, (2, 4, 1)),
        ({"kind": "multi-node", "tensorParallel": 8}, 8, 2, (8, 2, 1)),
        ({"kind": "multi-node", "tensorParallel": 4}, 8, 2, (4, 4, 1)),
        ({"kind": "multi-node", "tensorParallel": 8, "nodes": 4}, 8, 4, (8, 4, 1)),
        ({"kind": "multi-node", "tensorParallel": 8, "pipelineParallel": 2}, 8, 2, (8, 2, 1)),
        ({"kind": "wide-ep", "tensorParallel": 2}, 8, 2, (2, 1, 8)),
        ({"kind": "wide-ep", "tensorParallel": 1, "nodes": 3}, 8, 3, (1, 1, 24)),
        ({"kind": "wide-ep", "tensorParallel": 1, "dataParallel": 8}, 8, 2, (1, 1, 8)),
        # What is not stated follows from the kind and the pod's GPUs.
        ({}, 8, 1, (8, 1, 1)),
        ({"dataParallel": 4}, 8, 1, (2, 1, 4)),
        ({"kind": "multi-node"}, 8, 2, (8, 2, 1)),
        ({"kind": "multi-node", "pipelineParallel": 4}, 8, 2, (4, 4, 1)),
        ({"kind": "multi-node", "pipelineParallel": 1}, 8, 2, (8, 1, 1)),
        ({"kind": "wide-ep"}, 4, 2, (1, 1, 8)),
        # Played on CPUs: a stage a pod, or two copies of the model in each.
        ({"kind": "multi-node"}, 0, 2, (1, 2, 1)),
        ({"kind": "wide-ep", "nodes": 3}, 0, 3, (1, 1, 6)),
    ],
)
def test_ranks_of_one_replica(
    topology: dict[str, Any], gpus: int, nodes: int, ranks: tuple[int, int, int]
) -> None:
    role = only(topology, gpus)
    assert (role.tensor, role.pipeline, role.data) == ranks
    assert role.nodes == nodes
    assert role.ranks == ranks[0] * ranks[1] * ranks[2]
    assert role.gpus == 2 * nodes * gpus
    assert (role.name, role.path) == ("engine", ("spec", "topology"))


@pytest.mark.parametrize(
    ("topology", "grouped", "all_serve", "local"),
    [
        ({"tensorParallel": 8}, False, False, 1),
        ({"dataParallel": 8}, False, False, 8),
        ({"kind": "multi-node", "tensorParallel": 8}, True, False, 1),
        ({"kind": "wide-ep", "tensorParallel": 2}, True, True, 4),
    ],
)
def test_who_answers(topology: dict[str, Any], grouped: bool, all_serve: bool, local: int) -> None:
    role = only(topology)
    assert (role.grouped, role.all_serve, role.local_data) == (grouped, all_serve, local)


def test_roles_are_as_the_release_where_they_say_nothing() -> None:
    prefill, decode = layout(spec({"kind": "disaggregated", "tensorParallel": 4}, 4))
    assert (prefill.name, decode.name) == ("prefill", "decode")
    for role in (prefill, decode):
        assert (role.replicas, role.nodes, role.tensor, role.pipeline) == (2, 1, 4, 1)
        assert (role.pool, role.resources.gpus, role.flags) == ("h100", 4, {})
        assert role.path == ("spec", "topology", role.name)


def test_roles_say_what_differs() -> None:
    own = {"gpus": 8, "cpu": "2", "memory": "32Gi"}
    roles = {
        "prefill": {"replicas": 0, "pool": "l4"},
        "decode": {
            "tensorParallel": 8, "nodes": 2, "resources": own, "flags": {"max-num-seqs": 64},
        },
    }  # fmt: skip
    prefill, decode = layout(spec({"kind": "disaggregated", "tensorParallel": 4, **roles}, 4))
    assert (prefill.replicas, prefill.pool, prefill.pods, prefill.gpus) == (0, "l4", 0, 0)
    assert (decode.replicas, decode.pods, decode.gpus) == (2, 4, 32)
    assert (decode.tensor, decode.local_tensor, decode.pipeline, decode.ranks) == (16, 8, 1, 16)
    assert decode.flags == {"max-num-seqs": 64}


def test_roles_are_groups_where_the_topology_says_so() -> None:
    split = spec({"kind": "disaggregated", "nodes": 2, "decode": {"nodes": 1}})
    prefill, decode = layout(split)
    assert (prefill.nodes, prefill.tensor, prefill.local_tensor, prefill.grouped) == (
        2,
        16,
        8,
        True,
    )
    assert (decode.nodes, decode.tensor, decode.local_tensor, decode.grouped) == (1, 8, 8, False)


def test_one_field_changes_how_a_model_is_laid_out() -> None:
    laid = {
        kind: [(r.tensor, r.pipeline, r.data, r.gpus) for r in layout(spec({**more, "kind": kind}))]
        for kind, more in (
            ("single", {}),
            ("multi-node", {"nodes": 2}),
            ("wide-ep", {"nodes": 2}),
            ("disaggregated", {"nodes": 2}),
        )
    }
    assert laid == {
        "single": [(8, 1, 1, 16)],
        "multi-node": [(8, 2, 1, 32)],
        "wide-ep": [(1, 1, 16, 32)],
        "disaggregated": [(16, 1, 1, 32), (16, 1, 1, 32)],
    }


def test_a_release_without_pods_has_a_layout_too() -> None:
    (role,) = layout(spec({"kind": "multi-node", "tensorParallel": 8}, 8, replicas=0))
    assert (role.pods, role.gpus, role.ranks) == (0, 0, 16)
