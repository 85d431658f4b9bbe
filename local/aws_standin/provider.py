"""The ResourceProvider service: checks, compares, and makes nothing."""

# ruff: noqa: ARG002, N802 - names and signatures are gRPC's
from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
import yaml
from google.protobuf import empty_pb2

from local.aws_standin import schema
from local.aws_standin.services import Checker
from local.aws_standin.values import found, properties, same
from local.pulumi_host.stubs import plugin_pb2, provider_pb2_grpc
from local.pulumi_host.stubs import provider_pb2 as pb

Context = grpc.ServicerContext
REFUSAL: Final = (
    "this is the stand-in for the AWS provider: it makes nothing. Only previews use it; "
    "`./tokenworks up` uses the provider that Pulumi publishes"
)


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """One provider for all of the engine's calls, from many threads at once."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._checker = Checker()
        self.resources = 0
        data = yaml.safe_load((Path(__file__).parent / "operations.yaml").read_text())
        self._replaces: dict[str, list[str]] = {
            token: entry["properties"] for token, entry in data["replaces"].items()
        }

    def summary(self) -> str:
        """What was checked."""
        return (
            f"{self.resources} AWS resources type-checked against the schema of pulumi-aws "
            f"{self._version}; {self._checker.checked} of their values checked against the "
            "services' models"
        )

    def GetPluginInfo(self, request: empty_pb2.Empty, context: Context) -> plugin_pb2.PluginInfo:
        """The version whose schema is checked."""
        return plugin_pb2.PluginInfo(version=self._version)

    def Handshake(
        self, request: pb.ProviderHandshakeRequest, context: Context
    ) -> pb.ProviderHandshakeResponse:
        """Nothing to tell."""
        return pb.ProviderHandshakeResponse()

    def Attach(self, request: plugin_pb2.PluginAttach, context: Context) -> empty_pb2.Empty:
        """The engine's address is of no use: nothing is logged."""
        return empty_pb2.Empty()

    def CheckConfig(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        """The provider's own settings, as they are."""
        return pb.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        """Settings change without replacing anything."""
        return pb.DiffResponse(changes=pb.DiffResponse.DIFF_NONE)

    def Configure(self, request: pb.ConfigureRequest, context: Context) -> pb.ConfigureResponse:
        """No credentials, no endpoint."""
        return pb.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        """Types against the SDK, values against the services' models."""
        token = request.type or request.urn.split("::")[2].split("$")[-1]
        inputs = properties(request.news)
        with self._lock:
            self.resources += 1
            name = request.urn.rpartition("::")[2]
            found = [
                *schema.failures(token, inputs),
                *self._checker.failures(token, inputs),
                *self._checker.unnamed(token, inputs, name),
            ]
        failed = [pb.CheckFailure(property=path, reason=reason) for path, reason in found]
        return pb.CheckResponse(inputs=request.news, failures=failed)

    def Diff(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        """Which inputs differ, and which of them cannot be changed in place."""
        token = request.type or request.urn.split("::")[2].split("$")[-1]
        before, after = properties(request.old_inputs or request.olds), properties(request.news)
        left = set(request.ignoreChanges)
        names = before.keys() | after.keys()
        changed = sorted(n for n in names if not same(before.get(n), after.get(n)))
        changed = [name for name in changed if name not in left]
        paths = self._replaces.get(token, [])
        replaces = [name for name in changed if _needs_another(name, paths, before, after)]
        some = pb.DiffResponse.DIFF_SOME if changed else pb.DiffResponse.DIFF_NONE
        return pb.DiffResponse(changes=some, diffs=changed, replaces=replaces)

    def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """What would be made has its inputs; the rest is not known."""
        if not request.preview:
            _refuse(context)
        return pb.CreateResponse(properties=request.properties)

    def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """What would be changed has its new inputs."""
        if not request.preview:
            _refuse(context)
        return pb.UpdateResponse(properties=request.news)

    def Delete(self, request: pb.DeleteRequest, context: Context) -> NoReturn:
        """Nothing is deleted."""
        _refuse(context)

    def Read(self, request: pb.ReadRequest, context: Context) -> NoReturn:
        """Nothing can be read."""
        _refuse(context)

    def Invoke(self, request: pb.InvokeRequest, context: Context) -> NoReturn:
        """No account can be asked."""
        _refuse(context)

    def Cancel(self, request: empty_pb2.Empty, context: Context) -> empty_pb2.Empty:
        """Nothing runs."""
        return empty_pb2.Empty()


def _needs_another(
    name: str, paths: list[str], before: dict[str, Any], after: dict[str, Any]
) -> bool:
    """Whether the change of a property is one that cannot be made in place."""
    inside = [path for path in paths if path.partition(".")[0] == name]
    return any(not same(found(before, path), found(after, path)) for path in inside)


def _refuse(context: Any) -> NoReturn:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, REFUSAL)
    raise AssertionError("abort raises")
