"""Commits of models, as the hub states them."""

from __future__ import annotations

import os
import re
from typing import Any, Final, cast

import httpx

from tokenworks.errors import TokenworksError

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SECONDS: Final = 30.0


def hub_url() -> str:
    """The hub, or the mirror that `HF_ENDPOINT` names (huggingface_hub's own variable)."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def commit(name: str, branch: str) -> str:
    """The commit that a branch of model ORG/NAME is at. `HF_TOKEN` is sent where it is set.

    Raises:
        TokenworksError: the hub is not reached, refuses, or has no such model.
    """
    url = f"{hub_url()}/api/models/{name}/revision/{branch}"
    token = os.environ.get("HF_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        response = httpx.get(url, headers=headers, timeout=_SECONDS, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise TokenworksError(f"hf://{name}: {hub_url()} is not reached: {error}") from None
    if response.status_code != 200:
        raise TokenworksError(
            f"hf://{name}: {hub_url()} answers HTTP {response.status_code}; it has no such model, "
            "or HF_TOKEN may not read it"
        )
    try:
        said = cast("dict[str, Any]", response.json())
        found = str(said.get("sha", ""))
    except (ValueError, AttributeError):
        found = ""
    if not _COMMIT.fullmatch(found):
        raise TokenworksError(f"hf://{name}: {hub_url()} states no commit")
    return found
