"""Command lines are found wherever they stand; needs no engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.commands import lines_of, vllm_words

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"command": ["vllm", "serve"], "args": ["m", "--port=1"]}, ("serve", "m", "--port=1")),
        ({"args": ["/usr/bin/vllm", "serve", "m"]}, ("serve", "m")),
        (
            {"command": ["sh", "-c"], "args": ["sleep 0; exec vllm serve m --port 1 && true"]},
            ("serve", "m", "--port", "1"),
        ),
        (
            {"command": ["sh", "-c", "vllm serve m --rank=$((R / 2)) --x ${Y} --z '{\"a\": 1}'"]},
            ("serve", "m", "--rank=0", "--x", "0", "--z", '{"a": 1}'),
        ),
        (
            {
                "command": ["vllm", "serve", "m", "--a=$(KNOWN)", "--b=$(POD)"],
                "env": [{"name": "KNOWN", "value": "7"}, {"name": "POD", "valueFrom": {}}],
            },
            ("serve", "m", "--a=7", "--b=0"),
        ),
        ({"command": ["python3", "-m", "sglang.launch_server"]}, None),
        ({"args": ["serve", "vllm"]}, None),
    ],
)  # fmt: skip
def test_words_are_those_that_vllm_gets(
    container: dict[str, Any], words: tuple[str, ...] | None
) -> None:
    assert vllm_words(container) == words


def test_every_kind_of_object_is_looked_into(tmp_path: Path) -> None:
    file = tmp_path / "rendered" / "dev" / "group.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "kind: Anything\n"
        "spec: {leaderWorkerTemplate: {workerTemplate: {spec: {containers: [\n"
        "  {name: a, command: [vllm, serve], args: [m, --headless]},\n"
        "  {name: b, command: [vllm, serve], args: [m, --headless]},\n"
        "  {name: c, command: [pause]}]}}}}\n"
    )
    assert [str(line) for line in lines_of(tmp_path)] == [
        "rendered/dev/group.yaml: vllm serve m --headless"
    ]


def test_golden_files_and_rendered_environments_have_some(root: Path) -> None:
    tops = {line.file.split("/")[0] for line in lines_of(root)}
    assert tops == {"tests", "rendered"}
