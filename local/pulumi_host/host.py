"""The LanguageRuntime service: what the CLI asks of the Python language."""

# ruff: noqa: ARG001, ARG002, N802 - names and signatures are gRPC's
from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict

from local.pulumi_host.environment import (
    InterpreterError,
    Plugin,
    PythonEnvironment,
    environment_of,
)
from local.pulumi_host.processes import Children, stream
from local.pulumi_host.stubs import language_pb2 as pb
from local.pulumi_host.stubs import language_pb2_grpc, plugin_pb2

# The exit code by which `pulumi-language-python-exec` says that the user has seen the error.
_ERROR_WAS_SHOWN = 32
Context = grpc.ServicerContext
_CODE_GENERATION = (
    "Template", "GenerateProgram", "GenerateProject", "GeneratePackage", "Pack", "Link",
)  # fmt: skip


class Host(language_pb2_grpc.LanguageRuntimeServicer):
    """One host serves one CLI process.

    Args:
        engine: address of the CLI's engine service.
        executor: the SDK's `pulumi-language-python-exec`.
        children: where the processes it starts are kept.
    """

    def __init__(self, engine: str, executor: Path, children: Children) -> None:
        self._engine = engine
        self._executor = executor
        self._children = children

    def Handshake(
        self, request: pb.LanguageHandshakeRequest, context: Context
    ) -> pb.LanguageHandshakeResponse:
        """Take the engine's address where the CLI attaches to a host that runs already."""
        self._engine = request.engine_address
        return pb.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: Context) -> plugin_pb2.PluginInfo:
        """The version of the SDK whose stubs are spoken."""
        return plugin_pb2.PluginInfo(version=version("pulumi"))

    def GetRequiredPackages(
        self, request: pb.GetRequiredPackagesRequest, context: Context
    ) -> pb.GetRequiredPackagesResponse:
        """The provider plugins of the installed provider packages."""
        found = [
            plugin_pb2.PackageDependency(
                name=p.name, kind="resource", version=p.version, server=p.server
            )
            for p in self._plugins(request.info, context)
        ]
        return pb.GetRequiredPackagesResponse(packages=found)

    def GetRequiredPlugins(
        self, request: pb.GetRequiredPluginsRequest, context: Context
    ) -> pb.GetRequiredPluginsResponse:
        """The same, for older CLIs."""
        found = [
            plugin_pb2.PluginDependency(
                name=p.name, kind="resource", version=p.version, server=p.server
            )
            for p in self._plugins(request.info, context)
        ]
        return pb.GetRequiredPluginsResponse(plugins=found)

    def Run(self, request: pb.RunRequest, context: Context) -> pb.RunResponse:
        """Run a program to its end."""
        environment = self._environment(request.info, context)
        if request.attach_debugger:
            _refuse(context, "attaching a debugger needs the official Python language host")
        variables = environment.variables(os.environ)
        variables["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        variables["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        command = [str(environment.python), "-u", str(self._executor), *self._arguments(request)]
        process = self._children.start(command, Path(request.pwd), variables, piped=False)
        return _outcome(self._children.wait(process))

    def _arguments(self, request: pb.RunRequest) -> Iterator[str]:
        named = {
            "monitor": request.monitor_address,
            "engine": self._engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": "true" if request.dryRun else "false",
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        for name, value in named.items():
            if value:
                yield from (f"--{name}", value)
        yield request.info.entry_point or "."
        yield from request.args

    def RunPlugin(
        self, request: pb.RunPluginRequest, context: Context
    ) -> Iterator[pb.RunPluginResponse]:
        """Run a policy pack until the CLI ends the call."""
        if request.kind != "analyzer":
            _refuse(context, f"plugins of kind {request.kind} need the official language host")
        environment = self._environment(request.info, context)
        given = dict(entry.split("=", 1) for entry in request.env if "=" in entry)
        command = [str(environment.python), "-u", "-m", "pulumi.policy", *request.args]
        command.append(request.info.program_directory)
        variables = environment.variables(given or os.environ)
        process = self._children.start(command, Path(request.pwd), variables, piped=True)
        if not context.add_callback(lambda: self._children.end(process)):
            self._children.end(process)
        for name, data in stream(process):
            yield (
                pb.RunPluginResponse(stdout=data)
                if name == "stdout"
                else pb.RunPluginResponse(stderr=data)
            )
        yield pb.RunPluginResponse(exitcode=self._children.wait(process))

    def InstallDependencies(
        self, request: pb.InstallDependenciesRequest, context: Context
    ) -> Iterator[pb.InstallDependenciesResponse]:
        """Install `requirements.txt` of the program, if there is one."""
        environment = self._environment(request.info, context)
        requirements = Path(request.info.program_directory) / "requirements.txt"
        if not requirements.is_file():
            yield pb.InstallDependenciesResponse(
                stdout=f"Nothing to install: no {requirements}.\n".encode()
            )
            return
        command = [str(environment.python), "-m", "pip", "install", "-r", str(requirements)]
        process = self._children.start(
            command, requirements.parent, environment.variables(os.environ), piped=True
        )
        for name, data in stream(process):
            yield (
                pb.InstallDependenciesResponse(stdout=data)
                if name == "stdout"
                else pb.InstallDependenciesResponse(stderr=data)
            )
        if code := self._children.wait(process):
            context.abort(grpc.StatusCode.INTERNAL, f"`{' '.join(command)}` exited with {code}")

    def RuntimeOptionsPrompts(
        self, request: pb.RuntimeOptionsRequest, context: Context
    ) -> pb.RuntimeOptionsResponse:
        """Nothing to ask: `virtualenv` is the one option."""
        return pb.RuntimeOptionsResponse()

    def About(self, request: pb.AboutRequest, context: Context) -> pb.AboutResponse:
        """The interpreter, for `pulumi about`."""
        environment = self._environment(request.info, context)
        return pb.AboutResponse(executable=str(environment.python), version=environment.version())

    def GetProgramDependencies(
        self, request: pb.GetProgramDependenciesRequest, context: Context
    ) -> pb.GetProgramDependenciesResponse:
        """Installed packages, for `pulumi about`."""
        packages = self._environment(request.info, context).packages(request.transitiveDependencies)
        return pb.GetProgramDependenciesResponse(
            dependencies=[pb.DependencyInfo(name=n, version=v) for n, v in packages]
        )

    def Cancel(self, request: empty_pb2.Empty, context: Context) -> empty_pb2.Empty:
        """End what runs."""
        self._children.stop()
        return empty_pb2.Empty()

    def _environment(self, info: pb.ProgramInfo, context: Context) -> PythonEnvironment:
        try:
            return environment_of(MessageToDict(info.options), Path(info.root_directory))
        except InterpreterError as problem:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))

    def _plugins(self, info: pb.ProgramInfo, context: Context) -> list[Plugin]:
        environment = self._environment(info, context)
        try:
            return list(environment.plugins())
        except (OSError, ValueError, subprocess.CalledProcessError) as problem:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{environment.python}: {problem}")


def _refuse(context: Context, why: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, why)


def _unimplemented(name: str) -> Any:
    def method(self: Host, request: Any, context: Context) -> NoReturn:
        _refuse(context, f"{name} needs the official Python language host")

    return method


for _name in _CODE_GENERATION:
    setattr(Host, _name, _unimplemented(_name))


def _outcome(code: int) -> pb.RunResponse:
    """What the CLI is told about a program that ended, in the official host's words."""
    if code == 0:
        return pb.RunResponse()
    if code == _ERROR_WAS_SHOWN:
        return pb.RunResponse(bail=True)
    if code < 0:
        return pb.RunResponse(error=f"Program was ended by signal {-code}")
    return pb.RunResponse(error=f"Program exited with non-zero exit code: {code}")
