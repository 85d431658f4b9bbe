"""Prepared changes get the comments that were reviewed.

A difference is either wanted (`python -m tests.review.golden` writes them anew) or a fault.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.review.cases import CASES, NASTY
from tests.review.golden import GOLDEN
from tests.review.repository import Workshop, workshop
from tokenworks.review.comment import LIMIT, MARKER, comment

pytestmark = [pytest.mark.helm, pytest.mark.kubeconform, pytest.mark.slow]
REFUSED = {
    "broken-document", "crd-removal", "crd-unserved", "crd-version", "immutable", "new-finding",
    "rename-without-room",
}  # fmt: skip
"""Cases whose exit code is 1."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, helm: Path, kubeconform: Path) -> Workshop:
    assert helm.exists()
    assert kubeconform.exists()
    return workshop(tmp_path_factory.mktemp("kept"))


@pytest.mark.parametrize("name", CASES)
def test_the_comment_is_the_reviewed_one(name: str, shop: Workshop, tmp_path: Path) -> None:
    comparison = shop.of(CASES[name], tmp_path / name)
    assert comment(comparison) == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")
    assert comparison.fails is (name in REFUSED)


def test_every_golden_comment_has_its_case() -> None:
    assert {file.stem for file in GOLDEN.glob("*.md")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_every_comment_is_one_that_github_takes(name: str) -> None:
    text = (GOLDEN / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"{MARKER}\n")
    assert len(text.encode()) <= LIMIT
    lines = [line.strip() for line in text.splitlines()]
    assert lines.count("<details>") == lines.count("</details>")


def test_what_is_left_out_is_named_and_whole_has_it(shop: Workshop, tmp_path: Path) -> None:
    comparison = shop.of(CASES["huge"], tmp_path / "huge")
    short, whole = comment(comparison), comment(comparison, whole=True)
    assert "**Left out**" in short
    assert "--base main --whole" in short
    assert "Left out" not in whole
    assert len(whole) > LIMIT
    assert all(f"many-{n:04}`" in whole for n in range(1500))


def test_values_stay_values() -> None:
    """Outside code, nothing of what a document says can be read as Markdown, HTML or a name."""
    text = (GOLDEN / "injection.md").read_text(encoding="utf-8")
    assert NASTY.replace("\u202e", "\\u202e") in text
    assert "\u202e" not in text
    assert text.count(MARKER) - text.count(f"| {MARKER} ````") == 1
    for line in text.splitlines():
        if "@octocat" in line:
            assert line.startswith(("    +", "  - `")), line
