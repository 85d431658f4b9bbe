"""Digests of image tags, as a registry states them (OCI distribution specification 1.1, pull)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

import httpx

from tokenworks.errors import TokenworksError

_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')
_HUB: Final = "docker.io"
_SECONDS: Final = 30.0


class Registries:
    """Asks registries, with the credentials that Docker's own configuration has for them.

    Of `$DOCKER_CONFIG/config.json` (default: `~/.docker/config.json`) it reads `auths`,
    `credHelpers` and `credsStore`. Registries on this machine's loopback are asked in clear.
    """

    def __init__(self, config: Path | None = None) -> None:
        self._config = _read(config or _default_config())
        self._client = httpx.Client(
            timeout=_SECONDS, follow_redirects=True, transport=httpx.HTTPTransport(retries=2)
        )

    def __enter__(self) -> Registries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def digest(self, repository: str, tag: str) -> str:
        """Digest of the tag's index (its manifest, where it is for one platform alone).

        Raises:
            TokenworksError: the registry is not reached, refuses, or has no such tag.
        """
        host, path = _split(repository)
        url = f"{_scheme(host)}://{_endpoint(host)}/v2/{path}/manifests/{tag}"
        name = f"{repository}:{tag}"
        try:
            response = self._ask(host, url)
        except httpx.HTTPError as error:
            raise TokenworksError(
                f"{name}: registry {host} is not reached: {error or type(error).__name__}"
            ) from None
        if response.status_code != 200:
            raise TokenworksError(f"{name}: {_refusal(host, response)}")
        computed = f"sha256:{hashlib.sha256(response.content).hexdigest()}"
        stated = response.headers.get("docker-content-digest", computed)
        if not _DIGEST.fullmatch(stated) or stated != computed:
            raise TokenworksError(
                f"{name}: registry {host} states digest {stated[:80]!r} of a manifest whose digest "
                f"is {computed}; it is not to be trusted"
            )
        return computed

    def _ask(self, host: str, url: str) -> httpx.Response:
        headers = {"Accept": _ACCEPT}
        first = self._client.get(url, headers=headers)
        if first.status_code != 401:
            return first
        return self._client.get(
            url, headers={**headers, "Authorization": self._answer(host, first)}
        )

    def _answer(self, host: str, challenge: httpx.Response) -> str:
        """What the registry wants to read in `Authorization`."""
        kind, _, rest = challenge.headers.get("www-authenticate", "").partition(" ")
        login = self._login(host)
        if kind.lower() != "bearer":
            return f"Basic {login}" if login else ""
        said = dict(_PARAMETER.findall(rest))
        asked = {k: said[k] for k in ("service", "scope") if k in said}
        realm = httpx.URL(said.get("realm", ""))
        if realm.scheme != "https" and _scheme(realm.host) == "https":
            # Credentials go nowhere in clear.
            raise httpx.HTTPError(f"its token service {realm} is not https")
        headers = {"Authorization": f"Basic {login}"} if login else {}
        response = self._client.get(realm, params=asked, headers=headers)
        if response.status_code != 200:
            raise httpx.HTTPError(f"its token service answers HTTP {response.status_code}")
        given = _object(response.text)
        return f"Bearer {given.get('token') or given.get('access_token') or ''}"

    def _login(self, host: str) -> str:
        """`user:password` in base64; empty for nobody."""
        names = (host, f"https://{host}", "https://index.docker.io/v1/" if host == _HUB else host)
        helpers = _mapping(self._config.get("credHelpers"))
        helper = next((helpers[n] for n in names if n in helpers), self._config.get("credsStore"))
        if isinstance(helper, str) and helper:
            return _helped(helper, names[-1])
        auths = _mapping(self._config.get("auths"))
        entry = next((_mapping(auths[n]) for n in names if n in auths), dict[str, Any]())
        return str(entry.get("auth", ""))


def _helped(helper: str, server: str) -> str:
    """What a credential helper knows of a server; nothing where it knows nothing."""
    try:
        done = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=server, capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    known = _object(done.stdout) if done.returncode == 0 else dict[str, Any]()
    login = f"{known.get('Username', '')}:{known.get('Secret', '')}"
    return base64.b64encode(login.encode()).decode() if len(login) > 1 else ""


def _refusal(host: str, response: httpx.Response) -> str:
    status = response.status_code
    if status in (401, 403):
        return (
            f"registry {host} refuses (HTTP {status}): it is private or does not exist; "
            f"log in (docker login {host}) and run it again"
        )
    if status == 404:
        return f"registry {host} has no such tag (HTTP 404); mend repository or tag"
    if status == 429:
        return f"registry {host} limits requests (HTTP 429); log in, or run it again later"
    return f"registry {host} answers HTTP {status}"


def _split(repository: str) -> tuple[str, str]:
    host, _, path = repository.partition("/")
    return host, f"library/{path}" if host == _HUB and "/" not in path else path


def _endpoint(host: str) -> str:
    """Where the API of a registry is; Docker Hub's has a name of its own."""
    return "registry-1.docker.io" if host == _HUB else host


def _scheme(host: str) -> str:
    name = host.partition(":")[0]
    return "http" if name == "localhost" or name.startswith("127.") else "https"


def _default_config() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    try:
        return cast("dict[str, Any]", _mapping(json.loads(text)))
    except ValueError as error:
        raise TokenworksError(f"{path}: is not JSON: {error}; mend it") from None


def _object(text: str) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(text))
    except ValueError:
        return dict[str, Any]()


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else dict[str, Any]()
