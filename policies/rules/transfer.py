"""KV between prefill and decode: addresses that others reach, roles that fit, free ports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import DYNAMO, descend
from policies.rules.shared import about, env_path, flag_path
from policies.tree import integer, is_mapping, is_sequence, mapping

_NIXL = "https://docs.vllm.ai/en/stable/features/nixl_connector_usage/"
_HOST, _PORT = "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1?|\[::1?\]")
_ROLES = frozenset({"kv_producer", "kv_consumer", "kv_both"})
_DEFAULT_PORT = 5600


def _configs(program: Program) -> Iterator[Mapping[str, Any]]:
    """The transfer configuration, and those inside of a MultiConnector."""
    value = program.line.value("kv-transfer-config")
    stack: list[Any] = [value]
    while stack:
        found = stack.pop()
        if is_mapping(found):
            if "kv_connector" in found:
                yield found
            stack.extend(found.values())
        elif is_sequence(found):
            stack.extend(found)


def connectors(program: Program) -> set[str]:
    """Names of the connectors that an engine uses."""
    return {str(config.get("kv_connector")) for config in _configs(program)}


def side_port(program: Program) -> int | None:
    """First port of NIXL's side channel; None where it is not written down."""
    env = {**program.container.env, **program.line.env}
    if _PORT not in env:
        return _DEFAULT_PORT
    value = env[_PORT]
    return integer(value, 0) if value is not None and value.isdecimal() else None


_BOOTSTRAP_PORT = 8998
"""Where SGLang's prefill, and Mooncake's in vLLM, are found unless they are told otherwise."""
_MOONCAKE_PORT = "VLLM_MOONCAKE_BOOTSTRAP_PORT"
_SIDES = {"kv_producer": "prefill", "kv_consumer": "decode", "kv_both": "both"}


def way_of(program: Program) -> tuple[str, str] | None:
    """How an engine hands over KV, and its side: prefill, decode, or both; None where it does not.

    Ways are `nixl`, `mooncake` and `sglang`.
    """
    mode = program.line.value("disaggregation-mode")
    if program.line.engine == "sglang" and mode in ("prefill", "decode"):
        return "sglang", str(mode)
    for config in _configs(program):
        way = {"NixlConnector": "nixl", "MooncakeConnector": "mooncake"}.get(
            str(config.get("kv_connector"))
        )
        if way is not None:
            return way, _SIDES.get(str(config.get("kv_role")), "both")
    return None


def asked_ports(asker: Program, asked: Program) -> list[int | None]:
    """Ports on which one engine is asked for KV by another; None stands for every port.

    NIXL listens on one port for each data rank. SGLang, and Mooncake in vLLM, meet at the port of
    prefill's bootstrap server; after that both sides choose ports by themselves (sglang 0.5.16,
    srt/disaggregation/common/conn.py; vllm 0.32.0, kv_connector/v1/mooncake; read 2026-11-30).
    """
    here, there = way_of(asker), way_of(asked)
    if here is None or there is None or here[0] != there[0]:
        return []
    if here[0] == "nixl":
        first, local = side_port(asked), asked.world.dp_local if asked.world else 1
        count = local if isinstance(local, int) else 1
        return [] if first is None else [*range(first, first + count)]
    if here[1] == there[1] != "both" or (there[1] == "decode" and _pulled(asked)):
        return []
    bootstrap = _bootstrap(asked) if there[1] != "decode" else None
    # Of a group only the first pod has the bootstrap server.
    found = [bootstrap] if bootstrap is not None and asked.container.pod.role != "worker" else []
    return [*found, None]


def _pulled(decode: Program) -> bool:
    """Whether prefill opens no connection to decode: of SGLang's ways only Mooncake, the default,
    certainly does; NIXL may go over RDMA alone."""
    backend = decode.line.value("disaggregation-transfer-backend") or "mooncake"
    return decode.line.engine == "sglang" and backend not in ("mooncake", "mooncake_tcp")


def _bootstrap(program: Program) -> int | None:
    """The port at which prefill is found; None where it is not written down."""
    if program.line.engine == "sglang":
        value = program.line.value("disaggregation-bootstrap-port")
        if value is None:
            return _BOOTSTRAP_PORT
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    env = {**program.container.env, **program.line.env}
    given = env.get(_MOONCAKE_PORT, str(_BOOTSTRAP_PORT))
    return integer(given, 0) if given is not None and given.isdecimal() else None


@rule(
    "side-channel",
    "error",
    "The side channel is the pod's own address",
    "NIXL tells its peers this address: at localhost, the default, decode looks for KV in its own "
    "pod, and at 0.0.0.0 nowhere.",
    "Set VLLM_NIXL_SIDE_CHANNEL_HOST from status.podIP.",
    _NIXL,
)
def side_channel(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        if "NixlConnector" not in connectors(program) or program.mode == "none":
            continue
        env = {**program.container.env, **program.line.env}
        remedy = f"set {_HOST} with valueFrom.fieldRef.fieldPath: status.podIP"
        if _HOST not in env:
            unsure = program.container.spec.get("envFrom") or program.container.completed
            if unsure or _HOST in (program.line.script or ""):
                continue
            yield about(
                program, ("env",),
                f"transfers KV without {_HOST}: its peers are told localhost", remedy,
            )  # fmt: skip
        elif _LOCAL.fullmatch(env[_HOST] or ""):
            yield about(
                program, env_path(program, _HOST),
                f"tells its peers {env[_HOST]} as the address for KV", remedy,
            )  # fmt: skip


@rule(
    "kv-roles",
    "error",
    "Prefill and decode play roles that fit",
    "KV that nobody fetches is computed for nothing; a consumer without producer computes all by "
    "itself.",
    "Use kv_producer with kv_consumer, or kv_both on both sides.",
    _NIXL,
    whole_set=True,
)
def kv_roles(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    found: dict[str, list[tuple[Program, str]]] = {}
    for program in inventory.programs:
        for config in _configs(program):
            role = config.get("kv_role")
            if role is not None and str(role) not in _ROLES and "$" not in str(role):
                yield about(
                    program, flag_path(program, "kv-transfer-config"),
                    f"has the kv_role {role}, which is none",
                    "write kv_producer, kv_consumer or kv_both",
                )  # fmt: skip
            found.setdefault(program.container.pod.namespace, []).append((program, str(role)))
        mode = program.line.value("disaggregation-mode")
        if mode in ("prefill", "decode"):
            role = {"prefill": "kv_producer", "decode": "kv_consumer"}[str(mode)]
            found.setdefault(program.container.pod.namespace, []).append((program, role))
    for members in found.values():
        yield from _one_sided(members)
    yield from _sides_of_graphs(inventory)


_SIDE = re.compile(r"(prefill|decode)(?:[-_]?worker)?", re.IGNORECASE)
_BACKEND = re.compile(r"\bdynamo\.(vllm|sglang|trtllm)\b")
_TOLD = re.compile(r"--(?:is-(prefill|decode)-worker\b|disaggregation-mode[= ](\w+))")
_FROM_ENV = (
    "DYN_VLLM_DISAGGREGATION_MODE", "DYN_VLLM_IS_PREFILL_WORKER", "DYN_VLLM_IS_DECODE_WORKER",
)  # fmt: skip


def _sides_of_graphs(inventory: Inventory) -> Iterator[Violation]:
    """Workers that a Dynamo graph calls prefill or decode, and that start as something else.

    The operator adds the flag to commands of its own alone: ai-dynamo/dynamo, examples/backends,
    pull requests 6483 and 12089 (--is-prefill-worker of vLLM became --disaggregation-mode with
    1.0, and went later). vLLM's decode workers do without; read 2026-12-01.
    """
    for program in inventory.programs:
        text, backend = program.command.text, _BACKEND.search(program.command.text)
        side = _called(program)
        if backend is None or side is None or "$" in text:
            continue
        if any(name in program.container.env for name in _FROM_ENV):
            continue
        told = {a or b for a, b in _TOLD.findall(text)}
        if side in told or (not told and (backend[1], side) == ("vllm", "decode")):
            continue
        yield about(
            program, ("args",) if program.container.spec.get("args") else ("command",),
            f"is the graph's {side} worker, and is "
            + (f"told to play {min(told)}" if told else f"not told so: {_UNTOLD[side]}"),
            f"add {_telling(program, backend[1], side)}", "warning",
        )  # fmt: skip


_UNTOLD = {
    "prefill": "it takes decode requests too",
    "decode": "it computes every prompt itself",
}


def _called(program: Program) -> str | None:
    """The side that a graph calls a worker: prefill, decode, or None."""
    pod = program.container.pod
    if pod.kind not in DYNAMO:
        return None
    listed = any(key in pod.path for key in ("services", "components"))
    component = mapping(descend(pod.object, pod.path[:3] if listed else pod.path[:1]))
    for key in ("subComponentType", "componentType", "type"):
        match = _SIDE.fullmatch(str(component.get(key) or ""))
        if match is not None:
            return match[1].lower()
    return None


def _telling(program: Program, backend: str, side: str) -> str:
    """The flag that says a side, in the image's version."""
    mode = f"--disaggregation-mode {side}"
    tag = program.container.image.partition("@")[0].rpartition(":")[2]
    version = re.match(r"v?(\d{1,9})\.\d", tag)
    if backend != "vllm" or (version is not None and int(version[1]) >= 1):
        return mode
    old = f"--is-{side}-worker"
    return old if version is not None else f"{old}; from Dynamo 1.0 on {mode}"


def _one_sided(members: list[tuple[Program, str]]) -> Iterator[Violation]:
    """Several that transfer, and all of them in the same direction."""
    roles = {role for _, role in members}
    pods = {id(program.container.pod) for program, _ in members}
    if len(roles) != 1 or len(pods) < 2 or _one_group(members):
        return
    missing = {"kv_producer": "kv_consumer", "kv_consumer": "kv_producer"}.get(next(iter(roles)))
    if missing:
        program, role = members[0]
        flag = flag_path(program, "kv-transfer-config", "disaggregation-mode")
        yield about(
            program, flag,
            f"and all others of its namespace play {role}: nobody is {missing}",
            f"give the other side {missing}", "warning",
        )  # fmt: skip


def _one_group(members: list[tuple[Program, str]]) -> bool:
    """Leader and worker of one group are one side."""
    return len({program.container.pod.index for program, _ in members}) == 1


@rule(
    "port-overlap",
    "error",
    "Ports of one pod do not overlap",
    "Every rank takes the port after the one before it: two that meet stop the second program.",
    "Leave as many ports free behind the first as the pod has data ranks.",
    _NIXL,
    across=True,
)
def port_overlap(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for positions in inventory.by_pod.values():
        taken: dict[int, tuple[Program, str]] = {}
        for program in positions:
            if program.container.kind in ("init", "ephemeral") or program.mode == "none":
                continue
            for port, what in _listening(program):
                other = taken.setdefault(port, (program, what))
                if other[1] != what or other[0] is not program:
                    yield about(
                        program, ("ports",),
                        f"uses port {port} for {what}, which {_who(other, program)} takes too",
                        "move one of the two", "error",
                    )  # fmt: skip
                    break


def _who(other: tuple[Program, str], program: Program) -> str:
    owner, what = other
    return f"its {what}" if owner is program else f"{owner.title} ({what})"


def _listening(program: Program) -> Iterator[tuple[int, str]]:
    env, script = program.container.env, program.line.script or ""
    apart = any(name in env for name in ("VLLM_DP_RANK_LOCAL",)) or script.count("vllm serve") > 1
    if program.mode == "server" and program.port is not None and not apart:
        yield program.port, "requests"
    first = side_port(program)
    if "NixlConnector" in connectors(program) and first is not None and _PORT in env and not apart:
        local = program.world.dp_local if program.world else 1
        for port in range(first, first + (local if isinstance(local, int) else 1)):
            yield port, "the side channel"


@rule(
    "kv-load-failure",
    "warning",
    "What happens to lost KV is written down",
    "The engine's answer to KV that could not be fetched changed between versions: it fails the "
    "request, or computes it again.",
    "Set kv_load_failure_policy in --kv-transfer-config.",
    _NIXL,
)
def kv_load_failure(inventory: Inventory, context: Context) -> Iterator[Violation]:
    if context.profile != "strict":
        return
    for program in inventory.programs:
        for config in _configs(program):
            if config.get("kv_connector") == "NixlConnector" and (
                "kv_load_failure_policy" not in config
            ):
                yield about(
                    program, flag_path(program, "kv-transfer-config"),
                    "does not say what happens to KV that cannot be fetched",
                    'add "kv_load_failure_policy": "fail" or "recompute"',
                )  # fmt: skip


ALL = (side_channel, kv_roles, port_overlap, kv_load_failure)
