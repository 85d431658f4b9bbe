"""Good manifests, as people write them: nothing is found in them, and in nothing that we render."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from policies import Context
from tokenworks.check.run import check_paths

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOOD = sorted((HERE / "corpus").iterdir())
RENDERED = sorted((ROOT / "tests" / "charts" / "examples").glob("*/*/rendered.yaml"))


def said(path: Path, leave: frozenset[str] = frozenset()) -> list[str]:
    report = check_paths([str(path)], io.BytesIO(), Context())
    assert report.objects
    return [f"{f.line}: {f.rule}: {f.message}" for f in report.findings if f.rule not in leave]


def test_the_corpus_is_large() -> None:
    assert len(GOOD) >= 30
    assert len(RENDERED) >= 20


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_manifests_are_silent(path: Path) -> None:
    assert said(path) == []


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_what_our_charts_render_is_silent(path: Path) -> None:
    # Charts render no digests of platform images, and leave the namespace's policies to others.
    assert said(path, frozenset({"image-digest", "network-policy"})) == []
