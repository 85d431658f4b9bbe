"""What kubectl says when it fails, in words that name the cause and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_Say = Callable[["re.Match[str]"], str]

_CAUSES: Final[tuple[tuple[str, _Say], ...]] = (
    (
        r'context(?: "| was not found for specified context: )(?P<name>[^"\s]+)',
        lambda m: (
            f"the kubeconfig has no context {m['name']}; `kubectl config get-contexts` lists those "
            "that there are"
        ),
    ),
    (
        r"Please enter (?:Username|Password)",
        lambda _: "the kubeconfig has no credentials for its context; log in, or name another one",
    ),
    (
        r"(?:stat|open) (?P<file>\S+): no such file or directory",
        lambda m: f"there is no kubeconfig {m['file']}",
    ),
    (
        r"exec: executable (?P<name>\S+) (?:not found|failed)",
        lambda m: (
            f"{m['name']}, which the kubeconfig asks for credentials, is not there or fails; "
            "install it, or log in with it"
        ),
    ),
    (
        r"Unauthorized|must be logged in to the server|provide credentials",
        lambda _: (
            "the cluster does not accept the credentials; log in again: they may have expired"
        ),
    ),
    (
        r'User "(?P<who>[^"]*)" cannot list resource "(?P<what>[^"]+)"',
        lambda m: (
            f"user {m['who']} may not list {m['what']}; ask for a role that may list everything "
            "in the namespace, such as `view`"
        ),
    ),
    (r"(?i:forbidden)", lambda _: "the user may not; ask for a role such as `view`"),
    (
        r"x509: (?P<why>[^\n]+)",
        lambda m: f"the cluster's certificate is not trusted: {m['why']}; correct the kubeconfig",
    ),
    (
        r"(?:unable to retrieve the complete list of server APIs|"
        r"failed to get API group resources): (?:unable to retrieve[^:]*: )?(?P<what>[^:\n]+)",
        lambda m: (
            f"an API that the cluster announces does not answer: {m['what']}; `kubectl get "
            "apiservices` says why. Without it, what it holds would not be judged"
        ),
    ),
    (
        r"(?P<why>connection refused|no such host|i/o timeout|TLS handshake timeout|"
        r"network is unreachable|no route to host|deadline exceeded|server misbehaving)",
        lambda m: f"the cluster does not answer: {m['why']}",
    ),
    (
        r"(?P<what>The connection to the server \S+ was refused|Unable to connect to the server)",
        lambda m: f"the cluster does not answer: {m['what'][:1].lower()}{m['what'][1:]}",
    ),
)
"""Pattern in the messages, and what it comes to; the first that fits counts."""


def reason(stderr: str, code: int) -> str:
    """Why kubectl failed, in one line."""
    for pattern, say in _CAUSES:
        match = re.search(pattern, stderr)
        if match:
            return say(match)
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # The client logs each attempt before it says what came of them.
    told = [line for line in lines if not re.match(r"[EWI]\d{4} ", line)] or lines
    return told[-1].removeprefix("error: ") if told else f"kubectl ended with exit code {code}"
