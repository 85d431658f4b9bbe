"""Refuse to deploy a commit where a newer one has been deployed, or is being deployed.

    GITHUB_TOKEN=… GITHUB_REPOSITORY=owner/name GITHUB_SHA=… \
        python3 hack/newer.py prod                     (make refuse-older ENVIRONMENT=prod)

Who approves the older of two waiting runs after the newer one would take the newer one back. To
go back on purpose, revert the commit: that is a newer one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from hack.comment import GitHub, RefusedError, argument, variables

_BEGUN: Final = frozenset({"in_progress", "success", "inactive", "failure", "error"})
"""States of a deployment that may have changed something; in all others it waits."""
_PAGE: Final = 100


def begun(github: GitHub, environment: str) -> Iterator[str]:
    """Commits of the environment's deployments that have begun, the newest first."""
    found: list[dict[str, Any]] = github.get(
        "deployments", environment=environment, per_page=str(_PAGE)
    )
    for item in found:
        said = github.get(f"deployments/{int(item['id'])}/statuses", per_page="1")
        if said and said[0]["state"] in _BEGUN:
            yield str(item["sha"])


def refuse_older(github: GitHub, environment: str, commit: str) -> str:
    """What was compared.

    Raises:
        RefusedError: the last deployment of another commit is not older than this commit.
    """
    last = next((sha for sha in begun(github, environment) if sha != commit), None)
    if last is None:
        return f"nothing else was deployed to {environment}"
    status = str(github.get(f"compare/{last}...{commit}")["status"])
    if status != "ahead":
        raise RefusedError(
            f"{environment} has {last[:12]}, and {commit[:12]} is {status} of it: approve the run "
            "of the newest commit instead; to take a change back, revert it"
        )
    return f"{environment} has {last[:12]}, which is older than {commit[:12]}"


def main() -> int:
    """Ask about the environment that is named; exit code 1 when it is refused."""
    try:
        environment = argument(sys.argv, "make refuse-older ENVIRONMENT=prod")
        (commit,) = variables(os.environ, "GITHUB_SHA")
        print(refuse_older(GitHub.of(os.environ), environment, commit))
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
