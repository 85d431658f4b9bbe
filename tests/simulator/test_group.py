"""Groups: joining, being refused, coming apart. On loopback, with time that stands still."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from local.simulator.group import GroupError, Leader, Meeting, Member, Roster, join
from tests.simulator.clock import VirtualClock

HOST = "127.0.0.1"


class StoppedClock:
    """Nobody who sleeps wakes up: what happens, happens by the network alone."""

    def now(self) -> float:
        return 0.0

    async def sleep_until(self, moment: float) -> None:
        del moment
        await asyncio.Event().wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def meeting(size: int, *own: int, what: str = "node", port: int = 0) -> Meeting:
    return Meeting(HOST, port, what, size, own, 5.0, 0 in own)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(30):  # a test that hangs has failed
            await scenario()

    asyncio.run(play())


# Who may join ---------------------------------------------------------------------------


def test_a_roster_counts_those_who_are_there() -> None:
    roster = Roster(meeting(4, 0, 1))
    assert roster.missing == [2, 3]
    assert roster.join("node", 4, [3]) == (3,)
    assert roster.missing == [2]
    roster.leave([3])
    assert roster.missing == [2, 3]


def test_who_has_no_number_takes_the_lowest() -> None:
    roster = Roster(meeting(3, 0))
    assert roster.join("node", 0, []) == (1,)
    assert roster.join("node", 0, []) == (2,)
    with pytest.raises(GroupError, match="all 3 nodes are here already"):
        roster.join("node", 0, [])


@pytest.mark.parametrize(
    ("what", "size", "numbers", "message"),
    [
        ("rank", 4, [1], "group of 4 nodes, not 4 ranks"),
        ("node", 2, [1], "group of 4 nodes, not 2 nodes"),
        ("node", 4, [0], "node 0 is here already"),
        ("node", 4, [4], "node 4 is not below 4"),
        ("node", 4, [-1], "node -1 is not below 4"),
        ("node", 4, ["1"], "array of whole numbers"),
        ("node", 4, None, "array of whole numbers"),
    ],
)
def test_who_does_not_belong_is_refused(
    what: object, size: object, numbers: object, message: str
) -> None:
    with pytest.raises(GroupError, match=message):
        Roster(meeting(4, 0)).join(what, size, numbers)


# The network ----------------------------------------------------------------------------


async def group(size: int) -> tuple[Leader, list[Member]]:
    """A leader, and members that have all joined."""
    where = meeting(size, 0, port=free_port())
    leader = Leader(where, StoppedClock())
    await leader.open()
    members = [
        Member(replace(where, own=(number,), leads=False), StoppedClock())
        for number in range(1, size)
    ]
    await asyncio.gather(leader.complete(), *(member.complete() for member in members))
    return leader, members


def test_all_are_told_when_the_last_has_come_and_a_member_that_goes_breaks_it() -> None:
    async def scenario() -> None:
        leader, members = await group(3)
        await members[1].close()
        assert await leader.broken() == "node 2 has gone"
        await leader.close()
        assert "the leader at 127.0.0.1" in await members[0].broken()

    run(scenario)


def test_nobody_is_told_before_all_have_come() -> None:
    async def scenario() -> None:
        where = meeting(3, 0, port=free_port())
        leader = Leader(where, StoppedClock())
        await leader.open()
        complete = asyncio.create_task(leader.complete())
        early = Member(replace(where, own=(1,), leads=False), StoppedClock())
        waiting = asyncio.create_task(early.complete())
        twin = Member(replace(where, own=(2,), leads=False), StoppedClock())
        # The second of the same number is refused, so the first must have been let in.
        again = Member(replace(where, own=(1,), leads=False), StoppedClock())
        while not leader_has(leader, 1):
            await asyncio.sleep(0)
        with pytest.raises(GroupError, match="node 1 is here already"):
            await again.complete()
        assert not waiting.done()
        assert not complete.done()
        await asyncio.gather(twin.complete(), waiting, complete)

    run(scenario)


def leader_has(leader: Leader, number: int) -> bool:
    return number not in leader._roster.missing  # pyright: ignore[reportPrivateUsage]


def test_who_leaves_an_incomplete_group_may_come_again() -> None:
    async def scenario() -> None:
        where = meeting(3, 0, port=free_port())
        leader = Leader(where, StoppedClock())
        await leader.open()
        complete = asyncio.create_task(leader.complete())
        first = Member(replace(where, own=(1,), leads=False), StoppedClock())
        waiting = asyncio.create_task(first.complete())
        while not leader_has(leader, 1):
            await asyncio.sleep(0)
        waiting.cancel()
        await first.close()
        while leader_has(leader, 1):
            await asyncio.sleep(0)
        members = [
            Member(replace(where, own=(number,), leads=False), StoppedClock()) for number in (1, 2)
        ]
        await asyncio.gather(complete, *(member.complete() for member in members))

    run(scenario)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"{}\n", b""])
def test_strangers_are_sent_away(line: bytes) -> None:
    async def scenario() -> None:
        where = meeting(2, 0, port=free_port())
        leader = Leader(where, StoppedClock())
        await leader.open()
        reader, writer = await asyncio.open_connection(HOST, where.port)
        writer.write(line)
        writer.write_eof()
        assert b"refused" in await reader.read()
        member = Member(replace(where, own=(1,), leads=False), StoppedClock())
        await asyncio.gather(leader.complete(), member.complete())

    run(scenario)


def test_patience_ends() -> None:
    async def scenario() -> None:
        where = meeting(3, 0, port=free_port())
        leader = Leader(where, VirtualClock())
        await leader.open()
        with pytest.raises(GroupError, match=r"node 1, 2 did not come in 5 s"):
            await leader.complete()
        await leader.close()
        lonely = Member(replace(where, own=(1,), leads=False), VirtualClock())
        with pytest.raises(GroupError, match=f"no leader at {HOST}:{where.port}"):
            await lonely.complete()

    run(scenario)


def test_the_leader_waits_until_its_own_name_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members come by that name, so a group whose name is not known is not ready."""
    asked: list[str] = []

    async def lookup(self: Any, host: str, *rest: Any, **more: Any) -> list[Any]:
        del self, rest, more
        asked.append(host)
        if len(asked) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return []

    async def scenario() -> None:
        clock = VirtualClock()
        alone = Leader(Meeting("lead.svc", free_port(), "node", 1, (0,), 5.0, True), clock)
        await alone.open()
        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", lookup)
        await alone.complete()
        assert asked == ["lead.svc"] * 3
        assert clock.time == pytest.approx(2)
        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", never)
        with pytest.raises(GroupError, match=r"lead\.svc is not known"):
            await alone.complete()

    async def never(self: Any, host: str, *rest: Any, **more: Any) -> list[Any]:
        del self, host, rest, more
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    run(scenario)


def test_who_leads_is_said() -> None:
    assert isinstance(join(meeting(2, 0), StoppedClock()), Leader)
    assert isinstance(join(meeting(2, 1), StoppedClock()), Member)
