"""What does not fit into GPUs, and the arithmetic by which that is known before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tokenworks.catalog.engines import load_engines
from tokenworks.render.command import shared_flags
from tokenworks.spec.environment import Environment
from tokenworks.spec.layout import RoleLayout, layout
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.shape import Shape
from tokenworks.spec.sizing import UnsizedError, kv_numbers, sequence_bytes, weight_bytes
from tokenworks.spec.sizing_rules import check_sizes
from tokenworks.spec.sourced import Documents, Sourced
from tokenworks.spec.yamlsource import read_yaml

QWEN = {
    "architecture": "Qwen3ForCausalLM", "numHiddenLayers": 64, "numAttentionHeads": 64,
    "numKeyValueHeads": 8, "headDim": 128, "hiddenSize": 5120, "maxPositionEmbeddings": 40960,
}  # fmt: skip
"""Qwen3-32B: 5120 / 64 is 80, and a head has 128 numbers."""
LLAMA = {
    "architecture": "LlamaForCausalLM", "numHiddenLayers": 80, "numAttentionHeads": 64,
    "numKeyValueHeads": 8, "hiddenSize": 8192, "maxPositionEmbeddings": 131072,
}  # fmt: skip
"""Llama 3.1 70B, whose config.json leaves headDim out."""
DEEPSEEK = {
    "architecture": "DeepseekV3ForCausalLM", "numHiddenLayers": 61, "numAttentionHeads": 128,
    "numKeyValueHeads": 128, "hiddenSize": 7168, "kvLoraRank": 512, "qkRopeHeadDim": 64,
    "maxPositionEmbeddings": 163840,
}  # fmt: skip
BF16 = 2


def release(gpus: int = 1, **spec: Any) -> ModelRelease:
    """Qwen3-32B on a pod of so many H100 of 80 GB."""
    model = {"uri": "hf://Qwen/Qwen3-32B", "size": "66G", "config": QWEN}
    return ModelRelease.model_validate(
        {
            "metadata": {"name": "m"},
            "spec": {
                "tenant": "t",
                "engine": {"name": "vllm"},
                "pool": "h100",
                "resources": {"gpus": gpus, "cpu": "1", "memory": "64Gi"},
                **spec,
                "model": {**model, **spec.get("model", {})},
            },
        }
    )


def said(model: ModelRelease) -> list[str]:
    """Problems of a release on its pool."""
    pool = {"gpu": "nvidia-h100-80gb", "gpusPerNode": 8, "nodes": 8}
    environment = Environment.model_validate(
        {
            "metadata": {"name": "e"},
            "spec": {
                "cluster": {"provider": "existing", "context": "e"},
                "nodePools": {"h100": pool},
            },
        }
    )
    (node,) = read_yaml("{}").documents
    sourced = Sourced(environment, Path("e.yaml"), lambda: node)
    documents = Documents(sourced, (), (), frozenset())
    facts = load_engines().engine(model.spec.engine.name)
    return [
        str(p) for p in check_sizes(Sourced(model, Path("m.yaml"), lambda: node), documents, facts)
    ]


def role(topology: dict[str, Any], gpus: int) -> RoleLayout:
    return layout(release(gpus, topology=topology, model={"experts": 256}).spec)[0]


@pytest.mark.fieldnote(11)
class TestDoesNotStart:
    """The KV of one sequence has to fit beside the weights, or the engine ends while starting."""

    def test_a_sequence_that_does_not_fit_is_refused_with_the_numbers(self) -> None:
        (problem,) = said(release(model={"maxContext": 32768}))
        for number in ("32768", "8.6 GB of KV", "66.0 GB of weights", "7.6 GB", "73.6 GB"):
            assert number in problem
        assert "spec.model.maxContext" in problem and "at most 28991" in problem

    def test_the_longest_that_it_names_fits_and_the_next_one_does_not(self) -> None:
        assert said(release(model={"maxContext": 28991})) == []
        assert said(release(model={"maxContext": 28992})) != []

    def test_an_unset_length_is_the_models_own(self) -> None:
        """40960 tokens are 10.7 GB: unset is not unknown."""
        unset = release()
        assert "40960" in said(unset)[0]
        assert shared_flags(unset)["max-model-len"] == 40960
        assert said(release(2)) == [], "beside half of the weights there is room"

    def test_nobody_knows_the_length_of_a_model_without_numbers(self) -> None:
        with pytest.raises(ValueError, match="without config nobody knows"):
            release(model={"config": None})
        assert said(release(model={"config": None, "maxContext": 32768})) == []

    def test_longer_than_the_model_can_is_refused(self) -> None:
        (problem,) = said(release(4, model={"maxContext": 65536}))
        assert "65536" in problem and "40960" in problem
        stretched = {"name": "vllm", "flags": {"hf-overrides": {"rope_scaling": {"factor": 4}}}}
        assert said(release(4, model={"maxContext": 65536}, engine=stretched)) == []

    @pytest.mark.parametrize(
        "change",
        [
            {"caches": {"kv": {"dtype": "fp8"}}},
            {"engine": {"name": "vllm", "flags": {"kv-cache-dtype": "fp8"}}},
            {"caches": {"kv": {"memoryFraction": 0.95}}},
            {"engine": {"name": "vllm", "flags": {"gpu-memory-utilization": 0.95}}},
            {"topology": {"pipelineParallel": 2}, "gpus": 2},
            # What follows shrinks weights by how much nobody here knows.
            {"engine": {"name": "vllm", "flags": {"quantization": "fp8"}}},
            {"engine": {"name": "vllm", "flags": {"cpu-offload-gb": 20}}},
            {"engine": {"name": "llamacpp"}},
            {"engine": {"name": "vllm", "simulation": {}}},
        ],
        ids=str,
    )
    def test_what_makes_room_is_counted_or_left_alone(self, change: dict[str, Any]) -> None:
        assert said(release(model={"maxContext": 32768}, **change)) == []

    def test_what_takes_room_is_counted(self) -> None:
        long = {"maxContext": 28000}
        assert said(release(model=long)) == []
        assert said(release(model=long, caches={"kv": {"memoryFraction": 0.9}})) != []

    def test_each_role_is_looked_at(self) -> None:
        split = {"kind": "disaggregated", "decode": {"resources": {
            "gpus": 2, "cpu": "1", "memory": "64Gi"}}}  # fmt: skip
        (problem,) = said(release(model={"maxContext": 32768}, topology=split))
        assert "each GPU of prefill" in problem


@pytest.mark.fieldnote(12)
class TestPlannerArithmetic:
    """Numbers by hand: what is divided, what is copied, what is never guessed."""

    def test_grouped_heads_keep_a_key_and_a_value_each(self) -> None:
        assert kv_numbers(Shape.model_validate(QWEN), 1) == 2 * 8 * 128

    def test_a_head_is_what_the_config_says(self) -> None:
        """Hidden size / heads is 80 here, a third too few."""
        assert kv_numbers(Shape.model_validate(QWEN), 8) == 2 * 128
        with pytest.raises(UnsizedError) as unsized:
            kv_numbers(Shape.model_validate({**QWEN, "headDim": None}), 1)
        assert unsized.value.field == "headDim"

    def test_where_the_config_is_silent_it_is_what_the_architecture_does(self) -> None:
        assert kv_numbers(Shape.model_validate(LLAMA), 1) == 2 * 8 * 128

    def test_heads_without_groups_all_keep_something(self) -> None:
        shape = Shape.model_validate({**LLAMA, "numKeyValueHeads": None})
        assert kv_numbers(shape, 1) == 2 * 64 * 128

    @pytest.mark.parametrize(("tensor", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (3, 3)])
    def test_fewer_heads_than_ranks_are_copied(self, tensor: int, heads: int) -> None:
        assert kv_numbers(Shape.model_validate(QWEN), tensor) == 2 * heads * 128

    @pytest.mark.parametrize("tensor", [1, 8, 16])
    def test_a_latent_is_on_every_rank(self, tensor: int) -> None:
        assert kv_numbers(Shape.model_validate(DEEPSEEK), tensor) == 512 + 64

    def test_stages_divide_layers(self) -> None:
        group = role({"kind": "multi-node"}, 8)
        assert (group.tensor, group.pipeline) == (8, 2)
        one = sequence_bytes(Shape.model_validate(DEEPSEEK), group, 1, BF16)
        assert one == 31 * 576 * 2, "of 61 layers the fuller stage has 31"
        assert weight_bytes(689e9, group) == 689e9 / 16

    def test_copies_of_a_model_have_all_of_its_weights(self) -> None:
        copies = role({"dataParallel": 4}, 8)
        assert (copies.tensor, copies.data) == (2, 4)
        assert weight_bytes(66e9, copies) == 33e9
        one = sequence_bytes(Shape.model_validate(QWEN), copies, 1, BF16)
        assert one == 64 * 2 * 4 * 128 * 2, "a sequence is in one copy alone"

    def test_experts_are_spread_over_the_copies(self) -> None:
        experts = role({"kind": "wide-ep"}, 8)
        assert (experts.tensor, experts.data) == (1, 16)
        assert weight_bytes(689e9, experts) == 689e9 / 16
        assert sequence_bytes(Shape.model_validate(DEEPSEEK), experts, 65536, BF16) == (
            61 * 576 * 2 * 65536
        )

    def test_a_smaller_type_takes_less(self) -> None:
        pod = role({}, 1)
        shape = Shape.model_validate(QWEN)
        assert sequence_bytes(shape, pod, 1000, 1) * 2 == sequence_bytes(shape, pod, 1000, BF16)

    @pytest.mark.parametrize("name", ["Gemma3ForCausalLM", "GptOssForCausalLM", "Mine"])
    def test_an_unknown_architecture_is_refused(self, name: str) -> None:
        (problem,) = said(release(model={"config": {**QWEN, "architecture": name}}))
        assert f"found {name}" in problem and "Qwen3ForCausalLM" in problem
        with pytest.raises(UnsizedError):
            kv_numbers(Shape.model_validate({**QWEN, "architecture": name}), 1)

    def test_a_latent_without_its_size_is_refused(self) -> None:
        (problem,) = said(release(model={"config": {**DEEPSEEK, "kvLoraRank": None}}))
        assert "spec.model.config.kvLoraRank" in problem
