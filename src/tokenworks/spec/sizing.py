"""Arithmetic of GPU memory: what a rank keeps of the weights, and of the KV of one sequence.

Everything is a lower bound: activations, graphs and buffers come on top. So what does not fit
here does not start anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tokenworks.catalog.architectures import architectures
from tokenworks.spec.layout import RoleLayout
from tokenworks.spec.shape import Shape


@dataclass(frozen=True)
class UnsizedError(ValueError):
    """Why the KV of a model cannot be worked out, and by which field."""

    field: str
    found: str
    allowed: str
    remedy: str


def kv_numbers(shape: Shape, tensor: int) -> int:
    """Numbers that one layer keeps of one token on each of its tensor ranks.

    Raises:
        UnsizedError: the architecture is unknown, or its config.json says more than the document.
    """
    known = architectures().architectures.get(shape.architecture)
    if known is None:
        names = ", ".join(architectures().architectures)
        raise UnsizedError(
            "architecture",
            f"found {shape.architecture}, whose KV cache nobody has described",
            names,
            "remove config, or describe it in the catalog's architectures.yaml",
        )
    if known.attention == "latent":
        # The vector is not divided: every rank needs all of it.
        return _stated(shape, "kvLoraRank") + _stated(shape, "qkRopeHeadDim")
    heads = shape.num_key_value_heads or shape.num_attention_heads
    # Fewer heads than ranks are copied, so that each rank has one.
    return 2 * math.ceil(heads / tensor) * _head_dim(shape, known.head_dim == "divided")


def _head_dim(shape: Shape, divided: bool) -> int:
    if shape.head_dim is None and divided and shape.hidden_size is not None:
        return shape.hidden_size // shape.num_attention_heads
    return _stated(shape, "headDim")


def _stated(shape: Shape, name: str) -> int:
    """A number that the architecture needs."""
    value: int | None = shape.model_dump(by_alias=True)[name]
    if value is None:
        raise UnsizedError(
            name,
            f"is missing, and {shape.architecture} has it",
            "the number in config.json",
            "copy it from there",
        )
    return value


def sequence_bytes(shape: Shape, role: RoleLayout, tokens: int, number: float) -> float:
    """Bytes of KV that one sequence takes on the fullest rank of a role.

    Stages divide layers; copies of the model divide nothing of a sequence.

    Args:
        tokens: length of the sequence.
        number: bytes of one number.
    """
    layers = math.ceil(shape.num_hidden_layers / role.pipeline)
    return layers * kv_numbers(shape, role.tensor) * number * tokens


def weight_bytes(size: float, role: RoleLayout) -> float:
    """Bytes of the weights on each GPU of a role: tensor ranks and stages divide them, copies of
    the model each have them all, and experts are spread over the copies too."""
    ranks = role.ranks if role.all_serve else role.tensor * role.pipeline
    return size / ranks
