"""Every component, found in the code: its children are its own, and nothing is called twice."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

import pulumi
import pytest
from pulumi.runtime.stack import Stack as Root

import components
from components import ClusterArgs, Program, build
from components.environment import Environment, EnvironmentArgs
from tests.components.recorder import Registered, crd, manifest, run
from tests.render.aws_stacks import changed
from tokenworks.render.release import Release, RemoteChart
from tokenworks.spec.stacks import Layer

STACK: Final = "pulumi:pulumi:Stack"
USER: Final = 65532


def component_types() -> list[type[pulumi.ComponentResource]]:
    """Every component of the room, whoever added it."""
    modules = [m.name for m in pkgutil.walk_packages(components.__path__, "components.")]
    found = {
        kind
        for name in modules
        for _, kind in inspect.getmembers(import_module(name), inspect.isclass)
        if issubclass(kind, pulumi.ComponentResource) and kind.__module__.startswith("components.")
    }
    return sorted(found, key=lambda kind: kind.__name__)


def releases() -> list[Release]:
    """One release of each kind."""
    chart = RemoteChart("remote", "https://charts.example", "remote", "1.2.3", "x", {})
    deployment = manifest("Deployment", "m", "apps/v1", namespace="a")
    return [
        Release("crds", "crds", "", (crd("example.com", "Thing", "v1"),)),
        Release("operator", "operators", "x", (manifest("Namespace", "x"),), charts=(chart,)),
        Release("gateway", "platform", "",
                (manifest("Gateway", "gateway", "gateway.networking.k8s.io/v1", spec={}),)),
        Release("tenant-a", "platform", "a", (manifest("Namespace", "a"),)),
        Release("model-m", "models", "a", (deployment,), ("tenant-a",)),
    ]  # fmt: skip


def whole(*layers: Layer) -> Callable[[], None]:
    """The program of one Pulumi stack of prod, with Karpenter beside managed node groups."""
    stack = changed()
    return lambda: build(Program(stack, layers, releases(), None, USER))


def served() -> None:
    """An environment with a model."""
    args = EnvironmentArgs(ClusterArgs("/nowhere/kubeconfig"), releases(), {"model-m": "m"})
    Environment("test", args)


@dataclass(frozen=True)
class Born:
    """A resource, and the component whose code made it."""

    kind: type[pulumi.Resource]
    token: str
    name: str
    maker: tuple[str, str] | None
    """Type and name; None for what the program itself made."""


def _maker(child: pulumi.Resource) -> pulumi.ComponentResource | None:
    """The innermost component whose method is running, other than the child's own constructor."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, pulumi.ComponentResource) and owner is not child:
            return None if isinstance(owner, Root) else owner
        frame = frame.f_back
    return None


@cache
def _born(program: str) -> tuple[list[Born], dict[str, Registered]]:
    """What a program makes: as its code says, and as the engine is told."""
    found: list[Born] = []
    names: dict[int, tuple[str, str]] = {}
    constructor = pulumi.Resource.__init__

    def noted(self: pulumi.Resource, t: str, name: str, *rest: Any, **more: Any) -> None:
        names[id(self)] = (t, name)
        maker = _maker(self)
        found.append(Born(type(self), t, name, None if maker is None else names[id(maker)]))
        kept.append(self)
        constructor(self, t, name, *rest, **more)

    kept: list[pulumi.Resource] = []  # so that no two have one identity
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulumi.Resource, "__init__", noted)
        seen = run(PROGRAMS[program])
    return [b for b in found if b.token != STACK], seen


PROGRAMS: Final[dict[str, Callable[[], None]]] = {
    "infrastructure": whole("infrastructure"),
    "platform": whole("platform"),
    "serving": whole("serving"),
    "served": served,
}


def born() -> Iterator[Born]:
    """What all programs make."""
    for program in PROGRAMS:
        yield from _born(program)[0]


def test_no_component_is_forgotten() -> None:
    made = {b.kind for b in born()}
    assert [kind.__name__ for kind in component_types() if kind not in made] == []
    assert len(component_types()) > 30


def test_every_component_makes_something() -> None:
    makers = {b.maker for b in born()}
    kinds = {b.kind for b in born() if (b.token, b.name) in makers}
    assert [kind.__name__ for kind in component_types() if kind not in kinds] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_component_makes_is_below_it(program: str) -> None:
    found, seen = _born(program)
    wrong: list[str] = []
    for b in found:
        kinds, name = seen[b.name].parent.split("::")[2:]
        above = (kinds.rpartition("$")[2], name)
        if above != (b.maker or (STACK, "tokenworks-test")):
            wrong.append(f"{b.token} {b.name}: made by {b.maker}, below {above}")
    assert wrong == []
    assert len(found) == len(seen)


def test_a_type_has_one_token_and_a_token_one_type() -> None:
    tokens = {(b.kind, b.token) for b in born() if b.kind in component_types()}
    assert len({kind for kind, _ in tokens}) == len({token for _, token in tokens}) == len(tokens)
    named = {kind.__name__: token.split(":") for kind, token in tokens}
    assert [n for n, parts in named.items() if (parts[0], parts[2]) != ("tokenworks", n)] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_children_on_aws_are_named_after_their_component(program: str) -> None:
    """Two pools, two keys: what is named after its component has a name of its own."""
    found, _ = _born(program)
    wrong = [
        (b.maker, b.name)
        for b in found
        if b.maker is not None
        and b.maker[0].startswith("tokenworks:aws:")
        and not b.token.startswith("kubernetes:")
        and not b.name.startswith(f"{b.maker[1]}-")
    ]
    assert wrong == []
