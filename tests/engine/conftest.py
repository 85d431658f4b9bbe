"""The real engine, and the platform that serves it."""

from __future__ import annotations

import pytest

from local.engine import Installed, ensure
from tests.docs.guide import copy_tree
from tests.e2e.platform import Platform
from tests.engine.documents import prepare


@pytest.fixture(scope="session")
def engine() -> Installed:
    """vLLM and the tiny model, from the cache; `make engine` puts them there with progress."""
    return ensure()


@pytest.fixture(scope="session")
def served(
    before: dict[str, set[str]], engine: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Platform:
    """The local environment with the real engine behind its gateway, and no other model."""
    assert before, "the machine was looked at before anything started"
    tree = copy_tree(tmp_path_factory.mktemp("engine"))
    prepare(tree, engine)
    return Platform(tree, Platform(tree, "").run("up", "local").stdout)


@pytest.fixture(scope="session")
def url(served: Platform) -> str:
    """The gateway's address."""
    return served.url()
