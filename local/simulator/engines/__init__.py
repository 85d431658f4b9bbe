"""Real engines, played: their command lines, endpoints and ways to work together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from ..plan import Plan
from . import llamacpp, ollama, ray, sglang, triton, trtllm, vllm
from .commandline import CommandLineError
from .knobs import Knobs, knobs

Form = Callable[[Sequence[str], Mapping[str, str], Knobs], Plan]
FORMS: Mapping[str, Form] = {
    "vllm": vllm.plan,
    "sglang": sglang.plan,
    "trtllm": trtllm.plan,
    "llamacpp": llamacpp.plan,
    "ollama": ollama.plan,
    "triton": triton.plan,
    "ray": ray.plan,
}


def plan_as(arguments: Sequence[str], environ: Mapping[str, str]) -> Plan:
    """The plan of `ENGINE -- ARGUMENTS`.

    Raises:
        SystemExit: with a message, when the engine would not start like this.
    """
    engine, *rest = arguments or [""]
    if engine not in FORMS or rest[:1] not in ([], ["--"]):
        print(
            f"simulator: error: write --as ENGINE -- ARGUMENTS, ENGINE one of {', '.join(FORMS)}",
            file=sys.stderr,
        )
        raise SystemExit(2)
    try:
        return FORMS[engine](rest[1:], environ, knobs(environ.get("SIMULATOR_OPTIONS", "")))
    except CommandLineError as error:
        print(f"{engine}: error: {error}", file=sys.stderr)
        raise SystemExit(error.code) from None
