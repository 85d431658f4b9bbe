"""Plays `vllm serve`.

Source of flags, defaults and rules: vllm 0.32.0 from PyPI (vllm/engine/arg_utils.py,
vllm/entrypoints/launchers/cli_args.py, vllm/config/lora.py, vllm/config/kv_transfer.py,
vllm/envs.py; 2026-11-29). The flags of 0.26 that matter here are the same.

Not played: other KV connectors than NIXL (they are accepted and change nothing), embeddings,
/v1/responses, /tokenize, gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.routing import Route

from ..api import Api, adapter_routes, openai_routes
from ..kv import Nixl
from ..names import vllm as names
from ..options import number, port, whole
from ..plan import Plan, Server
from ..setup import Adapters, Setup
from . import vllm_parallel
from .commandline import CommandLineError, Flag, Given, read
from .common import Size, adapters, check_adapters, options
from .knobs import Knobs

_DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
_ROLES = ("kv_producer", "kv_consumer", "kv_both")
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def _tokens(text: str) -> int:
    """`8192`, `8k`, `8K`, or `auto` and `-1` (0) for the model's own."""
    if text in ("auto", "-1"):
        return 0
    match = re.fullmatch(r"(\d+)([kmgKMG]?)", text)
    if match is None or not int(match[1]):
        raise ValueError(text)
    return int(match[1]) * _UNITS.get(match[2], 1)


def _rank(text: str) -> int:
    if int(text) not in _RANKS:
        raise ValueError(text)
    return int(text)


_tokens.__name__ = "number of tokens"
_rank.__name__ = f"rank ({', '.join(map(str, _RANKS))})"
_FLAGS = (
    Flag(("--model",)),
    Flag(("--served-model-name",), kind="list"),
    Flag(("--host",), default="0.0.0.0"),
    Flag(("--port",), port, 8000),
    Flag(("--max-model-len",), _tokens, 0),
    Flag(("--max-num-seqs",), whole(1), 256),
    Flag(("--block-size",), whole(1), 16),
    Flag(("--enable-prefix-caching",), kind="both", default=True),
    Flag(("--kv-cache-dtype",), default="auto"),
    Flag(("--shutdown-timeout",), number(), 0.0),
    Flag(("--enable-lora",), kind="both", default=False),
    Flag(("--lora-modules",), kind="list", default=()),
    Flag(("--max-loras",), whole(1), 1),
    Flag(("--max-lora-rank",), _rank, 16),
    Flag(("--kv-transfer-config",), kind="json"),
    *vllm_parallel.FLAGS,
)


def plan(arguments: Sequence[str], environ: Mapping[str, str], knobs: Knobs) -> Plan:
    """What `vllm serve` does with these arguments.

    Raises:
        CommandLineError: it would not start.
    """
    given = read(arguments, _FLAGS)
    model = _model(given)
    served = given["served-model-name"] or (model,)
    layout = vllm_parallel.layout(given, given["port"], knobs, environ)
    kv, idle = _kv(given, model, environ, knobs)
    loras = _adapters(given, environ, len(layout.ports))
    book = names.WITH_LORA if given["enable-lora"] else names.WITHOUT_LORA
    size = Size(
        given["max-model-len"] or None,
        given["max-num-seqs"],
        given["block-size"],
        given["enable-prefix-caching"],
        given["max-loras"],
    )
    servers = tuple(
        Server(
            options(served, (given["host"], http_port), size, knobs, given["shutdown-timeout"]),
            Setup(
                engine="vllm",
                book=names.with_nixl(book) if kv else book,
                ranks=ranks,
                adapters=loras,
                model_path=model,
                kv=kv,
                in_group=layout.meeting is not None,
                healthy_while_draining=True,
            ),
            routes,
        )
        for http_port, ranks in layout.ports
    )
    return Plan(
        servers,
        layout.meeting,
        (given["host"], layout.supervisor_port) if layout.supervisor_port else None,
        failure_seconds=knobs.failure_seconds,
        # A node that holds a part of every request's model cannot stay behind.
        linger_seconds=given["shutdown-timeout"] if given["nnodes"] == 1 else 0.0,
        without_effect=(*given.without_effect, *idle),
    )


def routes(api: Api) -> list[Route]:
    """vLLM's endpoints."""
    return [
        Route("/health", api.health),
        Route("/metrics", api.metrics),
        *openai_routes(api),
        *adapter_routes(api),
    ]


def _model(given: Given) -> str:
    rest = given.positionals[1:] if given.positionals[:1] == ("serve",) else given.positionals
    if len(rest) > 1:
        raise CommandLineError(f"unrecognized arguments: {' '.join(rest[1:])}")
    model = rest[0] if rest else given["model"]
    if model is None and given["served-model-name"]:
        raise CommandLineError("`model` should be provided as the first positional argument")
    return model or _DEFAULT_MODEL


def _adapters(given: Given, environ: Mapping[str, str], servers: int) -> Adapters:
    served = adapters(given["lora-modules"], "name", "path", "--lora-modules")
    if served and not given["enable-lora"]:
        raise CommandLineError("LoRA is not enabled. Use --enable-lora to enable LoRA.", 1)
    if servers:
        check_adapters(served, given["max-lora-rank"])
    switch = environ.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "0").strip().lower()
    may_change = switch in ("1", "true")
    if may_change and (given["api-server-count"] or 1) > 1:
        raise CommandLineError(
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING cannot be used with api_server_count > 1"
        )
    may_change = may_change and given["enable-lora"]
    return Adapters(served, may_change, read_paths=True, max_rank=given["max-lora-rank"])


def _kv(
    given: Given, model: str, environ: Mapping[str, str], knobs: Knobs
) -> tuple[Nixl | None, tuple[str, ...]]:
    """The part in disaggregation, and connectors that are not played."""
    config: Mapping[str, Any] = given["kv-transfer-config"] or {}
    if not config:
        return None, ()
    if config.get("kv_connector") and config.get("kv_role") not in _ROLES:
        raise CommandLineError(
            f"argument --kv-transfer-config: kv_role must be one of {', '.join(_ROLES)}"
        )
    connectors = _connectors(config)
    nixl = next((c for c in connectors if c.get("kv_connector") == "NixlConnector"), None)
    others = [str(c.get("kv_connector")) for c in connectors if c is not nixl]
    idle = tuple(f"kv_connector={name}" for name in others)
    if nixl is None:
        return None, idle
    policy = config.get("kv_load_failure_policy", "fail")
    if policy not in ("fail", "recompute"):
        raise CommandLineError(
            "argument --kv-transfer-config: kv_load_failure_policy must be fail or recompute"
        )
    lease = _extra(nixl).get("kv_lease_duration", 30)
    if isinstance(lease, bool) or not isinstance(lease, int | float):
        raise CommandLineError("argument --kv-transfer-config: kv_lease_duration is no number")
    role = Nixl(
        host=environ.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost"),
        port=_side_channel_port(environ),
        tp_size=given["tensor-parallel-size"],
        layout=f"{model}, {given['kv-cache-dtype']}, blocks of {given['block-size']}",
        lease=float(lease),
        recompute=policy == "recompute",
        rate=knobs.kv_transfer_tokens_per_second,
    )
    return role, idle


def _side_channel_port(environ: Mapping[str, str]) -> int:
    text = environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600")
    try:
        return int(text)
    except ValueError:
        raise CommandLineError(f"VLLM_NIXL_SIDE_CHANNEL_PORT is no port: {text!r}", 1) from None


def _extra(config: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = config.get("kv_connector_extra_config")
    return cast(Mapping[str, Any], extra) if isinstance(extra, dict) else {}


def _connectors(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The connector, or those that it combines."""
    nested = _extra(config).get("connectors")
    if config.get("kv_connector") != "MultiConnector" or not isinstance(nested, list):
        return [config]
    return [cast(Mapping[str, Any], c) for c in cast(list[object], nested) if isinstance(c, dict)]
