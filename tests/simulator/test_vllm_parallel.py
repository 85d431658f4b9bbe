"""Who serves and who joins whom: vLLM's ways to spread over processes."""

from __future__ import annotations

import pytest

from local.simulator.engines.commandline import CommandLineError
from local.simulator.group import Meeting
from local.simulator.plan import Plan
from tests.simulator.fleet import plan


def ports(planned: Plan) -> list[tuple[int, tuple[int, ...]]]:
    return [(server.options.port, server.setup.ranks) for server in planned.servers]


def meeting(host: str, port: int, what: str, size: int, own: tuple[int, ...]) -> Meeting:
    return Meeting(host, port, what, size, own, 600, 0 in own)


def test_alone() -> None:
    planned = plan("vllm", "serve m -tp 8")
    assert ports(planned) == [(8000, (0,))]
    assert planned.meeting is None


def test_data_parallel_on_one_node_is_one_port_with_several_cores() -> None:
    planned = plan("vllm", "serve m -dp 4 --api-server-count 4")
    assert ports(planned) == [(8000, (0, 1, 2, 3))]
    assert planned.meeting is None


NODES = "serve m -tp 8 -pp 2 --nnodes 2 --master-addr lead.svc --master-port 29501"


def test_two_nodes_of_one_engine() -> None:
    first = plan("vllm", f"{NODES} --node-rank 0")
    assert ports(first) == [(8000, (0,))]
    assert first.meeting == meeting("lead.svc", 29501, "node", 2, (0,))
    assert first.servers[0].setup.in_group
    second = plan("vllm", f"{NODES} -r 1 --headless")
    assert second.servers == ()
    assert second.meeting == meeting("lead.svc", 29501, "node", 2, (1,))


WIDE = (
    "serve m --data-parallel-size 16 --data-parallel-size-local 8 --data-parallel-address lead.svc "
    "--data-parallel-rpc-port 5555 --enable-expert-parallel"
)


@pytest.mark.parametrize("start", [0, 8])
def test_a_port_for_every_local_rank(start: int) -> None:
    line = f"{WIDE} --data-parallel-multi-port-external-lb --data-parallel-start-rank {start}"
    planned = plan("vllm", line)
    assert ports(planned) == [(8000 + i, (start + i,)) for i in range(8)]
    own = tuple(range(start, start + 8))
    assert planned.meeting == meeting("lead.svc", 5555, "rank", 16, own)
    assert planned.supervisor == ("0.0.0.0", 9256)


def test_many_ports_on_one_node_need_nobody() -> None:
    line = "serve m -dp 8 -dpl 8 -dpm --data-parallel-supervisor-port 9000"
    planned = plan("vllm", line)
    assert planned.meeting is None
    assert planned.supervisor == ("0.0.0.0", 9000)


def test_an_external_balancer_has_a_process_for_every_rank() -> None:
    line = "serve m -dp 4 --data-parallel-external-lb --data-parallel-rank 3 -dpa lead.svc"
    planned = plan("vllm", line)
    assert ports(planned) == [(8000, (3,))]
    assert planned.meeting == meeting("lead.svc", 29550, "rank", 4, (3,))


def test_a_hybrid_balancer_serves_its_own_ranks() -> None:
    planned = plan("vllm", f"{WIDE} --data-parallel-hybrid-lb --data-parallel-start-rank 8")
    assert ports(planned) == [(8000, tuple(range(8, 16)))]
    assert planned.meeting == meeting("lead.svc", 5555, "rank", 16, tuple(range(8, 16)))
    by_start = plan("vllm", f"{WIDE} --data-parallel-start-rank 8")
    assert ports(by_start) == ports(planned)


def test_an_internal_balancer_serves_all_ranks_from_the_first_node() -> None:
    first = plan("vllm", WIDE)
    assert ports(first) == [(8000, tuple(range(16)))]
    assert first.meeting == meeting("lead.svc", 5555, "rank", 16, tuple(range(8)))
    second = plan("vllm", f"{WIDE} --headless --data-parallel-start-rank 8")
    assert second.servers == ()
    assert second.meeting == meeting("lead.svc", 5555, "rank", 16, tuple(range(8, 16)))


def test_a_first_node_may_serve_without_computing() -> None:
    planned = plan("vllm", "serve m -dp 4 -dpl 0 -dpa lead.svc")
    assert ports(planned) == [(8000, (0, 1, 2, 3))]
    assert planned.meeting == Meeting("lead.svc", 29550, "rank", 4, (), 600, True)


def test_headless_ranks_stay_as_long_as_requests_may_run_and_nodes_do_not() -> None:
    ranks = f"{WIDE} --headless --data-parallel-start-rank 8 --shutdown-timeout 30"
    assert plan("vllm", ranks).linger_seconds == 30
    assert plan("vllm", f"{NODES} -r 1 --headless --shutdown-timeout 30").linger_seconds == 0


def test_ray_s_head_is_a_part_of_the_engine() -> None:
    line = "serve m -tp 8 -pp 2 --distributed-executor-backend ray"
    planned = plan("vllm", line, LWS_GROUP_SIZE="2")
    assert planned.meeting == meeting("localhost", 6379, "ray node", 2, (0,))
    assert plan("vllm", line).meeting is None, "one machine"
    other = plan("vllm", line, LWS_GROUP_SIZE="2", RAY_ADDRESS="127.0.0.1:6380").meeting
    assert other == meeting("localhost", 6380, "ray node", 2, (0,))
    assert plan("vllm", line, '{"ray-nodes": 3}').meeting == meeting(
        "localhost", 6379, "ray node", 3, (0,)
    )


def test_a_ray_worker_joins_whatever_its_number() -> None:
    planned = plan("ray", "start --address=lead.svc:6380 --block --num-gpus 8")
    assert planned.meeting == Meeting("lead.svc", 6380, "ray node", 0, (), 600, False)
    assert planned.without_effect == ("--num-gpus",)
    assert plan("ray", "start --address lead.svc --block").meeting == Meeting(
        "lead.svc", 6379, "ray node", 0, (), 600, False
    )


def test_ray_s_head_returns_at_once() -> None:
    planned = plan("ray", "start --head --port=6379")
    assert (planned.servers, planned.meeting) == ((), None)


@pytest.mark.parametrize(
    ("engine", "arguments", "message"),
    [
        ("vllm", "serve m -dpm -dph -dp 4 -dpl 2", "more than one data parallel load balancing"),
        ("vllm", "serve m -dpe -dpn 1 -dpr 2 -dp 4", "more than one data parallel load balancing"),
        ("vllm", "serve m --headless --api-server-count 1", "cannot be used with --headless"),
        ("vllm", "serve m --headless -dph -dp 4 -dpl 2", "not applicable in headless mode"),
        ("vllm", "serve m --headless", "for ranks other than the first"),
        ("vllm", "serve m --headless -dp 4 -dpl 2", "for ranks other than the first"),
        ("vllm", "serve m -dp 2 -dpl 3", "cannot exceed --data-parallel-size"),
        ("vllm", "serve m -dp 4 -dpe", "requires a data-parallel rank"),
        ("vllm", "serve m -dp 4 -dph", "requires --data-parallel-size-local"),
        ("vllm", "serve m -dp 4 -dpn 1 -dpl 2", "requires --data-parallel-size-local 1"),
        ("vllm", "serve m -dp 4 -dpn 4", "data parallel rank 4 is not below 4"),
        ("vllm", "serve m -dpm", "requires --data-parallel-size > 1"),
        ("vllm", "serve m -dp 4 -dpm", "requires --data-parallel-size-local >= 2"),
        ("vllm", "serve m -dp 5 -dpl 2 -dpm", "must be divisible by"),
        ("vllm", "serve m -dp 4 -dpl 2 -dpm -dpr 3", "would exceed --data-parallel-size"),
        ("vllm", "serve m -dp 4 -dpl 2 -dpm --api-server-count 2", "requires --api-server-count=1"),
        ("vllm", "serve m -dp 4 -dpl 2 -dpm --headless", "serves on every node"),
        (
            "vllm",
            "serve m -dp 4 -dpl 4 -dpm --port 9254",
            "child rank ports 9254-9257",
        ),
        ("vllm", f"{NODES} --node-rank 2", "between 0 and 1; got 2"),
        ("vllm", f"{NODES} --node-rank 1", "needs --headless"),
        ("vllm", f"{NODES} --headless", "other than the first"),
        ("vllm", "serve m -tp 3 --nnodes 2", "must evenly divide the total world size (3)"),
        ("ray", "start", "either --head or --address"),
        ("ray", "start --address x:y --block", "no port in 'x:y'"),
        ("ray", "start --address x", "without --block"),
        ("ray", "start --head --block", "the head is a part of the simulated engine"),
        ("ray", "stop", "unrecognized arguments: stop"),
    ],
)
def test_what_contradicts_itself(engine: str, arguments: str, message: str) -> None:
    with pytest.raises(CommandLineError) as refused:
        plan(engine, arguments)
    assert message in str(refused.value)
