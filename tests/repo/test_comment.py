"""Posting a comment: GitHub, played here, says which pull request; the text never does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hack import comment
from hack.comment import LIMIT, MARKER, GitHub, RefusedError, Run, post, text_of
from tests.repo.github import Quiet, played

COMMIT = "a" * 40
RUN = Run("stranger", "a&b=c#d", COMMIT)
TEXT = f"{MARKER}\nwords\n"


@dataclass
class Hub:
    """A repository as GitHub shows it, and what was written to it."""

    pulls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    comments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    wrote: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    tokens: set[str | None] = field(default_factory=set[str | None])


def answer_of(hub: Hub, path: str, query: dict[str, list[str]]) -> object:
    if path.endswith("/pulls"):
        return [pull for pull in hub.pulls if pull["from"] == query["head"][0]]
    if path.endswith("/comments"):
        first = (int(query["page"][0]) - 1) * int(query["per_page"][0])
        return hub.comments[first : first + int(query["per_page"][0])]
    raise KeyError(path)


@pytest.fixture
def hub() -> Hub:
    return Hub([{"number": 7, "from": "stranger:a&b=c#d", "head": {"sha": COMMIT}}])


@pytest.fixture
def github(hub: Hub) -> Iterator[GitHub]:
    class Handler(Quiet):
        def handle_any(self) -> None:
            url = urlsplit(self.path)
            hub.tokens.add(self.headers["Authorization"])
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if body is None:
                hub.asked.append((self.command, url.path))
                said, status = answer_of(hub, url.path, parse_qs(url.query)), 200
            else:
                hub.wrote.append((self.command, url.path, body["body"]))
                said, status = {}, 201
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        do_GET = do_POST = do_PATCH = handle_any  # noqa: N815 - what the library calls

    with played(Handler) as found:
        yield found


def said(body: str, kind: str = "Bot", number: int = 1) -> dict[str, Any]:
    return {"id": number, "body": body, "user": {"type": kind}}


def test_the_first_comment_is_made(hub: Hub, github: GitHub) -> None:
    assert post(github, RUN, TEXT) == "commented on 7"
    assert hub.wrote == [("POST", "/repos/owner/name/issues/7/comments", TEXT)]
    assert hub.tokens == {"Bearer t0ken"}


def test_a_later_one_takes_its_place_wherever_it_is(hub: Hub, github: GitHub) -> None:
    hub.comments = [said(f"comment {n}", "User", n) for n in range(150)]
    hub.comments.append(said(f"{MARKER}\nolder\n", number=999))
    assert post(github, RUN, TEXT) == "updated the comment on 7"
    assert hub.wrote == [("PATCH", "/repos/owner/name/issues/comments/999", TEXT)]


def test_the_same_comment_is_not_written_twice(hub: Hub, github: GitHub) -> None:
    hub.comments = [said(TEXT)]
    assert post(github, RUN, TEXT) == "the comment on 7 says so already"
    assert hub.wrote == []


def test_a_comment_of_a_person_is_never_overwritten(hub: Hub, github: GitHub) -> None:
    hub.comments = [said(f"{MARKER}\nI pretend\n", "User", 3)]
    assert post(github, RUN, TEXT) == "commented on 7"


@pytest.mark.parametrize(
    "pulls",
    [
        [],
        [{"number": 8, "from": "stranger:a&b=c#d", "head": {"sha": "b" * 40}}],
        [{"number": 9, "from": "other:main", "head": {"sha": COMMIT}}],
    ],
    ids=["closed", "has moved on", "of another"],
)
def test_no_other_pull_request_gets_it(
    hub: Hub, github: GitHub, pulls: list[dict[str, Any]]
) -> None:
    hub.pulls = pulls
    assert "nothing to do" in post(github, RUN, TEXT)
    assert hub.wrote == []


@pytest.mark.parametrize(
    "raw",
    [
        b"words\n",
        b"\xff\xfe",
        f" {MARKER}\n".encode(),
        f"{MARKER}\n{'x' * LIMIT}".encode(),
        f"{MARKER}\n\0".encode(),
    ],
    ids=["no marker", "no text", "marker elsewhere", "too long", "NUL"],
)
def test_what_is_no_comment_is_refused(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "comment.md"
    file.write_bytes(raw)
    with pytest.raises(RefusedError, match=r"comment\.md"):
        text_of(file)


def given_to(github: GitHub) -> dict[str, str]:
    """Variables that the workflow passes on."""
    return {
        "GITHUB_API_URL": github.api, "GITHUB_REPOSITORY": github.repository,
        "GITHUB_TOKEN": github.token, "HEAD_OWNER": RUN.owner, "HEAD_BRANCH": RUN.branch,
        "HEAD_SHA": RUN.commit,
    }  # fmt: skip


def run_main(file: Path, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> int:
    for name, value in given_to(github).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["comment.py", str(file)])
    return comment.main()


def test_a_run_without_a_comment_is_no_failure(
    tmp_path: Path, github: GitHub, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(tmp_path / "none.md", github, monkeypatch) == 0
    assert hub.asked == []


def test_the_file_is_posted(
    tmp_path: Path, github: GitHub, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "comment.md").write_text(TEXT)
    assert run_main(tmp_path / "comment.md", github, monkeypatch) == 0
    assert len(hub.wrote) == 1


@pytest.mark.parametrize("missing", ["GITHUB_REPOSITORY", "GITHUB_TOKEN", "HEAD_BRANCH"])
def test_a_variable_that_is_missing_is_named(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "comment.md").write_text(TEXT)
    closed = GitHub("http://127.0.0.1:1", "owner/name", "t0ken")
    monkeypatch.setattr("os.environ", given_to(closed) | {missing: ""})
    monkeypatch.setattr("sys.argv", ["comment.py", str(tmp_path / "comment.md")])
    assert comment.main() == 1
    assert f"error: {missing} not set" in capsys.readouterr().err


def test_a_command_line_without_a_file_is_told_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["comment.py"])
    assert comment.main() == 1
    assert "usage: make post-comment FROM=comment.md" in capsys.readouterr().err


def test_what_github_does_not_answer_is_said(
    tmp_path: Path,
    github: GitHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "comment.md").write_text(TEXT)
    closed = GitHub("http://127.0.0.1:1", "owner/name", "t0ken")
    assert run_main(tmp_path / "comment.md", closed, monkeypatch) == 1
    assert "error: GET pulls" in capsys.readouterr().err
    del github


def test_the_marker_is_the_one_that_comments_have() -> None:
    from tokenworks.review import comment as written  # noqa: PLC0415  beside the other of the name

    assert (written.MARKER, written.LIMIT) == (MARKER, LIMIT)
