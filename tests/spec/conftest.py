"""A good environment, and what a case changes in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Set
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class KnownFlags:
    """Flags that are derived, whatever the engine."""

    def reserved_flags(self) -> Set[str]:
        return {"port", "max-model-len"}

    def reserved_env(self) -> Set[str]:
        return {"HOME"}

    @property
    def image_pull(self) -> str:
        return "60s"


class KnownEngines:
    """A catalog of engines that does not change with the repository's."""

    def engine(self, name: str) -> KnownFlags:
        assert name in ("simulator", "vllm")
        return KnownFlags()

    def versions(self, engine: str) -> Collection[str]:
        return {"simulator": ("0.1.0",), "vllm": ("0.25.0", "0.26.0")}.get(engine, ())


@pytest.fixture
def engines() -> KnownEngines:
    return KnownEngines()


@pytest.fixture
def stack_root(tmp_path: Path) -> Callable[..., Path]:
    """Makes a root whose stacks/env is the good environment with a folder's files over it."""

    def make(case: Path | None = None) -> Path:
        folder = tmp_path / "stacks" / "env"
        shutil.copytree(HERE / "good", folder)
        if case is not None:
            ignore = shutil.ignore_patterns("expected.txt")
            shutil.copytree(case, folder, dirs_exist_ok=True, ignore=ignore)
        return tmp_path

    return make
