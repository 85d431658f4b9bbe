"""Loading, draining and ending, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from local.simulator.requests import ApiError, Ask, parse_ask
from local.simulator.service import Phase, Service
from tests.simulator.conftest import Simulator, make_service

ENDLESS = b'{"prompt": "x", "max_tokens": %d, "ignore_eos": true}'


def play(
    scenario: Callable[[Service, asyncio.Task[None]], Awaitable[None]], *arguments: str
) -> Service:
    """Run a scenario beside the engine of a service."""
    service = make_service(*arguments)

    async def run() -> None:
        engine = asyncio.create_task(service.run())
        await scenario(service, engine)
        engine.cancel()

    asyncio.run(run())
    return service


async def answer(service: Service, tokens: int, name: str = "r") -> int:
    """Ask for so many tokens and count those that came."""
    ask: Ask = parse_ask("completion", ENDLESS % tokens, 8192)
    service.check_serving()
    count = 0
    async with aclosing(service.pieces(ask, service.answer(ask, "tiny"), None, name)) as pieces:
        async for _ in pieces:
            count += 1
    return count


async def at(service: Service, moment: float) -> None:
    await service._clock.sleep_until(moment)  # pyright: ignore[reportPrivateUsage]


def now(service: Service) -> float:
    return service._clock.now()  # pyright: ignore[reportPrivateUsage]


def test_while_weights_load_nothing_is_served() -> None:
    async def scenario(service: Service, _: asyncio.Task[None]) -> None:
        await at(service, 29)
        assert service.phase == "loading"
        with pytest.raises(ApiError, match="loading"):
            await answer(service, 1)
        await at(service, 31)
        assert service.phase == "ready"
        assert await answer(service, 3) == 3

    play(scenario, "--load-seconds", "30")


def test_what_runs_is_finished_before_the_end() -> None:
    async def scenario(service: Service, _: asyncio.Task[None]) -> None:
        await at(service, 1)
        running = asyncio.create_task(answer(service, 1000))  # 20 s at 50 a second
        await at(service, 2)
        await service.drain()
        assert running.done()
        assert await running == 1000
        assert 20 < now(service) < 23

    play(scenario)


def test_requests_that_come_soon_after_the_signal_are_still_served() -> None:
    async def scenario(service: Service, _: asyncio.Task[None]) -> None:
        await at(service, 1)
        drain = asyncio.create_task(service.drain())
        await at(service, 4)
        assert service.phase == "draining", "and /health is 503 already"
        assert await answer(service, 10) == 10
        await drain
        assert now(service) == pytest.approx(6)
        with pytest.raises(ApiError, match="closed") as refused:
            await answer(service, 1)
        assert refused.value.status == 503

    play(scenario)


def test_what_does_not_finish_in_time_is_cut_off_and_told_so() -> None:
    async def scenario(service: Service, _: asyncio.Task[None]) -> None:
        await at(service, 0)
        running = asyncio.create_task(answer(service, 5000))  # 100 s
        await at(service, 1)
        await service.drain()
        assert now(service) == pytest.approx(11)
        with pytest.raises(ApiError, match="shut down"):
            await running
        assert service.engine.pool.usage == 0

    play(scenario, "--shutdown-timeout", "10")


def test_the_accepting_time_is_never_longer_than_the_whole() -> None:
    async def scenario(service: Service, _: asyncio.Task[None]) -> None:
        await service.drain()
        assert now(service) == pytest.approx(0)

    play(scenario, "--shutdown-timeout", "0")


def test_a_signal_while_loading_ends_without_ever_becoming_ready() -> None:
    async def scenario(service: Service, _: asyncio.Task[None]) -> None:
        await at(service, 1)
        await service.drain()
        await at(service, 100)
        assert service.phase == "closed"

    play(scenario, "--load-seconds", "50")


def test_a_failed_engine_is_unhealthy_and_its_clients_are_told() -> None:
    async def scenario(service: Service, engine: asyncio.Task[None]) -> None:
        await at(service, 1)
        running = asyncio.create_task(answer(service, 1000))
        await at(service, 2)
        service.engine.begin = broken
        with pytest.raises(ZeroDivisionError):
            await engine
        assert service.phase == "failed"
        with pytest.raises(ApiError):
            await running

    def broken(now: float) -> None:
        raise ZeroDivisionError(now)

    play(scenario)


@pytest.mark.parametrize(
    ("phase", "health", "models"),
    [
        ("loading", 503, 503),
        ("ready", 200, 200),
        ("draining", 503, 200),
        ("closed", 503, 503),
        ("failed", 503, 503),
    ],
)
def test_health_and_work_by_phase(phase: Phase, health: int, models: int) -> None:
    service = make_service()
    simulator = Simulator(service)
    service.phase = phase
    assert simulator.get("/health").status_code == health
    assert simulator.get("/metrics").status_code == 200
    answered = simulator.get("/v1/models")
    assert answered.status_code == models
    assert ("retry-after" in answered.headers) is (models == 503)
    simulator.close()


def test_requests_share_the_engine_and_all_are_answered() -> None:
    async def scenario(service: Service, _: asyncio.Task[None]) -> None:
        await at(service, 0)
        names = [str(i) for i in range(20)]
        counts = await asyncio.gather(*(answer(service, 50, name) for name in names))
        assert counts == [50] * 20

    service = play(scenario, "--max-num-seqs", "4", "--num-kv-blocks", "512")
    assert service.engine.counters.generation_tokens == 1000
