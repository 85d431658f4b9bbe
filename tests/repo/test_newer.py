"""Deploying an older commit over a newer one: GitHub, played here, says which is which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hack import newer
from hack.comment import GitHub, RefusedError
from hack.newer import refuse_older
from tests.repo.github import Quiet, played

COMMITS = ["a" * 40, "b" * 40, "c" * 40]
"""The branch, the oldest first."""
OLD, MIDDLE, NEW = COMMITS


@dataclass
class Hub:
    """Deployments of `prod`, the newest first: commit and states, the newest first."""

    deployments: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])
    tokens: set[str | None] = field(default_factory=set[str | None])


def answer_of(hub: Hub, path: str, query: dict[str, list[str]]) -> object:
    _, _, rest = path.partition("/repos/owner/name/")
    if rest == "deployments":
        found = hub.deployments if query["environment"] == ["prod"] else []
        return [{"id": number, "sha": sha} for number, (sha, _) in enumerate(found)]
    if rest.startswith("deployments/"):
        states = hub.deployments[int(rest.split("/")[1])][1]
        return [{"state": state} for state in states[: int(query["per_page"][0])]]
    base, _, head = rest.removeprefix("compare/").partition("...")
    if base not in COMMITS or head not in COMMITS:
        return {"status": "diverged"}
    before, after = COMMITS.index(base), COMMITS.index(head)
    return {"status": "ahead" if after > before else "behind" if after < before else "identical"}


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def github(hub: Hub) -> Iterator[GitHub]:
    class Handler(Quiet):
        def handle_get(self) -> None:
            url = urlsplit(self.path)
            hub.tokens.add(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer_of(hub, url.path, parse_qs(url.query))).encode())

        do_GET = handle_get  # noqa: N815 - what the library calls

    with played(Handler) as found:
        yield found


OVER: list[list[tuple[str, list[str]]]] = [
    [],
    [(MIDDLE, ["in_progress"])],
    [(MIDDLE, ["in_progress"]), (OLD, ["success"])],
    [(NEW, ["waiting"]), (MIDDLE, ["in_progress"]), (OLD, ["inactive", "success"])],
    [(NEW, ["queued"]), (NEW, ["pending"]), (OLD, ["failure"])],
    [(NEW, []), (OLD, ["success"])],
]


@pytest.mark.parametrize("deployments", OVER)
def test_a_newer_commit_is_deployed(hub: Hub, github: GitHub, deployments: Any) -> None:
    hub.deployments = deployments
    assert "prod" in refuse_older(github, "prod", MIDDLE)
    assert hub.tokens == {"Bearer t0ken"}


@pytest.mark.parametrize("state", ["in_progress", "success", "inactive", "failure", "error"])
def test_an_older_commit_is_not(hub: Hub, github: GitHub, state: str) -> None:
    hub.deployments = [(NEW, [state, "queued"]), (MIDDLE, ["in_progress"]), (OLD, ["inactive"])]
    with pytest.raises(RefusedError, match="prod has cccccccccccc, and bbbbbbbbbbbb is behind"):
        refuse_older(github, "prod", MIDDLE)
    assert "nothing else" in refuse_older(github, "staging", MIDDLE)


def test_a_commit_of_another_history_is_not(hub: Hub, github: GitHub) -> None:
    hub.deployments = [("d" * 40, ["success"])]
    with pytest.raises(RefusedError, match="diverged"):
        refuse_older(github, "prod", NEW)


@pytest.mark.parametrize("missing", ["GITHUB_REPOSITORY", "GITHUB_TOKEN", "GITHUB_SHA"])
def test_a_variable_that_is_missing_is_named(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GITHUB_SHA"):
        monkeypatch.setenv(name, "" if name == missing else "x")
    monkeypatch.setattr("sys.argv", ["newer.py", "prod"])
    assert newer.main() == 1
    assert f"error: {missing} not set" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["prod", "dev"], [""]])
def test_a_command_line_of_another_shape_is_told_how(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["newer.py", *words])
    assert newer.main() == 1
    assert "usage: make refuse-older ENVIRONMENT=prod" in capsys.readouterr().err


def test_the_command_says_why(
    hub: Hub, github: GitHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"GITHUB_API_URL": github.api, "GITHUB_REPOSITORY": "owner/name", "GITHUB_TOKEN": "t"}
    for name, value in {**told, "GITHUB_SHA": MIDDLE}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["newer.py", "prod"])
    assert newer.main() == 0
    hub.deployments = [(NEW, ["success"])]
    assert newer.main() == 1
    assert "revert it" in capsys.readouterr().err
