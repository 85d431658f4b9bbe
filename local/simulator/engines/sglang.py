"""Plays `python3 -m sglang.launch_server`.

Source of flags, defaults and rules: sglang 0.5.23 from PyPI (sglang/srt/arg_groups/fields,
sglang/srt/entrypoints/http_server.py, sglang/srt/disaggregation; 2026-11-29).

Not played: other transfer backends than what nixl and mooncake have in common, the encoder
role, /v1/responses, /v1/embeddings, sessions, gRPC.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..group import Meeting
from ..kv import Bootstrap, Listener
from ..names import sglang as names
from ..options import port, whole
from ..plan import Plan, Server
from ..setup import Adapters, Setup
from .commandline import CommandLineError, Flag, Given, read
from .common import Size, adapters, check_adapters, no_positionals, options
from .knobs import Knobs
from .sglang_api import routes

# "Until it is done": SGLang drains without a limit; the grace period of the pod is one.
_DRAIN_SECONDS = 86400.0
_MODES = {"null": "unified", "prefill": "prefill", "decode": "decode"}
_FLAGS = (
    Flag(("--model-path", "--model")),
    Flag(("--served-model-name",)),
    Flag(("--host",), default="127.0.0.1"),
    Flag(("--port",), port, 30000),
    Flag(("--context-length",), whole(1)),
    Flag(("--max-running-requests",), whole(1), 256),
    Flag(("--page-size",), whole(1), 1),
    Flag(("--tp-size", "--tp", "--tensor-parallel-size"), whole(1), 1),
    Flag(("--pp-size", "--pp", "--pipeline-parallel-size"), whole(1), 1),
    Flag(("--dp-size", "--dp", "--data-parallel-size"), whole(1), 1),
    Flag(("--nnodes",), whole(1), 1),
    Flag(("--node-rank",), whole(0), 0),
    Flag(("--dist-init-addr", "--nccl-init-addr")),
    Flag(("--enable-metrics",), kind="switch", default=False),
    Flag(("--disable-radix-cache",), kind="switch", default=False),
    Flag(("--enable-lora",), kind="switch", default=False),
    Flag(("--lora-paths",), kind="list", default=()),
    Flag(("--max-loras-per-batch",), whole(1), 8),
    Flag(("--max-lora-rank",), whole(1)),
    Flag(("--disaggregation-mode",), default="null"),
    Flag(("--disaggregation-bootstrap-port",), port, 8998),
)


def plan(arguments: Sequence[str], environ: Mapping[str, str], knobs: Knobs) -> Plan:
    """What SGLang's server does with these arguments.

    Raises:
        CommandLineError: it would not start.
    """
    del environ
    given = read(arguments, _FLAGS)
    no_positionals(given, "serve")
    model, mode = given["model-path"], given["disaggregation-mode"]
    if model is None:
        raise CommandLineError("the following arguments are required: --model-path")
    if mode not in _MODES:
        raise CommandLineError(f"argument --disaggregation-mode: must be {', '.join(_MODES)}")
    meeting = _meeting(given, knobs)
    if meeting is not None and not meeting.leads:
        return Plan(
            meeting=meeting,
            idle=(_dummy(given["host"], given["port"]),),
            without_effect=given.without_effect,
        )
    setup = Setup(
        engine="sglang",
        book=names.book(_MODES[mode], given["dp-size"] > 1),
        ranks=tuple(range(given["dp-size"])),
        adapters=_adapters(given),
        model_path=model,
        kv=_kv(given, mode, knobs),
        in_group=meeting is not None,
        known_as=partial(_known_as, given["served-model-name"] or model),
        echoes=True,
    )
    size = Size(
        given["context-length"],
        given["max-running-requests"],
        given["page-size"],
        not given["disable-radix-cache"],
        given["max-loras-per-batch"],
    )
    served = (given["served-model-name"] or model,)
    server = Server(
        options(served, (given["host"], given["port"]), size, knobs, _DRAIN_SECONDS),
        setup,
        routes(given["enable-metrics"], given["tp-size"], mode),
    )
    return Plan(
        (server,),
        meeting,
        failure_seconds=knobs.failure_seconds,
        without_effect=given.without_effect,
    )


def _known_as(served: str, name: str) -> str:
    """`model:adapter` is an adapter; any other name is the model, whatever it says."""
    if name.startswith(f"{served}:"):
        return name[len(served) + 1 :]
    return name.partition(":")[2] if ":" in name and name != served else served


def _meeting(given: Given, knobs: Knobs) -> Meeting | None:
    nodes, rank = given["nnodes"], given["node-rank"]
    if nodes < 2:
        return None
    if rank >= nodes:
        raise CommandLineError(f"--node-rank {rank} is not below --nnodes {nodes}")
    if given["tp-size"] * given["pp-size"] % nodes:
        raise CommandLineError("tp_size must be divisible by number of nodes")
    address = given["dist-init-addr"]
    host, _, number = (address or "").rpartition(":")
    try:
        where = port(number)
    except (ValueError, ArgumentTypeError):
        where = 0
    if not host or not where:
        raise CommandLineError("--nnodes needs --dist-init-addr HOST:PORT of the first node")
    host = host.strip("[]")
    return Meeting(host, where, "node", nodes, (rank,), knobs.join_seconds, rank == 0)


def _adapters(given: Given) -> Adapters:
    texts = [
        text if "=" in text or text[0] == "{" else f"{text}={text}" for text in given["lora-paths"]
    ]
    served = adapters(texts, "lora_name", "lora_path", "--lora-paths")
    check_adapters(served, given["max-lora-rank"])
    # SGLang turns LoRA on by itself when there are paths.
    may_change = given["enable-lora"] or bool(served)
    return Adapters(served, may_change, read_paths=True, max_rank=given["max-lora-rank"])


def _kv(given: Given, mode: str, knobs: Knobs) -> Bootstrap | None:
    if mode not in ("prefill", "decode"):
        return None
    return Bootstrap(
        mode="prefill" if mode == "prefill" else "decode",
        host=given["host"],
        port=given["disaggregation-bootstrap-port"],
        patience=knobs.transfer_seconds,
        rate=knobs.kv_transfer_tokens_per_second,
    )


def _dummy(host: str, number: int) -> Listener:
    """Nodes other than the first answer health checks, and nothing else."""

    async def health(_: Request) -> Response:
        return Response()

    paths = ("/health", "/health_generate", "/ping")
    app = Starlette(routes=[Route(path, health) for path in paths])
    return Listener(app, host, number, "health of a node that serves nobody")
