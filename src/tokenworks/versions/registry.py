"""Digests of image tags, as a registry states them (OCI distribution specification 1.1, pull)."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import os
import re
import subprocess
import time
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
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')
_HUB: Final = "docker.io"
_SECONDS: Final = 30.0
_MOST_BYTES: Final = 8 << 20
"""Registries need not take manifests over 4 MiB (distribution specification, push)."""
_VISIBLE: Final = re.compile(r"[!-~]+")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]*")
FAULTS: Final = (
    httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError, LookupError, RecursionError,
    AssertionError,
)  # fmt: skip
"""What a client raises when an address or an answer makes no sense."""


class _RefusedError(Exception):
    """Why a registry is not asked any further; without anything secret."""


class Registries:
    """Asks registries, with the credentials that Docker's own configuration has for them.

    Of `$DOCKER_CONFIG/config.json` (default: `~/.docker/config.json`) it reads `auths`,
    `credHelpers` and `credsStore`. Registries on this machine's loopback are asked in clear.
    """

    def __init__(self, config: Path | None = None) -> None:
        self._config = _read(config or _default_config())
        self._client = httpx.Client(timeout=_SECONDS, follow_redirects=True)

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
        url = f"{scheme(host)}://{_endpoint(host)}/v2/{path}/manifests/{tag}"
        name = f"{repository}:{tag}"
        try:
            status, stated, content = self._ask(host, url)
        except _RefusedError as error:
            raise TokenworksError(f"{name}: registry {host}: {error}") from None
        except FAULTS as error:
            # Their texts may hold what was sent.
            raise TokenworksError(
                f"{name}: registry {host} is not reached, or no registry: {type(error).__name__}"
            ) from None
        if status != 200:
            raise TokenworksError(f"{name}: {_refusal(host, status)}")
        if _object(content).get("schemaVersion") != 2:
            raise TokenworksError(f"{name}: what registry {host} sent is no manifest of an image")
        computed = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if stated not in ("", computed):
            raise TokenworksError(
                f"{name}: registry {host} states digest {stated[:80]!r} of a manifest whose digest "
                f"is {computed}; it is not to be trusted"
            )
        return computed

    def _ask(self, host: str, url: str) -> tuple[int, str, bytes]:
        """Status, stated digest and body of a manifest."""
        headers = {"Accept": _ACCEPT}
        status, said, content = self._got(url, headers)
        if status == 401:
            headers["Authorization"] = self._answer(host, said)
            status, said, content = self._got(url, headers)
        return status, said.get("docker-content-digest", ""), content

    def _got(self, url: str, headers: Mapping[str, str]) -> tuple[int, httpx.Headers, bytes]:
        """An answer of bounded size, in bounded time."""
        until, content = time.monotonic() + _SECONDS, bytearray()
        with self._client.stream("GET", url, headers=dict(headers)) as response:
            for part in response.iter_bytes():
                content += part
                if len(content) > _MOST_BYTES:
                    raise _RefusedError("answers more than a manifest may be")
                if time.monotonic() > until:
                    raise _RefusedError(f"does not end its answer within {_SECONDS:.0f} seconds")
            return response.status_code, response.headers, bytes(content)

    def _answer(self, host: str, challenge: httpx.Headers) -> str:
        """What the registry wants to read in `Authorization`."""
        kind, _, rest = challenge.get("www-authenticate", "").partition(" ")
        login = self._login(host)
        if kind.lower() != "bearer":
            return f"Basic {login}" if login else ""
        said = dict(_PARAMETER.findall(rest))
        asked = {k: said[k] for k in ("service", "scope") if k in said}
        realm = httpx.URL(said.get("realm", ""))
        if not realm.host or (realm.scheme != "https" and scheme(realm.host) == "https"):
            # Credentials go nowhere in clear.
            raise _RefusedError("names no token service that is reached by https")
        headers = {"Authorization": f"Basic {login}"} if login else {}
        status, _, content = self._got(str(realm.copy_merge_params(asked)), headers)
        if status != 200:
            raise _RefusedError(f"its token service answers HTTP {status}")
        given = _object(content)
        token = given.get("token") or given.get("access_token")
        if not isinstance(token, str) or not _VISIBLE.fullmatch(token):
            raise _RefusedError("its token service gives no token")
        return f"Bearer {token}"

    def _login(self, host: str) -> str:
        """`user:password` in base64; empty for nobody."""
        names = (host, f"https://{host}", "https://index.docker.io/v1/" if host == _HUB else host)
        helpers = _mapping(self._config.get("credHelpers"))
        helper = next((helpers[n] for n in names if n in helpers), self._config.get("credsStore"))
        if isinstance(helper, str) and helper:
            return _helped(helper, names[-1])
        auths = _mapping(self._config.get("auths"))
        entry = next((_mapping(auths[n]) for n in names if n in auths), dict[str, Any]())
        login = entry.get("auth") or ""
        if not isinstance(login, str) or not _BASE64.fullmatch(login):
            raise _RefusedError("Docker's configuration has a login for it that is not base64")
        return login


def _helped(helper: str, server: str) -> str:
    """What a credential helper knows of a server; nothing where it knows nothing."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", helper):
        raise _RefusedError("Docker's configuration names a credential helper that cannot be one")
    try:
        done = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=server.encode(), capture_output=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    known = _object(done.stdout) if done.returncode == 0 else dict[str, Any]()
    user, secret = known.get("Username"), known.get("Secret")
    if not isinstance(user, str) or not isinstance(secret, str):
        return ""
    return base64.b64encode(f"{user}:{secret}".encode(errors="replace")).decode()


def _refusal(host: str, status: int) -> str:
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
    """Registry and path; as every client has it, what is no host's name is a path of Docker Hub."""
    host, slash, path = repository.partition("/")
    if not slash or not (host == "localhost" or "." in host or ":" in host):
        host, path = _HUB, repository
    return host, f"library/{path}" if host == _HUB and "/" not in path else path


def _endpoint(host: str) -> str:
    """Where the API of a registry is; Docker Hub's has a name of its own."""
    return "registry-1.docker.io" if host == _HUB else host


def scheme(host: str) -> str:
    """How a registry is asked: in clear on this machine alone."""
    name = host.rpartition(":")[0] or host
    try:
        here = name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        here = False
    return "http" if here else "https"


def _default_config() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes() if path.is_file() else b"{}"
    except OSError:
        return dict[str, Any]()
    try:
        return _mapping(json.loads(content.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        raise TokenworksError(f"{path}: is not JSON: {type(error).__name__}; mend it") from None


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(content))
    except (ValueError, RecursionError):
        return dict[str, Any]()


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else dict[str, Any]()
