"""Waiting with an end."""

from __future__ import annotations

import asyncio

from .driver import Clock


async def within(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event; False if that much time passes first."""
    if event.is_set():
        return True
    came = asyncio.create_task(event.wait())
    late = asyncio.create_task(clock.sleep_until(clock.now() + seconds))
    try:
        await asyncio.wait((came, late), return_when=asyncio.FIRST_COMPLETED)
    finally:
        came.cancel()
        late.cancel()
    return event.is_set()
