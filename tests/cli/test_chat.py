"""What can be asked by name."""

from __future__ import annotations

from tests.charts.documents import LORA, model, stack
from tokenworks.cli.chat import served_names


def test_models_and_their_adapters_can_be_asked() -> None:
    assert served_names(stack(model(lora=LORA))) == ["Qwen/Qwen3-32B", "billing", "sql-2"]
    assert served_names(stack(model())) == ["Qwen/Qwen3-32B"]
