"""Data flows one way: who may import whom, and what the command line needs to start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.repo.layers import LAYERS, Layer, allowed, imports, layer_of
from tests.repo.tree import ROOT, Violation, files, refuse, text_of

CODE = [f for f in files() if f.endswith(".py") and not f.startswith("tests/")]


def breaches() -> Iterator[Violation]:
    for file in CODE:
        layer = layer_of(file)
        if layer is None:
            yield Violation("layers", file, 1, "belongs to no layer of tests/repo/layers.py")
            continue
        for line, name in imports(text_of(file), file):
            if not allowed(name, layer):
                text = f"imports {name}, but {layer.files} may not ({layer.why})"
                yield Violation("layers", file, line, text)


def test_every_file_imports_only_what_its_layer_may() -> None:
    refuse(breaches())


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.files)
def test_every_layer_has_files(layer: Layer) -> None:
    assert any(layer_of(file) is layer for file in CODE)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b, c", ["a.b", "c"]),
        ("from a import b", ["a.b"]),
        ("from . import b", ["pkg.sub.b"]),
        ("from .x import b", ["pkg.sub.x.b"]),
        ("from ..x import b", ["pkg.x.b"]),
        ("def f():\n    import late", ["late"]),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, names: list[str]) -> None:
    assert [name for _, name in imports(source, "src/pkg/sub/mod.py")] == names


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("json.loads", True), ("a", True), ("a.b.c", True), ("ab", False), ("pulumi", False)],
)
def test_a_name_covers_what_is_below_it_and_nothing_else(name: str, verdict: bool) -> None:
    assert allowed(name, Layer("x/*", ("a",), "")) is verdict


def test_the_command_line_starts_with_the_base_packages_alone() -> None:
    """`check`, `new` and `doctor` answer on a machine where nothing else is installed yet."""
    program = """
import sys
class OnlyBase:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in %r:
            raise ImportError(f"{name} is not in locks/base.txt")
sys.meta_path.insert(0, OnlyBase())
import tokenworks.cli.main
"""
    others = {"pulumi", "pulumi_kubernetes", "pulumi_policy", "grpc", "cryptography"}
    others |= {"pulumi_aws", "botocore"}
    others |= {"starlette", "uvicorn", "prometheus_client", "pytest", "hypothesis"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program % others],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
