"""Commits of models and digests of adapters, as the hub states them."""

from __future__ import annotations

import os
import re
from typing import Any, Final, cast

import httpx

from tokenworks.errors import TokenworksError, UsageError
from tokenworks.versions.registry import FAULTS, scheme

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_TOKEN: Final = re.compile(r"[!-~]+")
_SECONDS: Final = 30.0
_ADAPTER: Final = "adapter_model.safetensors"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def hub_url() -> httpx.URL:
    """The hub, or the mirror that `HF_ENDPOINT` names (huggingface_hub's own variable).

    Raises:
        UsageError: it is no such address.
    """
    given = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    try:
        url = httpx.URL(given.rstrip("/"))
        plain = url.scheme in ("http", "https") and bool(url.host)
        if plain and not (url.query or url.fragment or url.userinfo):
            return url
    except FAULTS:
        pass
    raise UsageError("HF_ENDPOINT: is no address of a hub; write https://host, without a login")


def commit(name: str, branch: str) -> str:
    """The commit that a branch of model ORG/NAME is at. `HF_TOKEN` is sent where it is set, and
    never in clear over a network.

    Raises:
        TokenworksError: the hub is not reached, refuses, or has no such model.
        UsageError: HF_ENDPOINT or HF_TOKEN cannot be what they should be.
    """
    found = str(_told(name, f"revision/{branch}").get("sha", ""))
    if not _COMMIT.fullmatch(found):
        raise TokenworksError(f"hf://{name}: {hub_url()} states no commit")
    return found


def adapter_digest(name: str, revision: str) -> str:
    """SHA-256 of an adapter's weights at a commit, `sha256:` before it.

    Raises:
        TokenworksError: the hub is not reached, refuses, or has no such file.
        UsageError: HF_ENDPOINT or HF_TOKEN cannot be what they should be.
    """
    files = _told(name, f"revision/{revision}?blobs=true").get("siblings")
    for file in cast("list[Any]", files) if isinstance(files, list) else []:
        if isinstance(file, dict):
            entry = cast("dict[str, Any]", file)
            lfs = entry.get("lfs")
            sum_ = str(cast("dict[str, Any]", lfs).get("sha256")) if isinstance(lfs, dict) else ""
            if entry.get("rfilename") == _ADAPTER and _SHA256.fullmatch(sum_):
                return f"sha256:{sum_}"
    raise TokenworksError(f"hf://{name}: {hub_url()} states no SHA-256 of {_ADAPTER}")


def _told(name: str, what: str) -> dict[str, Any]:
    """What the hub says of a model."""
    hub = hub_url()
    headers = _headers(hub)
    try:
        response = httpx.get(
            f"{hub}/api/models/{name}/{what}",
            headers=headers, timeout=_SECONDS, follow_redirects=True,
        )  # fmt: skip
        said: Any = response.json() if response.status_code == 200 else {}
    except FAULTS as error:
        # Their texts may hold what was sent.
        raise TokenworksError(
            f"hf://{name}: {hub} is not reached, or no hub: {type(error).__name__}"
        ) from None
    if response.status_code != 200:
        raise TokenworksError(
            f"hf://{name}: {hub} answers HTTP {response.status_code}; it has no such model, or "
            "HF_TOKEN may not read it"
        )
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def _headers(hub: httpx.URL) -> dict[str, str]:
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        return {}
    if not _TOKEN.fullmatch(token):
        raise UsageError("HF_TOKEN: has characters that no token has; set it anew")
    if scheme(hub.host) == "https" and hub.scheme != "https":
        raise UsageError("HF_ENDPOINT: is not https, and HF_TOKEN would be sent in clear")
    return {"Authorization": f"Bearer {token}"}
