"""Groups of processes that are one engine: they meet at the leader's address over TCP.

The leader is complete when everyone has joined; a member waits for that too. When a
connection of a complete group ends, the engine is broken: everybody ends, and whoever
manages the group starts it anew. Lines of JSON: a member says who it is, the leader says
`joined`, `complete` or why not.

Real engines meet in PyTorch's store, ZeroMQ or Ray; the addresses, ports and consequences
are theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from .driver import Clock
from .peers import keep_alive
from .waiting import within

_BETWEEN = 1.0
_log = logging.getLogger("simulator")


class GroupError(Exception):
    """The group did not come together, or fell apart."""


@dataclass(frozen=True)
class Meeting:
    """Where a group meets, and who takes part.

    `what` names the members (`node`, `rank`), which are numbered below `size`; `own` are
    those of this process. A member without numbers takes what is free, in a group of
    whatever size (0).
    """

    host: str
    port: int
    what: str
    size: int
    own: tuple[int, ...]
    patience: float
    """Seconds until all must have come."""
    leads: bool
    """Whether the others come to this process."""


@dataclass
class Roster:
    """Who has joined. Pure bookkeeping."""

    meeting: Meeting
    present: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self.present.update(self.meeting.own)

    @property
    def missing(self) -> list[int]:
        """Who has not come yet."""
        return [n for n in range(self.meeting.size) if n not in self.present]

    def join(self, what: object, size: object, numbers: object) -> tuple[int, ...]:
        """Take somebody in.

        Raises:
            GroupError: who must not be here.
        """
        meeting = self.meeting
        if what != meeting.what or size not in (0, meeting.size):
            raise GroupError(
                f"this is a group of {meeting.size} {meeting.what}s, not {size} {what}s"
            )
        joining = _numbers(numbers) or tuple(self.missing[:1])
        if not joining:
            raise GroupError(f"all {meeting.size} {meeting.what}s are here already")
        for number in joining:
            if not 0 <= number < meeting.size:
                raise GroupError(f"{meeting.what} {number} is not below {meeting.size}")
            if number in self.present:
                raise GroupError(f"{meeting.what} {number} is here already")
        self.present.update(joining)
        return joining

    def leave(self, numbers: Iterable[int]) -> None:
        """Somebody has gone."""
        self.present.difference_update(numbers)


def _numbers(value: object) -> tuple[int, ...]:
    items = cast(list[object], value) if isinstance(value, list) else [None]
    numbers = tuple(item for item in items if isinstance(item, int))
    if len(numbers) != len(items):
        raise GroupError("numbers must be an array of whole numbers")
    return numbers


class Leader:
    """Waits for the members."""

    def __init__(self, meeting: Meeting, clock: Clock) -> None:
        self._meeting, self._clock = meeting, clock
        self._roster = Roster(meeting)
        self._changed = asyncio.Event()
        self._broken: asyncio.Future[str] | None = None
        self._members: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        self._broken = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve, None, self._meeting.port)

    async def complete(self) -> None:
        """Return when all are here and the name that they came by is known here as well.

        Raises:
            GroupError: it took too long.
        """
        deadline = self._clock.now() + self._meeting.patience
        await _resolve(self._meeting, self._clock, deadline)
        while missing := self._roster.missing:
            names = f"{self._meeting.what} {', '.join(map(str, missing))}"
            _log.info("waiting for %s at port %d", names, self._meeting.port)
            self._changed.clear()
            left = max(0.0, deadline - self._clock.now())
            if not await within(self._clock, self._changed, left):
                raise GroupError(f"{names} did not come in {self._meeting.patience:g} s")
        for writer in self._members:
            _say(writer, {"complete": True})
        _log.info("the group of %d %ss is complete", self._meeting.size, self._meeting.what)

    async def broken(self) -> str:
        """Return, with the reason, when somebody of the complete group has gone."""
        assert self._broken is not None
        return await self._broken

    async def close(self) -> None:
        """Send everybody away."""
        for writer in tuple(self._members):
            writer.close()
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        keep_alive(writer.get_extra_info("socket"))
        joined: tuple[int, ...] = ()
        try:
            said = await _hear(reader)
            joined = self._roster.join(said.get("what"), said.get("size"), said.get("numbers"))
            self._members.add(writer)
            _say(writer, {"joined": True})
            self._changed.set()
            _log.info("%s %s joined", self._meeting.what, ", ".join(map(str, joined)))
            await reader.read()  # until the member goes
        except GroupError as error:
            _log.warning("somebody was refused: %s", error)
            _say(writer, {"refused": str(error)})
        except OSError:
            pass  # gone; the same as an orderly end
        finally:
            self._members.discard(writer)
            self._gone(joined)
            writer.close()

    def _gone(self, numbers: tuple[int, ...]) -> None:
        if not numbers:
            return
        whole = not self._roster.missing
        self._roster.leave(numbers)
        if whole and self._broken is not None and not self._broken.done():
            names = ", ".join(map(str, numbers))
            self._broken.set_result(f"{self._meeting.what} {names} has gone")


class Member:
    """Goes to the leader."""

    def __init__(self, meeting: Meeting, clock: Clock) -> None:
        self._meeting, self._clock = meeting, clock
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Nothing to prepare."""

    async def complete(self) -> None:
        """Join, trying again while there is no leader; return when everybody has.

        Raises:
            GroupError: refused, or it took too long.
        """
        meeting = self._meeting
        deadline = self._clock.now() + meeting.patience
        while True:
            await self._connect(deadline)
            assert self._reader is not None
            with contextlib.suppress(OSError):
                while said := await _hear(self._reader):
                    if refused := said.get("refused"):
                        raise GroupError(f"refused by {meeting.host}:{meeting.port}: {refused}")
                    if said.get("complete"):
                        _log.info("the group of %d %ss is complete", meeting.size, meeting.what)
                        return
            # A leader that went before the group was whole may come again.
            if self._clock.now() >= deadline:
                raise GroupError(f"the group did not come together in {meeting.patience:g} s")
            await self._clock.sleep_until(self._clock.now() + _BETWEEN)

    async def broken(self) -> str:
        """Return, with the reason, when the leader has gone."""
        assert self._reader is not None
        with contextlib.suppress(OSError):
            await self._reader.read()
        return f"the leader at {self._meeting.host}:{self._meeting.port} has gone"

    async def close(self) -> None:
        """Leave."""
        if self._writer is not None:
            self._writer.close()

    async def _connect(self, deadline: float) -> None:
        meeting = self._meeting
        while True:
            try:
                self._reader, self._writer = await asyncio.open_connection(
                    meeting.host, meeting.port
                )
                keep_alive(self._writer.get_extra_info("socket"))
                message = {"what": meeting.what, "size": meeting.size, "numbers": meeting.own}
                _say(self._writer, message)
                return
            except OSError as error:
                where = f"{meeting.host}:{meeting.port}"
                if self._clock.now() >= deadline:
                    raise GroupError(f"no leader at {where}: {error}") from None
                _log.info("no leader at %s yet: %s", where, error)
            await self._clock.sleep_until(self._clock.now() + _BETWEEN)


def join(meeting: Meeting, clock: Clock) -> Leader | Member:
    """The part that this process has in a group."""
    return Leader(meeting, clock) if meeting.leads else Member(meeting, clock)


async def _resolve(meeting: Meeting, clock: Clock, deadline: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            await loop.getaddrinfo(meeting.host, meeting.port, type=socket.SOCK_STREAM)
            return
        except OSError as error:
            if clock.now() >= deadline:
                raise GroupError(f"{meeting.host} is not known: {error}") from None
            _log.info("%s is not known yet: %s", meeting.host, error)
        await clock.sleep_until(clock.now() + _BETWEEN)


def _say(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


async def _hear(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next message; empty at the end."""
    line = await reader.readline()
    if not line:
        return {}
    try:
        message: object = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise GroupError("something else than a member or leader spoke")
    return cast(dict[str, Any], message)
