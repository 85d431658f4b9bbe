"""Start the simulator: `python3 -m simulator --help`.

`python3 -m simulator --as ENGINE -- ARGUMENTS` plays a real engine that was started with these
arguments; the simulator's own options are then a JSON object in SIMULATOR_OPTIONS.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from .driver import WallClock
from .engines import plan_as
from .options import parse
from .plan import Plan, Server
from .process import Process


def plan_of(arguments: Sequence[str], environ: Mapping[str, str]) -> Plan:
    """What the command line asks for.

    Raises:
        SystemExit: 2 with a message on wrong usage, 0 after `--help` or `--version`.
    """
    if arguments[:1] == ["--as"]:
        return plan_as(arguments[1:], environ)
    return Plan((Server(parse(arguments)),))


async def main(plan: Plan) -> int:
    """Serve until told to stop."""
    if plan == Plan(without_effect=plan.without_effect):
        return 0  # nothing that would go on
    pod = os.environ.get("POD_NAME") or socket.gethostname()
    return await Process(plan, WallClock(), pod).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s:     %(message)s")
    plan = plan_of(sys.argv[1:], os.environ)
    if plan.without_effect:
        names = " ".join(plan.without_effect)
        logging.getLogger("simulator").info("no effect here: %s", names)
    sys.exit(asyncio.run(main(plan)))
