"""What is generated is fresh, and a stale file is found without touching the tree."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repo.tree import ROOT, text_of

pytestmark = pytest.mark.slow

GENERATED = re.search(r"^GENERATED := (.*)$", text_of("Makefile"), re.MULTILINE)
assert GENERATED is not None
NAMES = GENERATED[1].split()


def make(target: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", target],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.helm
@pytest.mark.parametrize("name", NAMES)
def test_it_is_fresh(name: str, helm: Path) -> None:
    assert helm.exists()
    done = make(f"verify-{name}")
    assert done.returncode == 0, done.stderr


def test_whatever_is_generated_has_both_targets() -> None:
    targets = re.findall(r"^generate-(\w+):", text_of("Makefile"), re.MULTILINE)
    assert sorted(targets) == sorted(NAMES)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A repository of two lines whose one generated file is fresh."""
    (tmp_path / "hack").mkdir()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".gitignore").write_text("/.venv\n")
    shutil.copy2(ROOT / "hack" / "verify-generate", tmp_path / "hack")
    (tmp_path / "Makefile").write_text("generate-toy:\n\t@echo fresh > made\n")
    (tmp_path / "made").write_text("fresh\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def verify(toy: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [toy / "hack" / "verify-generate", "toy"], capture_output=True, text=True, check=False
    )


def test_a_fresh_file_passes(toy: Path) -> None:
    assert verify(toy).returncode == 0


@pytest.mark.parametrize("stale", ["old\n", None])
def test_a_stale_or_missing_file_is_named_and_left_alone(toy: Path, stale: str | None) -> None:
    made = toy / "made"
    made.unlink()
    if stale is not None:
        made.write_text(stale)
    done = verify(toy)
    assert done.returncode == 1
    assert "made" in done.stderr
    assert "run 'make generate-toy'" in done.stderr
    assert (made.read_text() if made.exists() else None) == stale


def test_a_generator_that_fails_is_shown(toy: Path) -> None:
    (toy / "Makefile").write_text("generate-toy:\n\t@echo broken >&2; exit 3\n")
    done = verify(toy)
    assert done.returncode == 1
    assert "broken" in done.stderr
