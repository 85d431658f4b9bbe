"""Pulumi's mocks, with what they hide: the options that a resource was registered with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pulumi
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_root_resource
from pulumi.runtime.stack import Stack

from tests.repo.tree import ROOT

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Registered:
    """One registration, or one reading, as the engine would have got it."""

    urn: str
    parent: str
    """URN of the component that it is part of; of the stack for those of no component."""
    token: str
    name: str
    inputs: dict[str, Any]
    depends_on: frozenset[str]
    """Names of what it waits for."""
    retained: bool
    protected: bool
    timeout: str
    aliases: tuple[str, ...]
    """Other type tokens it may be known under."""
    ignored: tuple[str, ...]
    provider: str

    @property
    def above(self) -> str:
        """Type token of the component that it is part of."""
        return self.parents[-2]

    @property
    def parents(self) -> list[str]:
        """Type tokens from the outermost component to the resource itself."""
        return self.urn.split("::")[2].split("$")


_AWS: dict[str, dict[str, Any]] = {
    "aws:eks/cluster:Cluster": {
        "endpoint": "https://example.eks.internal",
        "certificateAuthority": {"data": "Y2E="},
        "vpcConfig": {"clusterSecurityGroupId": "sg-cluster"},
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"},
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "resources": [{"autoscalingGroups": [{"name": "asg"}]}],
    },
    "aws:acm/certificate:Certificate": {
        "domainValidationOptions": [
            {"resourceRecordName": "_x", "resourceRecordType": "CNAME", "resourceRecordValue": "_y"}
        ],
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:fsx/lustreFileSystem:LustreFileSystem": {
        "dnsName": "fs.example.internal", "mountName": "mount",
    },
}  # fmt: skip
"""What AWS adds to what it is told, by type."""


def recorded(stack: str) -> dict[str, Any]:
    """Outputs of a stack as they were recorded for previews of those that read them."""
    file = ROOT / "stacks" / f"Pulumi.{stack}.outputs.json"
    return json.loads(file.read_text(encoding="utf-8"))


class _Cluster(Mocks):
    """Every object is created as asked; a Gateway gets an address, AWS adds what it knows, other
    stacks have the outputs that are given, or those that were recorded."""

    def __init__(self, outputs: Mapping[str, Any] | None = None) -> None:
        self._outputs = outputs

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"components look nothing up: {args.token}")

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        state = dict(args.inputs)
        if args.typ.endswith(":Gateway") and args.typ.startswith("kubernetes:"):
            state["status"] = {"addresses": [{"value": "gateway.example.internal"}]}
        if args.typ == "pulumi:pulumi:StackReference":
            stack = str(state["name"]).rpartition("/")[2]
            state["outputs"] = recorded(stack) if self._outputs is None else dict(self._outputs)
        if args.typ.startswith("aws:"):
            state |= {
                "arn": f"arn:aws:test:::{args.name}",
                **_merged(state, _AWS.get(args.typ, {})),
            }
        return args.name, state


def _merged(given: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {**given.get(key, {}), **value} if isinstance(value, dict) else value
        for key, value in known.items()
    }


class _Monitor(MockMonitor):
    def __init__(self, mocks: Mocks) -> None:
        super().__init__(mocks)
        self.seen: list[Registered] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        response = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self.seen.append(_registered(response.urn, request))
        return response

    def ReadResource(self, request: Any) -> Any:  # noqa: N802
        response = super().ReadResource(request)
        self.seen.append(_read(response.urn, request))
        return response


def _read(urn: str, request: resource_pb2.ReadResourceRequest) -> Registered:
    return Registered(
        urn=urn,
        parent=request.parent,
        token=request.type,
        name=request.name,
        inputs=pulumi.runtime.rpc.deserialize_properties(request.properties, keep_unknowns=True),
        depends_on=frozenset(dependency.split("::")[-1] for dependency in request.dependencies),
        retained=False,
        protected=False,
        timeout="",
        aliases=(),
        ignored=(),
        provider=request.provider,
    )


def _registered(urn: str, request: resource_pb2.RegisterResourceRequest) -> Registered:
    return Registered(
        urn=urn,
        parent=request.parent,
        token=request.type,
        name=request.name,
        inputs=pulumi.runtime.rpc.deserialize_properties(request.object, keep_unknowns=True),
        depends_on=frozenset(dependency.split("::")[-1] for dependency in request.dependencies),
        retained=request.retainOnDelete,
        protected=request.protect,
        timeout=request.customTimeouts.create,
        aliases=tuple(alias.spec.type for alias in request.aliases),
        ignored=tuple(request.ignoreChanges),
        provider=request.provider,
    )


def run(
    program: Callable[[], Any], outputs: Mapping[str, Any] | None = None
) -> dict[str, Registered]:
    """Registrations of a program by name, each run in a fresh Pulumi runtime.

    What `program` returns is awaited, so assertions inside `apply` count.

    Args:
        program: registers resources.
        outputs: of every stack that it reads; without them what was recorded.
    """
    mocks = _Cluster(outputs)
    monitor = _Monitor(mocks)
    set_mocks(mocks, project="tokenworks", stack="test", preview=False, monitor=monitor)
    pulumi.runtime.test(program)()
    names = [r.name for r in monitor.seen]
    assert len(set(names)) == len(names), f"resources of one name: {names}"
    return {r.name: r for r in monitor.seen}


def exported(program: Callable[[], Any], outputs: Mapping[str, Any] | None = None) -> Manifest:
    """What a program exports, each value as it is once everything is made."""
    found: Manifest = {}

    def whole() -> Any:
        stack = cast("Stack", get_root_resource())
        stack.outputs.clear()
        program()
        return pulumi.Output.all(**stack.outputs).apply(found.update)

    run(whole, outputs)
    return found


def manifest(kind: str, name: str, version: str = "v1", **rest: Any) -> Manifest:
    """A small object; `namespace` goes into its metadata."""
    namespace = rest.pop("namespace", None)
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def crd(group: str, kind: str, *versions: str) -> Manifest:
    """A definition that serves the versions."""
    return manifest(
        "CustomResourceDefinition",
        f"{kind.lower()}s.{group}",
        "apiextensions.k8s.io/v1",
        spec={
            "group": group,
            "names": {"kind": kind},
            "versions": [{"name": v, "served": True} for v in versions],
        },
    )


def webhook(**client_config: Any) -> Manifest:
    """A webhook registration with one webhook."""
    return manifest(
        "ValidatingWebhookConfiguration",
        "judge",
        "admissionregistration.k8s.io/v1",
        webhooks=[{"name": "a.example.com", "clientConfig": client_config}],
    )
