"""Recorded outputs, which previews of later stacks read, are what the layers really export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from components import Program, build
from local.toolchain import module_dir
from tests.components.recorder import exported, manifest, recorded
from tests.repo.tree import ROOT
from tokenworks.errors import TokenworksError
from tokenworks.render import RenderTools, pulumis_share, render
from tokenworks.render.release import Release
from tokenworks.spec.load import environment_names, load_stack
from tokenworks.spec.stacks import load_pulumi_stack, pulumi_stacks

# The last stack of an environment is read by none.
READ = [
    name
    for environment in environment_names(ROOT)
    for name in pulumi_stacks(load_stack(ROOT, environment))[:-1]
]
READERS = {"prod-infrastructure": ("prod-platform", "prod-serving"),
           "prod-platform": ("prod-serving",)}  # fmt: skip
USER = 65532


def _releases(name: str, renderer: Path) -> tuple[Release, ...]:
    stack, _ = load_pulumi_stack(ROOT, name)
    return tuple(pulumis_share(stack, render(stack, RenderTools(renderer, module_dir))))


def exports(
    name: str, releases: Sequence[Release], outputs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a Pulumi stack exports that reads these outputs of others, or the recorded ones."""
    stack, layers = load_pulumi_stack(ROOT, name)
    return exported(lambda: build(Program(stack, layers, releases, None, USER)), outputs)


def shape(value: Any) -> Any:
    """Names and types of everything in a value; a list is as its items are."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        items = [shape(item) for item in cast("list[Any]", value)]
        return [item for n, item in enumerate(items) if item not in items[:n]]
    return type(value).__name__


def paths(value: Any, above: str = "") -> Iterator[str]:
    """Every output, and every part of one."""
    if isinstance(value, dict):
        for key, part in cast("dict[str, Any]", value).items():
            yield f"{above}{key}"
            yield from paths(part, f"{above}{key}.")


def without(value: dict[str, Any], path: str) -> dict[str, Any]:
    """The outputs but for one, or for a part of one."""
    first, _, rest = path.partition(".")
    return {
        k: without(v, rest) if rest and k == first else v
        for k, v in value.items()
        if rest or k != first
    }


def test_every_stack_that_is_read_is_recorded_and_no_other() -> None:
    files = {f.name for f in (ROOT / "stacks").glob("Pulumi.*.outputs.json")}
    assert files == {f"Pulumi.{name}.outputs.json" for name in READ}
    assert set(READERS) == set(READ)


@pytest.mark.helm
@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_a_recording_holds_what_the_stack_exports(name: str, renderer: Path) -> None:
    """A difference: correct the layer, or record the outputs anew as docs/aws.md says."""
    assert shape(recorded(name)) == shape(exports(name, _releases(name, renderer)))


@pytest.mark.parametrize(
    ("name", "path", "reader"),
    [
        (n, path, r)
        for n, readers in READERS.items()
        for path in paths(recorded(n))
        for r in readers
    ],
)
def test_each_output_that_is_missing_is_named_with_what_to_do(
    name: str, path: str, reader: str
) -> None:
    others = {
        key: value for other in READ if other != name for key, value in recorded(other).items()
    }
    gateway = manifest("Gateway", "gateway", "gateway.networking.k8s.io/v1")
    releases = [Release("gateway", "platform", "", (gateway,))]
    with pytest.raises(TokenworksError) as raised:
        exports(reader, releases, others | without(recorded(name), path))
    said = str(raised.value)
    assert f"stack {name} has no output {path}: " in said
    assert f"Run `pulumi up --stack {name}`" in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x"}, {}),
        ({"a": "x"}, {"b": "x"}),
        ({"a": "x"}, {"a": ["x"]}),
        ({"a": "x"}, {"a": 1}),
        ({"a": {"b": "x"}}, {"a": {"c": "x"}}),
        ({"a": {"b": "x"}}, {"a": "x"}),
        ({"a": ["x"]}, {"a": [{"b": "x"}]}),
    ],
)  # fmt: skip
def test_names_and_types_are_told_apart(one: Any, other: Any) -> None:
    assert shape(one) != shape(other)
    assert shape({"a": ["x", "y"]}) == shape({"a": ["z"]})
