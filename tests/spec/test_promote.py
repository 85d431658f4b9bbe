"""A release goes to the next environment with what is that environment's own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.review.repository import committed, git
from tokenworks.cli import promote as command
from tokenworks.cli.main import build
from tokenworks.errors import UsageError
from tokenworks.spec.edit import CannotEditError, value_at, with_field_of, with_value, written
from tokenworks.spec.environment import OWN_FIELDS as OWN
from tokenworks.spec.load import load_stack
from tokenworks.spec.promote import promotion

ROOT = Path(__file__).resolve().parents[2]
NAME = "qwen3-32b"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the environments of this one, without what each says of promotion."""
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    for file in tmp_path.glob("stacks/*/environment.yaml"):
        file.write_text(re.sub(r"  promotion:\n(?:    .*\n)+", "", file.read_text()))
    monkeypatch.setattr(command, "root", lambda: tmp_path)
    return tmp_path


def document(root: Path, environment: str) -> Path:
    return root / "stacks" / environment / "models" / f"{NAME}.yaml"


def run(*arguments: str) -> str:
    done = CliRunner().invoke(
        build(), ["promote", NAME, "--from", "dev", "--to", "staging", *arguments],
        catch_exceptions=False,
    )  # fmt: skip
    assert done.exit_code == 0
    return done.output


KEEP = ("--keep", "resources", "--keep", "topology", "--keep", "startup")


def test_what_it_is_comes_and_where_it_runs_stays(root: Path) -> None:
    source, target = document(root, "dev"), document(root, "staging")
    source.write_text(source.read_text().replace("0.92", "0.88"))
    before = yaml.safe_load(target.read_text())["spec"]
    said = run(*KEEP)
    after = yaml.safe_load(target.read_text())["spec"]
    assert after["engine"] == yaml.safe_load(source.read_text())["spec"]["engine"]
    for field in ("tenant", "pool", "replicas", "resources", "topology", "startup"):
        assert after[field] == before[field], field
    assert "+      gpu-memory-utilization: 0.88" in said and "# From its config.json" in said
    load_stack(root, "staging")


def test_a_second_time_changes_nothing(root: Path) -> None:
    run(*KEEP)
    once = document(root, "staging").read_bytes()
    assert "is as dev has it already" in run(*KEEP)
    assert document(root, "staging").read_bytes() == once


def test_a_kind_of_cache_is_the_releases(root: Path) -> None:
    """The target's claim does not come into a release that has none any more."""
    target = document(root, "staging")
    text = target.read_text()
    assert "      kind: ephemeral\n" in text
    target.write_text(text.replace("kind: ephemeral\n", "kind: pvc\n      claim: weights\n"))
    load_stack(root, "staging")
    run(*KEEP)
    assert yaml.safe_load(target.read_text())["spec"]["caches"]["weights"] == {"kind": "ephemeral"}
    target.write_text(text.replace("kind: ephemeral\n", "kind: pvc\n      claim: weights\n"))
    run(*KEEP, "--keep", "caches")
    assert yaml.safe_load(target.read_text())["spec"]["caches"]["weights"]["claim"] == "weights"


def test_an_editors_open_file_is_no_document(root: Path) -> None:
    (document(root, "staging").parent / ".#qwen3-32b.yaml").symlink_to("nobody@nowhere")
    assert "---" in run(*KEEP, "--dry-run")


def tree_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def test_a_revert_brings_back_every_byte(root: Path) -> None:
    git(root, "init", "--quiet")
    committed(root)
    before = tree_of(root)
    source = document(root, "dev")
    source.write_text(source.read_text().replace("0.92", "0.88"))
    committed(root)
    said = run(*KEEP)
    assert "one revert" in said and "no commit has" not in said
    committed(root)
    git(root, "revert", "--no-edit", "HEAD", "HEAD~1")
    assert tree_of(root) == before


def test_changes_that_no_commit_has_are_not_lost_silently(root: Path) -> None:
    git(root, "init", "--quiet")
    committed(root)
    target = document(root, "staging")
    target.write_text(target.read_text() + "# somebody's note\n")
    said = run(*KEEP)
    assert "-# somebody's note" in said and "changes that no commit has" in said


def test_a_dry_run_writes_nothing(root: Path) -> None:
    before = document(root, "staging").read_bytes()
    assert "---" in run(*KEEP, "--dry-run")
    assert document(root, "staging").read_bytes() == before


def test_the_first_time_the_targets_own_is_given(root: Path) -> None:
    document(root, "staging").unlink()
    with pytest.raises(UsageError, match="unknown node pool h100") as refused:
        run()
    assert "--set pool=NAME" in str(refused.value)
    assert not document(root, "staging").exists()
    run("--set", "pool=g6e", "--set", "replicas=3", "--set", "tenant=research")
    spec = yaml.safe_load(document(root, "staging").read_text())["spec"]
    assert (spec["pool"], spec["replicas"]) == ("g6e", 3)


def habits(root: Path, text: str) -> None:
    """Written into the target's environment document."""
    file = root / "stacks" / "staging" / "environment.yaml"
    before = file.read_text()
    file.write_text(before.replace("\nspec:\n", f"\nspec:\n  promotion: {text}\n", 1))
    assert file.read_text() != before


def test_what_is_kept_each_time_stands_in_the_environment(root: Path) -> None:
    habits(root, "{keep: [resources, topology, startup]}")
    before = yaml.safe_load(document(root, "staging").read_text())["spec"]
    assert "staging's own: resources, topology, startup, tenant" in run()
    after = yaml.safe_load(document(root, "staging").read_text())["spec"]
    for field in ("resources", "topology", "startup"):
        assert after[field] == before[field], field


def test_a_release_that_is_new_gets_what_the_environment_says(root: Path) -> None:
    was = yaml.safe_load(document(root, "staging").read_text())["spec"]
    document(root, "staging").unlink()
    habits(root, f"{{set: {{tenant: {was['tenant']}, pool: {was['pool']}, replicas: 3}}}}")
    run("--set", "replicas=2")
    after = yaml.safe_load(document(root, "staging").read_text())["spec"]
    assert (after["tenant"], after["pool"], after["replicas"]) == (was["tenant"], was["pool"], 2)


def test_what_a_release_has_there_comes_before_what_new_ones_get(root: Path) -> None:
    habits(root, "{set: {replicas: 7}, keep: [resources, topology, startup]}")
    was = yaml.safe_load(document(root, "staging").read_text())["spec"]["replicas"]
    run()
    assert yaml.safe_load(document(root, "staging").read_text())["spec"]["replicas"] == was != 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "engine.name=sglang"], "not the environment's own"),
        (["--set", "pool"], "FIELD=VALUE"),
        (["--set", "=x"], "FIELD=VALUE"),
        (["--keep", "nosuch"], "has no spec.nosuch"),
        (["--to", "dev"], "name two environments"),
        (["--set", "pool=a", "--set", "pool=b"], "given twice"),
        (["--set", "replicas=1", "--keep", "replicas"], "contradicts --keep"),
        (["--to", "nosuch"], "nosuch"),
    ],
)
def test_wrong_use_is_refused(root: Path, arguments: list[str], said: str) -> None:
    before = document(root, "staging").read_bytes()
    with pytest.raises(UsageError, match=said):
        run(*arguments)
    assert document(root, "staging").read_bytes() == before


def test_a_release_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(UsageError, match=r"no model release 'x'; it has: qwen3-32b"):
        promotion(root, "x", "dev", "staging", given={})


@pytest.mark.parametrize("field", OWN)
def test_every_own_field_is_one_that_documents_have(field: str) -> None:
    node: object = yaml.safe_load((ROOT / "schemas" / "model-release.schema.json").read_text())
    definitions = node["$defs"]  # pyright: ignore[reportIndexIssue, reportUnknownVariableType]
    at = definitions["ModelReleaseSpec"]  # pyright: ignore[reportUnknownVariableType]
    for part in field.split("."):
        at = at["properties"][part]  # pyright: ignore[reportUnknownVariableType]
        text = str(at)  # pyright: ignore[reportUnknownArgumentType]
        if "#/$defs/" in text:
            at = definitions[text.split("#/$defs/")[1].split("'", maxsplit=1)[0]]  # pyright: ignore[reportUnknownVariableType]


# Editing


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("a: 1 # c\nb: 2\n", ("a",), "a: 9 # c\nb: 2\n"),
        ("a: {b: 1, c: 2}\n", ("a", "c"), "a: {b: 1, c: 9}\n"),
        ("a:\n  # why\n  b: 'x'\n", ("a", "b"), "a:\n  # why\n  b: 9\n"),
        ("a:\n  b: 1\n", ("a", "c"), "a:\n  c: 9\n  b: 1\n"),
        ("a: {b: 1}\n", ("a", "c"), "a: {c: 9, b: 1}\n"),
        ("a: 1\r\nb: 2\r\n", ("b",), "a: 1\r\nb: 9\r\n"),
    ],
)
def test_one_value_changes_and_no_other_byte(
    text: str, path: tuple[str, ...], expected: str
) -> None:
    assert with_value(text, path, "9") == expected
    assert value_at(expected, path) == "9"


@pytest.mark.parametrize("path", [("x", "y"), ("l", "0")])
def test_no_single_value_is_no_place(path: tuple[str, ...]) -> None:
    with pytest.raises(CannotEditError):
        with_value("a: {b: 1}\nl: [1]\n", path, "9")


@pytest.mark.parametrize(
    "value",
    ["g6e", "3", "on", "1e3", "a: b", "0x1", "null", "store.kv.svc:50051", "03", "- a", "~"],
)
def test_a_text_is_read_as_it_was_given(value: str) -> None:
    read = yaml.safe_load(f"a: {written(value)}")["a"]
    assert str(read) == value


OTHER = """\
spec:
    keep: # theirs
        a: [1, 2]
        b: |
            text

    last: {x: 1}
"""


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (
            "spec:\n  first: 1\n  keep:\n    c: 9\n  # end\n  z: 0\n",
            ("spec", "keep"),
            "spec:\n  first: 1\n  keep: # theirs\n      a: [1, 2]\n      b: |\n          text\n"
            "  # end\n  z: 0\n",
        ),
        ("spec:\n  first: 1\n", ("spec", "keep", "a"), None),
        ("spec:\n  last: {y: 2}\n", ("spec", "last"), "spec:\n  last: {x: 1}\n"),
        ("spec:\n  a: 1\n", ("spec", "last"), "spec:\n  last: {x: 1}\n  a: 1\n"),
        (
            "spec:\n  a: 1\nnext: 2\n",
            ("spec", "keep"),
            "spec:\n  a: 1\n  keep: # theirs\n      a: [1, 2]\n      b: |\n          text\n"
            "next: 2\n",
        ),
    ],
)
def test_a_whole_field_comes_with_lists_and_comments(
    text: str, path: tuple[str, ...], expected: str | None
) -> None:
    if expected is None:
        with pytest.raises(CannotEditError):
            with_field_of(text, path, OTHER)
    else:
        assert with_field_of(text, path, OTHER) == expected


@pytest.mark.parametrize(
    "text",
    ["a: &n 1\nb: *n\n", "a: 1\n---\nb: 2\n", "a: [", "a: >-\n  x\n", "a: 1\na: 2\n"],
)
def test_what_is_left_to_people_is_not_changed(text: str) -> None:
    with pytest.raises(CannotEditError):
        with_value(text, ("a",), "9")
