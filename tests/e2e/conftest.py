"""One local environment for every end-to-end test that needs a whole platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.platform import Platform, bring_up


@pytest.fixture(scope="session")
def platform(before: dict[str, set[str]], tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """The local environment, up."""
    assert before, "the machine was looked at before anything started"
    return bring_up(tmp_path_factory.mktemp("platform"))


@pytest.fixture
def url(platform: Platform) -> str:
    """The gateway's address."""
    return platform.url()


@pytest.fixture(scope="session")
def tree(platform: Platform) -> Path:
    """The copy that the platform was brought up from."""
    return platform.tree
