"""The real vLLM accepts every command line that our charts have rendered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from local.engine import Installed, parsed
from tests.charts.rendering import Helm
from tests.engine.commands import Line, lines_of, of_matrix

pytestmark = pytest.mark.engine


def renamed(line: Line) -> Line:
    """The same with its first flag misspelt."""
    at = next(i for i, word in enumerate(line.words) if word.startswith("--"))
    return replace(
        line, words=(*line.words[:at], f"--re{line.words[at][2:]}", *line.words[at + 1 :])
    )


WRONG = {
    "unrecognized arguments: --max-model=2048": ("serve", "m", "--max-model=2048"),
    "argument --max-model-len: invalid": ("serve", "m", "--max-model-len=many"),
    "argument --kv-transfer-config: 1 validation error": (
        "serve",
        "m",
        "--kv-transfer-config={half",
    ),
    "": ("serve", "m", "--max-model-len=2048", "--no-enable-prefix-caching"),
}
"""What the parser says to lines of our own; nothing to the last."""


@pytest.fixture(scope="module")
def lines(root: Path, helm: Path) -> list[Line]:
    kept, matrix = lines_of(root), of_matrix(Helm(helm))
    assert kept and matrix, "charts have rendered no command line of vLLM"
    return [*kept, *matrix]


@pytest.fixture(scope="module")
def answers(engine: Installed, lines: list[Line]) -> dict[tuple[str, ...], str]:
    """What the parser says to every line, with and without a mistake; vLLM loads once."""
    asked = [line.words for line in lines]
    asked += [renamed(line).words for line in lines] + list(WRONG.values())
    return dict(zip(asked, parsed(engine, asked), strict=True))


def test_every_rendered_command_line_is_accepted(
    lines: list[Line], answers: dict[tuple[str, ...], str]
) -> None:
    refused = [f"{line}\n  {answers[line.words]}" for line in lines if answers[line.words]]
    assert not refused, "\n".join(refused)


def test_a_renamed_flag_is_refused_wherever_it_stands(
    lines: list[Line], answers: dict[tuple[str, ...], str]
) -> None:
    for line in map(renamed, lines):
        assert "unrecognized arguments: --re" in answers[line.words], line


@pytest.mark.parametrize("complaint", WRONG)
def test_cut_names_and_values_of_the_wrong_kind_are_refused(
    complaint: str, answers: dict[tuple[str, ...], str]
) -> None:
    said = answers[WRONG[complaint]]
    assert complaint in said and bool(complaint) == bool(said), said
