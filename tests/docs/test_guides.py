"""Every command of the guides does what the guide says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.guide import ROOT, Step, copy_tree, missing, run, steps, with_history

pytestmark = pytest.mark.slow

GUIDES = sorted(p.name for p in (ROOT / "docs").glob("*.md"))
QUICK = [g for g in GUIDES if any(not s.e2e for s in steps((ROOT / "docs" / g).read_text()))]
SLOW = [g for g in GUIDES if any(s.e2e for s in steps((ROOT / "docs" / g).read_text()))]


def follow(guide: str, folder: Path, e2e: bool) -> None:
    """Run a guide from its top; without the cluster, only the steps that need none."""
    copy = copy_tree(folder)
    found = steps((ROOT / "docs" / guide).read_text())
    if any("--base" in step.command for step in found):
        with_history(copy)
    for step in found:
        if step.e2e and not e2e:
            continue
        problem = run(step, copy)
        assert problem is None, f"docs/{guide}:{step.line}: $ {step.command}\n{problem}"


@pytest.mark.helm
@pytest.mark.parametrize("guide", QUICK)
def test_a_guide_holds_without_a_cluster(guide: str, tmp_path: Path, helm: Path) -> None:
    assert helm.exists()
    follow(guide, tmp_path, e2e=False)


@pytest.mark.e2e
@pytest.mark.parametrize("guide", SLOW)
def test_a_guide_holds_on_the_local_cluster(guide: str, tmp_path: Path) -> None:
    follow(guide, tmp_path, e2e=True)


def test_commands_and_what_they_print_are_told_apart() -> None:
    text = (
        "words\n\n```console\n$ one\nout\n$ two \\\n> more\n```\n\n```console e2e\n$ three\n```\n"
    )
    assert steps(text) == [
        Step(4, "one", ("out",), False),
        Step(6, "two \\\nmore", (), False),
        Step(11, "three", (), True),
    ]


@pytest.mark.parametrize("block", ["```console maybe\n$ x\n```\n", "```console\nx\n```\n"])
def test_a_block_that_is_not_understood_is_refused(block: str) -> None:
    with pytest.raises(ValueError, match="console"):
        steps(block)


@pytest.mark.parametrize(
    ("expected", "printed", "absent"),
    [
        (("a", "b"), "a\nx\nb\n", None),
        (("b", "a"), "a\nb\n", "a"),
        (("… 3 of …",), "pod 3 of 7\n", None),
        (("… 3 of …",), "pod 4 of 7\n", "… 3 of …"),
        (("…",), "", None),
        (("a.c",), "abc\n", "a.c"),
    ],
)
def test_expected_lines_come_in_order(
    expected: tuple[str, ...], printed: str, absent: str | None
) -> None:
    assert missing(expected, printed) == absent


def test_a_failing_command_is_a_failing_guide(tmp_path: Path) -> None:
    assert run(Step(1, "echo no; exit 3", (), False), tmp_path) == "exit code 3\nno\n"
    assert run(Step(1, "false | true", (), False), tmp_path) == "exit code 1\n"
    assert run(Step(1, "echo yes", ("no",), False), tmp_path) == (
        "did not print: no\nprinted:\nyes\n"
    )
