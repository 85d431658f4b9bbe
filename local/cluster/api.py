"""As much of a Kubernetes client as starting a cluster takes: one connection, JSON in and out."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from local.cluster.spec import API_PORT, NODE_IP
from tokenworks.errors import TokenworksError

Object = dict[str, Any]
_SECONDS = 10
_OWNER = "tokenworks-local"
_TYPES = {
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "json": "application/json",
}


class ApiError(TokenworksError):
    """The API server refused, or cannot be reached (`status` 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def object_path(obj: Object) -> str:
    """Path of an object in the API. Kinds with irregular plurals are not among ours."""
    version, kind = str(obj["apiVersion"]), str(obj["kind"]).lower()
    prefix = "/apis" if "/" in version else "/api"
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    namespace = obj["metadata"].get("namespace")
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{prefix}/{version}{scope}/{plural}/{obj['metadata']['name']}"


@dataclass
class Api:
    """The API server as one user sees it."""

    keys: Path
    """Folder with the authority's certificate and the user's certificate and key."""
    user: str
    address: tuple[str, int] = (NODE_IP, API_PORT)
    """Default: as seen inside the cluster's network namespace."""
    _connection: http.client.HTTPSConnection | None = field(default=None, init=False)

    def get(self, path: str) -> Object | None:
        """What is at the path; None when there is nothing."""
        try:
            return self._call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, obj: Object) -> Object:
        """Add an object to the collection at the path."""
        return self._call("POST", path, "json", obj)

    def delete(self, path: str) -> None:
        """Remove the object at the path."""
        self._call("DELETE", path)

    def merge(self, path: str, patch: Object) -> Object:
        """Change the object at the path."""
        return self._call("PATCH", path, "merge", patch)

    def apply(self, obj: Object) -> Object:
        """Make the object as described, on the server's side."""
        query = f"?fieldManager={_OWNER}&force=true"
        return self._call("PATCH", object_path(obj) + query, "apply", obj)

    def _call(
        self, method: str, path: str, kind: str = "json", body: Object | None = None
    ) -> Object:
        data = json.dumps(body) if body is not None else None
        headers = {"Content-Type": _TYPES[kind], "Accept": "application/json"}
        kept = self._connection is not None
        try:
            status, text = self._send(method, path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if kept:  # the server closes connections that idle, or has been restarted
                return self._call(method, path, kind, body)
            raise ApiError(0, f"the API server does not answer ({error})") from None
        if status >= 300:
            raise ApiError(status, f"{method} {path}: {status}: {_message(text)}")
        return cast(Object, json.loads(text))

    def _send(
        self, method: str, path: str, data: str | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        if self._connection is None:
            context = ssl.create_default_context(cafile=str(self.keys / "ca.crt"))
            context.load_cert_chain(self.keys / f"{self.user}.crt", self.keys / f"{self.user}.key")
            self._connection = http.client.HTTPSConnection(
                *self.address, timeout=_SECONDS, context=context
            )
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace")[:300]
