"""The gRPC stubs of the Pulumi SDK, loaded without the SDK.

`import pulumi` takes most of a second, and every `pulumi` command starts the host anew.
The generated modules import only each other, so they are loaded from their folder.
"""

from __future__ import annotations

import importlib
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tokenworks.errors import TokenworksError

if TYPE_CHECKING:
    from pulumi.runtime.proto import (
        language_pb2,
        language_pb2_grpc,
        plugin_pb2,
        provider_pb2,
        provider_pb2_grpc,
    )
else:
    _spec = find_spec("pulumi")
    if _spec is None or not _spec.submodule_search_locations:
        raise TokenworksError(
            f"the Pulumi SDK is not installed for {sys.executable}: run `./tokenworks venv pulumi`"
        )
    _package = types.ModuleType("pulumi_stubs")
    _package.__path__ = [str(Path(_spec.submodule_search_locations[0]) / "runtime" / "proto")]
    sys.modules["pulumi_stubs"] = _package
    language_pb2 = importlib.import_module("pulumi_stubs.language_pb2")
    language_pb2_grpc = importlib.import_module("pulumi_stubs.language_pb2_grpc")
    plugin_pb2 = importlib.import_module("pulumi_stubs.plugin_pb2")
    provider_pb2 = importlib.import_module("pulumi_stubs.provider_pb2")
    provider_pb2_grpc = importlib.import_module("pulumi_stubs.provider_pb2_grpc")

__all__ = [
    "language_pb2",
    "language_pb2_grpc",
    "plugin_pb2",
    "provider_pb2",
    "provider_pb2_grpc",
]
