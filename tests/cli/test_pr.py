"""`pr`: what it compares, and what it says when it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.guide import copy_tree, with_history
from tests.repo.tree import ROOT
from tests.review.cases import scale_change
from tests.review.repository import Workshop, committed, git, repository, workshop
from tokenworks.cli.pr import compare
from tokenworks.cli.states import pair
from tokenworks.errors import UsageError
from tokenworks.review.comment import comment
from tokenworks.review.trees import Repository

pytestmark = [pytest.mark.helm, pytest.mark.kubeconform, pytest.mark.slow]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, helm: Path, kubeconform: Path) -> Workshop:
    assert helm.exists()
    assert kubeconform.exists()
    return workshop(tmp_path_factory.mktemp("kept"))


def test_two_commits_are_compared_wherever_the_files_are(shop: Workshop, tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    git(folder, "checkout", "--quiet", "-b", "change")
    scale_change(folder)
    head = committed(folder)
    git(folder, "checkout", "--quiet", "main")
    assert "`2` → `4`" in comment(shop.compared(folder, "main", "change"))
    assert "`2` → `4`" in comment(shop.compared(folder, "main", head))
    assert "nothing changes" in comment(shop.compared(folder, "main"))


def test_what_main_got_meanwhile_is_no_change_of_the_branch(shop: Workshop, tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    git(folder, "checkout", "--quiet", "-b", "change")
    (folder / "README.md").write_text("words\n")
    committed(folder)
    git(folder, "checkout", "--quiet", "main")
    scale_change(folder)
    committed(folder)
    git(folder, "checkout", "--quiet", "change")
    assert "nothing changes" in comment(shop.compared(folder, "main"))


def test_documents_of_the_base_that_do_not_load_are_said(shop: Workshop, tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    chat = folder / "stacks" / "team" / "models" / "chat.yaml"
    sound = chat.read_text()
    chat.write_text(sound.replace("replicas: 2", "replica: 2"))
    committed(folder)
    chat.write_text(sound)
    found = shop.compared(folder)
    assert not found.fails
    said = comment(found)
    assert "The documents of the base do not load: everything below counts as new." in said
    assert "did you mean replicas?" in said


def test_an_environment_that_there_is_not_is_refused(shop: Workshop, tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    with pair(Repository(folder), "main", None, shop.tools, shop.shelf) as states:
        with pytest.raises(UsageError, match="did you mean team"):
            compare(states, "main", ["taem"])
        scale_change(folder)
        assert [r.environment for r in compare(states, "main", ["team"]).reviews] == ["team"]
        assert compare(states, "main", ["cloud"]).unchanged == ("cloud",)


def test_a_base_is_rendered_once(shop: Workshop, tmp_path: Path) -> None:
    for number in range(2):
        folder = repository(tmp_path / f"r{number}")
        scale_change(folder)
        shop.compared(folder)
    assert len(list(shop.shelf.folder.glob("*.json"))) <= 3


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this repository with a history of its own."""
    folder = copy_tree(tmp_path_factory.mktemp("checkout"))
    for name in ("local", "prod", "staging"):
        shutil.rmtree(folder / "stacks" / name)
    with_history(folder)
    return folder


def said(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as users of the checkout type it, without its launcher."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "tokenworks.cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def test_a_change_of_a_chart_is_a_change(checkout: Path) -> None:
    """Both states are rendered by their own charts and code."""
    chart = checkout / "charts" / "model" / "templates"
    file = next(
        f for f in sorted(chart.rglob("*.yaml")) if "kind: PodDisruptionBudget" in f.read_text()
    )
    sound = file.read_text()
    file.write_text(sound.replace("maxUnavailable: 1", "maxUnavailable: 2"))
    try:
        assert file.read_text() != sound
        done = said(checkout, "pr", "--base", "HEAD", "--no-infrastructure")
    finally:
        file.write_text(sound)
    assert done.returncode == 0, done.stderr
    assert "- `spec.maxUnavailable`: `1` → `2`" in done.stdout


def test_a_base_that_cannot_be_asked_is_rendered_by_the_code_here(checkout: Path) -> None:
    """And is asked again the next time: what stands in for an answer is not kept."""
    file = checkout / "src" / "tokenworks" / "cli" / "snapshot.py"
    sound = file.read_text()
    file.unlink()
    committed(checkout)
    file.write_text(sound)
    found = [said(checkout, "pr", "--base", "HEAD").stdout for _ in range(2)]
    committed(checkout)
    assert all("cannot be asked" in text and "nothing changes" in text for text in found)


def test_the_comment_goes_to_a_file(checkout: Path, tmp_path: Path) -> None:
    done = said(checkout, "pr", "--base", "HEAD", "--out", str(tmp_path / "c.md"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing changes" in (tmp_path / "c.md").read_text()


def test_refusals_alone_are_asked_by_check(checkout: Path) -> None:
    file = checkout / "stacks" / "dev" / "environment.yaml"
    sound = file.read_text()
    without = "spec:\n  platform: {leaderWorkerSet: {enabled: false}}\n"
    file.write_text(sound.replace("spec:\n", without, 1))
    try:
        done = said(checkout, "check", "dev", "--base", "HEAD")
    finally:
        file.write_text(sound)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error: [crd-removal] CustomResourceDefinition leaderworkersets" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pr", "--base", "nope"), '"nope" is no commit, branch or tag'),
        (("pr", "--base", "HEAD", "--head", "nope"), '"nope" is no commit, branch or tag'),
        (("pr", "--base", "HEAD", "--env", "nope"), 'unknown environment "nope"'),
        (("check", "charts", "--base", "HEAD"), "--base wants an environment"),
        (("pr",), "--base"),
    ],
)
def test_wrong_usage_is_said(checkout: Path, arguments: tuple[str, ...], words: str) -> None:
    done = said(checkout, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_copy_without_history_cannot_be_compared(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    for name in ("src", "local", "policies", "charts", "stacks"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    done = said(folder, "pr", "--base", "HEAD")
    assert done.returncode == 2
    assert "is no Git repository" in done.stderr


def test_a_place_that_cannot_be_written_is_refused_at_once(checkout: Path, tmp_path: Path) -> None:
    for out, words in ((tmp_path, "not a folder"), (tmp_path / "no" / "c.md", "that is there")):
        done = said(checkout, "pr", "--base", "nosuch", "--out", str(out))
        assert done.returncode == 2
        assert words in done.stderr
