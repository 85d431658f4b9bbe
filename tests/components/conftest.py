"""Pulumi's mocks want an event loop, and other tests may have closed the thread's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
