"""Make a model that loads in a second: two layers, one token a byte, random weights.

Runs in the engine's Python, not in ours, which does not have these modules. The seed is
fixed, so the same packages make the same files. Answers are nonsense; that they come,
in time and in order, is what is tested.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

BOS, EOS = "<s>", "</s>"
CONTEXT = 32768
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def save_tokenizer(folder: Path) -> int:
    """Write a tokenizer with a token for each byte; returns the size of its vocabulary."""
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    words = [BOS, EOS, *sorted(byte_level.alphabet())]
    vocabulary = {word: number for number, word in enumerate(words)}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = byte_level(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    outer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token=BOS, eos_token=EOS, model_max_length=CONTEXT
    )
    outer.chat_template = TEMPLATE
    outer.save_pretrained(folder)
    return len(vocabulary)


def save_weights(folder: Path, vocabulary: int) -> None:
    """Write configuration and weights of a small Llama."""
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        # Two heads of 64; the CPU's attention kernels know none smaller than 32.
        hidden_size=128,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=256,
        num_hidden_layers=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def main(folder: Path) -> None:
    """Write the model, readable by everyone: a pod's user is another than ours."""
    save_weights(folder, save_tokenizer(folder))
    for file in folder.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
