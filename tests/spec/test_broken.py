"""Every broken document is refused in exactly the words beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tokenworks.errors import UsageError
from tokenworks.spec.load import load_stack
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.sourced import EngineCatalog

BROKEN = Path(__file__).parent / "broken"
CASES = sorted(path.name for path in BROKEN.iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES)
def test_message(case: str, stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    root = stack_root(BROKEN / case)
    with pytest.raises(DocumentErrors) as raised:
        load_stack(root, "env", engines)
    assert str(raised.value) + "\n" == (BROKEN / case / "expected.txt").read_text(encoding="utf-8")
    assert isinstance(raised.value, UsageError)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("case", CASES)
def test_message_names_file_reason_and_remedy(case: str) -> None:
    title, *lines = (BROKEN / case / "expected.txt").read_text(encoding="utf-8").splitlines()
    assert title == f"stacks/env: {len(lines)} problem{'' if len(lines) == 1 else 's'}"
    for line in lines:
        assert line.startswith("stacks/env/"), "file"
        assert line.count(";") >= 1, "a remedy follows what was found"


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 30
