"""The real engine, and the platform that serves it."""

from __future__ import annotations

import pytest

from local.engine import Installed, ensure


@pytest.fixture(scope="session")
def engine() -> Installed:
    """vLLM and the tiny model, from the cache; `make engine` puts them there with progress."""
    return ensure()
