"""Pulumi's mocks, with what they hide: the options that a resource was registered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.proto import resource_pb2

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Registered:
    """One registration, as the engine would have got it."""

    urn: str
    token: str
    name: str
    inputs: dict[str, Any]
    depends_on: frozenset[str]
    """Names of what it waits for."""
    retained: bool
    timeout: str
    aliases: tuple[str, ...]
    """Other type tokens it may be known under."""
    ignored: tuple[str, ...]
    provider: str

    @property
    def parents(self) -> list[str]:
        """Type tokens from the outermost component to the resource itself."""
        return self.urn.split("::")[2].split("$")


class _Cluster(Mocks):
    """Every object is created as asked; a Gateway gets an address."""

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"components look nothing up: {args.token}")

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        state = dict(args.inputs)
        if args.typ.endswith(":Gateway") and args.typ.startswith("kubernetes:"):
            state["status"] = {"addresses": [{"value": "gateway.example.internal"}]}
        return args.name, state


class _Monitor(MockMonitor):
    def __init__(self) -> None:
        super().__init__(_Cluster())
        self.seen: list[Registered] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        response = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self.seen.append(_registered(response.urn, request))
        return response


def _registered(urn: str, request: resource_pb2.RegisterResourceRequest) -> Registered:
    return Registered(
        urn=urn,
        token=request.type,
        name=request.name,
        inputs=pulumi.runtime.rpc.deserialize_properties(request.object, keep_unknowns=True),
        depends_on=frozenset(dependency.split("::")[-1] for dependency in request.dependencies),
        retained=request.retainOnDelete,
        timeout=request.customTimeouts.create,
        aliases=tuple(alias.spec.type for alias in request.aliases),
        ignored=tuple(request.ignoreChanges),
        provider=request.provider,
    )


def run(program: Callable[[], Any]) -> dict[str, Registered]:
    """Registrations of a program by name, each run in a fresh Pulumi runtime.

    What `program` returns is awaited, so assertions inside `apply` count.
    """
    monitor = _Monitor()
    set_mocks(_Cluster(), project="tokenworks", stack="test", preview=False, monitor=monitor)
    pulumi.runtime.test(program)()
    names = [r.name for r in monitor.seen]
    assert len(set(names)) == len(names), "two resources of one name"
    return {r.name: r for r in monitor.seen}


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
