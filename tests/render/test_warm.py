"""Whatever is kept, an environment is rendered as if nothing were."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.repository import ENVIRONMENTS, generate
from local.toolchain import module_dir
from tokenworks.cli import context
from tokenworks.cli import render as command
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.kept import Kept
from tokenworks.render import RenderTools, fresh, parts, render
from tokenworks.render.charts import Renderer, Request
from tokenworks.render.tree import tree
from tokenworks.spec.load import environment_names, load_stack

ROOT = Path(__file__).parents[2]
NAME = ENVIRONMENTS[0]
Edit = Callable[[random.Random, Path, Path], None]


def changed(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = yaml.safe_load(file.read_text())
    change(document["spec"])
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def any_model(chance: random.Random, stack: Path) -> Path:
    return chance.choice(sorted((stack / "models").glob("*.yaml")))


def drain(chance: random.Random, stack: Path, _kept: Path) -> None:
    seconds = f"{chance.randrange(10, 99)}s"
    changed(any_model(chance, stack), lambda spec: spec["startup"].update(drain=seconds))


def comment(chance: random.Random, stack: Path, _kept: Path) -> None:
    file = any_model(chance, stack)
    file.write_text(f"# {chance.random()}\n{file.read_text()}")


def remove(chance: random.Random, stack: Path, _kept: Path) -> None:
    any_model(chance, stack).unlink()


def copy(chance: random.Random, stack: Path, _kept: Path) -> None:
    file = stack / "models" / "embed-001.yaml"
    if not file.exists():
        return
    name = f"copy-{chance.randrange(1000)}"
    (file.parent / f"{name}.yaml").write_text(file.read_text().replace("embed-001", name))


def gateway(chance: random.Random, stack: Path, _kept: Path) -> None:
    seconds = f"{chance.randrange(300, 900)}s"
    changed(stack / "environment.yaml", lambda spec: spec["gateway"].update(requestTimeout=seconds))


def tenant(chance: random.Random, stack: Path, _kept: Path) -> None:
    file = chance.choice(sorted((stack / "tenants").glob("*.yaml")))
    value = str(chance.randrange(99))
    changed(file, lambda spec: spec["costLabels"].update({"cost-center": value}))


def delivery(chance: random.Random, stack: Path, _kept: Path) -> None:
    told = {
        "delivery": "argocd",
        "argocd": {"repository": f"https://git.example.com/{chance.randrange(3)}.git"},
    }

    def switch(spec: dict[str, Any]) -> None:
        if spec.get("delivery") == "argocd":
            for name in told:
                del spec[name]
        else:
            spec.update(told)

    changed(stack / "environment.yaml", switch)


def broken(chance: random.Random, stack: Path, _kept: Path) -> None:
    file = any_model(chance, stack)
    mistakes: Sequence[Callable[[str], str]] = (
        lambda text: text.replace("tenant: team-", "tenant: nobody-"),
        lambda text: text.replace("replicas: ", "replica: ").replace("drain:", "drains:"),
        lambda text: text + "x: [\n",
        lambda text: text.replace("metadata:\n  name: ", "metadata:\n  name: x"),
        lambda text: text.replace("ModelRelease", "Tenant"),
        lambda text: text + text,
    )
    file.write_text(chance.choice(mistakes)(file.read_text()))


def damage(chance: random.Random, _stack: Path, kept: Path) -> None:
    for file in chance.sample(sorted(kept.iterdir()), 20):
        raw = bytearray(file.read_bytes())
        raw[chance.randrange(len(raw))] ^= 1
        file.write_bytes(raw)


def lose(chance: random.Random, _stack: Path, kept: Path) -> None:
    for file in chance.sample(sorted(kept.iterdir()), 20):
        file.unlink()


EDITS: tuple[Edit, ...] = (
    drain, comment, remove, copy, gateway, tenant, delivery, broken, damage, lose,
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a few releases of each kind, to which the commands belong."""
    generate(tmp_path, 7 * len(ENVIRONMENTS), ROOT)
    for module in (context, command):
        monkeypatch.setattr(module, "root", lambda: tmp_path)
    monkeypatch.setattr(context, "kept", lambda: Kept(tmp_path / "kept"))
    return tmp_path


@pytest.fixture
def tools(place: Path, renderer: Path) -> RenderTools:
    return RenderTools(renderer, module_dir, Kept(place / "kept"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Releases whose charts were rendered."""
    real, seen = Renderer.objects, list[str]()

    def noted(self: Renderer, request: Request) -> tuple[dict[str, Any], ...]:
        seen.append(f"{request.chart.name} {request.name}")
        return real(self, request)

    monkeypatch.setattr(Renderer, "objects", noted)
    return seen


def warm(place: Path, tools: RenderTools) -> dict[str, str] | str:
    """Files as the command writes them, or why there are none."""
    folder = place / "rendered" / NAME
    try:
        made = command._rendered(NAME, tools, folder)  # pyright: ignore[reportPrivateUsage]
        made.settle(check=False)
    except UsageError as error:
        return str(error)
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*.yaml"))}


def cold(place: Path, tools: RenderTools) -> dict[str, str] | str:
    """The same with nothing kept."""
    try:
        stack = load_stack(place, NAME)
    except UsageError as error:
        return str(error)
    return tree(render(stack, RenderTools(tools.charts, module_dir)))


@pytest.mark.helm
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_after_any_edits_it_is_what_it_would_be_without_anything_kept(
    seed: int, place: Path, tools: RenderTools
) -> None:
    chance = random.Random(seed)
    stack, kept = place / "stacks" / NAME, place / "kept"
    assert warm(place, tools) == cold(place, tools)
    for edit in chance.sample(EDITS, len(EDITS)):
        before = {file: file.read_bytes() for file in sorted(stack.rglob("*.yaml"))}
        edit(chance, stack, kept)
        found = warm(place, tools)
        assert found == cold(place, tools), edit.__name__
        if isinstance(found, str):  # mended, as its author would
            for file, raw in before.items():
                file.write_bytes(raw)
            assert warm(place, tools) == cold(place, tools)


@pytest.mark.helm
@pytest.mark.slow
@pytest.mark.parametrize("who", ["pulumi", "argocd"])
def test_after_a_change_of_one_file_only_what_reads_it_is_rendered(
    who: str, place: Path, tools: RenderTools, asked: list[str]
) -> None:
    stack = place / "stacks" / NAME
    if who == "argocd":
        delivery(random.Random(0), stack, place)
    warm(place, tools)
    assert len(asked) == len(set(asked)) > 15
    asked.clear()
    changed(stack / "models" / "chat-000.yaml", lambda spec: spec["startup"].update(drain="11s"))
    warm(place, tools)
    assert asked == ["model chat-000"]
    asked.clear()
    changed(stack / "tenants" / "team-3.yaml", lambda spec: spec["costLabels"].update(a="b"))
    warm(place, tools)
    # Its costs are labels of its models.
    assert sorted(asked) == ["model split-003", "tenant team-3"]


@pytest.mark.helm
@pytest.mark.slow
def test_what_is_known_to_be_fresh_is_not_even_loaded(
    place: Path, tools: RenderTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = warm(place, tools)
    monkeypatch.setattr(command, "load", None)
    assert warm(place, tools) == first
    next((place / "rendered" / NAME / "models").iterdir()).unlink()
    with pytest.raises(TypeError):
        warm(place, tools)


@pytest.mark.helm
@pytest.mark.slow
def test_what_is_saved_while_it_is_rendered_is_not_forgotten(
    place: Path, tools: RenderTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, real = place / "stacks" / NAME / "models" / "chat-000.yaml", command.load

    def slow(name: str) -> Any:
        stack = real(name)
        changed(file, lambda spec: spec["startup"].update(drain="12s"))
        return stack

    with monkeypatch.context() as patch:
        patch.setattr(command, "load", slow)
        warm(place, tools)
    assert warm(place, tools) == cold(place, tools)


def key(root: Path) -> str | None:
    return fresh.inputs(root, NAME, Path("/bin/sh"))


def test_everything_in_the_folder_is_an_input(place: Path) -> None:
    stack = place / "stacks" / NAME
    seen = {key(place)}
    for name in ("new.md", "folder", ".hidden"):
        path = stack / name
        path.mkdir() if name == "folder" else path.write_text("")
        assert key(place) not in seen
        seen.add(key(place))
    (stack / "new.md").write_text("x")
    assert key(place) not in seen
    (place / "stacks" / ENVIRONMENTS[1] / "models" / "embed-001.yaml").write_text("")
    (stack / "new.md").write_text("")
    assert key(place) in seen


@pytest.mark.parametrize("kind", ["link", "fifo", "nothing"])
def test_what_is_no_file_is_never_taken_for_known(kind: str, place: Path) -> None:
    path = place / "stacks" / NAME / "models" / "odd.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(place / ("nothing" if kind == "nothing" else "stacks"))
    assert key(place) is None


@pytest.mark.parametrize("name", environment_names(ROOT))
def test_a_part_is_given_what_it_says_it_reads(name: str) -> None:
    """A release sees its own documents and no others, so that no other can matter to it."""
    stack = load_stack(ROOT, name)
    for part in parts(stack):
        if part.name.endswith("._model"):
            (model,), (tenant,) = part.stack.models, part.stack.tenants
            assert model.spec.tenant == tenant.metadata.name
        elif part.name.endswith("._tenant"):
            (tenant,) = part.stack.tenants
            assert {m.spec.tenant for m in part.stack.models} <= {tenant.metadata.name}
        assert part.stack.environment == stack.environment
    made = [part.name for part in parts(stack)]
    assert made.count("tokenworks.render._model") == len(stack.models)
    assert made.count("tokenworks.render._tenant") == len(stack.tenants)


def test_plain_objects_are_always_made(root: Path) -> None:
    """They are no documents, so that no key tells them."""
    stack = replace(load_stack(root, "dev"), manifests=({"kind": "ConfigMap"},))
    wanted = [part for part in parts(stack) if part.stack.manifests]
    assert "tokenworks.render._manifests" in {part.name for part in wanted}
    assert set(fresh._keys(wanted, "")) == {None}  # pyright: ignore[reportPrivateUsage]


@pytest.mark.helm
@pytest.mark.slow
def test_every_tree_that_is_not_fresh_is_named(
    place: Path, tools: RenderTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "render_tools", lambda: tools)
    first, second, third = ENVIRONMENTS[:3]
    command.render_command([third])
    with pytest.raises(TokenworksError) as stale:
        command.render_command([first, third, second, first], check=True)
    lines = str(stale.value).splitlines()
    assert [
        f"Run: ./tokenworks render {name}" in line
        for name, line in zip((first, second), lines, strict=True)
    ] == [True, True]
    assert not (place / "rendered" / first).exists()


@pytest.mark.helm
@pytest.mark.slow
def test_a_file_that_nobody_rendered_makes_a_tree_not_fresh(
    place: Path,
    tools: RenderTools,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "render_tools", lambda: tools)
    name = ENVIRONMENTS[0]
    command.render_command([name])
    command.render_command([name], check=True)
    path = place / "rendered" / name / "applications" / "mine.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine: true\n")
    capsys.readouterr()
    with pytest.raises(TokenworksError, match=r"1 file\(s\) above differ"):
        command.render_command([name], check=True)
    assert capsys.readouterr().out == "? applications/mine.yaml\n"
    command.render_command([name])
    assert path.read_text() == "mine: true\n"


@pytest.mark.helm
@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["unknown", "broken", "foreign"])
def test_one_environment_that_is_refused_leaves_every_tree_as_it_was(
    mistake: str, place: Path, tools: RenderTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "render_tools", lambda: tools)
    first, second = ENVIRONMENTS[:2]
    if mistake == "broken":
        (place / "stacks" / second / "models" / "odd.yaml").write_text("kind: [")
    if mistake == "foreign":
        path = place / "rendered" / second / "models" / "model-chat-000.yaml"
        path.parent.mkdir(parents=True)
        path.write_text("mine: true\n")
    names = [first, "nosuch" if mistake == "unknown" else second]
    with pytest.raises(UsageError):
        command.render_command(names)
    assert not (place / "rendered" / first).exists()
    if mistake == "foreign":  # nothing is in danger: it is told with what else is missing
        with pytest.raises(TokenworksError, match="is not fresh"):
            command.render_command(names, check=True)
