"""Shape of a model: the numbers of its config.json that decide how large its KV cache is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tokenworks.spec.common import Document, Form

Count = Annotated[int, Field(ge=1, le=10_000_000)]


class Shape(Document):
    """What the model's config.json says, under the hub's own names in camel case."""

    architecture: Annotated[
        str, Form(r"[A-Za-z][A-Za-z0-9_]*", "a name such as Qwen3ForCausalLM", max_length=80)
    ] = Field(description="The one of `architectures`.")
    num_hidden_layers: Count = Field(description="Layers.")
    num_attention_heads: Count = Field(description="Heads of one layer.")
    num_key_value_heads: Count | None = Field(
        default=None, description="Heads that keep a key and a value; default: all."
    )
    head_dim: Count | None = Field(default=None, description="Numbers of one head.")
    hidden_size: Count | None = Field(
        default=None, description="Numbers of one token between layers."
    )
    kv_lora_rank: Count | None = Field(default=None, description="Latent attention: its vector.")
    qk_rope_head_dim: Count | None = Field(
        default=None, description="Latent attention: what is kept of positions beside it."
    )
    max_position_embeddings: Count = Field(description="The model's own longest sequence.")
