"""Post a comment on a pull request, or put it in the place of the one that is there.

    HEAD_OWNER=… HEAD_BRANCH=… HEAD_SHA=… GITHUB_TOKEN=… GITHUB_REPOSITORY=owner/name \
        python3 -I hack/comment.py comment.md          (make post-comment FROM=comment.md)

The text comes from a pull request, whoever opened it: it is data here, no larger than a comment
may be. Which pull request it belongs to is asked of GitHub, by the commit that the run was for, so
that no text can choose another. The standard library alone: nothing is installed there.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MARKER: Final = "<!-- tokenworks-pr -->"
LIMIT: Final = 65_536
"""Characters of a comment on GitHub."""
_PAGE: Final = 100


class RefusedError(Exception):
    """The comment is not posted; says why."""


def variables(given: Mapping[str, str], *names: str) -> list[str]:
    """Values of variables that a workflow's run has.

    Raises:
        RefusedError: some are missing or empty; names them.
    """
    missing = [name for name in names if not given.get(name)]
    if missing:
        raise RefusedError(
            f"{', '.join(missing)} not set: a workflow passes it on in the step's `env`"
        )
    return [given[name] for name in names]


def argument(words: Sequence[str], usage: str) -> str:
    """The only argument of a command line.

    Raises:
        RefusedError: there is none, or more than one; says how the command is called.
    """
    if len(words) != 2 or not words[1]:
        raise RefusedError(f"usage: {usage}")
    return words[1]


@dataclass(frozen=True)
class Run:
    """The run that wrote the text, as GitHub tells of it."""

    owner: str
    """Of the repository that the branch is in."""
    branch: str
    commit: str


@dataclass(frozen=True)
class GitHub:
    """GitHub's API on one repository."""

    api: str
    repository: str
    token: str

    @classmethod
    def of(cls, given: Mapping[str, str]) -> GitHub:
        """The repository of a workflow's run, by its variables.

        Raises:
            RefusedError: one of them is missing.
        """
        api = given.get("GITHUB_API_URL", "https://api.github.com")
        return cls(api, *variables(given, "GITHUB_REPOSITORY", "GITHUB_TOKEN"))

    def get(self, path: str, **query: str) -> Any:
        """What GitHub answers."""
        return self._ask("GET", f"{path}?{urllib.parse.urlencode(query)}")

    def send(self, method: str, path: str, body: str) -> None:
        """Write a comment's text."""
        self._ask(method, path, {"body": body})

    def _ask(self, method: str, path: str, data: object = None) -> Any:
        request = urllib.request.Request(
            f"{self.api}/repos/{self.repository}/{path}",
            method=method,
            data=None if data is None else json.dumps(data).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(2000).decode(errors="replace")
            raise RefusedError(f"{method} {path}: {error.code} {said}") from None
        except (urllib.error.URLError, ValueError) as error:
            raise RefusedError(f"{method} {path}: {error}") from None


def text_of(file: Path) -> str:
    """The comment, if it is one.

    Raises:
        RefusedError: it is not what `./tokenworks pr` writes.
    """
    raw = file.read_bytes()[: 4 * LIMIT + 1]
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise RefusedError(f"{file} is no text") from None
    if not text.startswith(f"{MARKER}\n") or len(text) > LIMIT or "\0" in text:
        raise RefusedError(f"{file} does not begin with {MARKER}, or is longer than {LIMIT}")
    return text


def pull_request(github: GitHub, run: Run) -> int | None:
    """Number of the open pull request whose last commit the run was for; None: there is none."""
    found = github.get("pulls", state="open", head=f"{run.owner}:{run.branch}", per_page=str(_PAGE))
    numbers = [int(item["number"]) for item in found if item["head"]["sha"] == run.commit]
    return numbers[0] if numbers else None


def comments(github: GitHub, number: int) -> Iterator[dict[str, Any]]:
    """Every comment of the pull request."""
    page = 1
    while True:
        found = github.get(
            f"issues/{number}/comments", per_page=str(_PAGE), page=str(page)
        )  # a pull request is an issue, too
        yield from found
        if len(found) < _PAGE:
            return
        page += 1


def post(github: GitHub, run: Run, text: str) -> str:
    """Write the comment; what was done."""
    number = pull_request(github, run)
    if number is None:
        return f"no open pull request has {run.commit[:12]} as its last commit: nothing to do"
    ours = [
        item
        for item in comments(github, number)
        if str(item["body"]).startswith(MARKER) and item["user"]["type"] == "Bot"
    ]
    if not ours:
        github.send("POST", f"issues/{number}/comments", text)
        return f"commented on {number}"
    if ours[0]["body"] == text:
        return f"the comment on {number} says so already"
    github.send("PATCH", f"issues/comments/{int(ours[0]['id'])}", text)
    return f"updated the comment on {number}"


def main() -> int:
    """Post the file that is named; exit code 1 when it is refused."""
    try:
        file = Path(argument(sys.argv, "make post-comment FROM=comment.md"))
        if not file.is_file():
            print(f"{file}: there is no comment, so nothing to do")
            return 0
        run = Run(*variables(os.environ, "HEAD_OWNER", "HEAD_BRANCH", "HEAD_SHA"))
        print(post(GitHub.of(os.environ), run, text_of(file)))
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
