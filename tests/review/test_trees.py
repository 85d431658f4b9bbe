"""Commits, and what is said where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.review.repository import committed, git
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.review.trees import Repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "--quiet", "--initial-branch", "main")
    for name, text in (("stacks/a/x", "1"), ("stacks/b/y", "2"), ("stacks/.hidden/z", "3")):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    committed(made)
    return made


def test_names_stand_for_commits(folder: Path) -> None:
    first = git(folder, "rev-parse", "HEAD").strip()
    git(folder, "tag", "v1")
    for name in ("main", "HEAD", "v1", first, first[:10]):
        assert Repository(folder).commit(name) == first


@pytest.mark.parametrize("ref", ["nope", "--help", "-1", "", "main:stacks", "a b", "HEAD~9"])
def test_what_is_no_commit_is_refused(folder: Path, ref: str) -> None:
    with pytest.raises(UsageError, match="is no commit, branch or tag"):
        Repository(folder).commit(ref)


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no Git repository"):
        Repository(tmp_path).commit("main")


def test_a_part_of_the_history_is_told_from_a_wrong_name(folder: Path, tmp_path: Path) -> None:
    first = git(folder, "rev-parse", "HEAD").strip()
    (folder / "more").write_text("x")
    committed(folder)
    part = tmp_path / "part"
    git(tmp_path, "clone", "--quiet", "--depth", "1", folder.as_uri(), str(part))
    with pytest.raises(UsageError, match="fetch --unshallow"):
        Repository(part).commit(first)


def test_two_ends_of_a_part_of_the_history(folder: Path, tmp_path: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "other")
    (folder / "other").write_text("x")
    committed(folder)
    git(folder, "checkout", "--quiet", "main")
    (folder / "more").write_text("x")
    committed(folder)
    part = tmp_path / "part"
    git(
        tmp_path,
        "clone",
        "--quiet",
        "--depth",
        "1",
        "--no-single-branch",
        folder.as_uri(),
        str(part),
    )
    repository = Repository(part)
    ends = repository.commit("origin/main"), repository.commit("origin/other")
    with pytest.raises(UsageError, match="too short to tell"):
        repository.fork(*ends)


def test_the_fork_is_the_last_common_commit(folder: Path) -> None:
    first = git(folder, "rev-parse", "HEAD").strip()
    git(folder, "checkout", "--quiet", "-b", "change")
    (folder / "x").write_text("x")
    change = committed(folder)
    git(folder, "checkout", "--quiet", "main")
    (folder / "y").write_text("y")
    main = committed(folder)
    assert Repository(folder).fork(main, change) == first


def test_histories_that_share_nothing_cannot_be_compared(folder: Path) -> None:
    first = git(folder, "rev-parse", "HEAD").strip()
    git(folder, "checkout", "--quiet", "--orphan", "alone")
    with pytest.raises(UsageError, match="no commit in common"):
        Repository(folder).fork(first, committed(folder, "alone"))


def test_differences_are_of_the_files_that_are_here(folder: Path) -> None:
    repository = Repository(folder)
    first = repository.commit("HEAD")
    assert not repository.differs(first, None, ["stacks"])
    (folder / "stacks" / "a" / "x").write_text("other")
    assert repository.differs(first, None, ["stacks"])
    assert not repository.differs(first, None, ["stacks/b"])
    (folder / "stacks" / "b" / "new").write_text("not added yet")
    assert repository.differs(first, None, ["stacks/b"])
    second = committed(folder)
    assert repository.differs(first, second, ["stacks/b"])
    assert not repository.differs(second, None, ["stacks"])


def test_a_commit_is_written_as_it_was(folder: Path, tmp_path: Path) -> None:
    repository = Repository(folder)
    first = repository.commit("HEAD")
    (folder / "stacks" / "a" / "x").write_text("later")
    out = repository.export(first, tmp_path / "out")
    assert (out / "stacks" / "a" / "x").read_text() == "1"
    assert repository.names(first, "stacks") == ("a", "b")
    assert repository.names(first, "nothing") == ()


@pytest.mark.parametrize("target", ["/etc", "../../outside"])
def test_a_link_that_leads_out_is_refused_in_words(
    target: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "stacks" / "link").symlink_to(target)
    committed(folder)
    repository = Repository(folder)
    with pytest.raises(TokenworksError, match="must lead to a place inside it"):
        repository.export(repository.commit("HEAD"), tmp_path / "out")


def test_the_same_content_has_the_same_identity_in_every_commit(folder: Path) -> None:
    repository = Repository(folder)
    first = repository.commit("HEAD")
    (folder / "elsewhere").write_text("x")
    second = committed(folder)
    assert repository.identity(first, "stacks/a") == repository.identity(second, "stacks/a") != ""
    assert repository.identity(first, "gone") == ""
