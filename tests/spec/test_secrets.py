"""A credential anywhere in an environment's files is refused, and no message repeats it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.canary import SHAPED, SHAPELESS, leaks
from tokenworks.spec.load import load_stack
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.sourced import EngineCatalog

GOOD = Path(__file__).parent / "good"
FILES = sorted(str(path.relative_to(GOOD)) for path in GOOD.rglob("*.yaml"))
Place = tuple[str | int, ...]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Where the scalars of a document stand."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from places(child, (*here, key))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from places(child, (*here, position))
    else:
        yield here


def planted(value: Any, place: Place, canary: str) -> Any:
    """The document with the canary in place of one scalar, or of a key that it replaces."""
    if not place:
        return canary
    first, *rest = place
    if isinstance(value, dict):
        return {k: planted(v, tuple(rest), canary) if k == first else v for k, v in value.items()}
    return [planted(v, tuple(rest), canary) if n == first else v for n, v in enumerate(value)]


def refusal(root: Path, engines: EngineCatalog) -> str:
    with pytest.raises(DocumentErrors) as raised:
        load_stack(root, "env", engines)
    return str(raised.value)


@pytest.mark.parametrize("file", FILES)
def test_it_is_refused_at_every_place(
    file: str, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    target = stack_root() / "stacks" / "env" / file
    documents = list(yaml.safe_load_all(target.read_text()))
    canary = SHAPED["Hugging Face token"]
    tried = 0
    for number, document in enumerate(documents):
        for place in places(document):
            changed = [*documents[:number], planted(document, place, canary)]
            target.write_text(yaml.safe_dump_all([*changed, *documents[number + 1 :]]))
            said = refusal(target.parents[len(Path(file).parts) + 1], engines)
            assert "Hugging Face token" in said, place
            assert leaks(said, [canary]) == [], place
            tried += 1
    assert tried > 3


@pytest.mark.parametrize(("kind", "canary"), SHAPED.items(), ids=list(SHAPED))
@pytest.mark.parametrize("field", ["env", "flags"])
def test_every_shape_is_known_under_an_innocent_name(
    kind: str, canary: str, field: str, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    file = root / "stacks" / "env" / "models" / "a.yaml"
    document = yaml.safe_load(file.read_text())
    name = {"env": "EXTRA", "flags": "extra"}[field]
    value = canary if field == "env" else {"nested": [canary]}
    document["spec"]["engine"].setdefault(field, {})[name] = value
    file.write_text(yaml.safe_dump(document))
    said = refusal(root, engines)
    assert f"spec.engine.{field}.{name}" in said
    assert f"holds what looks like a {kind}" in said
    assert leaks(said, SHAPED.values()) == []


@pytest.mark.parametrize(
    "text",
    [
        "{canary}",
        "{canary}: x",
        "a: {{b: {canary}",
        "a: *{canary}",
        "a: !{canary} x",
        "? [{canary}]\n: x",
        "a: 1\na: {canary}",
        "on: {canary}",
        "kind: {canary}\napiVersion: {canary}",
    ],
)
@pytest.mark.parametrize("folder", ["models", "manifests"])
def test_what_cannot_be_read_is_not_repeated_either(
    text: str, folder: str, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root, canary = stack_root(), SHAPED["GitHub token"]
    (root / "stacks" / "env" / folder / "b.yaml").write_text(text.format(canary=canary))
    assert leaks(refusal(root, engines), [canary]) == []


@pytest.mark.parametrize("value", [SHAPELESS, [SHAPELESS], {"x": SHAPELESS}, 112358132134])
@pytest.mark.parametrize("name", ["HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY"])
def test_a_value_of_no_shape_is_not_repeated_where_its_name_tells(
    name: str, value: Any, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    file = root / "stacks" / "env" / "models" / "a.yaml"
    document = yaml.safe_load(file.read_text())
    document["spec"]["engine"]["env"] = {name: value}
    file.write_text(yaml.safe_dump(document))
    said = refusal(root, engines)
    assert name in said
    assert leaks(said, [SHAPELESS, "112358132134"]) == []


def test_an_empty_variable_and_a_path_are_no_secrets(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    file = root / "stacks" / "env" / "models" / "a.yaml"
    document = yaml.safe_load(file.read_text())
    document["spec"]["engine"]["env"] = {"HF_TOKEN": "", "DB_PASSWORD_FILE": "/run/x"}
    file.write_text(yaml.safe_dump(document))
    (model,) = load_stack(root, "env", engines).models
    assert model.spec.engine.env["DB_PASSWORD_FILE"] == "/run/x"
