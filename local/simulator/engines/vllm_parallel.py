"""Who does what in a vLLM group: which ranks a process has, which ports, whom it joins.

Source: vllm 0.32.0, vllm/entrypoints/cli/serve.py, vllm/engine/arg_utils.py and
vllm/entrypoints/launchers/dp_supervisor.py (2026-11-29).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..group import Meeting
from ..options import port, whole
from .commandline import CommandLineError, Flag, Given
from .knobs import Knobs

RAY_PORT = 6379
FLAGS = (
    Flag(("--tensor-parallel-size", "-tp"), whole(1), 1),
    Flag(("--pipeline-parallel-size", "-pp"), whole(1), 1),
    Flag(("--data-parallel-size", "-dp"), whole(1), 1),
    Flag(("--data-parallel-size-local", "-dpl"), whole(0)),
    Flag(("--data-parallel-rank", "-dpn"), whole(0)),
    Flag(("--data-parallel-start-rank", "-dpr"), whole(0)),
    Flag(("--data-parallel-address", "-dpa")),
    Flag(("--data-parallel-rpc-port", "-dpp"), port, 29550),
    Flag(("--data-parallel-hybrid-lb", "-dph"), kind="both", default=False),
    Flag(("--data-parallel-external-lb", "-dpe"), kind="both", default=False),
    Flag(("--data-parallel-multi-port-external-lb", "-dpm"), kind="both", default=False),
    Flag(("--data-parallel-supervisor-port",), port, 9256),
    Flag(("--nnodes", "-n"), whole(1), 1),
    Flag(("--node-rank", "-r"), whole(0), 0),
    Flag(("--master-addr",), default="127.0.0.1"),
    Flag(("--master-port",), port, 29501),
    Flag(("--headless",), kind="both", default=False),
    Flag(("--api-server-count", "-asc"), whole(0)),
    Flag(("--distributed-executor-backend",)),
)


@dataclass(frozen=True)
class Layout:
    """The part of one process."""

    ports: tuple[tuple[int, tuple[int, ...]], ...]
    """HTTP ports with the ranks behind them; none in a headless process."""
    meeting: Meeting | None
    supervisor_port: int | None = None


def layout(given: Given, http_port: int, knobs: Knobs, environ: Mapping[str, str]) -> Layout:
    """What the arguments make of this process.

    Raises:
        CommandLineError: they contradict one another.
    """
    _check(given)
    if given["distributed-executor-backend"] == "ray":
        return Layout(((http_port, _all(given)),), _ray(knobs, environ))
    if given["nnodes"] > 1:
        return _nodes(given, http_port, knobs)
    if given["data-parallel-multi-port-external-lb"]:
        return _many_ports(given, http_port, knobs)
    return _ranks(given, http_port, knobs)


def _all(given: Given) -> tuple[int, ...]:
    return tuple(range(given["data-parallel-size"]))


def _check(given: Given) -> None:
    external = given["data-parallel-external-lb"] or given["data-parallel-rank"] is not None
    multi = given["data-parallel-multi-port-external-lb"]
    hybrid = given["data-parallel-hybrid-lb"]
    if not multi and not hybrid and not given["headless"]:
        hybrid = given["data-parallel-start-rank"] is not None
    if sum((external, multi, hybrid)) > 1:
        raise CommandLineError(
            "Cannot use more than one data parallel load balancing mode: multi-port external, "
            "external (or a rank), hybrid (or a start rank)"
        )
    if given["headless"] and given["api-server-count"]:
        raise CommandLineError(
            f"--api-server-count={given['api-server-count']} cannot be used with --headless"
        )
    if given["headless"] and given["data-parallel-hybrid-lb"]:
        raise CommandLineError("data_parallel_hybrid_lb is not applicable in headless mode")
    local, size = given["data-parallel-size-local"], given["data-parallel-size"]
    if local is not None and local > size:
        raise CommandLineError("--data-parallel-size-local cannot exceed --data-parallel-size")


def _ray(knobs: Knobs, environ: Mapping[str, str]) -> Meeting | None:
    """The head of a Ray cluster: `ray start --head` and the engine are one process here.

    RAY_ADDRESS, by which an engine finds its head, may say another port than Ray's own.
    """
    size = knobs.ray_nodes or _group_size(environ)
    if size < 2:
        return None
    number = environ.get("RAY_ADDRESS", "").rpartition(":")[2]
    ray_port = int(number) if number.isdecimal() else RAY_PORT
    return Meeting("localhost", ray_port, "ray node", size, (0,), knobs.join_seconds, True)


def _group_size(environ: Mapping[str, str]) -> int:
    """Pods of a LeaderWorkerSet's group, which sets the variable itself."""
    text = environ.get("LWS_GROUP_SIZE", "1")
    return int(text) if text.isdecimal() else 1


def _nodes(given: Given, http_port: int, knobs: Knobs) -> Layout:
    nodes, rank = given["nnodes"], given["node-rank"]
    if rank >= nodes:
        raise CommandLineError(f"--node-rank must be between 0 and {nodes - 1}; got {rank}")
    within = given["tensor-parallel-size"] * given["pipeline-parallel-size"]
    world = within * given["data-parallel-size"]
    if world % nodes:
        raise CommandLineError(
            f"--nnodes {nodes} must evenly divide the total world size ({world})"
        )
    address, master_port = given["master-addr"], given["master-port"]
    meeting = Meeting(address, master_port, "node", nodes, (rank,), knobs.join_seconds, not rank)
    if given["headless"]:
        if rank == 0:
            raise CommandLineError("--headless is for nodes other than the first")
        return Layout((), meeting)
    if given["data-parallel-multi-port-external-lb"]:
        many = _many_ports(given, http_port, knobs)
        return Layout(many.ports, meeting, many.supervisor_port)
    if given["data-parallel-external-lb"] or given["data-parallel-rank"] is not None:
        own = given["data-parallel-rank"]
        own = rank * world // nodes // within if own is None else own
        return Layout(((http_port, (own,)),), meeting)
    if rank:
        raise CommandLineError(f"--node-rank {rank} needs --headless: only the first node serves")
    return Layout(((http_port, _all(given)),), meeting)


def _many_ports(given: Given, http_port: int, knobs: Knobs) -> Layout:
    size, local = given["data-parallel-size"], given["data-parallel-size-local"]
    if given["headless"]:
        raise CommandLineError("--data-parallel-multi-port-external-lb serves on every node")
    if size < 2:
        raise CommandLineError(
            "--data-parallel-multi-port-external-lb requires --data-parallel-size > 1"
        )
    if local is None or local < 2:
        raise CommandLineError(
            "--data-parallel-multi-port-external-lb requires --data-parallel-size-local >= 2"
        )
    if size % local:
        raise CommandLineError(
            "--data-parallel-size must be divisible by --data-parallel-size-local"
        )
    if given["api-server-count"] not in (None, 1):
        raise CommandLineError(
            "--data-parallel-multi-port-external-lb requires --api-server-count=1"
        )
    start = given["data-parallel-start-rank"]
    start = given["node-rank"] * local if start is None else start
    if start + local > size:
        raise CommandLineError("multi-port supervised ranks would exceed --data-parallel-size")
    supervisor = given["data-parallel-supervisor-port"]
    if http_port <= supervisor < http_port + local:
        raise CommandLineError(
            f"--data-parallel-supervisor-port {supervisor} overlaps with child rank ports "
            f"{http_port}-{http_port + local - 1}"
        )
    own = tuple(range(start, start + local))
    ports = tuple((http_port + index, (rank,)) for index, rank in enumerate(own))
    return Layout(ports, _ranks_meet(given, own, knobs), supervisor)


def _ranks(given: Given, http_port: int, knobs: Knobs) -> Layout:
    size, local = given["data-parallel-size"], given["data-parallel-size-local"]
    start, rank = given["data-parallel-start-rank"], given["data-parallel-rank"]
    if given["data-parallel-external-lb"] and rank is None:
        raise CommandLineError("--data-parallel-external-lb requires a data-parallel rank")
    if given["data-parallel-hybrid-lb"] and local is None:
        raise CommandLineError("--data-parallel-hybrid-lb requires --data-parallel-size-local")
    if rank is not None and local not in (None, 1):
        raise CommandLineError(
            "an external data-parallel rank requires --data-parallel-size-local 1"
        )
    own = (rank,) if rank is not None else _from(start, size if local is None else local)
    if own and own[-1] >= size:
        raise CommandLineError(f"data parallel rank {own[-1]} is not below {size}")
    meeting = _ranks_meet(given, own, knobs)
    if given["headless"]:
        if meeting is None or meeting.leads or not own:
            raise CommandLineError("--headless is for ranks other than the first")
        return Layout((), meeting)
    alone = rank is not None or given["data-parallel-hybrid-lb"] or start is not None
    return Layout(((http_port, own if alone else _all(given)),), meeting)


def _from(start: int | None, count: int) -> tuple[int, ...]:
    return tuple(range(start or 0, (start or 0) + count))


def _ranks_meet(given: Given, own: tuple[int, ...], knobs: Knobs) -> Meeting | None:
    size = given["data-parallel-size"]
    if len(own) == size:
        return None
    host = given["data-parallel-address"] or given["master-addr"]
    rpc_port = given["data-parallel-rpc-port"]
    # A first node may serve without computing.
    leads = 0 in own or (not own and not given["headless"])
    return Meeting(host, rpc_port, "rank", size, own, knobs.join_seconds, leads)
